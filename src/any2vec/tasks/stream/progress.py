"""What a record of a stream says, and what is counted for it.

Legend: S sources.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np

from any2vec.models.stream.token_batch import TokenBatch

RECORD_SECONDS = 1.0
LOG = "progress.jsonl"
LOG_BYTES = 4 << 20
"""when the log has grown so long it takes the place of the old one, and another begins"""
_COUNTED = ("lines", "words", "duplicates")
"""of each source, as a checkpoint keeps them"""


@dataclass(frozen=True, kw_only=True)
class StreamProgress:
    """One record: a line of `progress.jsonl`."""

    most: ClassVar[int] = 1000
    """records that are kept in memory, the newest"""

    seconds: float
    """of training and waiting so far; resumed runs add up"""
    steps: int
    """token batches trained"""
    words: int
    """words trained, those without a vector too"""
    words_per_s: float
    """since the last record"""
    loss: float | None
    """mean per positive example since the last record, before each update (prequential)"""
    learning_rate: float
    vocabulary: int
    """words that have a vector"""
    types: int
    """different words that are counted"""
    rss_bytes: int
    """anonymous resident memory"""
    busy_cores: float
    checkpoint_age: float | None
    """seconds since the last checkpoint; None: there is none"""
    delivery: str
    """exactly once, at least once or at most once: the weakest of the sources'"""
    sources: dict[str, dict[str, Any]]
    """name -> lines, words, words_per_s, duplicates (trained or left out so far); waiting (lines in the queue), bad,
    reconnects, state"""
    queue_bytes: int
    """of lines that wait"""
    staleness: dict[str, int] | None = None
    """batches by how many others changed the rows between pull and push; None: nobody else trains"""
    drift: dict[str, float] = field(default_factory=dict)
    """word -> cosine of its vector to that of the snapshot before"""
    snapshot: str | None = None
    """name of the latest"""
    pip: float | None = None
    """PIP loss of the latest vectors against the pairs counted lately over that of zeros, scaled as fits best: 0..1"""

    def replaces(self, former: StreamProgress) -> bool:
        """Whether a former record is of work that is done again, by hosts that were started again."""
        return former.words > self.words

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class StreamCounts:
    """Batches, and what they held of each source.

    Args:
        names: of the sources, by number.
        former: `as_dict` of the run before this process went on with it.
    """

    def __init__(self, names: Sequence[str], former: Mapping[str, Any]) -> None:
        self.steps = int(former.get("steps", 0))
        self._names = names
        self._count_S3 = np.zeros((len(names), len(_COUNTED)), np.int64)
        for counts, numbers in zip(self._count_S3, former.get("sources", ()), strict=False):
            counts[:] = numbers
        self._word_S = self._count_S3[:, 1].copy()
        self._looked = time.perf_counter()

    def add(self, batch: TokenBatch) -> None:
        self.steps += not (batch.is_idle or batch.is_replayed)
        for lines in batch.lines:
            self._count_S3[lines.source] += lines.lines, lines.words, lines.duplicates

    def look(self) -> dict[str, dict[str, Any]]:
        """What a record says of what was trained of each source, by name; speeds are those since the last look."""
        now = time.perf_counter()
        speed_S = (self._count_S3[:, 1] - self._word_S) / max(now - self._looked, 1e-9)
        self._word_S, self._looked = self._count_S3[:, 1].copy(), now
        return {
            name: dict(zip(_COUNTED, counts, strict=True)) | {"words_per_s": speed}
            for name, counts, speed in zip(self._names, self._count_S3.tolist(), speed_S.tolist(), strict=True)
        }

    def as_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"steps": self.steps, "sources": self._count_S3.tolist()}
