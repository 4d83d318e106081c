"""Which edges of a graph in blocks stay: those of largest value, and those of chunks that have enough.

Source: GCoD (You et al., HPCA 2022): an undirected edge goes in both its directions or in none; a chunk, the entries
from the nodes of one block to those of another, that has too few of them is emptied. Ours: how ties are broken.

Legend: N nodes, S edges, U pairs of nodes, P blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from any2vec.checks import Number, Whole, check_fields


@dataclass(frozen=True, kw_only=True)
class PruneOptions:
    """How the edges of a graph are weighed by what a graph convolution network learns along them, and the least pruned.

    Raises:
        InputError: an option is not legal.
    """

    share: Annotated[float, Number(0, 0.95)] = 0.1
    """of the edges (an undirected one counts once), those of least value are pruned, 0..0.95"""
    chunk_floor: Annotated[int, Whole(0, 1 << 31)] = 0
    """entries between two blocks of nodes below which these are pruned, too, 0 or more"""
    block_nodes: Annotated[int, Whole(1, 1 << 31)] = 128
    """about so many nodes are in a block, 1 or more"""
    rounds: Annotated[int, Whole(1, 10_000)] = 4
    """of ADMM, each of which ends with a projection, 1 or more"""
    steps: Annotated[int, Whole(1, 100_000)] = 25
    """of gradient descent in a round, 1 or more"""
    step_size: Annotated[float, Number(0, 1e6, open_low=True)] = 1.0
    """of the edges' values, which start at 1 and stay within 0..1; above 0"""
    penalty: Annotated[float, Number(0, 1e6)] = 0.01
    """rho: times the squared distance of the values from the pruned ones, 0 or more"""
    polarization: Annotated[float, Number(0, 1e6)] = 0.01
    """phi: times the mean over entries of their value times how many places from the diagonal they are, 0 or more"""
    hidden: Annotated[int, Whole(1, 65_536)] = 16
    """columns of the network's hidden layer, 1..65,536"""
    epochs: Annotated[int, Whole(1, 1_000_000)] = 200
    """of the network's training before and again after, 1 or more"""
    learning_rate: Annotated[float, Number(0, 10, open_low=True)] = 0.01
    """of Adam, in (0, 10]"""
    dropout: Annotated[float, Number(0, 0.99)] = 0.5
    """share of inputs of each layer that are set to 0 in training, 0..0.99"""
    weight_decay: Annotated[float, Number(0, 1e6)] = 5e-4
    """times half the squared weights, added to the loss, 0 or more"""
    seed: Annotated[int, Whole(0, 1 << 62)] = 1
    """of the network's start and of dropout"""

    def __post_init__(self) -> None:
        check_fields(self)


def pair_numbers(src_S: np.ndarray, dst_S: np.ndarray, num_nodes: int) -> tuple[np.ndarray, int]:
    """(int64 (S,): of each edge the number of its pair of nodes, whichever way it leads, -1 of a self-loop; U)."""
    low_S, high_S = np.minimum(src_S, dst_S).astype(np.int64), np.maximum(src_S, dst_S)
    is_pair_S = low_S != high_S
    found, number = np.unique((low_S * num_nodes + high_S)[is_pair_S], return_inverse=True)
    pair_S = np.full(len(src_S), -1, np.int64)
    pair_S[is_pair_S] = number
    return pair_S, len(found)


def largest(value_U: np.ndarray, distance_U: np.ndarray, share: float) -> np.ndarray:
    """bool (U,): all but round(share U) pairs, those of least value; of equal ones the farther from the diagonal go
    first, then the later ones."""
    order = np.lexsort((-np.arange(len(value_U)), -distance_U, value_U))
    is_kept_U = np.ones(len(value_U), bool)
    is_kept_U[order[: round(share * len(value_U))]] = False
    return is_kept_U


def in_full_chunks(src_S: np.ndarray, dst_S: np.ndarray, stop_P1: np.ndarray, floor: int) -> np.ndarray:
    """bool (S,): the edges within a block, and those between two that have `floor` in that direction or the other.

    src, dst: places in the order of the blocks. So an edge and its reverse go together.
    """
    from_S, to_S = (np.searchsorted(stop_P1, ends, side="right") - 1 for ends in (src_S, dst_S))
    num_blocks = len(stop_P1) - 1
    one_S, other_S = from_S * num_blocks + to_S, to_S * num_blocks + from_S
    chunks, number_S, count = np.unique(one_S, return_inverse=True, return_counts=True)
    place_S = np.minimum(np.searchsorted(chunks, other_S), max(0, len(chunks) - 1))
    reverse_S = np.where(chunks[place_S] == other_S, count[place_S], 0) if len(chunks) else count[:0]
    return (from_S == to_S) | (np.maximum(count[number_S], reverse_S) >= floor)
