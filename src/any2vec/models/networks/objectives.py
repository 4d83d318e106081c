"""What a network learns, from which items: what a batch asks for, its loss, and what is validated.

An objective knows nothing of how messages reach its nodes (`batches.py`).

Legend: B nodes that a batch asks for, C columns of the last layer, N nodes of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch

from any2vec.models.networks.batches import LearnerData, Seeds
from any2vec.models.networks.config import GraphNetwork
from any2vec.models.networks.inference import Inference
from any2vec.models.networks.network import Network
from any2vec.models.networks.scores import metric_of, score_of
from any2vec.plan.order.proximity import ProximityOrder
from any2vec.plan.order.shuffle import random_order


class Objective(Protocol):
    """Pure: a batch is a function of (seed, epoch, number)."""

    @property
    def num_items(self) -> int:
        """Of an epoch."""

    @property
    def num_columns(self) -> int:
        """C"""

    @property
    def order(self) -> str:
        """Of the items in an epoch, in words."""

    def seeds(self, epoch: int, number: int, first: int, stop: int) -> Seeds:
        """What batch `number` asks for: the items [first, stop) of an epoch, or fewer at its end."""

    def all_seeds(self, epoch: int) -> Seeds:
        """Of all items of an epoch."""

    def trial(self) -> Seeds:
        """Of an item, or few."""

    def loss(self, given_BC: torch.Tensor, target: Any) -> torch.Tensor:
        """The mean over items, of what the last layer gives for the seeds, and their target."""

    def validate(self, network: Network, inference: Inference) -> Mapping[str, float]:
        """By name, more is better; from all neighbors."""


class Classes:
    """Classes of nodes; the items are the training nodes."""

    def __init__(self, model: GraphNetwork, data: LearnerData, seed: int) -> None:
        self._data, self._seed, self.num_columns = data, seed, data.num_classes
        self._near = model.batch_size if model.batch_order == "proximity" else 0
        self._ordered = -1, np.empty(0, np.int64)
        """an epoch, and its order of the training nodes"""

    @property
    def num_items(self) -> int:
        return len(self._data.rows["train"])

    @property
    def order(self) -> str:
        """Why it is not by proximity, too, where that was asked for."""
        if self._proximity is None:
            return "random"
        number = self._proximity.num_sequences
        return f"proximity, {number} sequences" if number else "random: near nodes are too much of one class"

    def seeds(self, epoch: int, number: int, first: int, stop: int) -> Seeds:
        return self.seeds_of(self._order(epoch)[first:stop])

    def all_seeds(self, epoch: int) -> Seeds:
        return self.seeds_of(self._data.rows["train"])

    def seeds_of(self, node_B: np.ndarray) -> Seeds:
        """What a batch asks for that has chosen its nodes itself; all have classes."""
        label = self._data.labels[node_B]
        label_B = torch.from_numpy(label.astype(np.int64 if label.ndim == 1 else np.float32))
        return Seeds(node_B, label_B, len(node_B))

    def trial(self) -> Seeds:
        return self.seeds_of(self._data.rows["train"][:1])

    def loss(self, given_BC: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy over the batch's nodes; of several classes a node, also over classes."""
        if target.ndim == 1:
            return torch.nn.functional.cross_entropy(given_BC, target)
        return torch.nn.functional.binary_cross_entropy_with_logits(given_BC, target)

    def validate(self, network: Network, inference: Inference) -> Mapping[str, float]:
        labels, rows = self._data.labels, self._data.rows["val"]
        found = inference.scores(network, rows)
        return {f"val_{metric_of(labels)}": score_of(found, labels[rows], np.arange(len(rows)))}

    def _order(self, epoch: int) -> np.ndarray:
        """The training nodes, in the order of an epoch."""
        known, rows = self._ordered, self._data.rows["train"]
        if known[0] != epoch:
            by_nearness = self._proximity
            places = by_nearness.order(epoch) if by_nearness else random_order(len(rows), self._seed, epoch)
            self._ordered = known = epoch, rows[places]
        return known[1]

    @cached_property
    def _proximity(self) -> ProximityOrder | None:
        """What orders the training nodes; None: nothing but chance."""
        if not self._near:
            return None
        rows = self._data.rows["train"]
        return ProximityOrder(self._data.csr, rows, self._data.labels[rows], self._near, self._seed)


def objective_of(model: GraphNetwork, data: LearnerData, seed: int) -> Objective:
    """What the model learns."""
    return Classes(model, data, seed)
