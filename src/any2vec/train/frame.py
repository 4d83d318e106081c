"""The frame around the loop, one for all runs: from a program to its result, on any number of hosts."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from any2vec.cluster.transport import Transport
from any2vec.signals import note_stop, stops_go_to
from any2vec.train.checkpoint import FILE, Checkpoint, load_checkpoint
from any2vec.train.loop import LoopParts, run
from any2vec.train.progress import Recorder
from any2vec.train.result import Result, StoredResult, run_summary
from any2vec.train.run_folder import run_folder, write_result
from any2vec.train.spec import Hooks, Request
from any2vec.types import Progress, Work


def run_frame(request: Request, program: Program, transport: Transport) -> Result | None:
    """Carry out a program, and write its result at rank 0; None elsewhere.

    Raises:
        Interrupted: a signal asked for it; what is kept of the work stands in the message.
        HostError: another host is lost; what is kept is as at the last checkpoint.
        StorageError, FormatError: the disk is full or does not answer, or what it holds is damaged.
    """
    is_first = transport.rank == 0
    out, hooks = (request.spec.run.out, request.hooks) if is_first else (None, Hooks())
    compile_seconds = _compile(program, hooks)
    # From here on the folder changes: whatever could be wrong with the request has been refused by now.
    with program.folder(out) as log:
        program.agree()
        with stops_go_to(program.on_stop):  # while the result is written, too: a run that is done is not lost
            with program.opened() as (items, seconds):
                recorder = program.recorder(log, hooks.progress, items, seconds)
                with program.working(recorder) as parts:
                    run(*parts)
                with program.writing():
                    if is_first:
                        stored = program.stored()
                        summary = program.summary(stored, recorder, compile_seconds)
                        if out is not None:
                            program.write(out, stored, summary)
            program.remove()
    return replace(program.load(stored), summary=summary, records=recorder.records) if is_first else None


def _compile(program: Program, hooks: Hooks) -> float:
    """Seconds that it took."""
    stage = hooks.stage or (lambda *_: None)
    stage("preparing kernels", 0, 1)
    began = time.perf_counter()
    program.compile()
    seconds = time.perf_counter() - began
    stage("preparing kernels", 1, 1)
    return seconds


class Rated(Protocol):
    """A learner, as far as the frame knows it."""

    def learning_rate(self, done: float, /) -> float:
        """By the share of the run that is done; where none is known, by the items."""


class Program(ABC):
    """What one host of a run does (abstract). The frame takes its steps in the order in which they stand here.

    All hosts take each step at the same time, for it may be collective, but `stored`, `summary`, `write` and `load` are
    rank 0's alone.
    """

    learner: Rated
    metadata: dict[str, Any]
    """what the data are"""

    def __init__(self, request: Request, transport: Transport) -> None:
        self.request, self.transport = request, transport
        self.metrics: dict[str, Any] = {}
        """what the summary says of this program, at rank 0 and behind `working`"""
        self.stop_signal = 0
        """the last signal that asked for a stop"""

    def find_checkpoint(self, needs: Callable[[Checkpoint], object]) -> Checkpoint | None:
        """The file that the run goes on from, if it does, as rank 0 has written it. Raises as `load_checkpoint`."""
        run = self.request.spec.run
        if not run.resume or run.out is None or not (run.out / FILE).exists():
            return None
        return load_checkpoint(run.out / FILE, self.request.settings, needs)

    def compile(self) -> None:  # noqa: B027 (not every program has kernels)
        """Compile what the run needs, or load it from the cache; services start."""

    def folder(self, out: Path | None) -> AbstractContextManager[Path | None]:
        """The run folder, that of rank 0, for as long as the run goes on; its log of progress."""
        run = self.request.spec.run
        return run_folder(out, self.request.settings, resume=run.resume, overwrite=run.overwrite)

    def agree(self) -> None:  # noqa: B027 (a checkpoint that all hosts read needs no agreement)
        """All hosts settle where they go on, where each keeps its part of the state in place."""

    def on_stop(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-C and the like ask for a stop where the work is kept next; a second Ctrl-C does not wait for that."""
        note_stop(self, number)

    def opened(self) -> AbstractContextManager[tuple[int, float]]:
        """Hold the state of the run, new or as it was kept; its items and seconds so far."""
        return nullcontext((0, 0.0))

    def recorder(
        self, log: Path | None, callback: Callable[[Any], None] | None, items: int, seconds: float
    ) -> Recorder:
        """What makes the records of this host, whose works the program gives it."""
        return Recorder(self.record, log, callback, items, seconds)

    def record(self, work: Work[Any], measured: dict[str, Any]) -> Any:
        """One record, of what the recorder has measured."""
        counters = self.transport.counters
        return Progress(
            epoch=work.epoch, epochs=self.request.spec.run.epochs, round=work.round.number, progress=work.progress,
            learning_rate=self.learner.learning_rate(work.progress), bytes_sent=counters.bytes_sent(),
            bytes_received=counters.bytes_received(), **measured,
        )  # fmt: skip

    @abstractmethod
    def working(self, recorder: Recorder) -> AbstractContextManager[LoopParts]:
        """What the loop takes. Behind the loop the state is kept or agreed on, `metrics` are made, services close.

        recorder: of this host; it makes records of the works that this program adds.
        """

    def writing(self) -> AbstractContextManager[None]:
        """Around the writing of the result."""
        return nullcontext()

    @abstractmethod
    def stored(self) -> StoredResult:
        """What goes into the run folder."""

    def summary(self, stored: StoredResult, recorder: Recorder, compile_seconds: float) -> dict[str, Any]:
        """What is known of the run at its end."""
        return run_summary(self.request, len(stored), recorder, compile_seconds, self.metadata) | self.metrics

    def write(self, out: Path, stored: StoredResult, summary: dict[str, Any]) -> None:
        """Write the result into the run folder."""
        write_result(out, stored, summary, self.request.settings, stored.parts)

    def remove(self) -> None:  # noqa: B027 (a checkpoint that is a file goes as the result comes)
        """Remove what was kept in place: the result is whole."""

    def load(self, stored: StoredResult) -> Result:
        """The result, without its summary; from the folder, where it is not in memory."""
        assert isinstance(stored, Result)
        return stored
