"""The program of a run of skip-gram whose table is larger than memory: words, or the nodes of walks.

A row has an item's input vector and its output vector. Pairs of (context, center) are sorted into buckets on disk,
those of a sweep where it begins (tasks/words/swept_pairs.py), and trained by the state of the buffer
(tasks/words/pair_batches.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from any2vec.cluster.transport import Transport
from any2vec.data.vocab.user_keys import key_meta
from any2vec.embeddings import Embeddings
from any2vec.formats.table import Table
from any2vec.kernels.common.rng import PURPOSE_INIT, stream_key
from any2vec.kernels.rows.row_start import start_rows
from any2vec.kernels.skipgram.pairs import list_pairs
from any2vec.models.words.config import SequenceModel
from any2vec.plan.order.buffer import BufferPlan
from any2vec.tables.disk.partition_exchange import AllPartitions
from any2vec.tables.disk.partition_store import PartitionStore
from any2vec.tasks.words.budget import WINDOW, size_of_words, sweeps_of
from any2vec.tasks.words.pair_batches import BATCH, PairLearner
from any2vec.tasks.words.prepare import Prepared
from any2vec.tasks.words.program import SequenceProgram, doubted
from any2vec.tasks.words.swept_pairs import SweptPairs
from any2vec.train.frame import Program
from any2vec.train.out_of_core.program import TableProgram
from any2vec.train.out_of_core.stored_vectors import StoredTable, StoredVectors
from any2vec.train.out_of_core.table_budget import known_plan, plan_table
from any2vec.train.progress import Recorder
from any2vec.train.result import Result, StoredResult
from any2vec.train.spec import Request


def sequence_program(request: Request, prepared: Prepared, init: Embeddings | None, transport: Transport) -> Program:
    """The program of a run: with all rows in memory where there is room for them, else with some of them.

    Raises:
        InputError: the budget is too small, or the run in the folder had other settings.
    """
    if request.spec.storage.memory is not None:
        size = size_of_words(request.spec.model, len(prepared.keys), 0, 0)
        plan = known_plan(request, size) or plan_table(request, size)
        if plan is not None:
            return WordTableProgram(request, prepared, plan, transport)
    return SequenceProgram(request, prepared, init, transport)


class WordTableProgram(TableProgram):
    """Rows of words, or nodes, in partitions."""

    learner: PairLearner
    window, batch_size = WINDOW, BATCH

    def __init__(self, request: Request, prepared: Prepared, plan: BufferPlan, transport: Transport) -> None:
        kept = float((prepared.keep * prepared.counts).sum())
        self.sweeps = sweeps_of(request.spec.model, kept, plan, request.spec.run.epochs)
        super().__init__(request, transport, plan, len(prepared.keys), prepared.metadata)
        self.prepared = prepared
        self.learner = PairLearner(
            request.spec.model, prepared.counts, self.parts, self.walk, self.sweeps, request.spec.run.seed
        )

    def compile(self) -> None:
        tokens, begin, _, offset = self.prepared.source.piece(0, 0, 0)
        none_M2 = np.empty((0, 2), np.int32)
        list_pairs(
            tokens, begin, begin, offset, np.zeros(1, np.uint64), np.uint64(0), 1, np.zeros(1, np.int32), none_M2
        )
        self.learner.compile()

    def buckets(self, folder: Path, is_new: bool) -> SweptPairs:
        prepared, announce = self.prepared, self.request.hooks.stage

        def tick(done: int, total: int) -> None:
            if self.stop_signal:
                raise self._interrupted("while pairs were made")
            if announce is not None and is_new:
                announce("making pairs", done, total)

        found = SweptPairs(
            folder, prepared.source, prepared.keep, self.request.spec.model.window, self.parts,
            prepared.metadata["digest"], self.sweeps, tick,
        )  # fmt: skip
        if is_new:
            found.of(0)
            is_new = False  # from now on there is a table to go on from
        self.learner.buckets = found
        return found

    def start(self, entity_M: np.ndarray, row_MC: np.ndarray) -> None:
        start_words(self.request.spec.model, entity_M, row_MC, self.request.spec.run.seed)

    def model_metrics(self) -> dict[str, Any]:
        return {"sweeps": self.sweeps}

    def summary(self, stored: StoredResult, recorder: Recorder, compile_seconds: float) -> dict[str, Any]:
        return doubted(super().summary(stored, recorder, compile_seconds), self.request, self.prepared)

    def result(self, store: PartitionStore | AllPartitions) -> StoredTable:
        model, prepared, half = self.request.spec.model, self.prepared, self.spare_bytes // 2
        vectors, output = (StoredVectors(store, self.parts, model.dim, half, column) for column in (0, model.dim))
        meta = {"model": model.as_dict()} | key_meta(prepared.keys)
        return StoredTable(Table(prepared.keys, vectors, output, prepared.counts, meta))

    def load(self, stored: StoredResult) -> Result:
        return Result(Embeddings.load(self.out))


def start_words(model: SequenceModel, entity_M: np.ndarray, row_MC: np.ndarray, seed: int) -> None:
    """Rows of these items (int64) as they start, wherever they stand: input vectors drawn, output vectors 0."""
    start_rows(row_MC, entity_M, model.dim, stream_key(seed, PURPOSE_INIT), model.start_spread / model.dim)
