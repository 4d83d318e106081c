"""Texts with ids of their own (JSON objects, messages, entries of a feed) become batches of lines.

What comes again within a window is left out.

Legend: N lines.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from any2vec.checks import check_whole, parse_json
from any2vec.errors import FormatError
from any2vec.kernels.text import lines as kernels
from any2vec.sources.base.cutter import LineBatch, Position, Tally, source_key
from any2vec.sources.base.options import MOST_LINE, SourceOptions
from any2vec.types import State

_SPACES = bytes.maketrans(b"\r\n\v\f", b"    ")
_LONGEST_ID = 256
_ZERO = np.uint64(0)


class BadRecordError(ValueError):
    """A record cannot be taken; the message is what `Tally.bad` counts it as."""


class Records:
    """Collects texts until `take`; what cannot be taken is counted and left out.

    A text becomes one line: its line ends become spaces. A line's key is its text's hash, or its id's, as `dedup` says;
    where a record has no id, its number's; or its text's, where the same may come again under another number (polled).
    """

    def __init__(self, number: int, options: SourceOptions, tally: Tally, is_polled: bool = False) -> None:
        self._number, self._options, self._tally, self._is_polled = number, options, tally, is_polled
        self._key = source_key(number)
        self._texts: list[bytes] = []
        self._names: list[str] = []
        self._keys: list[bytes | None] = []
        self._offsets: list[int] = []

    def __len__(self) -> int:
        return len(self._texts)

    @property
    def is_full(self) -> bool:
        """`take` before more is added."""
        return len(self._texts) >= self._options.most_lines

    def add(self, offset: int, text: bytes | str, id: str | None = None, name: str | None = None) -> None:
        """One record.

        offset: its number, ascending; id: what is the same where it comes again; name: what it is called, where it has
        no id (by default its number).
        """
        line = (text.encode("utf-8", "replace") if isinstance(text, str) else text).translate(_SPACES)
        if b"\0" in line:
            self._tally.bad("NUL bytes")
        elif len(line) > MOST_LINE:
            self._tally.bad("line too long")
        elif line and not line.isspace():
            self._texts.append(line)
            self._names.append(_printable(id if id is not None else name if name is not None else str(offset)))
            by_text = self._options.dedup == "text" or (id is None and self._is_polled and self._options.dedup == "id")
            self._keys.append(line if by_text else id.encode("utf-8", "replace") if self._has_key(id) else None)  # type: ignore[union-attr]
            self._offsets.append(offset)

    def add_json(self, offset: int, line: bytes, name: str | None = None) -> str | None:
        """One record as JSON; counted where it is none. Returns its id."""
        try:
            id, text = read_object(line, self._options)
            self.add(offset, text, id, name)
        except BadRecordError as error:
            self._tally.bad(str(error))
            return None
        return id

    def take(self, position: Position) -> LineBatch | None:
        """What was added, if anything. position: where the source goes on behind it."""
        if not self._texts:
            return None
        texts = [text + b"\n" for text in self._texts]
        stop_N = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
        offset_N = np.array(self._offsets, np.int64)
        batch = LineBatch(
            self._number, np.frombuffer(b"".join(texts), np.uint8), stop_N, self._hash(offset_N), offset_N, position,
            self._names,
        )  # fmt: skip
        self._texts, self._names, self._keys, self._offsets = [], [], [], []
        return batch

    def _has_key(self, id: str | None) -> bool:
        return id is not None and self._options.dedup == "id"

    def _hash(self, offset_N: np.ndarray) -> np.ndarray:
        keys = [key or b"" for key in self._keys]
        stop_N = np.cumsum(np.fromiter(map(len, keys), np.int64, len(keys)))
        key_N, own_N = np.empty(len(keys), np.uint64), np.empty(len(keys), np.uint64)
        salt = _ZERO if self._options.dedup == "text" else self._key
        kernels.hash_lines(np.frombuffer(b"".join(keys), np.uint8), stop_N, salt, key_N)
        kernels.hash_numbers(offset_N, self._key, own_N)
        return np.where([key is None for key in self._keys], own_N, key_N)


def read_object(line: bytes, options: SourceOptions) -> tuple[str | None, str]:
    """(id or None, text) of a JSON object.

    Raises:
        BadRecordError: it is not JSON, no object, or has no such text.
    """
    try:
        found = parse_json(line.decode("utf-8", "replace"))
    except ValueError as error:
        raise BadRecordError("not JSON") from error
    if not isinstance(found, dict):
        raise BadRecordError("no JSON object")
    text, id = _at(found, options.field), _at(found, options.id_field)
    if not isinstance(text, str):
        raise BadRecordError(f"no text {options.field}")
    return str(id) if isinstance(id, str | int) and not isinstance(id, bool) else None, text


def from_json(batch: LineBatch, options: SourceOptions, tally: Tally) -> LineBatch | None:
    """The texts of a batch whose lines are JSON objects; None where none of them has one."""
    records = Records(batch.source, options, tally)
    text, begin = batch.text_B.tobytes(), 0
    for offset, stop in zip(batch.offset_N.tolist(), batch.stop_N.tolist(), strict=True):
        records.add_json(offset, text[begin : stop - 1])
        begin = stop
    return records.take(batch.position)


def _at(found: Any, name: str) -> Any:
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def is_utf8(text: bytes) -> bool:
    """Whether it is; such a text is counted by its source, and kept."""
    try:
        return text.isascii() or bool(text.decode())
    except UnicodeDecodeError:
        return False


def _printable(name: str) -> str:
    """An id that takes one word of a line: what is not printable, or white, is escaped."""
    name = name[:_LONGEST_ID]
    return name if name.isprintable() and " " not in name else ascii(name)[1:-1].replace(" ", "\\x20")


MOST_WINDOW = 1 << 30


class SeenLines:
    """Which keys are new among the last `window` new ones. Memory is fixed: 16 to 24 bytes a key.

    Two lines have the same key by chance with probability 2**-64: of a million lines and a window of a million, one is
    mistaken for another with probability 5e-8.

    Args:
        window: keys, 1..2**30.
    """

    def __init__(self, window: int) -> None:
        check_whole("window", window, 1, MOST_WINDOW)
        self._ring_W = np.zeros(window, np.uint64)
        self._slots_S = np.zeros(max(4, 1 << (2 * window - 1).bit_length()), np.uint32)
        self._count = 0

    @property
    def num_bytes(self) -> int:
        return self._ring_W.nbytes + self._slots_S.nbytes

    def fresh(self, key_N: np.ndarray) -> np.ndarray:
        """bool (N,): whether each key uint64 is not among the last `window` new ones before it. They are then known."""
        is_fresh_N = np.empty(len(key_N), bool)
        self._count = int(kernels.mark_fresh(key_N, self._ring_W, self._count, self._slots_S, is_fresh_N))
        return is_fresh_N

    def state_dict(self) -> State:
        """What `load_state_dict` takes: `keys` uint64, the oldest first."""
        window = len(self._ring_W)
        first = self._count % window if self._count > window else 0
        return {"keys": np.roll(self._ring_W, -first)[: min(self._count, window)]}

    def load_state_dict(self, state: State) -> None:
        """Go on as where `state_dict` was asked; with a smaller window, the oldest keys are forgotten.

        Raises:
            FormatError: it is no such state.
        """
        keys = np.asarray(state.get("keys", ()))
        if keys.dtype != np.uint64 or keys.ndim != 1:
            raise FormatError("The keys of lines seen must be uint64, in one row; the checkpoint is damaged.")
        self._count = 0
        self._slots_S[:] = 0
        self.fresh(keys[-len(self._ring_W) :])
