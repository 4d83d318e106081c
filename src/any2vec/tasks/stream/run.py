"""One run over a stream in this process: from what is opened to the result."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from typing import Any, Protocol

import numpy as np

from any2vec.data.stream.vocabulary import StreamVocabulary
from any2vec.embeddings import Embeddings
from any2vec.errors import DataError
from any2vec.machine import peak_resident_bytes
from any2vec.models.stream.learner import StreamLearner
from any2vec.models.stream.token_batch import TokenBatch
from any2vec.sampling.replay import ReplayBuffer
from any2vec.signals import note_stop, stops_go_to
from any2vec.sources.apart import open_apart
from any2vec.sources.base.inflow import Inflow
from any2vec.sources.base.options import MOST_LINE
from any2vec.sources.base.records import SeenLines
from any2vec.sources.base.source import Source
from any2vec.sources.opening import open_source
from any2vec.tasks.stream.batches import Limits, Replay, TokenBatches
from any2vec.tasks.stream.folder import IDS, TrainedIds, forget_stream, snapshot_of, stream_folder, write_about
from any2vec.tasks.stream.hosts.dealer import DealtLearner
from any2vec.tasks.stream.keeper import BATCHES, StreamKeeper
from any2vec.tasks.stream.models import Budget, budget, make_learner
from any2vec.tasks.stream.options import StreamOptions
from any2vec.tasks.stream.progress import LOG, StreamProgress, StreamRecorder
from any2vec.tasks.stream.settings import memory_bytes, stream_settings
from any2vec.train.checkpoint import FILE, Checkpoint, load_checkpoint
from any2vec.train.loop import Driver, run
from any2vec.train.progress import cut_log
from any2vec.train.spec import Request
from any2vec.types import Stats

REPLAY_WORDS = 1_000_000
_DELIVERIES = ("exactly once", "at least once", "at most once")
"""the weaker the later"""


class Lead(Protocol):
    """What rank 0 of several hosts adds to a run."""

    @property
    def in_rounds(self) -> bool: ...

    def lead(self, own: StreamLearner) -> DealtLearner: ...

    def staleness(self) -> dict[str, int]: ...

    def finish(self) -> dict[str, Any]: ...


class AloneOnStream:
    """The driver of this process: nobody to agree with. What others train is the learner's affair."""

    def __init__(self, dealt: DealtLearner | None = None) -> None:
        self.dealt = dealt

    def before(self, work: TokenBatch) -> None:
        pass

    def after(self, work: TokenBatch, stats: Stats) -> None:
        pass

    def is_settled(self, work: TokenBatch) -> bool:
        return self.dealt is None or self.dealt.is_settled(work)


class StreamRun:
    """Opens what a request names, trains, and leaves the result.

    leader: of several hosts; None: this process trains.
    """

    def __init__(self, request: Request, leader: Lead | None = None) -> None:
        self.request = request
        self.leader = leader
        self.sources = _opened(request)
        self.names = [source.name for source in self.sources]
        self.settings = stream_settings(request.spec, self.names)
        self.driver: Driver[TokenBatch, Stats] = AloneOnStream()

    @property
    def delivery(self) -> str:
        """The weakest of the sources'."""
        return max((source.delivery for source in self.sources), key=_DELIVERIES.index)

    def train(self) -> tuple[Embeddings, dict[str, Any], list[StreamProgress]]:
        """(vectors, summary, records)."""
        request, out = self.request, self.request.spec.run.out
        room = budget(request.spec.model, memory_bytes(request.spec))
        started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        about: dict[str, Any] = {"settings": self.settings, "sources": self.names, "started": started}
        with ExitStack() as closing:
            own = make_learner(
                request.spec.model, max_rows=room.max_rows, threads=request.threads, seed=request.spec.run.seed
            )
            closing.callback(own.close)
            compiling = time.perf_counter()
            _compile(own)
            learner = own if self.leader is None else self._lead(own)
            compiled = time.perf_counter() - compiling
            # From here on the folder changes: whatever could be wrong with the request would have been said by now.
            checkpoint = closing.enter_context(stream_folder(out, about, self._checkpoint))
            batches = self._batches(room, learner, checkpoint)
            closing.callback(batches.inflow.close)
            keeper = self._keeper(batches, learner, checkpoint, closing)
            with stops_go_to(lambda number, _: note_stop(keeper, number)):
                run(batches, learner, self.driver, keeper.heard)
                if isinstance(learner, DealtLearner):
                    learner.settle()  # and hear what trainers have to tell of the last batches
                    keeper.heard(batches.idle(), learner.run(batches.idle()))
                trained = keeper.recorder.seconds_here
                keeper.save()
                embeddings = keeper.publish()
                keeper.recorder.record(batches.idle())
            if embeddings is None:
                if not keeper.recorder.words:  # another source may take the folder
                    forget_stream(out)
                raise DataError(self._nothing(keeper))
            summary = self._summary(keeper, batches, compiled, trained)
            if self.leader is not None:
                summary |= self.leader.finish()
            if out is not None:
                write_about(out, about | {"summary": summary})
        return embeddings, summary, keeper.recorder.records

    def _lead(self, own: StreamLearner) -> DealtLearner:
        """The learner of several hosts, which deals."""
        assert self.leader is not None
        dealt = self.leader.lead(own)
        self.driver = AloneOnStream(dealt)
        return dealt

    def _checkpoint(self) -> Checkpoint | None:
        """What the run goes on from, if it does."""
        file = None if self.request.spec.run.out is None else self.request.spec.run.out / FILE
        if not self.request.spec.run.resume or file is None or not file.exists():
            return None
        return load_checkpoint(file, self.settings, _needs)

    def _batches(self, room: Budget, learner: StreamLearner, checkpoint: Checkpoint | None) -> TokenBatches:
        options, reading = self.request.spec.run, self.request.spec.reading["sources"]
        # A row that changes its word does so between two batches; no batch has more words than this.
        rest = (options.batch_bytes + MOST_LINE) // 2
        vocabulary = StreamVocabulary(
            max_types=room.max_types, max_rows=room.max_rows, min_count=options.min_count,
            half_life=options.half_life, rest=rest, text=self.request.spec.reading["text"],
        )  # fmt: skip
        batches = TokenBatches(
            Inflow(
                self.sources, None if checkpoint is None else checkpoint.place["positions"],
                in_step=self.leader is not None and self.leader.in_rounds,
            ),
            None if reading.dedup == "none" else SeenLines(options.window_lines),
            vocabulary, subsample=self.request.spec.model.subsample, batch_bytes=options.batch_bytes,
            linger=options.linger, limits=Limits(words=options.words, steps=options.steps),
            keeps_ids=options.log_ids, prepare=learner.prepare, replay=_replay(options),
        )  # fmt: skip
        if checkpoint is not None:
            state = {name: array for name, array in checkpoint.state.items() if not name.startswith(BATCHES)}
            learner.load_state_dict(state)
            batches.load_state_dict(
                {name.removeprefix(BATCHES): array for name, array in checkpoint.state.items() if name not in state}
            )
        return batches

    def _keeper(
        self, batches: TokenBatches, learner: StreamLearner, checkpoint: Checkpoint | None, closing: ExitStack
    ) -> StreamKeeper:
        options, out = self.request.spec.run, self.request.spec.run.out
        totals = None if checkpoint is None else checkpoint.totals
        log, ids = None if out is None else out / LOG, None
        if log is not None and totals is not None:
            cut_log(log, totals["words"], "words")
        if options.log_ids and out is not None:
            ids = TrainedIds(out / IDS, 0 if totals is None else totals["ids_bytes"])
            closing.callback(ids.close)

        def look(work: TokenBatch) -> dict[str, Any]:
            vocabulary = batches.vocabulary
            return {
                "learning_rate": learner.learning_rate(keeper.recorder.words), "vocabulary": vocabulary.num_rows,
                "types": vocabulary.num_types, "delivery": self.delivery, "sources": _looked(batches.inflow),
                "checkpoint_age": keeper.checkpoints.age if keeper.checkpoints.count else None,
                "queue_bytes": batches.inflow.waiting_bytes + batches.lines.num_bytes, "drift": keeper.drift,
                "snapshot": keeper.snapshot,
                "staleness": None if self.leader is None else self.leader.staleness(),
            }  # fmt: skip

        recorder = StreamRecorder(self.names, look, log, self.request.hooks.progress, totals)
        keeper = StreamKeeper(
            out, self.settings, batches, learner, self.driver, recorder, ids,
            checkpoint_seconds=options.checkpoint_seconds, snapshot_seconds=options.snapshot_seconds,
            seconds=options.seconds, watched=options.watched, snapshot=snapshot_of(out),
        )  # fmt: skip
        return keeper

    def _nothing(self, keeper: StreamKeeper) -> str:
        """Why there is no vector."""
        troubles = [facts["trouble"] for facts in keeper.batches.inflow.facts().values() if facts["trouble"]]
        if not keeper.recorder.words:
            return f"No words came: {troubles[0] if troubles else 'the sources held none.'}"
        return (
            f"No word came {self.request.spec.run.min_count} times among {keeper.recorder.words:,}, so none has a "
            "vector; give more text or a lower --min-count."
        )

    def _summary(self, keeper: StreamKeeper, batches: TokenBatches, compiled: float, trained: float) -> dict[str, Any]:
        recorder, request = keeper.recorder, self.request
        last = recorder.records[-1]
        found = batches.inflow.facts()
        warnings = [f"{name}: {facts['trouble']}" for name, facts in found.items() if facts["trouble"]]
        sources = {name: told | {"bad_by": found[name]["bad_by"]} for name, told in last.sources.items()}
        ended = "seconds" if keeper.is_late else "words or steps" if batches.has_enough else "sources"
        if keeper.stop_signal:
            ended = signal.Signals(keeper.stop_signal).name
        return {
            "model": request.spec.model.name, "dim": request.spec.model.dim, "words": recorder.words, "steps":
            recorder.steps, "words_per_s": recorder.words_here / max(trained, 1e-9), "loss": recorder.loss,
            "vocabulary": last.vocabulary, "types": last.types, "delivery": last.delivery, "sources": sources,
            "bad_bytes": batches.vocabulary.bad_bytes, "staleness": last.staleness, "snapshots": keeper.snapshots.count,
            "snapshot": keeper.snapshot, "checkpoints": keeper.checkpoints.count, "ended_by": ended, "threads":
            request.threads, "seed": request.spec.run.seed, "train_seconds": recorder.seconds, "compile_seconds":
            compiled, "seconds": time.perf_counter() - request.started, "peak_rss_bytes": peak_resident_bytes(),
            "warnings": warnings,
        }  # fmt: skip


def _needs(found: Checkpoint) -> None:
    """What a stream needs of a checkpoint, for `load_checkpoint`."""
    found.place["positions"]
    int(found.totals["words"])
    int(found.totals["ids_bytes"])


def _opened(request: Request) -> list[Source]:
    """The sources, by number; what is a source already stays what it is."""
    seed = request.spec.run.seed
    if request.spec.run.readers == "processes":
        return open_apart(request.spec.data, request.spec.reading["sources"], seed)
    return [
        one if hasattr(one, "batches") else open_source(one, number, request.spec.reading["sources"], seed)
        for number, one in enumerate(request.spec.data)
    ]


def _replay(options: StreamOptions) -> Replay | None:
    if not options.replay:
        return None
    buffer = ReplayBuffer(max_tokens=options.replay_words or REPLAY_WORDS, seed=options.seed)
    return Replay(buffer, options.replay)


def _compile(learner: StreamLearner) -> None:
    """Compile all kernels, or load them from the cache, before lines wait."""
    learner.compile()
    vocabulary = StreamVocabulary(max_types=8, max_rows=8, min_count=1)
    text_B = np.frombuffer(b"a b\n", np.uint8)
    vocabulary.encode(text_B, np.array([4], np.int64))
    vocabulary.noise()
    vocabulary.keys(vocabulary.rows())
    SeenLines(4).fresh(np.zeros(1, np.uint64))


def _looked(inflow: Inflow) -> dict[str, dict[str, Any]]:
    """What a record says of each source besides what was trained of it."""
    names = ("waiting", "bad", "reconnects", "state")
    return {name: {key: facts[key] for key in names} for name, facts in inflow.facts().items()}
