"""The plain twin of the replay buffer: a list of sentences, and priorities summed one by one."""

from __future__ import annotations

from naive.common.rng import draw, unit

LEAST_LOSS = 1e-3


class ReplayBuffer:
    """Sentences, each with its number, the births when it came, and its priority."""

    def __init__(self, max_tokens: int, alpha: float, beta: float, key: int) -> None:
        self.max_tokens, self.alpha, self.beta, self.key = max_tokens, alpha, beta, key
        self.slots = 1
        while self.slots < max_tokens // 8:
            self.slots *= 2
        self.kept: dict[int, tuple[list[int], int]] = {}
        self.priority: dict[int, float] = {}
        self.largest, self.draws, self.came = 1.0, 0, 0

    def put(self, tokens: list[int], births: int) -> None:
        sentence: list[int] = []
        for token in tokens:
            if token >= 0:
                sentence.append(token)
            if token < 0 or len(sentence) >= self.max_tokens // 4:
                self._keep(sentence, births)
                sentence = []

    def _keep(self, sentence: list[int], births: int) -> None:
        if len(sentence) < 2:
            return
        while self.kept and (len(self.kept) == self.slots or self._size() + len(sentence) > self.max_tokens):
            oldest = min(self.kept)
            del self.kept[oldest], self.priority[oldest]
        self.kept[self.came] = sentence, births
        self.priority[self.came] = self.largest
        self.came += 1

    def _size(self) -> int:
        return sum(len(sentence) for sentence, _ in self.kept.values())

    def draw(self, num: int, birth: list[int]) -> tuple[list[int], list[int], list[float]]:
        tokens, numbers = [], []
        order = sorted(self.kept, key=lambda number: number % self.slots)
        total = sum(self.priority.values())
        for n in range(num if self.kept else 0):
            mass = (n + unit(draw(self.key, self.draws + n))) / num * total
            for number in order:
                chosen = number
                if mass < self.priority[number]:
                    break
                mass -= self.priority[number]
            sentence, births = self.kept[chosen]
            tokens += [row if row < len(birth) and birth[row] < births else len(birth) for row in sentence] + [-1]
            numbers.append(chosen)
        self.draws += len(numbers)
        weights = [(len(self.kept) * self.priority[number] / total) ** -self.beta for number in numbers]
        return tokens, numbers, [weight / max(weights) for weight in weights]

    def learn(self, numbers: list[int], losses: list[float]) -> None:
        for number, loss in zip(numbers, losses, strict=True):
            if number in self.kept:
                self.priority[number] = (abs(loss) + LEAST_LOSS) ** self.alpha
                self.largest = max(self.largest, self.priority[number])
