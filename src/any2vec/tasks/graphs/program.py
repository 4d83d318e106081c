"""One host's run of a graph network."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from any2vec import machine
from any2vec.cluster.transport import Transport
from any2vec.data.attributed.edge_features import edge_columns_of
from any2vec.data.attributed.features import FeatureRows
from any2vec.data.attributed.predictions import PREDICTIONS, NodePredictions
from any2vec.data.attributed.relations import Relations
from any2vec.embeddings import Embeddings
from any2vec.errors import FormatError
from any2vec.evaluate.graph.scores import auc_of_pairs, metric_of, ranking_of_pairs, score_of
from any2vec.models.networks.batches import LearnerData
from any2vec.models.networks.classifier import NetworkClassifier, nodes_digest
from any2vec.models.networks.config.base import NETWORK, objective_name
from any2vec.models.networks.config.own import OwnModule
from any2vec.models.networks.encoder import NetworkEncoder
from any2vec.models.networks.features import CachedFeatures
from any2vec.models.networks.hot_rows import SCORES, Asked, highest
from any2vec.models.networks.learner import GraphLearner, network_weights
from any2vec.models.networks.node_order import in_order
from any2vec.nn.sparse.rows import SparseRows
from any2vec.plan.order.epochs import EpochSchedule
from any2vec.plan.sharding.node_orders import node_order, places_of
from any2vec.sampling.links import CANDIDATES, LinkData
from any2vec.tasks.graphs.adjacency import learner_of, plan_of
from any2vec.tasks.graphs.options import CacheOptions
from any2vec.tasks.graphs.prepare import PreparedGraph
from any2vec.tasks.graphs.prune import PRUNED
from any2vec.train.checkpoint import FILE
from any2vec.train.in_memory.program import InMemoryProgram, states_by_rank
from any2vec.train.loop import LocalDriver
from any2vec.train.progress import Recorder
from any2vec.train.result import Result, remarks
from any2vec.train.spec import Request
from any2vec.types import State

_SAMPLE, _SAME, _ROUNDING = 1000, 0.9, 1e-4
"""nodes whose vectors are compared; share of them with one vector from which on the run is doubted; by how much of the
largest number vectors differ that are one"""


class NetworkProgram(InMemoryProgram):
    """The network, its batches, and what it says of all nodes in the end."""

    learner: GraphLearner

    def __init__(self, request: Request, prepared: PreparedGraph, transport: Transport) -> None:
        super().__init__(request, transport)
        self.prepared, self.metadata = prepared, prepared.metadata
        model, run = request.spec.model, request.spec.run
        budget = request.spec.storage.memory_bytes, machine.process_bytes(), request.threads
        cache = request.spec.reading.get("cache") or CacheOptions()
        self.plan = plan_of(model, prepared.metadata, *budget, cache)
        self._place_N: np.ndarray | None = None
        """where the learner has each node; None: where the user has it"""
        data = self._ordered(model.node_order) if model.node_order != "none" else prepared.data
        self.learner = learner_of(model, data, run.seed, request.threads, self.plan, prepared.graph)
        if self.learner.objective.is_validated:
            self.validation = self._validation()
        if self.plan.rows is not None:
            self.learner.use_features(_cached(prepared, self.plan.rows, cache.residency, self.learner))
        else:
            self.learner.use_sparse_features()
            if prepared.file is not None:
                prepared.file.close()
        items, size = self.learner.batches.num_items, self.learner.batches.batch_size
        self.schedule = self._resumed(EpochSchedule(bounds=(0, items), epochs=run.epochs, unit=size, piece=size), 1)
        self.learner.stages.plan(self.schedule.num_steps, self.plan.num_ahead, self.plan.trace_bytes)
        self.driver = LocalDriver()
        self._scored: tuple[NetworkClassifier | NetworkEncoder, np.ndarray, np.ndarray] | None = None

    def compile(self) -> None:
        if self.checkpoint is not None:
            try:
                self.learner.load_state_dict(self.checkpoint.state, *states_by_rank(self.checkpoint.state))
            except (KeyError, ValueError, TypeError) as error:
                raise FormatError(
                    f"{FILE} does not hold the network of this run; start again with --overwrite."
                ) from error
        self.learner.compile()

    def agreed(self) -> State:
        return self.learner.state_dict()

    @property
    def memory(self) -> State:
        return self.learner.memory()

    def scores(self, agreed: State) -> Mapping[str, float]:
        """By validation; what is agreed is the network at hand."""
        return self.learner.validate()

    def result(self, agreed: State) -> Result:
        scorer, vectors, score_NC = self._score()
        keys, data = self.prepared.graph.keys, self.prepared.data
        embeddings = Embeddings(keys, vectors, meta={"model": self.request.spec.model.as_dict()})
        if isinstance(scorer, NetworkEncoder):
            return Result(embeddings, scorer=scorer, parts={NETWORK: scorer})
        predictions = NodePredictions(
            keys, scorer.classes, score_NC, scorer.probabilities, data.labels, data.rows
        )  # fmt: skip
        return Result(embeddings, scorer=scorer, parts={NETWORK: scorer, PREDICTIONS: predictions})

    def gather_metrics(self, recorder: Recorder) -> dict[str, Any]:
        data, learner, epochs = self.prepared.data, self.learner, self.request.spec.run.epochs
        (_, vectors, scores), reader = self._score(), learner.batches.reader
        graph_meta = self.prepared.graph.metadata
        why = {"why_whole": learner.network.why_whole} if isinstance(self.request.spec.model, OwnModule) else {}
        doubt = _doubt(vectors, self.request.spec.model.rate)
        doubted = {"warnings": [*remarks(self.metadata), doubt]} if doubt else {}
        return _scores_of(data, vectors, scores) | why | doubted | {
            "best_epoch": epochs, "epochs_done": epochs, "rows_read": reader.sampled,
            "dim": vectors.shape[1], "batch_order": learner.batches.order,
            "rows_missed": reader.reads.missed, "bytes_read": reader.reads.bytes_read,
            "bytes_filled": reader.bytes_filled, "features": self._about_features(),
            "inference": learner.inference.counts._asdict(), **learner.stages.summary(recorder.seconds),
            **self._of_lists(), **({PRUNED: graph_meta[PRUNED]} if PRUNED in graph_meta else {}),
        }  # fmt: skip

    def _about_features(self) -> str:
        """Where they are, and whether they are mostly 0; "": in memory, all."""
        features, said = self.learner.batches.reader.features, [self.plan.sentence]
        if isinstance(features, SparseRows):
            share = len(features.value_S) / math.prod(features.shape)
            said.append(f"{share:.2%} of the numbers are not 0, and these alone are multiplied")
        return "; ".join(filter(None, said))

    def _of_lists(self) -> dict[str, Any]:
        """What the summary says of lists on disk, where there are any."""
        lists, reads = self.learner.lists, self.learner.batches.reader.lists
        if lists is None:
            return {}
        return {
            "adjacency": self.plan.adjacency, "lists_missed": reads.missed, "adjacency_bytes_read": reads.bytes_read,
            "adjacency_bytes_filled": lists.bytes_filled,
        }  # fmt: skip

    def _score(self) -> tuple[NetworkClassifier | NetworkEncoder, np.ndarray, np.ndarray]:
        """(the network of the best epoch, vectors of all nodes, scores of their classes); made once, at the end."""
        if self._scored is None:
            graph, model, data = self.prepared.graph, self.request.spec.model, self.prepared.data
            assert self._agreed is not None
            weights, inference = network_weights(self._agreed), self.learner.inference
            scorer: NetworkClassifier | NetworkEncoder
            if objective_name(model) == "classes":
                several = data.labels.ndim > 1
                scorer = NetworkClassifier(
                    model, weights, graph.num_features, graph.classes, several,
                    Relations.of(data.csr, data.features), nodes_digest(graph), edge_columns_of(data.csr),
                )  # fmt: skip
                vectors, scores = scorer.score_with(inference)
            else:
                scorer = NetworkEncoder(model, weights, graph.num_features, edge_columns_of(data.csr))
                vectors, scores = scorer.vectors_with(inference), np.empty((len(graph), 0), np.float32)
            if self._place_N is not None:
                vectors, scores = vectors[self._place_N], scores[self._place_N]
            self._scored = scorer, vectors, scores
        return self._scored

    def _ordered(self, method: str) -> LearnerData:
        """What the learner learns from, its nodes in an order in which they are near their neighbors."""
        order_N = node_order(self.prepared.data.csr, method)
        self._place_N = places_of(order_N)
        return in_order(self.prepared.data, order_N)


def _doubt(vector_ND: np.ndarray, rate: float) -> str:
    """A sentence where most of a sample of the nodes have the same vector, but for rounding; "" where not."""
    sample_SD = vector_ND[:: -(-len(vector_ND) // _SAMPLE) or 1]
    if len(sample_SD) < 2:
        return ""
    away_S = np.abs(sample_SD - np.median(sample_SD, axis=0)).max(axis=1)  # the median is what most have
    share = float(np.mean(away_S <= _ROUNDING * np.abs(sample_SD).max()))
    if share < _SAME:
        return ""
    return (
        f"{share:.0%} of the nodes have the same vector: the training collapsed, or features do not tell nodes apart; "
        f"try a smaller learning rate (--learning-rate {rate / 10:g}; this run: {rate:g})."
    )


def _scores_of(data: LearnerData, vector_ND: np.ndarray, score_NC: np.ndarray) -> dict[str, Any]:
    """Of train, val and test; None where there are none."""
    if data.links is not None:
        return _scores_of_links(data.links, vector_ND)
    if not data.labels.size:
        return {}
    return {
        f"{part}_{metric_of(data.labels)}": score_of(score_NC, data.labels, rows) if len(rows) else None
        for part, rows in data.rows.items()
    }


def _scores_of_links(links: LinkData, vector_ND: np.ndarray) -> dict[str, Any]:
    """AUC against other pairs, and MRR and Hits@10 among as many candidates as are said."""
    found: dict[str, Any] = {}
    for part in ("val", "test"):
        edge_2K, negative_2K, ranking_WR = (getattr(links, part + name) for name in ("", "_negatives", "_ranking"))
        ranked = ranking_of_pairs(vector_ND, ranking_WR)
        found[f"{part}_auc"] = auc_of_pairs(vector_ND, edge_2K, negative_2K) if edge_2K.size else None
        found |= {f"{part}_{name}": ranked.get(name) for name in ("mrr", "hits_at_10")}
    return found | {"num_ranking_negatives": CANDIDATES}


def _cached(prepared: PreparedGraph, rows: int, residency: str, learner: GraphLearner) -> CachedFeatures:
    """Features on disk with some rows in memory."""
    data, score, nodes_of = prepared.data, SCORES.get(residency), partial(learner.batches.nodes_of, 0)
    assert isinstance(data.features, FeatureRows) and prepared.file is not None
    asked = Asked(data.csr, data.rows["train"], lambda: map(nodes_of, range(learner.num_batches)))
    kept = None if score is None else highest(score(asked), rows)
    return CachedFeatures(prepared.file, data.features.scale_N, rows, "static" if score else residency, kept)
