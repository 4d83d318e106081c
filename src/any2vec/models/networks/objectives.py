"""What a network learns, from which items: what a batch asks for, its loss, and what is validated.

An objective knows nothing of how messages reach its nodes (`batches.py`).

Legend: B nodes that a batch asks for, C columns of the last layer, N nodes of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from any2vec.evaluate.graph.scores import auc_of_pairs, metric_of, ranking_of_pairs, score_of
from any2vec.models.networks.batches import LearnerData, Seeds
from any2vec.models.networks.config.base import GraphNetwork, ObjectiveNetwork
from any2vec.models.networks.inference import Inference
from any2vec.models.networks.network import Network
from any2vec.plan.order.clusters import ClusterOrder
from any2vec.plan.order.proximity import ProximityOrder
from any2vec.plan.order.shuffle import random_order
from any2vec.plan.sharding.clusters import find_clusters
from any2vec.sampling.links import LinkOptions, LinkSampler, WalkPairs


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

    @property
    def is_validated(self) -> bool:
        """Whether `validate` has anything to judge by."""

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


class Known(NamedTuple):
    """What the scores of nodes are compared with."""

    label_B: torch.Tensor
    """int64, or float32 (B, C)"""
    weight_B: torch.Tensor | None


class Classes:
    """Classes of nodes; the items are the training nodes."""

    def __init__(self, model: GraphNetwork, data: LearnerData, seed: int) -> None:
        self._data, self._seed, self.num_columns = data, seed, data.num_classes
        self._model = model
        self._ordered = -1, np.empty(0, np.int64)
        """an epoch, and its order of the training nodes"""

    @property
    def num_items(self) -> int:
        return len(self._data.rows["train"])

    @property
    def order(self) -> str:
        """Why it is not by proximity, too, where that was asked for."""
        return "random" if self._special is None else self._special.sentence()

    @property
    def is_validated(self) -> bool:
        return len(self._data.rows["val"]) > 0

    def seeds(self, epoch: int, number: int, first: int, stop: int) -> Seeds:
        return self.seeds_of(self._order(epoch)[first:stop])

    def all_seeds(self, epoch: int) -> Seeds:
        return self.seeds_of(self._data.rows["train"])

    def seeds_of(self, node_B: np.ndarray, weight_B: torch.Tensor | None = None) -> Seeds:
        """What a batch asks for that has chosen its nodes itself; all have classes. weight: of their losses, whose sum
        counts then, and not their mean.
        """
        label = self._data.labels[node_B]
        label_B = torch.from_numpy(label.astype(np.int64 if label.ndim == 1 else np.float32))
        return Seeds(node_B, Known(label_B, weight_B), len(node_B))

    def trial(self) -> Seeds:
        return self.seeds_of(self._data.rows["train"][:1])

    def loss(self, given_BC: torch.Tensor, target: Known) -> torch.Tensor:
        """Mean cross-entropy over the batch's nodes; of several classes a node, also over classes."""
        label_B, weight_B = target
        how = "mean" if weight_B is None else "none"
        if label_B.ndim == 1:
            found = torch.nn.functional.cross_entropy(given_BC, label_B, reduction=how)
        else:
            found = torch.nn.functional.binary_cross_entropy_with_logits(given_BC, label_B, reduction=how)
        return found if weight_B is None else (found.view(len(weight_B), -1).mean(dim=1) * weight_B).sum()

    def validate(self, network: Network, inference: Inference) -> Mapping[str, float]:
        labels, rows = self._data.labels, self._data.rows["val"]
        found = inference.scores(network, rows)
        return {f"val_{metric_of(labels)}": score_of(found, labels[rows], np.arange(len(rows)))}

    def _order(self, epoch: int) -> np.ndarray:
        """The training nodes, in the order of an epoch."""
        known, rows = self._ordered, self._data.rows["train"]
        if known[0] != epoch:
            special = self._special
            places = special.order(epoch) if special else random_order(len(rows), self._seed, epoch)
            self._ordered = known = epoch, rows[places]
        return known[1]

    @cached_property
    def _special(self) -> ProximityOrder | ClusterOrder | None:
        """What orders the training nodes; None: nothing but chance."""
        model, csr, rows = self._model, self._data.csr, self._data.rows["train"]
        if model.batch_order == "proximity":
            return ProximityOrder(csr, rows, self._data.labels[rows], model.batch_size, self._seed)
        if model.batch_order == "cluster":
            clusters = find_clusters(csr, model.parts_of(len(rows)), model.partitioner, self._seed)
            return ClusterOrder(clusters.part_N[rows], clusters.num, self._seed, clusters.sentence())
        return None


class Links:
    """Which pairs of nodes are edges, by the dot product of the last layer's rows; the items are the edges to learn.

    A sampled batch sends no messages along the edges that it learns, in neither direction; along the whole graph, where
    all are learned at once, messages go along all of them.
    """

    order = "random"

    def __init__(self, model: ObjectiveNetwork, data: LearnerData, seed: int) -> None:
        assert data.links is not None
        self._csr = data.csr
        options = LinkOptions(num_negatives=model.num_drawn, negatives=model.negatives or "uniform", seed=seed)
        self._links, self._seed, self.num_columns = data.links, seed, model.hidden
        self._sampler = LinkSampler(data.csr, data.links.train, options)

    @property
    def num_items(self) -> int:
        return self._links.train.shape[1]

    @property
    def is_validated(self) -> bool:
        return self._links.val.shape[1] > 0

    def seeds(self, epoch: int, number: int, first: int, stop: int) -> Seeds:
        from any2vec.kernels.common.permutation import permute
        from any2vec.kernels.common.rng import PURPOSE_ORDER, stream_key

        places = np.arange(first, min(stop, self.num_items))
        permute(places, self.num_items, stream_key(self._seed, PURPOSE_ORDER, epoch), places)
        return self._of(places, epoch)

    def all_seeds(self, epoch: int) -> Seeds:
        return self._of(np.arange(self.num_items), epoch, is_sampled=False)

    def trial(self) -> Seeds:
        return self._of(np.arange(min(1, self.num_items)), 0)

    def _of(self, edges: np.ndarray, epoch: int, is_sampled: bool = True) -> Seeds:
        node_B, src_P, dst_P, num = self._sampler.sample(edges, epoch)
        is_edge = torch.arange(len(src_P)) < num
        target = torch.from_numpy(src_P), torch.from_numpy(dst_P), is_edge.float()
        left_out = self._with_reverses(node_B, dst_P[:num], src_P[:num]) if is_sampled else None
        return Seeds(node_B, target, num, left_out)

    def _with_reverses(self, node_B: np.ndarray, target_K: np.ndarray, source_K: np.ndarray) -> np.ndarray:
        """int64 (2, L): edges, by places of their ends in a batch, and their reverses where there are such, once each:
        degrees fall by each of them."""
        from any2vec.kernels.graph.links import find_linked

        target_L, source_L = np.concatenate([target_K, source_K]), np.concatenate([source_K, target_K])
        is_edge_L = np.empty(len(target_L), bool)
        find_linked(self._csr.indptr, self._csr.indices, node_B[target_L], node_B[source_L], is_edge_L)
        code_L = np.unique((target_L * len(node_B) + source_L)[is_edge_L])
        return np.stack(np.divmod(code_L, max(1, len(node_B))))

    def loss(self, given_BC: torch.Tensor, target: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Mean binary cross-entropy over edges and other pairs."""
        src_P, dst_P, is_edge_P = target
        score_P = (given_BC[src_P] * given_BC[dst_P]).sum(dim=1)
        return torch.nn.functional.binary_cross_entropy_with_logits(score_P, is_edge_P)

    def validate(self, network: Network, inference: Inference) -> Mapping[str, float]:
        parts = self._links.val, self._links.val_negatives, self._links.val_ranking
        node_B, place = np.unique(np.concatenate([part.ravel() for part in parts]), return_inverse=True)
        cut = np.split(place, np.cumsum([part.size for part in parts[:-1]]))
        edge_2P, negative_2P, ranking_WR = (at.reshape(part.shape) for at, part in zip(cut, parts, strict=True))
        found = inference.scores(network, node_B)
        ranked = {f"val_{name}": value for name, value in ranking_of_pairs(found, ranking_WR).items()}
        return {"val_auc": auc_of_pairs(found, edge_2P, negative_2P)} | ranked


class Unsupervised:
    """Rows that are alike for nodes on one random walk: GraphSAGE's loss without classes; the items are walks.

    Source: Hamilton, Ying and Leskovec, NeurIPS 2017, equation 1, of rows of length 1 (algorithm 1, line 7), negatives
    by degree to the power of 0.75. Without that length, so many negatives draw all rows to 0.
    """

    order, is_validated = "random", False

    def __init__(self, model: ObjectiveNetwork, data: LearnerData, seed: int) -> None:
        self._pairs, self.num_columns = WalkPairs(data.csr, model.walk_length, model.num_drawn, seed), model.hidden

    @property
    def num_items(self) -> int:
        return self._pairs.num_walks

    def seeds(self, epoch: int, number: int, first: int, stop: int) -> Seeds:
        return self._of(first, min(stop, self.num_items), epoch)

    def all_seeds(self, epoch: int) -> Seeds:
        return self._of(0, self.num_items, epoch)

    def trial(self) -> Seeds:
        return self._of(0, 1, 0)

    def _of(self, first: int, stop: int, epoch: int) -> Seeds:
        node_B, *places = self._pairs.sample(first, stop, epoch)
        return Seeds(node_B, tuple(map(torch.from_numpy, places)), stop - first)

    def loss(self, given_BC: torch.Tensor, target: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """-log sigmoid(z_u z_v) - sum over negatives n of log sigmoid(-z_u z_n), the mean over pairs (u, v)."""
        src_P, dst_P, negative_K = target
        unit_BC = torch.nn.functional.normalize(given_BC)
        from_PC = unit_BC[src_P]
        near_P = torch.nn.functional.softplus(-(from_PC * unit_BC[dst_P]).sum(dim=1))
        far_PK = torch.nn.functional.softplus(from_PC @ unit_BC[negative_K].T)
        return (near_P.sum() + far_PK.sum()) / max(1, len(src_P))

    def validate(self, network: Network, inference: Inference) -> Mapping[str, float]:
        return {}


def objective_of(model: GraphNetwork, data: LearnerData, seed: int) -> Objective:
    """What the model learns."""
    if isinstance(model, ObjectiveNetwork) and model.objective != "classes":
        kind = Links if model.objective == "links" else Unsupervised
        return kind(model, data, seed)
    return Classes(model, data, seed)
