"""The plain twin of the vocabulary of a stream: a dict of words, and one word at a time."""

from __future__ import annotations

import math

from naive.text.tokens import sentences_of

LONGEST, ARENA_PER_TYPE, ARENA_LEAST, HALVINGS = 1024, 2, 1024, 256


class Word:
    """A word in the table: its count, what it may lack, its row."""

    def __init__(self, late: float) -> None:
        self.count, self.late, self.row = 0.0, late, -1


class StreamVocabulary:
    """Words are in the dict in the order in which they came."""

    def __init__(self, max_types: int, max_rows: int, min_count: int, half_life: int | None, rest: int) -> None:
        self.max_types, self.max_rows, self.min_count = max_types, max_rows, min_count
        self.half_life, self.rest = half_life, rest
        self.words: dict[str, Word] = {}
        self.unit, self.total, self.bar, self.missed = 1.0, 0.0, 0.0, 0.0
        self.position = self.base = self.rows_used = self.long_words = 0
        self.resting: list[tuple[int, int]] = []
        self.births: list[int] = []
        """the rows given away, one after another"""

    def encode(self, text: bytes, **options: object) -> list[int]:
        tokens = []
        for line in sentences_of(text.replace(b"\0", b" "), **options):  # type: ignore[arg-type]
            kept = [word for word in line if len(word.encode()) <= LONGEST]
            self.long_words += len(line) - len(kept)
            if kept:
                tokens += [*(self._use(word) for word in kept), -1]
                self._end_line()
        return tokens

    def _use(self, word: str) -> int:
        if word not in self.words:
            while not self._has_room(word):
                self._drop_types()
            self.words[word] = Word(self.missed)
        found = self.words[word]
        if found.row < 0 and self._deserves_row(found):
            if self.rows_used < self.max_rows:
                found.row = self.rows_used
                self.rows_used += 1
            else:
                if not self.resting:
                    self._free_rows()
                if self._deserves_row(found) and self.resting[0][1] + self.rest <= self.position:
                    found.row = self.resting.pop(0)[0]
            if found.row >= 0:
                self.births.append(found.row)
        found.count += self.unit
        self.total += self.unit
        self.position += 1
        return found.row if found.row >= 0 else self.max_rows

    def _has_room(self, word: str) -> bool:
        chunks = sum(len(one.encode()) // 8 + 1 for one in self.words)
        room = ARENA_PER_TYPE * self.max_types + ARENA_LEAST
        return len(self.words) < self.max_types and chunks + len(word.encode()) // 8 < room

    def _deserves_row(self, word: Word) -> bool:
        count = word.count + self.unit
        return count >= self.min_count * self.unit and count > self.bar

    def _drop_types(self) -> None:
        order = sorted(self.words, key=lambda name: self.words[name].count + self.words[name].late)  # the first first
        gone = set(order[: max(1, len(order) // 4)])
        self.missed = max(self.missed, *(self.words[name].count + self.words[name].late for name in gone))
        for name in [name for name in self.words if name in gone]:
            word = self.words.pop(name)
            if word.row >= 0:
                self.resting.append((word.row, self.position))

    def _free_rows(self) -> None:
        holders = sorted((word for word in self.words.values() if word.row >= 0), key=lambda word: word.row)
        gone = sorted(holders, key=lambda word: word.count)[: max(1, self.max_rows // 8)]
        self.bar = max(self.bar, gone[-1].count)
        for word in sorted(gone, key=lambda word: word.row):
            self.resting.append((word.row, self.position))
            word.row = -1

    def _end_line(self) -> None:
        if self.half_life is None:
            return
        if self.position - self.base >= HALVINGS * self.half_life:
            halvings = (self.position - self.base) // self.half_life
            factor = 2.0 ** -min(halvings, 2000)
            self.base += halvings * self.half_life
            self.total, self.bar, self.missed = (one * factor for one in (self.total, self.bar, self.missed))
            for word in self.words.values():
                word.count, word.late = word.count * factor, word.late * factor
        self.unit = math.exp2((self.position - self.base) / self.half_life)
