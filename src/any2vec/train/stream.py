"""Train on text that never ends: `stream` is to a stream what `fit` is to data that lie there."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from any2vec.data.stream_vocabulary import StreamVocabulary
from any2vec.embeddings import Embeddings
from any2vec.errors import DataError, InputError
from any2vec.machine import peak_resident_bytes, usable_cores
from any2vec.models.stream_config import StreamModel
from any2vec.models.stream_learner import StreamLearner
from any2vec.models.token_batch import TokenBatch
from any2vec.signals import stops_go_to
from any2vec.train.checkpoint import FILE
from any2vec.train.loop import Driver, run
from any2vec.train.stream_batches import Limits, TokenBatches, positions_of
from any2vec.train.stream_checkpoint import StreamCheckpoint, load_stream
from any2vec.train.stream_folder import (
    IDS, TrainedIds, check_stream_folder, snapshot_of, stream_folder, write_about,
)  # fmt: skip
from any2vec.train.stream_keeper import StreamKeeper
from any2vec.train.stream_models import Budget, budget, config_of, make_learner
from any2vec.train.stream_options import StreamOptions
from any2vec.train.stream_progress import LOG, StreamProgress, StreamRecorder
from any2vec.train.progress import cut_log
from any2vec.train.stream_stub import FileInflow
from any2vec.types import Stats


@dataclass(frozen=True)
class StreamResult:
    """What `stream` returns."""

    embeddings: Embeddings
    """the words that have a vector at the end, by falling count"""
    summary: dict[str, Any]
    records: list[StreamProgress] = field(default_factory=list)
    """the newest thousand"""


class AloneOnStream:
    """The driver of a single trainer: nobody to agree with."""

    def before(self, work: TokenBatch) -> None:
        pass

    def after(self, work: TokenBatch, stats: Stats) -> None:
        pass

    def is_settled(self, work: TokenBatch) -> bool:
        return True


def stream(
    model: StreamModel | str,
    sources: Any,
    *,
    out: str | Path | None = None,
    callback: Callable[[StreamProgress], None] | None = None,
    **options: Any,
) -> StreamResult:
    """Train `model` on what `sources` give, until they end, a limit is reached, or the process is told to stop."""
    started = time.perf_counter()
    config = config_of(model)() if isinstance(model, str) else model
    ways = StreamOptions(**options)
    folder = None if out is None else Path(out)
    if folder is not None:
        check_stream_folder(folder, ways.resume, ways.overwrite)
    return StreamRun(config, [str(sources)], ways, folder, callback, started).train()


class StreamRun:
    """One run over a stream in this process."""

    def __init__(
        self,
        model: StreamModel,
        addresses: list[str],
        options: StreamOptions,
        out: Path | None,
        callback: Callable[[StreamProgress], None] | None,
        started: float,
    ) -> None:
        self.model, self.addresses, self.options, self.out = model, addresses, options, out
        self.callback, self.started = callback, started
        self.settings = {"model": model.as_dict(), "sources": addresses, "run": options.settings()}
        self.threads = options.threads or usable_cores()
        self.driver: Driver[TokenBatch, Stats] = AloneOnStream()

    def train(self) -> StreamResult:
        """Train, and leave the result in the folder."""
        checkpoint = self._checkpoint()
        about: dict[str, Any] = {"settings": self.settings, "sources": self.addresses}
        with stream_folder(self.out, checkpoint is not None, about), ExitStack() as closing:
            room = budget(self.model, self.options.memory_bytes)
            learner = make_learner(self.model, max_rows=room.max_rows, threads=self.threads, seed=self.options.seed)
            closing.callback(learner.close)
            compiling = time.perf_counter()
            learner.compile()
            compiled = time.perf_counter() - compiling
            batches = self._batches(room, learner, checkpoint)
            closing.callback(batches.inflow.close)
            keeper = self._keeper(batches, learner, checkpoint, closing)
            with _stop_signals(keeper):
                run(batches, learner, self.driver, keeper.heard)
                keeper.save()
                embeddings = keeper.publish()
            if embeddings is None:
                raise DataError(f"No word has come {self.options.min_count} times, so there is no vector.")
            keeper.recorder.record(batches.idle())
            summary = self._summary(keeper, batches, compiled)
            if self.out is not None:
                write_about(self.out, about | {"summary": summary})
        return StreamResult(embeddings, summary, keeper.recorder.records)

    def _checkpoint(self) -> StreamCheckpoint | None:
        file = None if self.out is None else self.out / FILE
        if not self.options.resume or file is None or not file.exists():
            return None
        return load_stream(file, self.settings)

    def _batches(self, room: Budget, learner: StreamLearner, checkpoint: StreamCheckpoint | None) -> TokenBatches:
        options = self.options
        positions = {} if checkpoint is None else positions_of(checkpoint.place)
        vocabulary = StreamVocabulary(
            max_types=room.max_types, max_rows=room.max_rows, min_count=options.min_count, half_life=options.half_life
        )
        batches = TokenBatches(
            FileInflow(self.addresses[0], positions.get(0)), None, vocabulary, subsample=self.model.subsample,
            batch_bytes=options.batch_bytes, linger=options.linger,
            limits=Limits(words=options.words, steps=options.steps), keeps_ids=options.log_ids,
            prepare=learner.prepare,
        )  # fmt: skip
        if checkpoint is not None:
            learner.recall(checkpoint.state)
            state = {
                name.removeprefix("batches."): array
                for name, array in checkpoint.state.items()
                if name.startswith("batches.")
            }
            batches.recall(state, checkpoint.place)
        return batches

    def _keeper(
        self, batches: TokenBatches, learner: StreamLearner, checkpoint: StreamCheckpoint | None, closing: ExitStack
    ) -> StreamKeeper:
        options, totals = self.options, None if checkpoint is None else checkpoint.totals
        log = None if self.out is None else self.out / LOG
        if log is not None and totals is not None:
            cut_log(log, totals["words"], "words")
        ids = None
        if options.log_ids and self.out is not None:
            ids = TrainedIds(self.out / IDS, 0 if totals is None else totals["ids_bytes"])
            closing.callback(ids.close)

        def look(work: TokenBatch) -> dict[str, Any]:
            vocabulary = batches.vocabulary
            return {
                "learning_rate": learner.learning_rate(keeper.recorder.words), "vocabulary": vocabulary.num_rows,
                "types": vocabulary.num_types, "delivery": "exactly once", "sources": {},
                "checkpoint_age": keeper.checkpoints.age if keeper.checkpoints.count else None, "queue_bytes": 0,
                "drift": keeper.drift, "snapshot": keeper.snapshot,
            }  # fmt: skip

        recorder = StreamRecorder(self.addresses, look, log, self.callback, totals)
        keeper = StreamKeeper(
            self.out, self.settings, batches, learner, self.driver, recorder, ids,
            checkpoint_seconds=options.checkpoint_seconds, snapshot_seconds=options.snapshot_seconds,
            seconds=options.seconds, watched=options.watched, snapshot=snapshot_of(self.out),
        )  # fmt: skip
        return keeper

    def _summary(self, keeper: StreamKeeper, batches: TokenBatches, compiled: float) -> dict[str, Any]:
        recorder = keeper.recorder
        last = recorder.records[-1]
        ended = "seconds" if keeper.is_late else "words or steps" if batches.has_enough else "sources"
        if keeper.stop_signal:
            ended = signal.Signals(keeper.stop_signal).name
        return {
            "model": self.model.name, "dim": self.model.dim, "words": recorder.words, "steps": recorder.steps,
            "words_per_s": recorder.words_here / max(recorder.seconds_here, 1e-9), "loss": recorder.loss,
            "vocabulary": last.vocabulary, "types": last.types, "delivery": last.delivery, "sources": last.sources,
            "staleness": last.staleness, "snapshots": keeper.snapshots.count, "snapshot": keeper.snapshot,
            "checkpoints": keeper.checkpoints.count, "ended_by": ended, "threads": self.threads,
            "seed": self.options.seed, "train_seconds": recorder.seconds, "compile_seconds": compiled,
            "seconds": time.perf_counter() - self.started, "peak_rss_bytes": peak_resident_bytes(),
        }  # fmt: skip


@contextmanager
def _stop_signals(keeper: StreamKeeper) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the run behind the batch at hand, its work saved; a second Ctrl-C does not wait."""

    def ask(number: int, frame: Any) -> None:
        if keeper.stop_signal and number == signal.SIGINT:
            raise KeyboardInterrupt
        keeper.stop_signal = number

    with stops_go_to(ask):
        yield
