"""A trained graph network that gives vectors of nodes of any graph whose features mean the same: inductive."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from any2vec.errors import InputError
from any2vec.evaluate.graph.scores import pair_scores
from any2vec.models.networks.classifier import (
    MAX_COLUMNS,
    OtherNetworkError,
    check_edge_features,
    checked_nodes,
    edges_for,
    opened,
    read_network,
    write_network,
)  # fmt: skip
from any2vec.models.networks.config.base import GraphNetwork, objective_name
from any2vec.types import State

if TYPE_CHECKING:
    from any2vec.data.attributed.graph import AttributedGraph
    from any2vec.models.networks.inference import Inference


TINY = 1e-12
"""below which a length counts as this, as `torch.nn.functional.normalize` has it"""


class NetworkEncoder:
    """Vectors of nodes, each from all its in-neighbors, by a network that has learned links, or without classes.

    Args:
        weights: of the network, by name.
        num_edge_features: columns; 0: edges had none.
    """

    def __init__(self, model: GraphNetwork, weights: State, num_features: int, num_edge_features: int = 0) -> None:
        self.model, self.weights, self.num_features = model, weights, num_features
        self.num_edge_features = num_edge_features

    def __repr__(self) -> str:
        return f"NetworkEncoder({self.model.name}, {self.num_features:,} features, {self.model.dim} columns)"

    def vectors(
        self, graph: AttributedGraph | Path | str, nodes: np.ndarray | None = None, *, budget_bytes: int = 0
    ) -> np.ndarray:
        """float32 (K, dim): what the last layer gives of nodes, or of all.

        graph, budget_bytes and errors as of `NetworkClassifier.score`.
        """
        from any2vec.models.networks.inference import inference_over

        graph = opened(graph)
        if graph.features is None or graph.num_features != self.num_features:
            raise InputError(f"The network takes {self.num_features:,} features a node, got {graph.num_features:,}.")
        check_edge_features(self.model, graph, self.num_edge_features)
        nodes = None if nodes is None else checked_nodes(nodes, len(graph))
        csr = edges_for(self.model, graph)
        return self.vectors_with(inference_over(self.model, csr, graph.features, budget_bytes), nodes)

    def vectors_with(self, inference: Inference, nodes: np.ndarray | None = None) -> np.ndarray:
        """As `vectors`, of a graph that is at hand in `inference`."""
        from any2vec.models.networks.network import network_of

        sizes, num = (self.num_features, self.model.dim), self.num_edge_features
        network = network_of(self.model, *sizes, self.weights, edge_features=num)
        found = inference.hidden_and_scores(network, nodes)[1]
        if objective_name(self.model) == "unsupervised":  # which has learned rows of length 1
            found = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), TINY)
        return found

    def score(
        self, graph: AttributedGraph | Path | str, pairs: np.ndarray, *, budget_bytes: int = 0
    ) -> np.ndarray:  # fmt: skip
        """float32 (K,): how likely edges are, as logits, between nodes of a graph: the dot products of their vectors.

        pairs: integers (2, K), sources and targets, as `edge_index` has them; of a list of pairs `np.array(pairs).T`.
        budget_bytes: as of `vectors`.

        Raises:
            InputError: the pairs are of another shape; and as of `NetworkClassifier.score`.
        """
        found = np.asarray(pairs)
        if found.ndim != 2 or len(found) != 2:
            fix = "; give np.array(pairs).T" if found.ndim == 2 and found.shape[1] == 2 else ""
            raise InputError(
                f"pairs must be whole numbers (2, pairs), sources and targets, got shape {found.shape}{fix}."
            )
        node_B, place = np.unique(found, return_inverse=True)
        return pair_scores(self.vectors(graph, node_B, budget_bytes=budget_bytes), place.reshape(2, -1))

    def write(self, path: Path) -> None:
        """Write it to the file `path`."""
        about = {"model": self.model.as_dict(), "num_features": self.num_features}
        about |= {"num_edge_features": self.num_edge_features} if self.num_edge_features else {}
        write_network(path, self.weights, about)

    @classmethod
    def load(cls, folder: Path | str) -> NetworkEncoder:
        """Open the folder of a finished run.

        Raises:
            FormatError: it is none of a graph network that gives vectors, or damaged.
        """
        return read_network(folder, cls.of)

    @classmethod
    def of(cls, model: GraphNetwork, weights: State, about: Mapping[str, Any]) -> NetworkEncoder:
        """By what `write` has written. ValueError, KeyError, TypeError where it is damaged."""
        from any2vec.models.networks.network import network_of

        if objective_name(model) == "classes":
            raise OtherNetworkError("The network gives classes of nodes; NetworkClassifier.load opens it.")
        if not all(np.isfinite(array).all() for array in weights.values()):
            raise ValueError("its weights are not all numbers")
        num_features = int(about["num_features"])
        if not 0 < num_features <= MAX_COLUMNS:
            raise ValueError(f"it has {num_features} features")
        num = int(about.get("num_edge_features", 0))
        network_of(model, num_features, model.dim, weights, edge_features=num)
        return cls(model, weights, num_features, num)
