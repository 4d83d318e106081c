"""What the host of a stream does that reads it: it trains, or deals batches to those that do (trainer.py)."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.cluster.transport import Transport
from any2vec.data.stream.vocabulary import StreamVocabulary
from any2vec.embeddings import Embeddings
from any2vec.errors import DataError
from any2vec.machine import peak_resident_bytes, resident_bytes
from any2vec.models.stream.learner import StreamLearner
from any2vec.models.words.too_little import lone_words, too_little
from any2vec.sampling.replay import ReplayBuffer
from any2vec.sources.base.inflow import Inflow, check_names
from any2vec.sources.base.options import MOST_LINE
from any2vec.sources.base.records import SeenLines
from any2vec.sources.base.source import Source
from any2vec.sources.opening import open_source
from any2vec.sources.subprocess_source import open_subprocesses
from any2vec.tasks.stream import progress
from any2vec.tasks.stream.batches import Limits, TokenBatches
from any2vec.tasks.stream.folder import IDS, TrainedIds, forget_stream, stream_folder, write_stream
from any2vec.tasks.stream.hosts.work_queue import QueueLearner, sent_by_all
from any2vec.tasks.stream.models import budget, make_learner
from any2vec.tasks.stream.monitor import BATCHES, StreamMonitor
from any2vec.tasks.stream.options import StreamOptions
from any2vec.tasks.stream.progress import LOG, StreamCounts, StreamProgress
from any2vec.tasks.stream.recent_pairs import RecentPairs
from any2vec.tasks.stream.replay import Replay
from any2vec.tasks.stream.settings import memory_bytes
from any2vec.train.checkpoint import Checkpoint
from any2vec.train.frame import Program
from any2vec.train.loop import Driver, LocalDriver, LoopParts
from any2vec.train.progress import Recorder, mean_loss
from any2vec.train.result import Result, StoredResult
from any2vec.train.spec import Request
from any2vec.types import Stats, Work

REPLAY_WORDS = 1_000_000
_DELIVERIES = ("exactly once", "at least once", "at most once")
"""the weaker the later"""


class StreamProgram(Program):
    """Rank 0. It ends where the sources end, at a limit, or where it is asked to stop: then all is kept."""

    learner: StreamLearner
    ids: TrainedIds | None = None
    embeddings: Embeddings | None = None
    """at the end; None: the run was stopped before a word had a vector"""

    def __init__(self, request: Request, transport: Transport) -> None:
        super().__init__(request, transport)
        self.sources = _opened(request)
        check_names(self.sources)
        if transport.hosts > 1:
            from any2vec.sources.crawl.source import Crawler

            for source in self.sources:
                if isinstance(source, Crawler):
                    source.spread(transport, range(1, transport.hosts))
        self.names = [source.name for source in self.sources]
        request.settings["sources"] = dict(enumerate(self.names))
        self.room = budget(request.spec.model, memory_bytes(request.spec))
        self.learner = make_learner(request, self.room)
        self.driver: Driver = LocalDriver()
        self.assigned: QueueLearner | None = None
        """trains in its place, where other hosts do"""
        started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._about: dict[str, Any] = {"settings": request.settings, "sources": self.names, "started": started}

    def compile(self) -> None:
        self.learner.compile()
        vocabulary = StreamVocabulary(max_types=8, max_rows=8, min_count=1)
        vocabulary.encode(np.frombuffer(b"a b\n", np.uint8), np.array([4], np.int64))
        vocabulary.noise()
        vocabulary.keys(vocabulary.rows())
        SeenLines(4).fresh(np.zeros(1, np.uint64))
        if self.request.agreement is not None:
            self.assigned = QueueLearner.of(self.learner, self.request.agreement, self.transport)
            self.learner = self.driver = self.assigned

    @contextmanager
    def folder(self, out: Path | None) -> Iterator[Path | None]:
        run = self.request.spec.run
        folder = stream_folder(
            out, self._about, lambda: self.find_checkpoint(_needs), resume=run.resume, overwrite=run.overwrite
        )
        with closing(self.learner), folder as self.checkpoint:
            yield None if out is None else out / LOG

    @contextmanager
    def opened(self) -> Iterator[tuple[int, float]]:
        options = self.request.spec.run
        totals = {} if self.checkpoint is None else self.checkpoint.totals
        self.counts = StreamCounts(self.names, totals)
        self.batches = self._batches()
        with ExitStack() as stack:
            stack.enter_context(self.batches.inflow)
            if options.log_ids and options.out is not None:
                self.ids = TrainedIds(options.out / IDS, totals.get("ids_bytes", 0))
                stack.enter_context(closing(self.ids))
            yield int(totals.get("words", 0)), float(totals.get("seconds", 0.0))

    def recorder(
        self, log: Path | None, callback: Callable[[Any], None] | None, items: int, seconds: float
    ) -> Recorder:
        found = Recorder(
            self.record, log, callback, items, seconds, every=progress.RECORD_SECONDS, counted="words",
            log_bytes=progress.LOG_BYTES, most=StreamProgress.most,
        )  # fmt: skip
        if self.checkpoint is not None:
            found.epoch = Stats(0, *self.checkpoint.totals["loss"])
        return found

    def record(self, work: Work[Any], measured: dict[str, Any]) -> StreamProgress:
        inflow, vocabulary, monitor = self.batches.inflow, self.batches.vocabulary, self.monitor
        names, found = ("waiting", "bad", "reconnects", "state"), inflow.metrics()
        sources = {
            name: counted | {key: found[name][key] for key in names} for name, counted in self.counts.look().items()
        }
        return StreamProgress(
            words=measured["items"], words_per_s=measured["items_per_s"], steps=self.counts.steps,
            learning_rate=self.learner.learning_rate(measured["items"]), vocabulary=vocabulary.num_rows,
            types=vocabulary.num_types, delivery=self.delivery, sources=sources,
            checkpoint_age=monitor.checkpoints.age if monitor.checkpoints.count else None,
            queue_bytes=inflow.waiting_bytes + self.batches.lines.num_bytes, drift=monitor.drift,
            snapshot=monitor.snapshot, pip=monitor.pip,
            staleness=None if self.assigned is None else self.assigned.metrics()["staleness"],
            **{name: measured[name] for name in ("seconds", "loss", "busy_cores", "rss_bytes")},
        )  # fmt: skip

    @contextmanager
    def working(self, recorder: Recorder) -> Iterator[LoopParts]:
        monitor = self.monitor = StreamMonitor(self, recorder)
        yield LoopParts(self.batches, self.learner, self.driver, monitor.on_work)
        idle = self.batches.idle()
        if self.assigned is not None:
            self.assigned.settle()
            monitor.on_work(idle, self.assigned.run(idle))  # what trainers have reported of the last batches
        self.metrics["words_per_s"] = recorder.items_here / max(recorder.seconds_here, 1e-9)
        self.batches.drain()
        monitor.save()
        self.embeddings = monitor.publish()
        recorder.record(idle)
        if self.embeddings is None and not self.stop_signal:
            if not recorder.items and not self.batches.lines.num_bytes:  # another source may take the folder
                forget_stream(self.request.spec.run.out)
            raise DataError(self._nothing(recorder.items))
        if self.assigned is not None:
            self.metrics |= self._end_hosts(self.assigned)

    def stored(self) -> Result:
        return Result(self.embeddings)  # type: ignore[arg-type]

    def summary(self, stored: StoredResult, recorder: Recorder, compile_seconds: float) -> dict[str, Any]:
        request, monitor, batches, last = self.request, self.monitor, self.batches, recorder.records[-1]
        found = batches.inflow.metrics()
        ended = "seconds" if monitor.is_late else "words or steps" if batches.has_enough else "sources"
        if self.stop_signal:
            ended = signal.Signals(self.stop_signal).name
        return {
            "model": request.spec.model.name, "dim": request.spec.model.dim, "words": recorder.items,
            "steps": self.counts.steps, "loss": mean_loss(recorder.epoch), "vocabulary": last.vocabulary,
            "types": last.types, "delivery": last.delivery,
            "sources": {name: counted | {"bad_by": found[name]["bad_by"]} for name, counted in last.sources.items()},
            "bad_bytes": batches.vocabulary.bad_bytes, "staleness": last.staleness,
            "snapshots": monitor.snapshots.count, "snapshot": monitor.snapshot,
            "pip": monitor.pip,
            "checkpoints": monitor.checkpoints.count, "ended_by": ended, "threads": request.threads,
            "seed": request.spec.run.seed, "train_seconds": recorder.seconds, "compile_seconds": compile_seconds,
            "seconds": time.perf_counter() - request.started, "peak_rss_bytes": peak_resident_bytes(),
            "peak_anon_bytes": max(recorder.peak_anonymous, resident_bytes()[0]),
            "warnings": [
                *(f"{name}: {one['trouble']}" for name, one in found.items() if one["trouble"]),
                *([self._nothing(recorder.items)] if self.embeddings is None else self._doubts(recorder)),
            ],
        } | self.metrics  # fmt: skip

    def _doubts(self, recorder: Recorder) -> list[str]:
        """Where no line has had a pair, or subsampling has left too little to trust the vectors; a network learns from
        the pairs of all words.
        """
        model, vocabulary, words = self.request.spec.model, self.batches.vocabulary, recorder.items
        num_lines = sum(one["lines"] for one in self.counts.look().values())
        if 0 < words <= num_lines and mean_loss(recorder.epoch) is None:
            return [lone_words(words)]
        count_V = vocabulary.counts_V[vocabulary.rows()]
        if model.is_dense or self.request.spec.run.replay or not num_lines or not count_V.any():
            return []
        count_V = count_V * (words / count_V.sum())  # what is long ago counts less, but was trained
        rate = self.learner.learning_rate(words / 2)
        doubt = too_little(count_V, num_lines, subsample=model.subsample, window=model.window, rate=rate)
        return [doubt] if doubt else []

    def write(self, out: Path, stored: StoredResult, summary: dict[str, Any]) -> None:
        """The vectors have been published, if there are any."""
        write_stream(out, self._about | {"summary": summary})

    @property
    def delivery(self) -> str:
        """The weakest of the sources'."""
        return max((source.delivery for source in self.sources), key=_DELIVERIES.index)

    def _batches(self) -> TokenBatches:
        spec, checkpoint = self.request.spec, self.checkpoint
        options, reading = spec.run, spec.reading["sources"]
        # A row that changes its word does so between two batches. No batch has more words than this: a word has a byte
        # and a blank, and the last line of a batch and its line feed may come to a byte less than the batch.
        rest = (options.batch_bytes + MOST_LINE + 1) // 2
        vocabulary = StreamVocabulary(
            max_types=self.room.max_types, max_rows=self.room.max_rows, min_count=options.min_count,
            half_life=options.half_life, rest=rest, text=spec.reading["text"],
        )  # fmt: skip
        positions = None if checkpoint is None else checkpoint.place["positions"]
        batches = TokenBatches(
            Inflow(self.sources, positions, in_step=self.assigned is not None and self.assigned.in_rounds),
            None if reading.dedup == "none" else SeenLines(options.window_lines),
            vocabulary, subsample=spec.model.subsample, batch_bytes=options.batch_bytes,
            linger=options.linger, limits=Limits(words=options.words, steps=options.steps),
            keeps_ids=options.log_ids, prepare=self.learner.prepare, replay=_replay(options),
            pairs=self._pairs(),
        )  # fmt: skip
        if checkpoint is not None:
            state = {name: array for name, array in checkpoint.state.items() if not name.startswith(BATCHES)}
            self.learner.load_state_dict(state)
            batches.load_state_dict(
                {name.removeprefix(BATCHES): array for name, array in checkpoint.state.items() if name not in state}
            )
        return batches

    def _pairs(self) -> RecentPairs | None:
        spec = self.request.spec
        if not spec.run.pair_bytes:
            return None
        return RecentPairs(
            spec.model, max_rows=self.room.max_rows, budget_bytes=spec.run.pair_bytes, half_life=spec.run.half_life,
            seed=spec.run.seed,
        )  # fmt: skip

    def _end_hosts(self, assigned: QueueLearner) -> dict[str, Any]:
        """Trainers and servers end in good order; what the summary says of them."""
        agreement, found = self.request.agreement, assigned.metrics()
        assigned.end()
        if assigned.tables is not None:
            assigned.tables.close()
        return {
            "hosts": len(assigned.work_queue.peers), "servers": agreement.servers, "sync": agreement.sync,
            "batches_of_hosts": found["batches"], "dropped_rows": found["dropped"], **sent_by_all(self.transport),
        }  # fmt: skip

    def _nothing(self, words: int) -> str:
        """Why there is no vector."""
        if not words and (waiting := self.batches.lines.num_bytes):
            kept = "" if self.request.spec.run.out is None else "; they wait for --resume"
            return (
                f"{waiting:,} bytes of lines came, fewer than a batch, and nothing was trained{kept}. Give more "
                "--seconds: --linger says how long a batch waits to be full."
            )
        if not words:
            sources = self.batches.inflow.metrics().values()
            counts = sum((Counter(found["bad_by"]) for found in sources), Counter[str]())
            bad = ", ".join(f"{what}: {count:,}" for what, count in counts.items())
            none = f"the sources held none but what was left out ({bad})." if bad else "the sources held none."
            return f"No words came: {next((found['trouble'] for found in sources if found['trouble']), none)}"
        return (
            f"No word came {self.request.spec.run.min_count} times among {words:,}, so none has a "
            "vector; give more text or a lower --min-count."
        )


def _needs(found: Checkpoint) -> None:
    """What a stream needs of a checkpoint, for `load_checkpoint`."""
    found.place["positions"]
    int(found.totals["words"])
    int(found.totals["ids_bytes"])


def _opened(request: Request) -> list[Source]:
    """The sources, by number; what is a source already stays what it is."""
    spec = request.spec
    seed, reading, text = spec.run.seed, spec.reading["sources"], spec.reading["text"]
    if spec.run.readers == "processes":
        return open_subprocesses(spec.data, reading, seed, text)
    return [
        one if hasattr(one, "batches") else open_source(one, number, reading, seed, text)
        for number, one in enumerate(spec.data)
    ]


def _replay(options: StreamOptions) -> Replay | None:
    if not options.replay:
        return None
    buffer = ReplayBuffer(
        max_tokens=options.replay_words or REPLAY_WORDS, alpha=options.replay_alpha, beta=options.replay_beta,
        seed=options.seed,
    )  # fmt: skip
    return Replay(buffer, options.replay)
