"""Training nodes in an order in which batches are of nodes that are near one another, so that they read fewer rows.

Source: BGL (Liu et al., NSDI 2023, arXiv 2112.08541), proximity-aware ordering: several breadth-first sequences from
random roots, rotated at random each epoch, from which batches take in turn; as few as leave the classes of a batch
about as mixed as random batches have them. Ours: what about means, the numbers that are tried, and that the order is
random where none of them suffices.

Legend: N nodes, T training nodes, S sequences, C classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np

from any2vec.plan.order.shuffle import random_order
from any2vec.types import Csr

SEQUENCES = (1, 2, 4, 8, 16, 32)
"""numbers of sequences that are tried"""
LOOKED_AT = 5
"""epochs by whose batches the number is chosen"""
TOLERANCE = 0.1
"""by which batches may be less mixed than random ones"""


class ProximityOrder:
    """Orders of training nodes by epoch: a pure function of the graph, the nodes, their classes, the seed and it.

    Args:
        csr: in-neighbors, along which searches go.
        train: int64 (T,), distinct nodes.
        labels: of them: int (T,), classes from 0, or uint8 (T, C), several a node.
        batch_size: nodes of a batch, 1 or more.

    Memory: 4 bytes a training node and sequence; while sequences are found 9 a node, too.
    """

    def __init__(self, csr: Csr, train: np.ndarray, labels: np.ndarray, batch_size: int, seed: int) -> None:
        self._seed = seed
        self._sequence_ST = np.empty((max(SEQUENCES), len(train)), np.int32)
        bound = (1 + TOLERANCE) * self._mixed(0, labels, batch_size)
        coming, found = breadth_first_sequences(csr, train, seed), 0
        self.num_sequences = 0
        """S; 0: none of the numbers suffices, and the order is random"""
        for number in SEQUENCES:
            for s in range(found, number):  # a search goes through the whole graph: no more of them than are tried
                self._sequence_ST[s] = next(coming)
            found = number
            if self._mixed(number, labels, batch_size) <= bound:
                self.num_sequences = number
                break
        self._sequence_ST = self._sequence_ST[: self.num_sequences].copy()

    def sentence(self) -> str:
        """Which order it is, and why it is not by proximity."""
        number = self.num_sequences
        return f"proximity, {number} sequences" if number else "random: near nodes are too much of one class"

    def order(self, epoch: int) -> np.ndarray:
        """int64 (T,): places of the training nodes in the order of an epoch."""
        return self._dealt(epoch, self.num_sequences)

    def _mixed(self, number: int, labels: np.ndarray, batch_size: int) -> float:
        """How far the classes of batches are from those of all, with so many sequences."""
        return float(np.mean([spread(self._dealt(epoch, number), labels, batch_size) for epoch in range(LOOKED_AT)]))

    def _dealt(self, epoch: int, number: int) -> np.ndarray:
        from any2vec.kernels.graph.traversal import deal_in_turn

        size = self._sequence_ST.shape[1]
        if not number:
            return random_order(size, self._seed, epoch)
        start_S = np.random.default_rng((self._seed, epoch)).integers(size, size=number)
        found_T = np.empty(size, np.int64)
        deal_in_turn(self._sequence_ST[:number], start_S, np.zeros(size, np.uint8), found_T)
        return found_T


def breadth_first_sequences(csr: Csr, train: np.ndarray, seed: int) -> Iterator[np.ndarray]:
    """int32 (T,) each, without end: places of the training nodes as searches from random ones of them find them."""
    from any2vec.kernels.graph.traversal import breadth_first

    num_nodes = len(csr.indptr) - 1
    place_N = np.full(num_nodes, -1, np.int32)
    place_N[train] = np.arange(len(train))
    queue_N = np.empty(num_nodes, np.int32)
    for s in count():
        root_T, seen_N = train[random_order(len(train), seed, s)], np.zeros(num_nodes, np.uint8)
        found_T = np.empty(len(train), np.int32)
        breadth_first(csr.indptr, csr.indices, place_N, root_T, seen_N, queue_N, found_T)
        yield found_T


def spread(order: np.ndarray, labels: np.ndarray, batch_size: int) -> float:
    """How far the classes of batches are from those of all, total variation in [0, 1], mean over batches."""
    num_classes = int(labels.max()) + 1
    whole_C, found = _shares(labels, num_classes), []
    for first in range(0, len(order), batch_size):
        own_C = _shares(labels[order[first : first + batch_size]], num_classes)
        found.append(0.5 * np.abs(own_C - whole_C).sum())
    return float(np.mean(found))


def _shares(labels: np.ndarray, num_classes: int) -> np.ndarray:
    """float64 (C,): of the nodes that have each class; one with several counts for each of them in part."""
    if labels.ndim == 1:
        return np.bincount(labels, minlength=num_classes) / len(labels)
    return np.asarray((labels / np.maximum(1, labels.sum(axis=1, keepdims=True))).mean(axis=0))
