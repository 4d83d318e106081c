"""The course of a run on one host, alone, as a thread, as a process, under Ray: from what is prepared to the result."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from any2vec.cluster.launch.join import restarts
from any2vec.cluster.state_message import pack_state, unpack_state
from any2vec.cluster.transport import Transport, control, text_of, text_part
from any2vec.embeddings import Embeddings
from any2vec.errors import JobError
from any2vec.machine import peak_resident_bytes, resident_bytes
from any2vec.plan.order.epochs import EpochSchedule
from any2vec.signals import stop_signals
from any2vec.train.checkpoint import FILE, Checkpoint, load_checkpoint, run_needs
from any2vec.train.keeper import Keeper, Keeping
from any2vec.train.loop import WORK_SECONDS, Driver, Learner, paced, run
from any2vec.train.progress import Recorder, cut_log
from any2vec.train.run_folder import run_folder, write_result
from any2vec.train.spec import Request
from any2vec.types import Progress, State


@dataclass(frozen=True)
class Made:
    """What rank 0 has at the end; other hosts have nothing."""

    embeddings: Embeddings
    summary: dict[str, Any] = field(default_factory=dict)
    records: list[Progress] = field(default_factory=list)
    scorer: Any = None
    """of a model of clicks its `ClickScorer`, of triples its `TripleScorer`"""
    parts: Mapping[str, Any] = field(default_factory=dict)
    """what else the result has: file name -> something with `write(path)`"""


class RunningLearner(Learner, Protocol):
    """A learner as a run needs it."""

    def learning_rate(self, progress: float) -> float: ...

    def close(self) -> None: ...


class Host(ABC):
    """One host of a run; what is learned, and how hosts agree, is a subclass's, which makes both when it is made."""

    learner: RunningLearner
    driver: Driver
    schedule: EpochSchedule
    data_facts: dict[str, Any]
    """what the data are"""

    def __init__(self, request: Request, transport: Transport) -> None:
        self.request = request
        self.transport = transport
        self.checkpoint = self._checkpoint()
        _check_alike(self.checkpoint, transport)
        self.totals: dict[str, Any] = {"items": 0, "seconds": 0.0}
        if self.checkpoint is not None:
            self.totals = self.checkpoint.totals

    def train(self) -> Made | None:
        """Train, and write the result at rank 0; None elsewhere."""
        request, out = self.request, self._out
        tell = request.hooks.stage if request.hooks.stage is not None and self.transport.rank == 0 else lambda *_: None
        tell("preparing kernels", 0, 1)
        began = time.perf_counter()
        self.compile()
        compile_seconds = time.perf_counter() - began
        tell("preparing kernels", 1, 1)
        # From here on the folder changes: whatever could be wrong with the request would have been said by now.
        with run_folder(out, request.spec.run.resume, request.settings) as log:
            items, seconds = self.totals["items"], self.totals["seconds"]
            if log is not None:
                cut_log(log, items)
            callback = request.hooks.progress if self.transport.rank == 0 else None
            recorder = Recorder(request.spec.run.epochs, self.learner.learning_rate, log, callback, items, seconds)
            keeping = Keeping(
                None if request.spec.run.out is None else request.spec.run.out / FILE, request.settings,
                request.spec.run.checkpoint_seconds, self.schedule, self.state,
                self._end_epoch, request.hooks.on_epoch is not None,
            )  # fmt: skip
            keeper = Keeper(keeping, self.driver, recorder, self.transport)
            with stop_signals(keeper):  # while the result is written, too: a run that is done is not lost
                try:
                    works = paced(self.schedule, WORK_SECONDS, max(1, request.threads))
                    run(works, self.learner, self.driver, keeper.heard)
                    self.end()
                    agreed = self.agreed()
                    facts = self.facts(recorder)
                    self.finish()
                except BaseException as error:
                    self.abandon(error)
                    raise
                finally:
                    self.learner.close()
                made = None if agreed is None else self.made(agreed)
                if made is not None:
                    told = run_summary(request, len(made.embeddings), recorder, compile_seconds, self.data_facts)
                    made = replace(made, summary=told | facts, records=recorder.records)
                    if out is not None:
                        write_result(out, made.embeddings, made.summary, request.settings, made.parts)
        return made

    def state(self) -> State | None:
        """What a checkpoint keeps, at rank 0: what is agreed, and what each host remembers; all call it together."""
        agreed, memory = self.agreed(), self.memory
        found = self.transport.gather(pack_state(memory), "gather")
        if agreed is None:
            return None
        for host, parts in found.items():
            agreed = agreed | {f"{name}@{host}": array for name, array in unpack_state(parts).items()}
        return agreed

    @abstractmethod
    def compile(self) -> None:
        """Compile what the run needs, or load it from the cache."""

    @abstractmethod
    def abandon(self, error: BaseException) -> None:
        """The run ends by an error (a `HostError`: another host is lost): whatever works behind it ends, too."""

    @abstractmethod
    def end(self) -> None:
        """No work follows; all hosts call it together."""

    @abstractmethod
    def agreed(self) -> dict[str, np.ndarray] | None:
        """What all agree on, by name, at rank 0; all hosts call it together."""

    @property
    @abstractmethod
    def memory(self) -> State:
        """What this host alone keeps to go on from."""

    @abstractmethod
    def made(self, agreed: dict[str, np.ndarray]) -> Made:
        """The result, without its summary."""

    @abstractmethod
    def facts(self, recorder: Recorder) -> dict[str, Any]:
        """What the summary says of hosts, at rank 0; all hosts call it together."""

    @abstractmethod
    def finish(self) -> None:
        """Nothing is asked of this host any more."""

    @property
    def _out(self) -> Path | None:
        """The run folder, where this host writes it."""
        return self.request.spec.run.out if self.transport.rank == 0 else None

    def _checkpoint(self) -> Checkpoint | None:
        """The checkpoint to go on from: every host reads the one that rank 0 has written."""
        file = None if self.request.spec.run.out is None else self.request.spec.run.out / FILE
        if not self.request.spec.run.resume or file is None or not file.exists():
            return None
        return load_checkpoint(file, self.request.settings, run_needs)

    def _resumed(self, schedule: EpochSchedule, hosts: int) -> EpochSchedule:
        """The schedule, behind what a checkpoint has done; hosts: that train."""
        if self.checkpoint is not None:
            schedule.load_state_dict(self.checkpoint.place, hosts)
        return schedule

    def _end_epoch(self, epoch: int) -> None:
        """Show what there is so far to whom it interests, at rank 0."""
        agreed, hear = self.agreed(), self.request.hooks.on_epoch
        if agreed is not None and hear is not None:
            hear(epoch + 1, self.made(agreed).embeddings)


def run_summary(
    request: Request, rows: int, recorder: Recorder, compile_seconds: float, data_facts: dict[str, Any]
) -> dict[str, Any]:
    """What is told of every run."""
    last = recorder.records[-1] if recorder.records else None
    train_seconds = last.seconds if last is not None else recorder.seconds  # all of it was done before
    again, allowed = restarts()  # by torchrun; a parent that starts the hosts counts for itself
    return {
        "model": request.spec.model.name,
        "rows": rows,
        "dim": request.spec.model.dim,
        "epochs": request.spec.run.epochs,
        "threads": request.threads,
        "seed": request.spec.run.seed,
        "items": recorder.items,
        "items_per_s": recorder.items / max(train_seconds, 1e-9),
        "loss": recorder.epoch_loss,
        "train_seconds": train_seconds,
        "compile_seconds": compile_seconds,
        "seconds": time.perf_counter() - request.started,
        "peak_rss_bytes": peak_resident_bytes(),
        "peak_anon_bytes": max(recorder.peak_anonymous, resident_bytes()[0]),
        "warnings": remarks(data_facts),
        "data": data_facts,
        **({"restarts": again} if allowed else {}),
    }


def first_other(transport: Transport, own: str, phase: str) -> int:
    """The first rank that says something else than rank 0, -1: all say the same; all hosts call it together."""
    told = [text_of(parts[0]) for parts in transport.gather([text_part(own)], phase).values()]
    other = next((rank for rank, text in enumerate(told) if text != told[0]), -1)
    return int(transport.share([control(other)], phase)[0].array[0])


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


def summed(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)


def histogram(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    """Counts by whole numbers, added up and in order."""
    return dict(sorted(summed(counts).items(), key=lambda item: (len(item[0]), item[0])))


def remarks(facts: dict[str, Any]) -> list[str]:
    """What a person should hear of the data: a sentence for each thing that was mended on the way in, or is in vain."""
    item = "triples" if facts.get("kind") == "triples" else "edges"
    odd = {
        "bad_bytes": "invalid bytes in the text, treated as --bad-bytes says",
        "duplicates": f"{item} given more than once, merged",
        "self_loops": "self-loops, kept",
        "isolated": "nodes without edges, whose vectors stay near where they start",
        "header": "first line taken as a header (--no-header reads it as an edge)",
    }
    found = ((words, facts.get(name)) for name, words in odd.items())
    told = [f"{words}: {value if isinstance(value, str) else format(value, ',')}" for words, value in found if value]
    if facts.get("kind") == "clicks" and facts["num_clicks"] in (0, facts["num_examples"]):
        label = int(facts["num_clicks"] > 0)
        told.append(
            f"All {facts['num_examples']:,} examples have the label {label}: nothing can be learned from them; give "
            "examples of both labels, and check the schema's label."
        )
    return told
