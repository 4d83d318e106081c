"""One host of a run over sequences: words, or the nodes of walks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from any2vec.cluster.transport import Transport
from any2vec.embeddings import Embeddings
from any2vec.kernels.skipgram.places import Places
from any2vec.models.words.config import NGram
from any2vec.models.words.gram_rows import GramRows
from any2vec.models.words.learner import SequenceLearner
from any2vec.models.words.pair_steps import pair_steps
from any2vec.models.words.too_little import lone_words, too_little
from any2vec.models.words.walk_corpus import WalkCorpusTokens
from any2vec.plan.order.epochs import EpochSchedule, piece_positions
from any2vec.plan.order.shares import chunk_bounds
from any2vec.sync.base.curvature import PairSteps
from any2vec.sync.base.host_rows import HostRows, RoundRows, WholeTables
from any2vec.sync.drivers.rounds import Rounds
from any2vec.sync.options.names import QUARTERS
from any2vec.sync.options.rounds import RoundAgreement
from any2vec.tasks.words.prepare import Prepared
from any2vec.tasks.words.start import TABLES, carry_over, fresh_rows, fresh_tables
from any2vec.train.in_memory.hosts import metrics_of_rounds
from any2vec.train.in_memory.program import InMemoryProgram, states_by_rank
from any2vec.train.loop import LocalDriver
from any2vec.train.progress import Recorder
from any2vec.train.result import Result, StoredResult
from any2vec.train.spec import Request
from any2vec.types import State


class SequenceProgram(InMemoryProgram):
    """Its tables, its learner, its schedule and its driver."""

    learner: SequenceLearner

    def __init__(self, request: Request, prepared: Prepared, init: Embeddings | None, transport: Transport) -> None:
        super().__init__(request, transport)
        self.prepared = prepared
        self.metadata = prepared.metadata
        self.keys, self.counts = prepared.keys, prepared.counts
        model = request.spec.model
        self.grams = GramRows(self.keys, model, request.spec.run.seed) if isinstance(model, NGram) else None
        rows = self._rows(init)
        source = prepared.source
        self.rounds = 1 if request.agreement is None else request.agreement.rounds(transport.hosts)
        self.schedule = self._schedule()
        self.learner = SequenceLearner(
            model, prepared.counts, prepared.keep, source, rows.tables,
            block=prepared.block, piece=self.schedule.piece, threads=request.threads, seed=request.spec.run.seed,
            places=Places(*(rows.places[name] for name in TABLES)) if isinstance(rows, RoundRows) else None,
            subwords=None if self.grams is None else self.grams.subwords(self.grams.table),
        )  # fmt: skip
        self.driver: LocalDriver | Rounds = LocalDriver()
        if request.agreement is not None:
            from any2vec.sync.make import make_agreement  # brings every exchange

            agreement = make_agreement(
                request.agreement, transport, rows, self.learner, self._occurrences(),
                None if isinstance(source, WalkCorpusTokens) else self.schedule.rounds_ahead(), request.threads,
                self._pair_steps(prepared) if model.objective == "negative" else None,
            )  # fmt: skip
            if self.checkpoint is not None:
                agreement.load_state_dict(states_by_rank(self.checkpoint.state))
            self.driver = Rounds(agreement, source.ahead if isinstance(source, WalkCorpusTokens) else None)

    def compile(self) -> None:
        self.learner.compile(for_hosts=self.request.agreement is not None)
        if isinstance(self.request.agreement, RoundAgreement):
            from any2vec.sync.rules.block import compile_merges

            compile_merges(self.request.spec.model.dim, self.request.agreement.bits)

    def agreed(self) -> dict[str, np.ndarray] | None:
        """The agreed tables."""
        return (
            self.learner.state_dict() if isinstance(self.driver, LocalDriver) else self.driver.agreement.gather_result()
        )

    @property
    def memory(self) -> State:
        return {} if isinstance(self.driver, LocalDriver) else self.driver.agreement.state_dict()

    def result(self, agreed: dict[str, np.ndarray]) -> Result:
        model = self.request.spec.model
        # The output rows of hierarchical softmax belong to the inner nodes of its tree, not to keys: they stay here.
        output = agreed["output"] if model.objective == "negative" else None
        vectors, encoder = agreed["input"], None
        if self.grams is not None:
            vectors, encoder = self.grams.vectors(vectors, agreed["grams"]), self.grams.encoder(agreed["grams"])
        return Result(Embeddings(self.keys, vectors, output, self.counts, {"model": model.as_dict()}, encoder))

    def summary(self, stored: StoredResult, recorder: Recorder, compile_seconds: float) -> dict[str, Any]:
        return doubted(super().summary(stored, recorder, compile_seconds), self.request, self.prepared)

    def gather_metrics(self, recorder: Recorder) -> dict[str, Any]:
        """What only several hosts have to tell, or one with a budget of memory."""
        if isinstance(self.driver, LocalDriver):
            return dict(self.request.spec.storage.metrics_of_whole())
        return metrics_of_rounds(self.request, self.transport, self.driver, recorder.seconds_here)

    def close(self, error: BaseException | None = None) -> None:
        if error is None and isinstance(self.driver, Rounds):
            self.driver.close()

    def _occurrences(self) -> dict[str, np.ndarray]:
        """How often rows occur in an epoch. Rows that only `init` has come last and do not occur; output rows of
        hierarchical softmax are no items, and nobody counted them.
        """
        both = self.request.spec.model.objective == "negative"
        return dict.fromkeys(("input", "output") if both else ("input",), self.prepared.counts)

    def _pair_steps(self, prepared: Prepared) -> Callable[[], PairSteps]:
        """For the rules that ask for them: of others no run pays for counts of all rows."""
        spec = self.request.spec
        return lambda: pair_steps(spec.model, prepared.counts, prepared.keep, self.rounds, spec.run.epochs)

    def _rows(self, init: Embeddings | None) -> HostRows:
        """Where this host trains its rows; where it pulls them it never has them all, unless `init` has."""
        model, seed, found = self.request.spec.model, self.request.spec.run.seed, self.checkpoint
        agree, start = self.request.agreement, None
        if init is not None:
            start, self.keys, self.counts = carry_over(init, self.keys, self.counts, model, seed)
        shape = (len(self.keys), model.dim)

        def first(name: str, ids: np.ndarray) -> np.ndarray:
            if found is not None:
                return found.array(name, shape)[ids]
            return fresh_rows(name, ids, model, seed) if start is None else start[name][ids]

        if isinstance(agree, RoundAgreement) and agree.is_pulled(self.transport.hosts):
            return RoundRows(dict.fromkeys(TABLES, shape[0]), model.dim, first)
        tables = fresh_tables(shape[0], model, seed) if start is None else start
        if self.grams is not None:
            tables["grams"] = self.grams.table
        if found is not None:
            for name, table in tables.items():
                table[:] = found.array(name, table.shape)
        return WholeTables(tables)

    def _schedule(self) -> EpochSchedule:
        """This host's part of the data; where a run goes on, what is left of it."""
        source, hosts, rank = self.prepared.source, self.transport.hosts, self.transport.rank
        agree = self.request.agreement
        parts, is_stepwise = agree.parts if isinstance(agree, RoundAgreement) else (1, False)
        if is_stepwise:  # a piece has many steps of SGD, and many rounds are shorter
            parts = QUARTERS
        piece = piece_positions(source.unit, self.request.spec.model.cost)
        bounds = self.prepared.bounds or chunk_bounds(source.num_positions, hosts, source.boundary)
        schedule = EpochSchedule(
            bounds=bounds, rank=rank, epochs=self.request.spec.run.epochs, unit=source.unit,
            piece=piece * self.request.threads if is_stepwise else piece, rounds=self.rounds,
            parts=parts, is_stepwise=is_stepwise,
            boundary=None if self.prepared.bounds is not None else source.boundary,
        )  # fmt: skip
        return self._resumed(schedule, hosts)


def doubted(summary: dict[str, Any], request: Request, prepared: Prepared) -> dict[str, Any]:
    """The summary, with what is odd about the data, whether no line has a pair, and whether subsampling has left too
    little to trust vectors that began afresh.
    """
    model, metadata, doubts = request.spec.model, prepared.metadata, [prepared.doubt]
    num_sentences = metadata.get("num_sentences") or metadata.get("num_walks")
    if num_sentences and metadata.get("num_tokens") == num_sentences:
        doubts.append(lone_words(num_sentences))
    elif request.spec.run.start is None and num_sentences:
        doubts.append(too_little(
            prepared.counts, num_sentences, subsample=model.subsample, window=model.window,
            rate=(model.learning_rate + model.min_learning_rate) / 2, epochs=request.spec.run.epochs,
        ))  # fmt: skip
    return summary | {"warnings": [*summary["warnings"], *filter(None, doubts)]}
