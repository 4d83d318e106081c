"""The host of a run of a model of triples whose table of entities is larger than memory.

In the run folder, until the result is whole: `table`, the partitions of the entities' rows (tables/partition_store.py)
with those of the relations beside them, and `triples`, the buckets (data/triple_buckets.py). `any2vec check` looks at
both.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.cluster.transport import Transport
from any2vec.data.entity_parts import EntityParts
from any2vec.data.triple_buckets import TripleBuckets, blocks_of
from any2vec.embeddings import Embeddings
from any2vec.errors import InputError, Interrupted
from any2vec.models.triple_scorer import TripleScorer
from any2vec.models.triple_worker import relation_optimiser
from any2vec.plan.buffer import BufferPlan
from any2vec.plan.buffer_walk import BufferWalk
from any2vec.sampling.triple_windows import Window
from any2vec.signals import name_of, stops_go_to
from any2vec.tables.partition_store import PartitionStore
from any2vec.tables.row_optimiser import RowOptimiser
from any2vec.train.host import FitRequest, Host, Made, run_summary
from any2vec.train.out_of_core import OutOfCoreOptions, OutOfCoreReport, OutOfCoreRun
from any2vec.train.progress import Recorder, cut_log
from any2vec.train.run_folder import TABLE, TRIPLES, remove_table, run_folder, write_result
from any2vec.train.stored_triples import StoredResult
from any2vec.train.triple_batches import WindowLearner
from any2vec.train.triple_budget import WINDOW, known_plan, plan_triples
from any2vec.train.triple_host import TripleHost, fresh_relations, start_entities, try_kernels
from any2vec.train.triple_prepare import PreparedTriples
from any2vec.types import Round, Stats, Stretch, Work


def triple_host(request: FitRequest, prepared: PreparedTriples, transport: Transport) -> Host | TripleTableHost:
    """The host of a run: with all rows in memory where there is room for them, else with some of them.

    Raises:
        InputError: the budget is too small, or the run in the folder had other settings.
    """
    plan = known_plan(request, prepared) or plan_triples(request, prepared)
    if plan is None:
        return TripleHost(request, prepared, transport)
    return TripleTableHost(request, prepared, plan)


class TripleTableHost:
    """A single host, with some partitions of the entities' rows in memory.

    Raises:
        InputError: there is no run folder, or somebody wants to see the vectors at the end of each epoch.
    """

    def __init__(self, request: FitRequest, prepared: PreparedTriples, plan: BufferPlan) -> None:
        if request.out is None:
            raise InputError("A table that is larger than memory is trained in the run folder; say which one, as out.")
        if request.on_epoch is not None:
            raise InputError("on_epoch is called where all rows are in memory; leave it out, or memory.")
        self.request, self.triples, self.data_facts, self.plan = request, prepared.triples, prepared.facts, plan
        self.out = request.out
        self.parts = EntityParts(len(self.triples.entities), plan.partitions, request.seed)
        self.relation_RC = fresh_relations(request.model, len(self.triples.relations), request.seed)
        self.learner = WindowLearner(
            request.model, self.relation_RC, len(self.triples.entities), len(self.triples.relations), request.seed
        )
        self.stop_signal = 0

    def train(self) -> Made:
        """Train, and write the result.

        Raises:
            Interrupted: a signal asked for it; the store in the folder has the work so far.
            StorageError: the disk is full or does not answer; the store is as at the last commit.
            FormatError: the store or the triples are damaged.
        """
        request = self.request
        began = time.perf_counter()
        try_kernels(replace(request.model, num_negatives=2))
        compile_seconds = time.perf_counter() - began
        with run_folder(self.out, request.resume, request.settings) as log, stops_go_to(self._asked):
            store, buckets = self._opened()
            try:
                recorder = self._resumed(store, log)
                report = self._run(store, buckets, recorder)
                told = run_summary(request, self.parts.num_entities, recorder, compile_seconds, self.data_facts)
                width = relation_optimiser(request.model).width
                relation_RP = np.ascontiguousarray(self.relation_RC[:, :width])
                result = StoredResult(request.model, self.triples, store, self.parts, relation_RP, self._spare_bytes)
                summary = told | self._facts(report)
                write_result(self.out, result, summary, request.settings, result.parts())
            finally:
                store.close()
        remove_table(self.out)
        embeddings = Embeddings.load(self.out)
        return Made(embeddings, summary, recorder.records, TripleScorer.load(self.out, embeddings))

    def _opened(self) -> tuple[PartitionStore, TripleBuckets]:
        """What a former run has left, or new ones."""
        table, triples, request = self.out / TABLE, self.out / TRIPLES, self.request
        if (table / "meta.json").exists():
            return PartitionStore.open(table), TripleBuckets.open(triples)
        given, model, parts = self.triples, request.model, self.parts
        blocks = blocks_of(given.head, given.relation, given.tail)
        buckets = TripleBuckets.create(triples, parts, len(given.relations), blocks, overwrite=True)

        def fill(number: int, row_RC: np.ndarray) -> None:
            first, stop = parts.bounds[number : number + 2]
            start_entities(model, parts.entities(np.arange(first, stop)), row_RC, request.seed)

        note = {"run": request.settings, "capacity": self.plan.capacity}
        columns = RowOptimiser(model.dim).num_columns
        return PartitionStore.create(table, parts.bounds.tolist(), columns, fill, True, note), buckets

    def _resumed(self, store: PartitionStore, log: Path | None) -> Recorder:
        """Relations and totals as at the last commit; log: of this run's progress."""
        kept, seconds = store.dense(), 0.0
        if kept:
            self.relation_RC[:] = kept["relations"]
            self.learner.items, seconds = int(kept["totals"][0]), float(kept["totals"][1])
        if log is not None:
            cut_log(log, self.learner.items)
        rate, request = self.request.model.learning_rate, self.request
        return Recorder(request.epochs, lambda _: rate, log, request.callback, self.learner.items, seconds)

    def _run(self, store: PartitionStore, buckets: TripleBuckets, recorder: Recorder) -> OutOfCoreReport:
        request = self.request
        options = OutOfCoreOptions(
            batch_size=request.model.batch_size, window=WINDOW, seed=request.seed, threads=request.threads,
            staleness_bound=request.table.bound_of(request.threads), commit_seconds=request.checkpoint_seconds,
        )  # fmt: skip
        walk = BufferWalk(
            order=request.table.bucket_order, partitions=self.plan.partitions, capacity=self.plan.capacity,
            epochs=request.epochs, seed=request.seed,
        )  # fmt: skip

        def dense() -> dict[str, np.ndarray]:
            return {
                "relations": self.relation_RC,
                "totals": np.array([self.learner.items, recorder.seconds], np.float64),
            }

        def heard(window: Window, results: list[Stats]) -> None:
            work = _work_of(window, buckets.num_triples, request.epochs)
            recorder.add(work, sum(results, Stats(0, 0.0, 0)))
            if self.stop_signal and work.progress_to < 1.0:
                raise Interrupted(
                    f"Stopped by {name_of(self.stop_signal)} at {work.progress_to:.1%}; {self.out / TABLE} holds the "
                    "work so far, --resume goes on from it."
                )

        return OutOfCoreRun(
            store, buckets, walk, self.learner.step, options, dense=dense, report=heard, arrange=self.learner.arrange
        ).run()

    def _facts(self, report: OutOfCoreReport) -> dict[str, Any]:
        resident = self.parts.num_entities * self.plan.capacity // self.plan.partitions
        moved = report.buffer.as_dict()
        moved["seconds_waited"] += report.seconds_waited
        return {
            "relations": len(self.triples.relations),
            "num_negatives": self.learner.num_negatives or resident,
            "partitions": self.plan.partitions, "capacity": self.plan.capacity,
            "order": self.request.table.bucket_order, "table_bytes": self.plan.num_rows * self.plan.row_bytes,
            "triple_bytes_read": report.triple_bytes, "staleness": report.staleness, **moved,
        }  # fmt: skip

    @property
    def _spare_bytes(self) -> int:
        """Memory that the partitions have left."""
        return self.plan.capacity * self.plan.partition_bytes

    def _asked(self, number: int, frame: Any) -> None:
        """Ctrl-C and SIGTERM ask for a stop behind the window at hand; a second Ctrl-C does not wait for a commit."""
        if self.stop_signal and number == 2:
            raise KeyboardInterrupt
        self.stop_signal = number


def _work_of(window: Window, num_triples: int, epochs: int) -> Work:
    """A window as the recorder knows it: triples [before, before + its own) of an epoch."""
    epoch, stop = window.turn.epoch, window.before + len(window.slot_M3)
    stretch = Stretch(0, num_triples, epoch / epochs, (epoch + 1) / epochs)
    round_ = Round(epoch, (stretch,), ((0, num_triples),))
    return Work(epoch, window.before, stop, stretch, round_, window.before == 0, stop == num_triples)
