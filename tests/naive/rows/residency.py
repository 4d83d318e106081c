"""Plain twin of `tables.residency.residency.Residency`: a dict, a sort of all that may give way, a sketch in lists."""

from __future__ import annotations

from collections.abc import Sequence

from naive.common.rng import draw


class NaiveSketch:
    """Four rows of cells; the id's count is the least of its cells."""

    def __init__(self, cells: int) -> None:
        self.rows = [[0] * cells for _ in range(4)]
        self.cells = cells

    def places(self, key: int) -> list[int]:
        return [draw(key, row) % self.cells for row in range(4)]

    def read(self, key: int) -> int:
        return min(row[place] for row, place in zip(self.rows, self.places(key), strict=True))

    def lift(self, key: int, count: int) -> None:
        for row, place in zip(self.rows, self.places(key), strict=True):
            row[place] = max(row[place], min(count, 255))

    def halve(self) -> None:
        self.rows = [[cell // 2 for cell in row] for row in self.rows]


class NaiveResidency:
    """scale: what the ids are multiplied by, which the sketch's cells depend on."""

    def __init__(
        self, capacity: int, policy: str, scale: int = 1, promote_after: int = 10, permanent: float = 0.9
    ) -> None:
        self.scale, self.uses = scale, 0
        self.sketch = NaiveSketch(1 << max(4 * capacity - 1, 15).bit_length())
        self.capacity, self.policy = capacity, policy
        self.promote_after, self.most_permanent = promote_after, int(permanent * capacity)
        self.slot_of: dict[int, int] = {}
        self.count: dict[int, int] = {}
        self.stamp: dict[int, int] = {}
        self.held: dict[int, int] = {}
        self.permanent: set[int] = set()
        self.free = list(range(capacity))[::-1]
        self.now = 0
        self.entered: list[int] = []
        """of fifo: ids in the order in which they came in"""
        self.next_use: dict[int, float] = {}
        """step of the next use of each id, infinity where it is not known"""

    def place(
        self, ids: Sequence[int], next_use: Sequence[float] = ()
    ) -> tuple[list[int], list[bool], list[tuple[int, int]]]:
        """(slots, which are new, (slot, id) of those that gave way)."""
        self.now += 1
        self.fade(len(ids))
        self.next_use.update(zip(ids, next_use, strict=False))
        missing = [key for key in ids if key not in self.slot_of]
        for key in ids:
            if key in self.slot_of:
                self.use(key)
        wanted = missing
        if self.policy == "belady":
            wanted = sorted(missing, key=lambda key: self.next_use[key])
        if self.policy == "ttl":
            wanted = [key for key in missing if self.next_use[key] < float("inf")]
        room = min(len(wanted), len(self.free))
        victims = self.victims(len(wanted) - room)
        if self.policy == "belady":
            pairs = zip(wanted[room:], victims, strict=False)
            victims = [victim for key, victim in pairs if self.next_use[key] < self.next_use[victim]]
        known = {key: self.sketch.read(key * self.scale) if self.policy == "tinylfu" else 0 for key in missing}
        new = wanted[: room + len(victims)]
        if self.policy == "tinylfu":
            for key in missing:
                self.sketch.lift(key * self.scale, known[key] + 1)
            if room < len(missing):
                new = sorted(missing, key=lambda key: -known[key])[: room + len(victims)]
                pairs = zip(new[room:], sorted(victims, key=self.worth_exact), strict=True)
                victims = [victim for key, victim in pairs if self.count[victim] < known[key] + 1]
                new = new[: room + len(victims)]
        gone = [(self.slot_of[key], key) for key in victims]
        for key in victims:
            self.forget(key)
        slots = self.free[len(self.free) - room :] + [slot for slot, _ in gone]
        del self.free[len(self.free) - room :]
        for key, slot in zip(new, slots, strict=True):
            self.slot_of[key], self.count[key], self.held[key] = slot, known[key], 0
            self.entered.append(key)
        for key in new:
            self.use(key)
        return [self.slot_of.get(key, -1) for key in ids], [key in new for key in ids], gone

    def expect(self, ids: Sequence[int], step: int) -> None:
        for key in ids:
            if key in self.slot_of:
                self.next_use[key] = min(self.next_use[key], step)

    def release(self, ids: Sequence[int]) -> None:
        for key in ids:
            if key in self.held:
                self.held[key] -= 1

    def drop(self, ids: Sequence[int]) -> None:
        for key in ids:
            if key in self.slot_of:
                self.free.append(self.slot_of[key])
                self.forget(key)

    def victims(self, number: int) -> list[int]:
        """Ids in the order in which they give way, or in that of their slots."""
        if number <= 0:
            return []
        may_go = [key for key in self.slot_of if not self.held[key] and key not in self.permanent]
        if self.policy == "fifo":
            return [key for key in self.entered if key in may_go][:number]
        if self.policy == "ttl":
            may_go = [key for key in may_go if self.next_use[key] == float("inf")]
            return sorted(may_go, key=self.slot_of.__getitem__)[:number]
        if self.policy == "belady":
            return sorted(may_go, key=lambda key: (-self.next_use[key], self.slot_of[key]))[:number]
        first = sorted(may_go, key=self.worth)[:number]
        return sorted(first, key=self.slot_of.__getitem__)

    def worth(self, key: int) -> tuple[int, int, int]:
        count = 0 if self.policy == "lru" else min(self.count[key], 1023)
        return count, -min(self.now - self.stamp[key], 4095), self.slot_of[key]

    def worth_exact(self, key: int) -> tuple[int, int, int]:
        return self.count[key], self.stamp[key], self.slot_of[key]

    def fade(self, uses: int) -> None:
        self.uses += uses
        if self.policy == "tinylfu" and self.uses >= 64 * self.capacity:
            self.uses = 0
            self.sketch.halve()
            self.count = {key: count // 2 for key, count in self.count.items()}

    def use(self, key: int) -> None:
        self.count[key] += 1
        self.stamp[key] = self.now
        self.held[key] += 1
        often = self.policy == "lfu-promoted" and self.count[key] >= self.promote_after
        if often and len(self.permanent) < self.most_permanent:
            self.permanent.add(key)

    def forget(self, key: int) -> None:
        if self.policy == "tinylfu":
            self.sketch.lift(key * self.scale, self.count[key])
        self.entered.remove(key)
        for place in (self.slot_of, self.count, self.stamp, self.held):
            del place[key]
        self.permanent.discard(key)
