"""What a record of a stream says, and what is counted for it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from any2vec.models.stream.token_batch import TokenBatch

RECORD_SECONDS = 1.0
LOG = "progress.jsonl"
LOG_BYTES = 4 << 20
"""when the log has grown so long it takes the place of the old one, and another begins"""


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

    def replaces(self, former: StreamProgress) -> bool:
        """Whether a former record is of work that is done again, by hosts that were started again."""
        return former.words > self.words

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class SourceCount:
    """What was trained of one source."""

    lines: int = 0
    words: int = 0
    duplicates: int = 0


class StreamCounts:
    """Batches, and what they held of each source.

    Args:
        names: of the sources, by number.
        former: `as_dict` of the run before this process went on with it.
    """

    def __init__(self, names: Sequence[str], former: Mapping[str, Any]) -> None:
        self.steps = int(former.get("steps", 0))
        self.sources = {name: SourceCount() for name in names}
        for count, numbers in zip(self.sources.values(), former.get("sources", ()), strict=False):
            count.lines, count.words, count.duplicates = numbers
        self._counts = list(self.sources.values())
        self._words = [count.words for count in self._counts]
        self._looked = time.perf_counter()

    def add(self, batch: TokenBatch) -> None:
        self.steps += not (batch.is_idle or batch.is_replayed)
        for lines in batch.lines:
            count = self._counts[lines.source]
            count.lines += lines.lines
            count.words += lines.words
            count.duplicates += lines.duplicates

    def look(self) -> dict[str, dict[str, Any]]:
        """What a record says of what was trained of each source, by name; speeds are those since the last look."""
        now = time.perf_counter()
        span, self._looked = max(now - self._looked, 1e-9), now
        speeds = [(count.words - before) / span for count, before in zip(self._counts, self._words, strict=True)]
        self._words = [count.words for count in self._counts]
        return {
            name: asdict(count) | {"words_per_s": speed}
            for (name, count), speed in zip(self.sources.items(), speeds, strict=True)
        }

    def as_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"steps": self.steps, "sources": [[one.lines, one.words, one.duplicates] for one in self._counts]}
