"""A classifier of nodes by graph networks, in scikit-learn's manner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

import any2vec
from any2vec.data.attributed.graph import AttributedGraph, is_attributed
from any2vec.data.attributed.node_tables import by_position
from any2vec.data.options import GraphOptions
from any2vec.embeddings import Embeddings
from any2vec.errors import DataError, InputError
from any2vec.estimators.base import config_of, options_of, with_parameters
from any2vec.estimators.classifiers import classes_of
from any2vec.evaluate.graph.scores import score_of
from any2vec.models.networks.config.base import GraphNetwork, objective_name
from any2vec.tasks.graphs.build import is_given
from any2vec.tasks.graphs.edges import TRIPLES
from any2vec.tasks.graphs.nodes import Nodes, node_labels, node_splits


@with_parameters(
    {
        "graphsage": any2vec.GraphSAGE, "gcn": any2vec.GCN, "gat": any2vec.GAT, "gatv2": any2vec.GATv2,
        "gin": any2vec.GIN, "gine": any2vec.GINE, "rgcn": any2vec.RGCN, "sgc": any2vec.SGC, "appnp": any2vec.APPNP,
    },
    GraphOptions,
    patience=0,
)  # fmt: skip
class GraphNetworkClassifier(ClassifierMixin, BaseEstimator):
    """Predicts classes of nodes by a graph network, from their own features and their neighbors'.

    Parameters: `model` ("graphsage", "gcn", "gat", "gatv2", "gin", "gine", "rgcn", "sgc", "appnp", or a config), the
    fields of their configs, `epochs`, `threads`, `seed`, `patience` (epochs without a better validation score after
    which the training ends; 0: never), and the fields of `GraphOptions`. None means the model's own default.

    A graph is an `AttributedGraph` or its folder, a PyG `Data`, or what `any2vec.fit` takes for nodes, with features
    beside it (of rgcn triples, without, too). Predictions cover all its nodes, in its order. The graph may differ from
    that of `fit`, if its features have the same meaning.

    After `fit`: `classes_`, `classifier_` (a `NetworkClassifier`), `embeddings_` (vectors of the nodes) and `summary_`.
    """

    _models: dict[str, type]
    classes_: np.ndarray
    classifier_: any2vec.NetworkClassifier
    embeddings_: Embeddings
    summary_: dict[str, Any]

    def fit(
        self, graph: Any, y: Any = None, *, features: Any = None, split: Any = None, edge_features: Any = None
    ) -> GraphNetworkClassifier:  # fmt: skip
        """Train on the nodes that have a class, or on those of a split. Returns self.

        Args:
            y: (N,): whole numbers, -1 where a node has no class, or names, None where it has none; 0 and 1 (N, C),
                where nodes have several; a dict of node -> class; or a path of `node class` lines. None: the graph's
                own.
            features: (N, D), an array, a SciPy sparse one, `Embeddings`, or a path of such; of a graph without its own.
                A table's column node says of which node a row is. An index of pandas counts for nothing, here and in y
                and split, but in masks.
            split: dict of train, val, test -> nodes by id or name, or masks (N,), or a path. None: the graph's own
                where its classes are its own, too; else all nodes with a class train, and nothing validates.
            edge_features: (M, K), a row an edge in the order of the edges, as features are given; of a network that
                heeds them, and a graph without its own.

        Raises:
            InputError: a parameter is not legal, or something is missing or given twice. DataError: the graph cannot be
            read, or does not go together.
        """
        model = config_of(self)
        if objective_name(model) != "classes":
            raise InputError(f"GraphNetworkClassifier learns classes; for {model.objective} call any2vec.fit.")
        with self._opened(graph, (features, edge_features), model, y, split) as opened:
            result = any2vec.fit(
                model, opened, epochs=self.epochs, threads=self.threads, seed=self.seed, patience=self.patience
            )  # fmt: skip
        self.classifier_, self.embeddings_, self.summary_ = result.scorer, result.embeddings, result.summary
        self.classes_ = classes_of(self.classifier_.classes, y)
        return self

    def decision_function(self, graph: Any, *, features: Any = None, edge_features: Any = None) -> np.ndarray:
        """Scores of the classes, float32 (N, C); of several classes a node those above 0 are predicted.

        graph, features, edge_features: as of `fit`.
        """
        check_is_fitted(self)
        with self._opened(graph, (features, edge_features), self.classifier_.model, False) as opened:
            return self.classifier_.score(opened)[1]

    def predict_proba(self, graph: Any, *, features: Any = None, edge_features: Any = None) -> np.ndarray:
        """Probabilities of the classes, float64 (N, C); of several classes a node each class's own.

        graph, features, edge_features: as of `fit`.
        """
        score_NC = self.decision_function(graph, features=features, edge_features=edge_features)
        return self.classifier_.probabilities(score_NC)

    def predict(self, graph: Any, *, features: Any = None, edge_features: Any = None) -> np.ndarray:
        """The likeliest class of each node, (N,); of several classes a node 0 and 1, (N, C).

        graph, features, edge_features: as of `fit`.
        """
        score_NC = self.decision_function(graph, features=features, edge_features=edge_features)
        if self.classifier_.is_multi_label:
            return (score_NC > 0).astype(np.int64)
        return self.classes_[score_NC.argmax(axis=1)]

    def score(self, graph: Any, y: Any = None, *, features: Any = None, edge_features: Any = None) -> float:
        """Share of the nodes with a class for which it is predicted; of several classes a node micro-F1.

        Args:
            graph, features, edge_features: as of `fit`.
            y: as of `fit`; a class that the training had not is never predicted, and missed. Of several classes a
                node, those count that have one, and of a graph's own classes those of its split, too.

        Raises:
            DataError: no node has a class; and as of `fit`.
        """
        check_is_fitted(self)
        with self._opened(graph, (features, edge_features), self.classifier_.model, y, False) as opened:
            truth, score_NC = _as_trained(opened, self.classifier_), self.classifier_.score(opened)[1]
        is_known_N = truth != -1 if truth.ndim == 1 else truth.any(axis=1)
        if not is_known_N.any():
            raise DataError("No node has a class; give y with one class at least that is not -1 or None.")
        if truth.ndim > 1:
            missed = truth.shape[1] - score_NC.shape[1]
            score_NC = np.pad(score_NC, ((0, 0), (0, missed)), constant_values=-np.inf)
            is_known_N = is_known_N | (opened.splits[:1] >= 0).any(axis=0)
        return score_of(score_NC, truth, np.flatnonzero(is_known_N))

    @contextmanager
    def _opened(
        self, graph: Any, given: tuple[Any, Any], model: GraphNetwork, y: Any, split: Any = None
    ) -> Iterator[AttributedGraph]:
        """The graph with what stands beside it; one of edges lies in a folder meanwhile.

        given: features of nodes, and of edges.
        y, split: False: they are not asked for; None: the graph's own, of the split where its classes are, too.
        """
        features, y = by_position(given[0]), by_position(y)
        edge_features, split = given[1], False if split is None and y is not None else by_position(split)
        if is_given(edge_features) and not model.takes_edge_features:
            raise InputError(f"{model.name} makes nothing of features of edges; leave out edge_features.")
        options = options_of(self, GraphOptions)
        if isinstance(graph, AttributedGraph) or is_attributed(graph):
            what = "features" if features is not None else "edge_features" if is_given(edge_features) else ""
            if what or options != GraphOptions():
                what = what or "the options of reading"
                raise InputError(f"An attributed graph has been read already; leave out {what}.")
            yield _labeled(graph if isinstance(graph, AttributedGraph) else AttributedGraph.open(graph), y, split)
            return
        with TemporaryDirectory(prefix="any2vec-graph-") as folder:
            yield any2vec.write_graph(
                graph, Path(folder) / "graph", features=features, labels=y, split=split, graph=options,
                edge_types=TRIPLES if isinstance(model, any2vec.RGCN) and not hasattr(graph, "edge_index") else None,
                edge_features=edge_features if model.takes_edge_features else False,
            )  # fmt: skip

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classifier_")


def _labeled(graph: AttributedGraph, y: Any, split: Any) -> AttributedGraph:
    """The graph with these classes and this split, where there are such."""
    if not is_given(y) and not is_given(split):
        return graph
    found = copy(graph)
    nodes = Nodes(len(graph), graph.keys if "words" in graph.metadata["arrays"] else None)
    if is_given(y):
        found.labels, found.classes = node_labels(y, nodes)
        found.splits = np.empty((0, len(graph)), np.int8)
    if is_given(split):
        found.splits = node_splits(split, None, nodes)
    return found


def _as_trained(graph: AttributedGraph, classifier: any2vec.NetworkClassifier) -> np.ndarray:
    """Labels by the numbers of the training's classes; -1: none; -2: only such as it had not. Where nodes have several
    classes in training: 0 and 1 (N, C or more), columns of classes that it had not behind the others."""
    if graph.labels is None:
        raise InputError("The graph has no classes to compare with; give y.")
    number = {name: place for place, name in enumerate(classifier.classes)}
    num_trained = len(number)
    if graph.labels.ndim == 1 and not classifier.is_multi_label:
        numbers = np.array([*(number.get(name, -2) for name in graph.classes), -1])
        return numbers[graph.labels]
    for name in graph.classes:
        number.setdefault(name, len(number))
    truth_NC = np.zeros((len(graph), len(number)), np.uint8)
    for place, name in enumerate(graph.classes):
        has_it = graph.labels == place if graph.labels.ndim == 1 else graph.labels[:, place] > 0
        truth_NC[:, number[name]] = has_it
    if classifier.is_multi_label:
        return truth_NC
    others_N, known_NC = np.where(truth_NC.any(axis=1), -2, -1), truth_NC[:, :num_trained]
    return np.where(known_NC.any(axis=1), known_NC.argmax(axis=1), others_N)
