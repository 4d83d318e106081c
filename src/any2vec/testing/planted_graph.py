"""A planted graph with features whose best possible accuracy is bounded: exactly without edges, from above with them.

Classes are drawn alike. A node's features are normal around its class's mean. Between nodes u and v there is an edge
with the chance 1 - exp(-rate), rate = base(u, v) within a class and `mixing` times that between two classes, whatever
other pairs have. Of kind "blocks" base is a product of propensities by a power law: degree-corrected blocks (Karrer and
Newman 2011) with hubs; of kind "ring" it is the same for the nodes `REACH` places to either side, and 0 for others: a
graph of large diameter. So of any labels, features and edges the chance is known:

    log P = sum over v of log p(x_v | y_v) + sum over edges of log(1 - exp(-rate)) - sum over other pairs of rate

Three figures follow. What is a bound and what an estimate:

- `features_alone`: the accuracy of Bayes' rule without edges. Exact (an integral).
- `bound`: that of Bayes' rule for one node who is told the classes of all other nodes. No classifier can have more in
  the mean over graphs, for none is told more. An upper bound; how far the best classifier stays below is not known.
- `beliefs`: belief propagation, which knows the model and the classes of the training nodes. It is Bayes' rule where
  edges form a tree and other pairs say nothing (Decelle et al. 2011, section III; with features Deshpande et al. 2018).
  An estimate: sparse blocks are nearly a tree; the ring has many short circles, and is not.

Legend: N nodes, C classes, D columns, E edges, X directions of edges, 2 E.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from any2vec.checks import check_choice, check_number, check_whole

POWER = 2.5
"""exponent of the power law of propensities"""
REACH = 25
"""places to either side of a node of the ring that it may have edges with"""
PARTS = (0.2, 0.3)
"""places of the ends of train and val, as shares of the nodes; the rest is test"""


class PlantedGraph:
    """An undirected graph, its features and classes.

    `src_E` < `dst_E` are int64, each edge once; `x_ND` float32; `label_N` int64; `split_N` int8: 0 train, 1 val, 2
    test.

    Args:
        nodes: N, of a ring more than 2 * REACH. classes: C. columns: D, C or more: class c has its mean on axis c.
        degree: mean of the rates of a node. apart: length of a class's mean. mixing: share, in (0, 1].

    Raises:
        InputError: a number is not legal.
    """

    def __init__(
        self, nodes: int = 4000, classes: int = 4, columns: int = 16, degree: float = 6.0, apart: float = 1.2,
        mixing: float = 0.1, kind: Literal["blocks", "ring"] = "blocks", seed: int = 1,
    ) -> None:  # fmt: skip
        check_choice("kind", kind, ("blocks", "ring"))
        check_whole("nodes", nodes, 2 * REACH + 1 if kind == "ring" else 2, 1 << 31)
        check_whole("classes", classes, 2, 1 << 16)
        check_whole("columns", columns, classes, 1 << 20)
        check_number("degree", degree, 0, 1e6)
        check_number("apart", apart, 0, 1e6)
        check_number("mixing", mixing, 1e-9, 1)
        rng = np.random.default_rng(seed)
        self.kind, self.classes, self.apart, self.mixing = kind, classes, apart, mixing
        self.label_N = rng.integers(0, classes, nodes)
        x_ND = rng.normal(size=(nodes, columns))
        x_ND[np.arange(nodes), self.label_N] += apart
        self.x_ND = x_ND.astype(np.float32)
        self.split_N = np.searchsorted(np.array(PARTS) * nodes, rng.permutation(nodes), "right").astype(np.int8)
        within = (1 + (classes - 1) * mixing) / classes
        self.propensity_N = np.ones(nodes)
        if kind == "blocks":
            self.propensity_N = np.minimum((1 - rng.random(nodes)) ** (-1 / (POWER - 1)), nodes**0.5)
        total = self.propensity_N.sum()
        self.scale = degree / (2 * REACH * within) if kind == "ring" else degree * nodes / (total**2 * within)
        self.src_E, self.dst_E = self._drawn(rng)

    def _drawn(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Pairs are drawn by their base rate, Poisson, and thinned between classes: each pair is on its own."""
        num_nodes = len(self.label_N)
        if self.kind == "ring":
            src = rng.integers(0, num_nodes, rng.poisson(self.scale * num_nodes * REACH))
            dst = (src + rng.integers(1, REACH + 1, len(src))) % num_nodes
        else:
            end_N = np.cumsum(self.propensity_N)
            drawn_2K = rng.random((2, rng.poisson(self.scale * end_N[-1] ** 2 / 2))) * end_N[-1]
            src, dst = np.minimum(np.searchsorted(end_N, drawn_2K, "right"), num_nodes - 1)
        kept = (self.label_N[src] == self.label_N[dst]) | (rng.random(len(src)) < self.mixing)
        kept &= src != dst
        low, high = np.minimum(src, dst)[kept], np.maximum(src, dst)[kept]
        found = np.divmod(np.unique(low * num_nodes + high), num_nodes)
        return found[0], found[1]

    def base_rates(self) -> np.ndarray:
        """float64 (E,): of the edges."""
        found: np.ndarray = self.scale * self.propensity_N[self.src_E] * self.propensity_N[self.dst_E]
        return found

    def exposure(self, share_NC: np.ndarray) -> np.ndarray:
        """float64 (N, C): of each node, the sum of base(u, v) over all others u, times their shares of the classes."""
        weighted_NC = self.propensity_N[:, None] * share_NC
        if self.kind == "blocks":
            return self.scale * self.propensity_N[:, None] * (weighted_NC.sum(axis=0) - weighted_NC)
        around = np.concatenate([weighted_NC[-REACH - 1 :], weighted_NC, weighted_NC[:REACH]]).cumsum(axis=0)
        found: np.ndarray = self.scale * (around[2 * REACH + 1 :] - around[: -2 * REACH - 1] - weighted_NC)
        return found

    def features_alone(self) -> float:
        """The Bayes accuracy without edges: the chance that, of C normal numbers, the one that is `apart` more is the
        largest."""
        from scipy.special import ndtr

        z = np.linspace(-12.0, 12.0 + self.apart, 20_001)
        density = np.exp(-0.5 * (z - self.apart) ** 2) / np.sqrt(2 * np.pi)
        return float(np.trapezoid(density * ndtr(z) ** (self.classes - 1), z))

    def given_others(self) -> np.ndarray:
        """float64 (N, C): the chance of each class of a node, of features and edges and all other nodes' classes."""
        one_NC, rate_CC = np.eye(self.classes)[self.label_N], self._rates()
        logit_NC = self._logits() - self.exposure(one_NC) @ rate_CC
        for node_E, other_E in ((self.src_E, self.dst_E), (self.dst_E, self.src_E)):
            rate_EC = self.base_rates()[:, None] * rate_CC[self.label_N[other_E]]
            np.add.at(logit_NC, node_E, np.log(np.expm1(rate_EC)))
        return _shares(logit_NC)

    def bound(self, rows: np.ndarray) -> float:
        """The accuracy over some nodes, in the mean over their classes, of who is told those of all other nodes. No
        classifier's is higher in the mean over graphs."""
        return float(self.given_others()[rows].max(axis=1).mean())

    def beliefs(self, known: np.ndarray, rounds: int = 50) -> np.ndarray:
        """float64 (N, C): classes by belief propagation, which knows the model, and the classes of the nodes `known`.

        Pairs without an edge count by the beliefs of the round before, as in Decelle et al. 2011, equation 27.
        """
        one_NC, rate_CC, num = np.eye(self.classes)[self.label_N], self._rates(), len(self.src_E)
        from_X, to_X = np.concatenate([self.src_E, self.dst_E]), np.concatenate([self.dst_E, self.src_E])
        is_known_X = np.isin(from_X, known)[:, None]
        same_X1, other_X1 = (np.expm1(np.tile(self.base_rates(), 2) * rate)[:, None] for rate in (1.0, self.mixing))
        message_XC = np.full((2 * num, self.classes), 1 / self.classes)
        belief_NC = _shares(self._logits())
        for _ in range(rounds):
            message_XC = np.where(is_known_X, one_NC[from_X], message_XC)
            belief_NC[known] = one_NC[known]
            said_XC = np.log(other_X1 + (same_X1 - other_X1) * message_XC)
            logit_NC = self._logits() - self.exposure(belief_NC) @ rate_CC
            np.add.at(logit_NC, to_X, said_XC)
            belief_NC = _shares(logit_NC)
            message_XC = 0.5 * (message_XC + _shares(logit_NC[from_X] - np.roll(said_XC, num, axis=0)))
        belief_NC[known] = one_NC[known]
        return belief_NC

    def estimate(self, rows: np.ndarray) -> float:
        """The accuracy of `beliefs` over some nodes, told the classes of train."""
        found = self.beliefs(np.flatnonzero(self.split_N == 0))[rows].argmax(axis=1)
        return float((found == self.label_N[rows]).mean())

    def write(self, folder: Path) -> None:
        """Files edges.tsv, x.npy, labels.tsv and split.npz, as `any2vec graph build` reads them."""
        folder.mkdir(parents=True, exist_ok=True)
        np.savetxt(folder / "edges.tsv", np.stack([self.src_E, self.dst_E], axis=1), fmt="%d", delimiter="\t")
        np.save(folder / "x.npy", self.x_ND)
        (folder / "labels.tsv").write_text("".join(f"{node}\t{one}\n" for node, one in enumerate(self.label_N)))
        np.savez(folder / "split.npz", split=self.split_N[None])

    def _logits(self) -> np.ndarray:
        """float64 (N, C): of features, but for what all classes share."""
        return self.apart * self.x_ND[:, : self.classes].astype(np.float64)

    def _rates(self) -> np.ndarray:
        """float64 (C, C): rates over base rates."""
        return np.where(np.eye(self.classes) > 0, 1.0, self.mixing)


def _shares(logit_NC: np.ndarray) -> np.ndarray:
    from scipy.special import softmax

    return np.asarray(softmax(logit_NC, axis=1))
