"""A run whose rows are in memory, alone, as a thread, as a process, under Ray; its checkpoint is a file."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

import numpy as np

from any2vec.cluster.codec import pack_state, unpack_state
from any2vec.cluster.transport import LONG_WORK, Transport, first_other, text_of, text_part
from any2vec.errors import JobError
from any2vec.plan.order.epochs import EpochSchedule
from any2vec.train.checkpoint import Checkpoint, run_needs
from any2vec.train.frame import Program
from any2vec.train.in_memory.validation import Validation, best_of
from any2vec.train.loop import WORK_SECONDS, Driver, Learner, LoopParts, paced
from any2vec.train.monitor import Monitor
from any2vec.train.progress import Recorder
from any2vec.train.result import Result
from any2vec.train.spec import Request
from any2vec.types import State, Work


class RunningLearner(Learner, Protocol):
    """A learner as a run needs it."""

    def learning_rate(self, progress: float) -> float: ...

    def close(self) -> None: ...


class InMemoryProgram(Program):
    """What is learned, and how hosts agree, is a subclass's, which makes both when it is made (abstract)."""

    learner: RunningLearner
    driver: Driver
    schedule: EpochSchedule

    def __init__(self, request: Request, transport: Transport) -> None:
        super().__init__(request, transport)
        self.checkpoint = self.find_checkpoint(run_needs)
        _check_alike(self.checkpoint, transport)
        self.validation = self._validation() if request.spec.run.validate is not None else None
        self._agreed: dict[str, np.ndarray] | None = None
        """at rank 0, behind the last work"""

    def opened(self) -> AbstractContextManager[tuple[int, float]]:
        if self.checkpoint is None:
            return super().opened()
        return nullcontext((self.checkpoint.totals["items"], self.checkpoint.totals["seconds"]))

    @contextmanager
    def working(self, recorder: Recorder) -> Iterator[LoopParts]:
        monitor = Monitor(self, recorder)
        try:
            works = paced(self.schedule, WORK_SECONDS, max(1, self.request.threads))
            yield LoopParts(self._until_over(works), self.learner, self.driver, monitor.on_work)
            self.end()
            agreed = self.agreed()
            self._agreed = (self.validation and self.validation.best) or agreed
            self.metrics = self.gather_metrics(recorder) | (self.validation.summary() if self.validation else {})
            self.close()
        except BaseException as error:
            self.close(error)
            raise
        finally:
            self.learner.close()

    def stored(self) -> Result:
        assert self._agreed is not None
        return self.result(self._agreed)

    def state(self) -> State | None:
        """What a checkpoint keeps, at rank 0: what is agreed, and what each host remembers; all call it together."""
        agreed, memory = self.agreed(), self.memory
        found = self.transport.gather(pack_state(memory), "gather")
        if agreed is None:
            return None
        for host, parts in found.items():
            agreed = agreed | {f"{name}@{host}": array for name, array in unpack_state(parts).items()}
        return agreed if self.validation is None else agreed | self.validation.state_dict()

    def end(self) -> None:
        """No work follows; all hosts call it together."""

    @abstractmethod
    def agreed(self) -> dict[str, np.ndarray] | None:
        """What all agree on, by name, at rank 0; all hosts call it together."""

    @property
    def memory(self) -> State:
        """What this host alone keeps to go on from."""
        return {}

    @abstractmethod
    def result(self, agreed: dict[str, np.ndarray]) -> Result:
        """The result, without its summary."""

    @abstractmethod
    def gather_metrics(self, recorder: Recorder) -> dict[str, Any]:
        """What the summary says of hosts, at rank 0; all hosts call it together."""

    def close(self, error: BaseException | None = None) -> None:
        """Services end: nothing is asked of this host any more.

        error: that ends the run (a `HostError`: another host is lost).
        """

    def _resumed(self, schedule: EpochSchedule, hosts: int) -> EpochSchedule:
        """The schedule, behind what a checkpoint has done; hosts: that train."""
        if self.checkpoint is not None:
            schedule.load_state_dict(self.checkpoint.place, hosts)
        return schedule

    def end_epoch(self, epoch: int) -> None:
        """Show what there is so far to whom it interests, at rank 0; all hosts wait until that is done."""
        agreed, on_epoch = self.agreed(), self.request.hooks.on_epoch
        if agreed is not None and on_epoch is not None:
            on_epoch(epoch + 1, self.result(agreed).embeddings)
        self.transport.barrier("epoch", timeout=LONG_WORK)

    def validate(self, epoch: int) -> Mapping[str, float]:
        """Metrics of what is agreed behind an epoch, from 1; rank 0 scores, and all hosts call it together."""
        assert self.validation is not None
        agreed, text = self.agreed(), ""
        if agreed is not None:
            text = json.dumps(dict(self.scores(agreed)))
        text = text_of(self.transport.share([text_part(text)], "validation", timeout=LONG_WORK)[0])
        metrics: dict[str, float] = json.loads(text)
        self.validation.add(epoch, metrics, agreed)
        return metrics

    def scores(self, agreed: dict[str, np.ndarray]) -> Mapping[str, float]:
        """Metrics of what is agreed, by name, at rank 0; the first one decides."""
        assert self.request.validator is not None
        return self.request.validator(self.result(agreed))

    def _validation(self) -> Validation:
        """None so far; where a run goes on, what was found before."""
        patience, found = self.request.spec.run.patience, self.checkpoint
        if found is None:
            return Validation(patience)
        return Validation(patience, found.totals.get("validation", ()), best_of(found.state))

    def _until_over(self, works: Iterator[Work[Any]]) -> Iterator[Work[Any]]:
        """Works, until the validation score has not risen for as many epochs as there is patience."""
        while not (self.validation and self.validation.is_over) and (work := next(works, None)) is not None:
            yield work


def _check_alike(checkpoint: Checkpoint | None, transport: Transport) -> None:
    """Raise JobError, at every host, unless all of them go on from the same place; all hosts call it together."""
    own = "no checkpoint" if checkpoint is None else json.dumps([checkpoint.place, checkpoint.totals])
    other = first_other(transport, own, "resume")
    if other >= 0:
        raise JobError(
            f"Rank {other} does not find the checkpoint from which rank 0 goes on; all hosts must see the same --out."
        )


def states_by_rank(state: State) -> Sequence[State]:
    """The state of each host, by rank, from the NAME@RANK arrays of a checkpoint."""
    found: dict[int, State] = {}
    for name, array in state.items():
        kept, _, host = name.partition("@")
        if host:
            found.setdefault(int(host), {})[kept] = array
    return [found[host] for host in sorted(found)]
