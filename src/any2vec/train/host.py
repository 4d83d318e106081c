"""What one host does from prepared data to the result: the same code alone, as a thread, as a process, under Ray."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.cluster.launch import restarts
from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport, control, text_of, text_part
from any2vec.embeddings import Embeddings
from any2vec.errors import FormatError, JobError
from any2vec.machine import peak_resident_bytes, resident_bytes
from any2vec.models.config import SequenceModel
from any2vec.models.learner import SequenceLearner
from any2vec.models.travelled import TravelledTokens
from any2vec.plan.chunks import chunk_bounds, keep_rest, share_rest
from any2vec.plan.schedule import EpochSchedule, piece_positions
from any2vec.sync.block import compile_merges
from any2vec.sync.make import make_agreement
from any2vec.sync.options import HostOptions
from any2vec.sync.rounds import Rounds
from any2vec.train.checkpoint import FILE, Checkpoint, load_checkpoint
from any2vec.train.keeper import Keeper, Keeping, stop_signals
from any2vec.train.loop import Alone, run
from any2vec.train.prepare import Prepared, Stage, remarks
from any2vec.train.progress import Recorder, cut_log
from any2vec.train.run_folder import run_folder, write_result
from any2vec.train.start import carry_over, fresh_tables
from any2vec.types import Progress


@dataclass(frozen=True, kw_only=True)
class FitRequest:
    """A checked request to `fit`, the same on every host."""

    model: SequenceModel
    epochs: int
    threads: int
    seed: int
    out: Path | None
    resume: bool
    checkpoint_seconds: float
    callback: Callable[[Progress], None] | None
    stage: Stage | None
    on_epoch: Callable[[int, Embeddings], None] | None
    agree: HostOptions | None
    """None: a single host, which agrees with nobody"""
    settings: dict[str, Any]
    """what must be the same for a run to go on"""
    started: float
    """moment of `time.perf_counter` at which the request came"""


@dataclass(frozen=True)
class Made:
    """What rank 0 has at the end; other hosts have nothing."""

    embeddings: Embeddings
    summary: dict[str, Any]
    records: list[Progress]


class Host:
    """One host of a run: its tables, its learner, its schedule and its driver."""

    def __init__(self, request: FitRequest, prepared: Prepared, init: Embeddings | None, transport: Transport) -> None:
        self.request = request
        self.prepared = prepared
        self.transport = transport
        self.keys, self.counts = prepared.keys, prepared.counts
        model = request.model
        if init is None:
            self.tables = fresh_tables(len(self.keys), model, request.seed)
        else:
            self.tables, self.keys, self.counts = carry_over(init, self.keys, self.counts, model, request.seed)
        checkpoint = self._checkpoint()
        _check_alike(checkpoint, transport)
        if checkpoint is not None:
            self._restore(checkpoint)
        source = prepared.source
        self.rounds = 1 if request.agree is None else request.agree.rounds(transport.hosts)
        self.schedule = self._schedule(checkpoint)
        self.learner = SequenceLearner(
            model, prepared.counts, prepared.keep, source, self.tables,
            block=prepared.block, piece=self.schedule.piece, threads=request.threads, seed=request.seed,
        )  # fmt: skip
        self.driver: Alone | Rounds = Alone()
        if request.agree is not None:
            agreement = make_agreement(
                request.agree, transport, self.learner.state, self.learner, self._occurrences(),
                self.schedule.all_rounds(), request.threads,
            )  # fmt: skip
            if checkpoint is not None:
                agreement.recall(_memories(checkpoint.state))
            self.driver = Rounds(agreement, source.ahead if isinstance(source, TravelledTokens) else None)
        self._totals: dict[str, Any] = {"items": 0, "seconds": 0.0} if checkpoint is None else checkpoint.totals

    def train(self) -> Made | None:
        """Train, and write the result at rank 0; None elsewhere."""
        request, out = self.request, self._out
        tell = request.stage if request.stage is not None and self.transport.rank == 0 else lambda *_: None
        tell("preparing kernels", 0, 1)
        compile_seconds = self._compile()
        tell("preparing kernels", 1, 1)
        # From here on the folder changes: whatever could be wrong with the request would have been said by now.
        with run_folder(out, request.resume, request.settings):
            log = None if out is None else out / "progress.jsonl"
            items, seconds = self._totals["items"], self._totals["seconds"]
            if log is not None:
                cut_log(log, items)
            callback = request.callback if self.transport.rank == 0 else None
            recorder = Recorder(request.epochs, self.learner.learning_rate, log, callback, items, seconds)
            keeping = Keeping(
                None if request.out is None else request.out / FILE, request.settings,
                request.checkpoint_seconds, self.rounds, self.state,
                self._end_epoch, request.on_epoch is not None,
            )  # fmt: skip
            keeper = Keeper(keeping, self.driver, recorder, self.transport)
            with stop_signals(keeper):  # while the result is written, too: a run that is done is not lost
                try:
                    run(self.schedule, self.learner, self.driver, keeper.heard)
                finally:
                    self.learner.close()
                agreed = self.agreed()
                facts = self._facts(recorder)
                if isinstance(self.driver, Rounds):
                    self.driver.finish()
                made = None if agreed is None else self._made(agreed, recorder, compile_seconds, facts)
                if made is not None and out is not None:
                    write_result(out, made.embeddings, made.summary, request.settings)
        return made

    def _compile(self) -> float:
        """Compile what the run needs, or load it from the cache; seconds that it took."""
        began = time.perf_counter()
        self.learner.compile(for_hosts=self.request.agree is not None)
        if self.request.agree is not None:
            compile_merges(self.request.model.dim, self.request.agree.bits)
        return time.perf_counter() - began

    def agreed(self) -> dict[str, np.ndarray] | None:
        """The agreed tables at rank 0; all hosts call it together."""
        return self.learner.state if isinstance(self.driver, Alone) else self.driver.agreement.collect()

    def state(self) -> dict[str, np.ndarray] | None:
        """What a checkpoint keeps, at rank 0: tables, and what each host remembers; all hosts call it together."""
        agreed = self.agreed()
        memory = {} if isinstance(self.driver, Alone) else self.driver.agreement.memory
        if not memory:
            return agreed
        # Copies, for this host trains on while rank 0 still writes.
        found = self.transport.gather([Part("dense", array.copy()) for array in memory.values()], "gather")
        if agreed is None:
            return None
        for host, parts in found.items():
            agreed = agreed | {f"{name}@{host}": part.array for name, part in zip(memory, parts, strict=True)}
        return agreed

    @property
    def _out(self) -> Path | None:
        """The run folder, where this host writes it."""
        return self.request.out if self.transport.rank == 0 else None

    def _occurrences(self) -> dict[str, np.ndarray]:
        """How often rows occur in an epoch. Rows that only `init` has come last and do not occur; output rows of
        hierarchical softmax are no items, and nobody counted them.
        """
        both = self.request.model.objective == "negative"
        return dict.fromkeys(("input", "output") if both else ("input",), self.prepared.counts)

    def _checkpoint(self) -> Checkpoint | None:
        """The checkpoint to go on from: every host reads the one that rank 0 has written."""
        file = None if self.request.out is None else self.request.out / FILE
        if not self.request.resume or file is None or not file.exists():
            return None
        return load_checkpoint(file, self.request.settings)

    def _restore(self, checkpoint: Checkpoint) -> None:
        for name, table in self.tables.items():
            rows = checkpoint.state.get(name)
            if rows is None or rows.shape != table.rows.shape:
                raise FormatError(f"{FILE} does not hold the rows of this run; start again with --overwrite.")
            table.rows[:] = rows

    def _schedule(self, checkpoint: Checkpoint | None) -> EpochSchedule:
        """This host's part of the data; where a run goes on, what is left of it."""
        source, hosts, rank = self.prepared.source, self.transport.hosts, self.transport.rank
        bounds = self.prepared.bounds or chunk_bounds(source.num_positions, hosts, source.boundary)
        schedule = EpochSchedule(
            start=bounds[rank], stop=bounds[rank + 1], epochs=self.request.epochs, unit=source.unit,
            piece=piece_positions(source.unit, self.request.model.cost), threads=self.request.threads,
            rounds=self.rounds, steps=1 if self.request.agree is None else self.request.agree.agreement.steps,
        )  # fmt: skip
        if checkpoint is None:
            return schedule
        place = checkpoint.place
        if not any(place.rest):
            return replace(schedule, first=(place.epoch, 0, 0))
        ends = [ranges[-1][1] if ranges else bounds[host + 1] for host, ranges in enumerate(place.rest)]
        if place.is_whole and place.rounds == self.rounds and ends == bounds[1:]:
            at = place.rest[rank][0][0] if place.rest[rank] else bounds[rank + 1]
            return replace(schedule, first=(place.epoch, place.rounds_done, at))
        rest = [range_ for ranges in place.rest for range_ in ranges]
        left = sum(stop - start for start, stop in rest) / source.num_positions
        if self.prepared.bounds is None:
            share = share_rest(rest, hosts, source.boundary)[rank]
        else:
            share = keep_rest(place.rest, self.prepared.bounds)[rank]
        return replace(schedule, first=(place.epoch, 0, 0), rest=share, rest_progress=1.0 - left)

    def _made(
        self, agreed: dict[str, np.ndarray], recorder: Recorder, compile_seconds: float, facts: dict[str, Any]
    ) -> Made:
        return Made(self._embeddings(agreed), self._summary(recorder, compile_seconds) | facts, recorder.records)

    def _embeddings(self, agreed: dict[str, np.ndarray]) -> Embeddings:
        model = self.request.model
        # The output rows of hierarchical softmax belong to the inner nodes of its tree, not to keys: they stay here.
        output = agreed["output"] if model.objective == "negative" else None
        return Embeddings(self.keys, agreed["input"], output, self.counts, meta={"model": model.as_dict()})

    def _end_epoch(self, epoch: int) -> None:
        """Show what there is so far to whom it interests, at rank 0."""
        agreed, hear = self.agreed(), self.request.on_epoch
        if agreed is not None and hear is not None:
            hear(epoch + 1, self._embeddings(agreed))

    def _facts(self, recorder: Recorder) -> dict[str, Any]:
        """What only several hosts have to tell; {} for one that agrees with nobody. All hosts call it together."""
        if isinstance(self.driver, Alone):
            return {}
        counters, driver = self.transport.counters, self.driver
        own = {
            "bytes_by_kind": counters.bytes_by_kind(), "bytes_by_phase": counters.bytes_by_phase(),
            "seconds": driver.seconds, "share": driver.seconds / max(recorder.seconds, 1e-9),
            "walk_seconds": driver.walk_seconds, "counts": driver.facts(),
        }  # fmt: skip
        found = self.transport.gather([text_part(json.dumps(own))], "facts")
        if not found:
            return {}
        told = [json.loads(text_of(parts[0])) for parts in found.values()]
        agree = self.request.agree
        assert agree is not None

        def mean(name: str) -> float:
            return float(sum(host[name] for host in told) / len(told))

        return {
            "hosts": self.transport.hosts, "sync": agree.sync, "scheme": agree.form(self.transport.hosts),
            "bits": agree.bits, "rounds": driver.rounds, "rounds_per_epoch": self.rounds,
            "bytes_by_kind": _summed([host["bytes_by_kind"] for host in told]),
            "bytes_by_phase": _summed([host["bytes_by_phase"] for host in told]),
            "agree_seconds": mean("seconds"), "agree_share": mean("share"),
            **({"walk_seconds": mean("walk_seconds")} if agree.partition is not None else {}),
            **{name: _histogram([host["counts"][name] for host in told]) for name in told[0]["counts"]},
        }  # fmt: skip

    def _summary(self, recorder: Recorder, compile_seconds: float) -> dict[str, Any]:
        request, prepared = self.request, self.prepared
        last = recorder.records[-1] if recorder.records else None
        train_seconds = last.seconds if last is not None else 0.0
        again, allowed = restarts()  # by torchrun; a parent that starts the hosts counts for itself
        return {
            "model": request.model.name,
            "rows": len(self.keys),
            "dim": request.model.dim,
            "epochs": request.epochs,
            "threads": request.threads,
            "seed": request.seed,
            "items": recorder.items,
            "items_per_s": recorder.items / max(train_seconds, 1e-9),
            "loss": recorder.epoch_loss,
            "train_seconds": train_seconds,
            "compile_seconds": compile_seconds,
            "seconds": time.perf_counter() - request.started,
            "peak_rss_bytes": peak_resident_bytes(),
            "peak_anon_bytes": max(recorder.peak_anonymous, resident_bytes()[0]),
            "warnings": remarks(prepared.facts),
            "data": prepared.facts,
            **({"restarts": again} if allowed else {}),
        }


def first_other(transport: Transport, own: str, phase: str) -> int:
    """The first rank that says something else than rank 0, -1: all say the same; all hosts call it together."""
    told = [text_of(parts[0]) for parts in transport.gather([text_part(own)], phase).values()]
    other = next((rank for rank, text in enumerate(told) if text != told[0]), -1)
    return int(transport.share([control(other)], phase)[0].array[0])


def _check_alike(checkpoint: Checkpoint | None, transport: Transport) -> None:
    """Raise JobError, at every host, unless all of them go on from the same place; all hosts call it together."""
    own = "no checkpoint" if checkpoint is None else json.dumps([asdict(checkpoint.place), checkpoint.totals])
    other = first_other(transport, own, "resume")
    if other >= 0:
        raise JobError(
            f"Rank {other} does not find the checkpoint from which rank 0 goes on; all hosts must see the same --out."
        )


def _memories(state: dict[str, np.ndarray]) -> Sequence[dict[str, np.ndarray]]:
    """What each host remembered, by rank, from the NAME@RANK arrays of a checkpoint."""
    found: dict[int, dict[str, np.ndarray]] = {}
    for name, array in state.items():
        kept, _, host = name.partition("@")
        if host:
            found.setdefault(int(host), {})[kept] = array
    return [found[host] for host in sorted(found)]


def _summed(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)


def _histogram(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    """Counts by whole numbers, added up and in order."""
    return dict(sorted(_summed(counts).items(), key=lambda item: (len(item[0]), item[0])))
