"""What a stream tells of itself about once a second: records for its log, its status line and whoever listens."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from any2vec.data.io.storage import storage_errors
from any2vec.machine import resident_bytes
from any2vec.models.stream.token_batch import TokenBatch
from any2vec.types import Stats

RECORD_SECONDS = 1.0
LOG, OLD_LOG = "progress.jsonl", "progress.1.jsonl"
LOG_BYTES = 4 << 20
"""when the log has grown so long it takes the place of the old one, and another begins"""
RECORDS = 1000
"""that are kept in memory, the newest"""


@dataclass(frozen=True, kw_only=True)
class StreamProgress:
    """One record: a line of `progress.jsonl`."""

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

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class SourceCount:
    """What was trained of one source."""

    lines: int = 0
    words: int = 0
    duplicates: int = 0


class StreamRecorder:
    """Adds up what is trained and makes a record of it about once a second.

    Args:
        names: of the sources, by number.
        look: what a record says besides: its fields by name; of the sources too.
        totals: `StreamRecorder.totals` of the run before this process went on with it.
    """

    def __init__(
        self,
        names: Sequence[str],
        look: Callable[[TokenBatch], dict[str, Any]],
        path: Path | None,
        callback: Callable[[StreamProgress], None] | None,
        totals: dict[str, Any] | None = None,
    ) -> None:
        totals = totals or {"seconds": 0.0, "words": 0, "steps": 0, "items": 0, "loss": [0.0, 0], "sources": []}
        self.words, self.steps, self.items = int(totals["words"]), int(totals["steps"]), int(totals["items"])
        self.loss_sum, self.loss_examples = float(totals["loss"][0]), int(totals["loss"][1])
        self.sources = [SourceCount() for _ in names]
        for count, former in zip(self.sources, totals["sources"], strict=False):
            count.lines, count.words, count.duplicates = former
        self.records: list[StreamProgress] = []
        self.words_here = 0
        """that this process has trained"""
        self._names = names
        self._look = look
        self._path = path
        self._callback = callback
        self._before = float(totals["seconds"])
        self._start = self._last = time.perf_counter()
        self._window = Stats(0, 0.0, 0)
        self._words_then = self.words
        self._source_words = Counter({number: count.words for number, count in enumerate(self.sources)})

    @property
    def totals(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        sources = [[count.lines, count.words, count.duplicates] for count in self.sources]
        return {
            "seconds": self.seconds, "words": self.words, "steps": self.steps, "items": self.items,
            "loss": [self.loss_sum, self.loss_examples], "sources": sources,
        }  # fmt: skip

    @property
    def loss(self) -> float | None:
        """Mean per positive example over the whole run."""
        return self.loss_sum / self.loss_examples if self.loss_examples else None

    @property
    def seconds(self) -> float:
        """Of the whole run."""
        return self._before + self.seconds_here

    @property
    def seconds_here(self) -> float:
        """Of this process."""
        return time.perf_counter() - self._start

    def add(self, work: TokenBatch, stats: Stats) -> None:
        """Count a batch; make a record when it is time."""
        if work.is_replayed:  # its loss is not that of a first meeting
            stats = Stats(stats.items, 0.0, 0, stats.cpu_seconds)
        self._window = self._window + stats
        self.items += stats.items
        self.loss_sum += stats.loss_sum
        self.loss_examples += stats.loss_examples
        self.words += work.words
        self.words_here += work.words
        self.steps += not (work.is_idle or work.is_replayed)
        for lines in work.lines:
            count = self.sources[lines.source]
            count.lines += lines.lines
            count.words += lines.words
            count.duplicates += lines.duplicates
        if time.perf_counter() - self._last >= RECORD_SECONDS:
            self.record(work)

    def record(self, work: TokenBatch) -> None:
        """Make a record of what came since the last one."""
        now = time.perf_counter()
        span, window = max(now - self._last, 1e-9), self._window
        looked = self._look(work)
        sources = {}
        for number, (name, count) in enumerate(zip(self._names, self.sources, strict=True)):
            speed = (count.words - self._source_words[number]) / span
            own = {"lines": count.lines, "words": count.words, "words_per_s": speed, "duplicates": count.duplicates}
            sources[name] = own | looked["sources"].get(name, {})
            self._source_words[number] = count.words
        record = StreamProgress(
            seconds=round(self.seconds, 4), steps=self.steps, words=self.words,
            words_per_s=(self.words - self._words_then) / span,
            loss=window.loss_sum / window.loss_examples if window.loss_examples else None,
            rss_bytes=resident_bytes()[0], busy_cores=window.cpu_seconds / span, **looked | {"sources": sources},
        )  # fmt: skip
        self._last, self._window, self._words_then = now, Stats(0, 0.0, 0), self.words
        self.records = [*self.records[-RECORDS + 1 :], record]
        self._write(record)
        if self._callback is not None:
            self._callback(record)

    def _write(self, record: StreamProgress) -> None:
        if self._path is None:
            return
        with storage_errors(self._path):
            if self._path.exists() and self._path.stat().st_size >= LOG_BYTES:
                self._path.replace(self._path.with_name(OLD_LOG))
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record.as_dict()) + "\n")
