"""Training nodes in an order in which those of a cluster come together.

Source: batches by community (GraphTheta, arXiv 2104.10569; Cluster-GCN, Chiang et al., KDD 2019), here of the seeds
alone, whose neighborhoods are sampled from the whole graph.

Legend: T training nodes, P clusters.
"""

from __future__ import annotations

import numpy as np

from any2vec.plan.order.shuffle import random_order


class ClusterOrder:
    """Orders of training nodes by epoch: a pure function of the clusters, the seed and it.

    Clusters come in another order each epoch, and the nodes of one in another order; the whole is rotated, so that
    batches begin elsewhere.

    Args:
        part_T: int, the cluster of each node, in [0, num_parts).
        about: what clusters they are.
    """

    def __init__(self, part_T: np.ndarray, num_parts: int, seed: int, about: str) -> None:
        self._part_T, self._num_parts, self._seed, self._about = part_T, num_parts, seed, about

    def sentence(self) -> str:
        """Which order it is."""
        return f"cluster: {self._about}"

    def order(self, epoch: int) -> np.ndarray:
        """int64 (T,): places of the training nodes in the order of an epoch."""
        size, draws = len(self._part_T), np.random.default_rng((self._seed, epoch))
        turn_P = draws.permutation(self._num_parts)
        shuffled_T = random_order(size, self._seed, epoch)
        found_T = shuffled_T[np.argsort(turn_P[self._part_T[shuffled_T]], kind="stable")]
        return np.roll(found_T, -int(draws.integers(size)))
