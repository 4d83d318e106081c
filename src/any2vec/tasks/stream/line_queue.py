"""Lines that were taken from the sources and are not trained yet: cut into batches whose size is the stream's alone.

Legend: N lines, B bytes.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from any2vec.checks import parse_json
from any2vec.sources.base.cutter import LineBatch
from any2vec.types import State


class Lines(NamedTuple):
    """Lines of one source."""

    source: int
    text_B: np.ndarray
    stop_N: np.ndarray
    ids: Sequence[str]
    """where they are wanted, else none"""


@dataclass(frozen=True)
class Cut:
    """Lines for one batch."""

    parts: list[Lines]
    """of each source those of the batch, in their order"""
    duplicates: Counter[int]
    """by source: lines that were left out since the cut before"""


class LineQueue:
    """First in, first out; whole lines.

    Args:
        cut_bytes: a cut is the fewest lines with so many bytes.
        keeps_ids: whether cuts tell the ids of their lines.
    """

    def __init__(self, cut_bytes: int, keeps_ids: bool) -> None:
        self.cut_bytes = cut_bytes
        self.keeps_ids = keeps_ids
        self.num_bytes = 0
        self._parts: deque[Lines] = deque()
        self._duplicates: Counter[int] = Counter()

    def put(self, batch: LineBatch, fresh_N: np.ndarray | None) -> None:
        """fresh_N bool (N,): lines that have not come before; None: all."""
        lines: Sequence[int] = range(len(batch))
        text_B, stop_N = batch.text_B, batch.stop_N
        if fresh_N is not None and not fresh_N.all():
            self._duplicates[batch.source] += int(len(fresh_N) - np.count_nonzero(fresh_N))
            length_N = np.diff(stop_N, prepend=0)
            text_B = text_B[np.repeat(fresh_N, length_N)]
            stop_N = np.cumsum(length_N[fresh_N])
            lines = np.flatnonzero(fresh_N).tolist()
        if len(stop_N):
            ids = [batch.id_of(line) for line in lines] if self.keeps_ids else []
            self._parts.append(Lines(batch.source, text_B, stop_N, ids))
            self.num_bytes += text_B.size

    @property
    def is_full(self) -> bool:
        """Whether there is enough for a cut."""
        return self.num_bytes >= self.cut_bytes

    @property
    def is_empty(self) -> bool:
        """Whether a cut would have nothing to tell, not even of duplicates."""
        return not self.num_bytes and not self._duplicates

    def cut(self) -> Cut:
        """The lines of the next batch; all that there are where they are too few."""
        parts: list[Lines] = []
        wanted = self.cut_bytes
        while wanted > 0 and self._parts:
            part = self._parts.popleft()
            lines = int(np.searchsorted(part.stop_N, wanted)) + 1
            if lines < len(part.stop_N):
                part, rest = split_lines(part, lines)
                self._parts.appendleft(rest)
            parts.append(part)
            wanted -= part.text_B.size
            self.num_bytes -= part.text_B.size
        duplicates, self._duplicates = self._duplicates, Counter()
        sources = sorted({part.source for part in parts})
        return Cut([_joined([part for part in parts if part.source == source]) for source in sources], duplicates)

    def put_back(self, parts: Sequence[Lines]) -> None:
        """Lines of a cut that come first in the next one."""
        self._parts.extendleft(reversed(parts))
        self.num_bytes += sum(part.text_B.size for part in parts)

    def state_dict(self) -> State:
        """What is in it: the text, and by part its source, its number of lines and, as JSON, their ids."""
        parts = list(self._parts)
        _, text_B, stop_N, _ = _joined(parts)
        return {
            "text": text_B, "stop": stop_N,
            "source": np.array([part.source for part in parts], np.int64),
            "lines": np.array([len(part.stop_N) for part in parts], np.int64),
            "ids": np.frombuffer(json.dumps([list(part.ids) for part in parts]).encode(), np.uint8),
            "duplicates": np.array(sorted(self._duplicates.items()), np.int64).reshape(-1, 2),
        }  # fmt: skip

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`."""
        self._parts.clear()
        text_B, stop_N, line, start = np.array(state["text"]), np.array(state["stop"]), 0, 0
        ids_of = parse_json(state["ids"].tobytes())
        for source, lines, ids in zip(state["source"].tolist(), state["lines"].tolist(), ids_of, strict=True):
            stops = stop_N[line : line + lines]
            self._parts.append(Lines(source, text_B[start : stops[-1]], stops - start, ids))
            line, start = line + lines, int(stops[-1])
        self.num_bytes = text_B.size
        self._duplicates = Counter(dict(state["duplicates"].tolist()))


def split_lines(part: Lines, lines: int) -> tuple[Lines, Lines]:
    at = int(part.stop_N[lines - 1])
    first = Lines(part.source, part.text_B[:at], part.stop_N[:lines], part.ids[:lines])
    return first, Lines(part.source, part.text_B[at:], part.stop_N[lines:] - at, part.ids[lines:])


def _joined(parts: Sequence[Lines]) -> Lines:
    """Lines of one source, one after the other."""
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(part.text_B.size for part in parts)])
    texts = [np.zeros(0, np.uint8), *(part.text_B for part in parts)]
    stops = [np.zeros(0, np.int64), *(part.stop_N + start for part, start in zip(parts, starts[:-1], strict=True))]
    ids = [one for part in parts for one in part.ids]
    return Lines(parts[0].source if parts else -1, np.concatenate(texts), np.concatenate(stops), ids)
