"""How often two words of a stream stood near each other lately: exact up to a budget of memory, sketched beyond it.

A table holds pairs with their weights, which decay. When it is full, pairs of words that have lost their rows are
dropped; if more than half are left, the lighter ones beyond half go into a count-min sketch with conservative update,
and whoever comes back begins with what the sketch says. So a weight is never too low, and exact as long as nothing went
into the sketch, or the pair never did. Beyond that (Cormode and Muthukrishnan 2005, theorem 1) it is too high by more
than e/H of all weight that was ever counted, decayed, with a chance of at most exp(-R): H cells in each of R rows.

Legend: V rows of the vocabulary, W window, B keys of a buffer, S slots, R rows and H cells of the sketch, N pairs.
"""

from __future__ import annotations

import math

import numpy as np

from any2vec.checks import MAX_SEED, check_whole
from any2vec.data.io.direct import Spill
from any2vec.data.stream.vocabulary import without_least
from any2vec.data.text.pairs.pair_counts import PairCounts
from any2vec.data.text.pairs.sorted_runs import Run
from any2vec.errors import FormatError
from any2vec.kernels.common.rng import stream_key
from any2vec.kernels.common.sketch import raise_counts, read_counts
from any2vec.kernels.text import stream_pairs as kernel
from any2vec.kernels.text.pair_counts import LARGEST_WINDOW, gather_pairs
from any2vec.kernels.text.stream_counts import MOST_HALVINGS
from any2vec.types import State

SKETCH_ROWS = 4
"""exp(-4) = 1.8 %"""
BLOCK = 4096
"""neighboring positions of the stream whose pairs weigh the same"""
FIXED = 1 << 16
"""a weight of 1 among whole numbers"""
LEAST_BYTES = 1 << 12

_KEYS = 1 << 14
_LOW32 = np.uint64(0xFFFFFFFF)
_ONE, _32 = np.uint64(1), np.uint64(32)


class StreamPairs:
    """Weights of pairs; see the head of this file. Memory: `budget_bytes`, and as much again while pairs are moved."""

    def __init__(
        self, *, max_rows: int, budget_bytes: int, window: int = 5, half_life: int | None = None, seed: int = 1
    ) -> None:
        """max_rows: V, as the vocabulary has it; budget_bytes: of table and sketch, 4 KiB or more, half each at most.

        window: as in training, 1..127; half_life: positions of the stream (words and ends of lines) after which a pair
        weighs half, or None: none fades; seed: of the sketch's hashes.

        Raises:
            InputError: a number out of these bounds.
        """
        check_whole("max_rows", max_rows, 1, 2**28)
        check_whole("budget_bytes", budget_bytes, LEAST_BYTES, 2**44)
        check_whole("window", window, 1, LARGEST_WINDOW)
        check_whole("seed", seed, 0, MAX_SEED)
        if half_life is not None:
            check_whole("half_life", half_life, 1, 2**50)
        self.max_rows, self.window, self.half_life, self.seed = max_rows, window, half_life, seed
        slots = _power_of_two(budget_bytes // 2 // 16)
        self.most = slots * 3 // 4
        """pairs that the table holds"""
        self.cells = _power_of_two(budget_bytes // 2 // (8 * SKETCH_ROWS))
        """H"""
        self.is_exact = True
        """nothing went into the sketch yet"""
        self.num_pairs = 0
        """in the table"""
        self._pair_S, self._weight_S = np.zeros(slots, np.uint64), np.zeros(slots)
        self._cell_RH = np.zeros((SKETCH_ROWS, self.cells))
        self._salt = stream_key(seed, 0)
        self._sum_V = np.zeros(max_rows)
        self._birth_V = np.full(max_rows, -1, np.int64)
        self.position = 0
        """words and ends of lines so far: by it weights fade, however the stream is cut into batches"""
        self._base, self._unit, self._total = 0, 1.0, 0.0
        self._key_B = np.empty(max(_KEYS, 4 * window), np.uint64)
        self._row_T = np.arange(max_rows + 1, dtype=np.int32)
        self._row_T[max_rows] = -1

    # ---- counting

    def add(self, tokens: np.ndarray, keep_V: np.ndarray, key: np.uint64, offset: int, birth_V: np.ndarray) -> None:
        """Count the pairs of whole lines as training with these arguments meets them on the average.

        tokens int32 (P,), birth_V int64 (V,): of the vocabulary (`encode`, `birth_V`); offset: that of training,
        by which words are kept; keep_V uint64 (V or fewer,) and key: those of training (`gather_pairs`), where
        rows beyond keep_V vanish. A pair d places apart weighs W + 1 - d, W times the chance that a window reaches so
        far, in both directions.
        """
        keep_V = np.concatenate([keep_V, np.zeros(self.max_rows - len(keep_V), np.uint64)])
        self._sum_V[self._birth_V != birth_V] = 0
        self._birth_V[:] = birth_V
        near_W, where_W = np.full(self.window, -1, np.int32), np.zeros(self.window, np.int64)
        at, before = 0, self.position
        while at < len(tokens):
            block = (before + at) // BLOCK
            self._set_unit(block * BLOCK)
            stop = min(len(tokens), (block + 1) * BLOCK - before)
            while at < stop:
                at, size = gather_pairs(
                    tokens, at, stop, offset, self._row_T, keep_V, key, near_W, where_W, self._key_B
                )
                self._put(size)
        self.position += len(tokens)

    def _put(self, size: int) -> None:
        done = 0
        while True:
            done, self.num_pairs, added = kernel.add_pairs(
                self._key_B, done, size, self._birth_V, self._unit, self.most, self._pair_S, self._weight_S,
                self._sum_V, self._cell_RH, self._salt, self.num_pairs,
            )  # fmt: skip
            self._total += added
            if done >= size:
                return
            self._make_room()

    def _set_unit(self, position: int) -> None:
        if self.half_life is None:
            return
        halvings = (position - self._base) // self.half_life
        if halvings >= MOST_HALVINGS:  # by a power of two, so that no weight changes
            factor = 2.0 ** -min(halvings, 2000)
            for array in (self._weight_S, self._cell_RH, self._sum_V):
                array *= factor
            self._total *= factor
            self._base += halvings * self.half_life
        self._unit = math.exp2((position - self._base) / self.half_life)

    def _make_room(self) -> None:
        pair_N, weight_N = self._held()
        self._pair_S[:] = 0
        too_many = len(pair_N) - self.most // 2
        if too_many > 0:
            _, is_kept = without_least(weight_N, too_many)
            moved = ~is_kept
            raise_counts(self._cell_RH, pair_N[moved] ^ self._salt, weight_N[moved], np.inf)
            self.is_exact = False
            pair_N, weight_N = pair_N[is_kept], weight_N[is_kept]
        kernel.put_pairs(pair_N, weight_N, self._pair_S, self._weight_S)
        self.num_pairs = len(pair_N)

    def _held(self) -> tuple[np.ndarray, np.ndarray]:
        """(pairs, ascending; weights) of the table whose words still have their rows."""
        used = self._pair_S != 0
        pair_N, weight_N = self._pair_S[used], self._weight_S[used]
        order = np.argsort(pair_N)
        pair_N, weight_N = pair_N[order], weight_N[order]
        one_N, two_N = _births(pair_N)
        alive = np.isin(one_N, self._birth_V) & np.isin(two_N, self._birth_V)
        return pair_N[alive], weight_N[alive]

    # ---- reading

    @property
    def error(self) -> float:
        """By how much one of `weights` is too high at most, but for a chance of exp(-R); see the head of this file."""
        return 0.0 if self.is_exact else math.e / self.cells * self._total / self._unit

    @property
    def sum_V(self) -> np.ndarray:  # noqa: N802 (an array, with its shape)
        """The weight of all pairs of each row, decayed, float64 (V,): the marginals, exact."""
        return self._sum_V / self._unit

    def weights(self, row_N: np.ndarray, other_N: np.ndarray) -> np.ndarray:
        """The decayed weights float64 (N,) of pairs of rows, one direction."""
        one_N, two_N = (self._birth_V[rows].astype(np.uint64) + _ONE for rows in (row_N, other_N))
        asked_N = np.maximum(one_N, two_N) << _32 | np.minimum(one_N, two_N)
        pair_N, weight_N = self._held()
        found_N = np.empty(len(asked_N))
        read_counts(self._cell_RH, asked_N ^ self._salt, found_N)
        place_N = np.minimum(np.searchsorted(pair_N, asked_N), max(0, len(pair_N) - 1))
        if len(pair_N):
            held = pair_N[place_N] == asked_N
            found_N[held] = weight_N[place_N[held]]
        return found_N * (1 + (row_N == other_N)) / self._unit

    def counted(self, rows: np.ndarray, spill: Spill) -> PairCounts:
        """The pairs in the table among some rows, renamed 0.. in their order, as `PairCounts` (in `FIXED` numbers).

        Pairs that only the sketch knows are left out, as it cannot name them; the marginals are exact, of all pairs of
        these words. rows: int64 (N,), distinct.
        """
        counts = PairCounts(len(rows), self.window, spill)
        pair_N, weight_N = self._held()
        order = np.argsort(self._birth_V[rows])
        birth_N = self._birth_V[rows][order]
        place = []
        for one_N in _births(pair_N):
            at = np.minimum(np.searchsorted(birth_N, one_N), len(rows) - 1)
            place.append(np.where(birth_N[at] == one_N, order[at], -1))
        known = (place[0] >= 0) & (place[1] >= 0)
        row_N, other_N = place[0][known], place[1][known]
        whole_N = np.rint(weight_N[known] / self._unit * FIXED).astype(np.int64)
        apart = row_N != other_N
        both_N = np.concatenate([row_N * len(rows) + other_N, (other_N * len(rows) + row_N)[apart]])
        value_N = np.concatenate([np.where(apart, whole_N, 2 * whole_N), whole_N[apart]])
        order = np.argsort(both_N)
        run = Run(both_N[order].astype(np.uint64), np.stack([value_N, 0 * value_N], 1)[order])
        counts.add_run(run, np.stack([np.rint(self.sum_V[rows] * FIXED), 0 * rows], 1).astype(np.int64))
        return counts

    # ---- stopping and going on

    def _settings(self) -> list[int]:
        return [self.max_rows, self.window, self.half_life or 0, self.seed, len(self._pair_S), self.cells]

    def state_dict(self) -> State:
        """All that is needed to go on from here, as arrays."""
        used = self._pair_S != 0
        return {
            "settings": np.array(self._settings(), np.int64), "base": np.array([self._base, self.position]),
            "value": np.array([self._unit, self._total, self.is_exact]),
            "pair": self._pair_S[used], "weight": self._weight_S[used], "cell": self._cell_RH.copy(),
            "sum": self._sum_V.copy(), "birth": self._birth_V.copy(),
        }  # fmt: skip

    def load_state_dict(self, state: State) -> None:
        """Become what `state_dict()` was taken of, down to the bit.

        Raises:
            FormatError: it is of other settings.
        """
        settings = [int(number) for number in state["settings"]]
        if settings != self._settings():
            raise FormatError(
                f"The stored pairs have (max_rows, window, half_life, seed, slots, cells) = {settings}, these "
                f"{self._settings()}; go on with the same settings."
            )
        if len(state["base"]) != 2:
            raise FormatError(
                "The stored pairs are of a former version, in which they faded by another count of words; start again "
                "with --overwrite."
            )
        self._base, self.position = state["base"].tolist()
        self._unit, self._total, is_exact = state["value"].tolist()
        self.is_exact = bool(is_exact)
        self._pair_S[:], self.num_pairs = 0, len(state["pair"])
        kernel.put_pairs(state["pair"], state["weight"], self._pair_S, self._weight_S)
        self._cell_RH[:], self._sum_V[:], self._birth_V[:] = state["cell"], state["sum"], state["birth"]


def _births(pair_N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The births int64 (N,) of both words of pairs."""
    return (pair_N >> _32).astype(np.int64) - 1, (pair_N & _LOW32).astype(np.int64) - 1


def _power_of_two(number: int) -> int:
    """The largest that is not above it."""
    return 1 << (number.bit_length() - 1)
