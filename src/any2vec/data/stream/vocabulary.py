"""The vocabulary of text that never ends: words come for ever, and the memory stays what it was at the start.

Words are kept in a table of at most T types with counts that decay; those that come often have a row in the table of
vectors. Where the types are too many, the rarest quarter is dropped; where the rows are, the words of the rarest eighth
lose theirs, which others get. It all depends on the stream alone, not on how it is cut into batches.

What a count may lack. A count begins when its word comes to the table, so it is never too high; it lacks at most what
was dropped of the word before, which is less than N / (3/4 T), N being the decayed number of all words so far. For
dropping a quarter at level b (the largest count, with what it may lack, among the dropped) is the decrement of Misra
and Gries 1982 ("Finding repeated elements") by as much as b grows, paid by 3/4 of the counters, as in Anderson et al.
2017 ("A high-performance algorithm for identifying frequent items in data streams"). So every word whose decayed count
is above `missed` is in the table, and no count lacks more. Likewise a word above both N / (7/8 V) and `min_count` gets
a row as soon as one is free. T is less where words are long: the arena has 16 bytes a type.

Legend: B bytes, N lines, P tokens, T types, V rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from any2vec.checks import check_whole
from any2vec.data.options import TextOptions
from any2vec.data.text.encoder import text_classes
from any2vec.data.text.normalize import Normalizer
from any2vec.data.vocab.vocabulary import Keys, keep_probabilities
from any2vec.errors import FormatError, InputError
from any2vec.kernels.text import stream_counts as counting
from any2vec.kernels.text import tokens as kernel
from any2vec.kernels.text.hash_strings import tag_texts
from any2vec.types import State

MAX_WORD_BYTES = 1024
"""a longer word is left out and counted"""
LARGEST_TYPES = 1 << 28
REST = 1 << 20
"""words that come before a freed row is given away: what was encoded before may be trained until then"""
TYPES_DROPPED, ROWS_FREED = 4, 8
"""a quarter of the types and an eighth of the rows at a time"""
WORDS_PER_ROW = 2
"""tables of noise are renewed when so many words have come as rows are in use, times this"""
LEAST_WORDS = 1000
"""but not more often than this"""

_ENTRIES = 1 << 12
_ARENA_LEAST = 1 << 10


class StreamVocabulary:
    """Words, their decayed counts and their rows; see the head of this file. Memory: O(T + V), `nbytes`."""

    def __init__(
        self, *, max_types: int, max_rows: int, min_count: int = 5, half_life: int | None = None, rest: int = REST,
        text: TextOptions | None = None,
    ) -> None:  # fmt: skip
        """max_types: T, 8 or more; max_rows: V, 1..max_types; min_count: the decayed count at which a word gets a row.

        half_life: words of the stream after which a use counts half, or None: uses do not fade. rest: words before a
        freed row is given to another word; a batch of `encode` has at most 2 x rest bytes.

        Raises:
            InputError: a number out of these bounds, or text options with bad_bytes "error" (no stream ends at a byte).
        """
        check_whole("max_types", max_types, 8, LARGEST_TYPES)
        check_whole("max_rows", max_rows, 1, max_types)
        check_whole("min_count", min_count, 1, 2**31)
        check_whole("rest", rest, 1, 2**40)
        if half_life is not None:
            check_whole("half_life", half_life, 1, 2**50)
        self.text = text or TextOptions()
        if self.text.bad_bytes == "error":
            raise InputError("bad_bytes must be replace or skip for a stream, got 'error'.")
        self.max_types, self.max_rows, self.min_count = max_types, max_rows, min_count
        self.half_life, self.rest = half_life, rest
        self.long_words = 0
        """words of more than `MAX_WORD_BYTES` so far, left out"""
        self._normalizer = Normalizer("The stream", self.text, is_part=True)
        self._classes = text_classes()
        self._classes[0] = kernel.SPACE
        slots = 1 << (2 * max_types - 1).bit_length()
        self._table = np.zeros(2 * slots, np.uint64)
        self._arena = np.zeros(2 * max_types + _ARENA_LEAST, np.uint64)
        self._length_T = np.zeros(max_types, np.int32)
        self._seen_T = np.zeros(max_types, np.uint8)  # `encode_words` counts in it, and nobody reads it
        self._count_T = np.zeros(max_types)
        self._late_T = np.zeros(max_types)
        self._row_T = np.full(max_types, -1, np.int32)
        self._state = np.zeros(kernel.STATE_SIZE, np.int64)
        self._type_V = np.full(max_rows, -1, np.int32)
        self.birth_V = np.full(max_rows, -1, np.int64)
        """the number of the birth that gave a row to its word (`births` before it); -1: nobody had it yet"""
        self._resting_V = np.zeros(max_rows, np.int32)
        self._freed_V = np.zeros(max_rows, np.int64)
        self._born_V = np.zeros(max_rows, np.int32)
        self._value = np.zeros(counting.VALUES)
        self._value[counting.UNIT] = 1.0
        self._mark = np.zeros(counting.MARKS, np.int64)
        self._tables_V = np.zeros(0)
        self._made: dict[tuple[str, float], Any] = {}
        self._block = np.zeros(0, np.uint8)
        self._entries = (np.empty(_ENTRIES, np.uint64), np.empty(_ENTRIES, np.int64), np.empty(_ENTRIES, np.int32))

    # ---- encoding

    def num_words(self, line: bytes) -> int:
        """How many words a line has, as `encode` would find them."""
        return len(self._normalizer.options.words(line.replace(b"\0", b" ").decode("utf-8", "replace")))

    def encode(self, text_B: np.ndarray, stop_N: np.ndarray) -> np.ndarray:
        """The tokens int32 (P,) of whole lines: rows, max_rows for a word without one, -1 behind a line with words.

        text_B uint8: the lines one after another, each with its b"\\n"; stop_N int64: where each ends (`LineBatch`).
        Words are those of files read with the same options; a NUL byte is white space. A row stays the same word's in
        all that is encoded within `rest` words.

        Raises:
            InputError: a line does not end with b"\\n", or there are more than 2 x rest bytes.
        """
        if len(text_B) > 2 * self.rest:
            raise InputError(f"A batch may have {2 * self.rest:,} bytes (twice rest), got {len(text_B):,}; cut it.")
        ends = len(stop_N) and stop_N[-1] == len(text_B) and (text_B[stop_N - 1] == 10).all()
        if not ends and len(text_B):
            raise InputError("Each line of a batch must end with a line end.")
        raw = text_B.tobytes()
        self._normalizer.bad_bytes += raw.count(0)
        piece = self._normalizer.normalize(raw)
        size = len(piece)
        if len(self._block) < size + 16:
            self._block = np.zeros(-(-(size + 16) // 4096) * 4096, np.uint8)
        self._block[:size] = np.frombuffer(piece, np.uint8)
        self._block[size : size + 16] = 0
        token_P = np.empty(size, np.int32)
        self._state[[kernel.OUT_USED, kernel.WORDS_IN_SENTENCE]] = 0
        at = 0
        while at < size:
            at = kernel.split_words(self._block, size, at, MAX_WORD_BYTES, self._classes, *self._entries, self._state)
            if self._state[kernel.TOO_LONG]:
                at += int(self._state[kernel.TOO_LONG])
                self.long_words += 1
                self._state[kernel.TOO_LONG] = 0
            self._encode_entries(token_P)
        return token_P[: self._state[kernel.OUT_USED]].copy()

    def _encode_entries(self, token_P: np.ndarray) -> None:
        done = 0
        while True:
            start, types = int(self._state[kernel.OUT_USED]), self.num_types
            done = kernel.encode_words(
                self._block, *self._entries, done, self._table, self._arena, self._length_T, self._seen_T, token_P,
                self._state,
            )  # fmt: skip
            new = slice(types, self.num_types)
            self._count_T[new], self._row_T[new] = 0, -1
            self._late_T[new] = self._value[counting.MISSED]
            self._count(token_P, start)
            if done >= self._state[kernel.ENTRIES]:
                return
            self._drop_types()

    def _count(self, token_P: np.ndarray, start: int) -> None:
        """Count what was encoded from `start` on, and put rows in the place of types."""
        stop = int(self._state[kernel.OUT_USED])
        while start < stop:
            start = counting.count_uses(
                token_P, start, stop, self.half_life or 0, self.min_count, self.rest, self._count_T, self._row_T,
                self._type_V, self.birth_V, self._resting_V, self._freed_V, self._born_V, self._value, self._mark,
            )  # fmt: skip
            event = self._mark[counting.EVENT]
            if event == counting.NEEDS_ROWS:
                self._free_rarest_rows()
            elif event == counting.NEEDS_SCALE:
                self._scale()
            elif event == counting.NEEDS_TABLES:
                self._renew_tables()

    def _scale(self) -> None:
        """Let the unit be about 1 again: by a power of two, so that no count changes."""
        half_life = self.half_life or 1
        halvings = int(self.position - self._mark[counting.BASE]) // half_life
        self._mark[counting.BASE] += halvings * half_life
        factor = 2.0 ** -min(halvings, 2000)
        for array in (self._count_T, self._late_T):
            array *= factor
        self._value[1:] *= factor
        self._value[counting.UNIT] = math.exp2((self.position - self._mark[counting.BASE]) / half_life)

    # ---- dropping

    def _drop_types(self) -> None:
        """Drop a quarter of the types, the rarest; of those that are equally rare, those that came first."""
        size = self.num_types
        level, is_kept = without_least(self._count_T[:size] + self._late_T[:size], size // TYPES_DROPPED)
        row_D = self._row_T[:size][~is_kept]
        self._free_rows(row_D[row_D >= 0])
        self._state[kernel.ARENA_USED] = counting.drop_types(self._table, self._arena, self._length_T, is_kept)
        kept = int(np.count_nonzero(is_kept))
        for array in (self._length_T, self._count_T, self._late_T, self._row_T):
            array[:kept] = array[:size][is_kept]
        table = np.zeros_like(self._table)
        kernel.rehash(self._table, table, kept)
        self._table = table
        self._state[kernel.NUM_TYPES] = kept
        row_T = self._row_T[:kept]
        self._type_V[row_T[row_T >= 0]] = np.flatnonzero(row_T >= 0)
        self._value[counting.MISSED] = max(self._value[counting.MISSED], level)

    def _free_rarest_rows(self) -> None:
        """Free an eighth of the rows; called where all are in use."""
        count_V = self._count_T[self._type_V]
        level, is_kept = without_least(count_V, self.max_rows // ROWS_FREED)
        row_D = np.flatnonzero(~is_kept).astype(np.int32)
        self._row_T[self._type_V[row_D]] = -1
        self._free_rows(row_D)
        self._value[counting.BAR] = max(self._value[counting.BAR], level)

    def _free_rows(self, row_D: np.ndarray) -> None:
        mark = self._mark
        place = (mark[counting.FIRST_RESTING] + mark[counting.NUM_RESTING] + np.arange(len(row_D))) % self.max_rows
        self._resting_V[place] = row_D
        self._freed_V[place] = self.position
        mark[counting.NUM_RESTING] += len(row_D)
        self._type_V[row_D] = -1

    # ---- what follows from the counts

    @property
    def num_types(self) -> int:
        """Words in the table, at most `max_types`."""
        return int(self._state[kernel.NUM_TYPES])

    @property
    def num_rows(self) -> int:
        """Rows in use, scattered below `max_rows`."""
        return int(self._mark[counting.ROWS_USED] - self._mark[counting.NUM_RESTING])

    @property
    def position(self) -> int:
        """Words so far."""
        return int(self._mark[counting.POSITION])

    @property
    def births(self) -> int:
        """How often a row was given to a word."""
        return int(self._mark[counting.BIRTHS])

    @property
    def rowless(self) -> int:
        """Uses of words that deserved a row while all freed ones rested."""
        return int(self._mark[counting.ROWLESS])

    @property
    def bad_bytes(self) -> int:
        """Bytes so far that belong to no valid UTF-8 sequence, and NUL bytes."""
        return self._normalizer.bad_bytes

    @property
    def total(self) -> float:
        """The decayed number of all words so far."""
        return float(self._value[counting.TOTAL] / self._value[counting.UNIT])

    @property
    def missed(self) -> float:
        """What the decayed count of a word lacks at most; every word with more is in the table."""
        return float(self._value[counting.MISSED] / self._value[counting.UNIT])

    @property
    def counts_V(self) -> np.ndarray:  # noqa: N802 (an array, with its shape)
        """The decayed counts float64 (max_rows,), 0 for free rows. O(V)."""
        return self._counts(self.max_rows)

    def _counts(self, stop: int) -> np.ndarray:
        count_V = np.empty(stop)
        counting.row_counts(self._count_T, self._type_V[:stop], self._value[counting.UNIT], count_V)
        return count_V

    def rows(self) -> np.ndarray:
        """The rows in use, int64, ascending."""
        return np.flatnonzero(self._type_V >= 0)

    def without_freed(self, token_P: np.ndarray) -> np.ndarray:
        """Tokens int32 (P,) of `encode` in which a word whose row has been freed since has none: max_rows."""
        if not self._mark[counting.NUM_RESTING]:
            return token_P
        place_N = np.flatnonzero((token_P >= 0) & (token_P < self.max_rows))
        freed_N = place_N[self._type_V[token_P[place_N]] < 0]
        if not len(freed_N):
            return token_P
        found = token_P.copy()
        found[freed_N] = self.max_rows
        return found

    def born(self) -> np.ndarray:
        """The rows int64 (N,), ascending, that were given to a word since the last call: start them afresh."""
        row_N = np.sort(self._born_V[: self._mark[counting.NUM_BORN]]).astype(np.int64)
        self._mark[counting.NUM_BORN] = 0
        self._mark[counting.BORN_BEFORE] = self.births
        return row_N

    def _renew_tables(self) -> None:
        used = int(self._mark[counting.ROWS_USED])
        self._tables_V = self._counts(used)
        self._made = {}
        self._mark[counting.TABLES_AT] = self.position + (max(LEAST_WORDS, WORDS_PER_ROW * used) if used else 0)

    def noise(self, power: float = 0.75) -> tuple[np.ndarray, np.ndarray]:
        """(threshold uint32 (R,), alias int32 (R,)) of `kernels.common.alias` for counts to the power; R <= max_rows.

        The counts are those behind a line at most max(LEAST_WORDS, WORDS_PER_ROW x R) words, and a line, ago: making
        the table costs O(1) a word. A row born since is not drawn, one freed since is. The same arrays are given until
        the counts are renewed. With no counts yet, all rows alike.
        """
        from any2vec.kernels.common.alias import build_alias

        made = self._made.get(("noise", power))
        if made is None:
            weight_V = self._tables_V**power * (self._tables_V > 0)
            made = build_alias(weight_V if weight_V.any() else np.ones(max(1, int(self._mark[counting.ROWS_USED]))))
            self._made["noise", power] = made
        return made

    def keep(self, subsample: float) -> np.ndarray:
        """The probability that a use of a word is kept, float64 (max_rows,): `keep_probabilities`; of free rows 1.

        From the same counts as `noise`, and as stale.

        Raises:
            InputError: subsample is negative or not finite.
        """
        made = self._made.get(("keep", subsample))
        if made is None:
            made = np.ones(self.max_rows)
            made[: len(self._tables_V)] = keep_probabilities(self._tables_V, subsample)
            self._made["keep", subsample] = made
        return made

    # ---- words

    def keys(self, rows: np.ndarray) -> Keys:
        """The words of rows in use, in that order; others have none (`without_freed`). O(T)."""
        return self._words(self._type_V[rows])

    def _words(self, type_N: np.ndarray) -> Keys:
        start_T = np.zeros(self.num_types + 1, np.int64)
        np.cumsum(8 * (self._length_T[: self.num_types] // 8 + 1), out=start_T[1:])
        length_N = self._length_T[type_N]
        packed, offsets = np.empty(int(length_N.sum(dtype=np.int64)), np.uint8), np.zeros(len(type_N) + 1, np.int64)
        kernel.pack_words(self._arena.view(np.uint8), start_T[type_N], length_N, packed, offsets)
        return Keys(packed, offsets)

    def row_of(self, word: str) -> int:
        """The row of a word as it stands in `keys`, or -1."""
        text = word.encode("utf-8", "replace")
        if not text or len(text) > MAX_WORD_BYTES or b"\0" in text:
            return -1
        state, found = self._state.copy(), np.empty(1, np.int32)
        state[[kernel.OUT_USED, kernel.ENTRIES]] = 0, 1
        block, entries = _as_entries(Keys.of([word]))
        types = slice(self.num_types)  # no room for another: an unknown word is left
        done = kernel.encode_words(
            block, *entries, 0, self._table, self._arena, self._length_T[types], self._seen_T[types], found, state
        )
        return int(self._row_T[found[0]]) if done else -1

    # ---- stopping and going on

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays whose size is fixed by max_types and max_rows."""
        return sum(array.nbytes for array in vars(self).values() if isinstance(array, np.ndarray)) - self._block.nbytes

    def _settings(self) -> list[int]:
        return [self.max_types, self.max_rows, self.min_count, self.half_life or 0, self.rest]

    def state_dict(self) -> State:
        """All that is needed to go on from here, as arrays. O(T + V)."""
        size = self.num_types
        words = self._words(np.arange(size))
        mark = self._mark.copy()
        mark[[counting.FIRST_RESTING, counting.EVENT]] = 0  # the ring is stored from its first on
        resting = (self._mark[counting.FIRST_RESTING] + np.arange(self._mark[counting.NUM_RESTING])) % self.max_rows
        return {
            "settings": np.array(self._settings(), np.int64),
            "words": np.array(words.arena), "offsets": words.offsets,
            "count": self._count_T[:size].copy(), "late": self._late_T[:size].copy(), "row": self._row_T[:size].copy(),
            "birth": self.birth_V.copy(), "resting": self._resting_V[resting], "freed": self._freed_V[resting],
            "born": self._born_V[: self._mark[counting.NUM_BORN]].copy(),
            "tables": self._tables_V.copy(), "value": self._value.copy(), "mark": mark,
            "skipped": np.array([self.bad_bytes, self.long_words], np.int64),
        }  # fmt: skip

    def load_state_dict(self, state: State) -> None:
        """Become the vocabulary whose `state_dict()` this is, down to the bit.

        Raises:
            FormatError: it is of other settings.
        """
        settings = [int(number) for number in state["settings"]]
        if settings != self._settings():
            raise FormatError(
                f"The stored vocabulary has (max_types, max_rows, min_count, half_life, rest) = {settings}, this one "
                f"{self._settings()}; go on with the same settings."
            )
        fresh = type(self)(
            max_types=self.max_types, max_rows=self.max_rows, min_count=self.min_count, half_life=self.half_life,
            rest=self.rest, text=self.text,
        )  # fmt: skip
        size = len(state["count"])
        block, entries = _as_entries(Keys(state["words"], state["offsets"]))
        fresh._state[kernel.ENTRIES] = size
        kernel.encode_words(
            block, *entries, 0, fresh._table, fresh._arena, fresh._length_T, fresh._seen_T, np.empty(size, np.int32),
            fresh._state,
        )  # fmt: skip
        fresh._count_T[:size], fresh._late_T[:size], fresh._row_T[:size] = state["count"], state["late"], state["row"]
        used = np.flatnonzero(state["row"] >= 0)
        fresh._type_V[state["row"][used]] = used
        fresh.birth_V[:] = state["birth"]
        fresh._resting_V[: len(state["resting"])], fresh._freed_V[: len(state["freed"])] = (
            state["resting"],
            state["freed"],
        )
        fresh._born_V[: len(state["born"])] = state["born"]
        fresh._tables_V, fresh._value, fresh._mark = (np.array(state[name]) for name in ("tables", "value", "mark"))
        fresh._normalizer.bad_bytes, fresh.long_words = (int(number) for number in state["skipped"])
        vars(self).update(vars(fresh))


def without_least(count_N: np.ndarray, num: int) -> tuple[float, np.ndarray]:
    """(largest of the `num` least counts, bool (N,): which are left); of equal ones the first go, and at least one."""
    num = max(1, num)
    level = float(np.partition(count_N, num - 1)[num - 1])
    is_kept = count_N >= level
    equal = np.flatnonzero(count_N == level)
    is_kept[equal[: num - (len(count_N) - int(np.count_nonzero(is_kept)))]] = False
    return level, is_kept


def _as_entries(keys: Keys) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(block, entries) of words for `encode_words`."""
    size = len(keys.arena)
    block = np.zeros((size + 16 + 7) // 8 * 8, np.uint8)
    block[:size] = keys.arena
    entries = np.empty(len(keys), np.uint64), np.empty(len(keys), np.int64), np.empty(len(keys), np.int32)
    tag_texts(block, keys.offsets, *entries)
    return block, entries
