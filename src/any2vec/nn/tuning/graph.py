"""`tune_graph`: a graph in GCoD's order, without the edges by which a network gains least.

Legend: N nodes, S edges, K of them kept, D features, C classes, P blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch

from any2vec.checks import check_whole
from any2vec.errors import InputError
from any2vec.nn.aggregate import check_range, check_tensors
from any2vec.nn.gcn import WeightedGraph
from any2vec.nn.tuning.admm import EdgeValues
from any2vec.nn.tuning.network import Nodes, Trained, TunedNetwork, WholeGraph, train_network
from any2vec.nn.tuning.quantized import BITS
from any2vec.plan.sharding.degree_blocks import DiagonalBlocks, diagonal_blocks
from any2vec.plan.sharding.graph import MAX_PARTS
from any2vec.plan.sharding.node_orders import places_of
from any2vec.plan.sharding.pruning import PruneOptions, in_full_chunks
from any2vec.types import Csr, Stage


@dataclass(frozen=True)
class TunedGraph:
    """What `tune_graph` found. The edges that are gone change the model: scores are those of another graph."""

    edge_index: torch.Tensor
    """int64 (2, K): the edges that stay, in the order and the numbers of the given ones"""
    is_kept: torch.Tensor
    """bool (S,): of the given edges"""
    order: torch.Tensor
    """int64 (N,): the node at each place of GCoD's order"""
    stop: torch.Tensor
    """int64 (P + 1,): block p has the places [stop[p], stop[p + 1])"""
    before: Trained
    """the network, scores of all nodes (N, C), and validation accuracy of the given graph"""
    after: Trained
    """the same, learned again from the edges that stay"""
    residuals: list[float]
    """of ADMM, round by round: how far values are from the pruned ones, root of the mean square"""
    dropped_by_chunk: int
    """edges that went because of `chunk_floor` alone"""
    shares: dict[str, float] = field(default_factory=dict)
    """of the edges, those within blocks on the diagonal: nodes as `given`, `ordered`, and, of what stays, `tuned`"""


def tune_graph(
    edge_index: torch.Tensor, x: torch.Tensor, labels: torch.Tensor, train: torch.Tensor,
    val: torch.Tensor | None = None, options: PruneOptions | None = None, *,
    thresholds: Sequence[int] | None = None, bits: int | None = None, stage: Stage | None = None,
) -> TunedGraph:  # fmt: skip
    """Prune a share of a graph's edges by ADMM and train a GCN on what stays: it changes the graph, and so the model.

    Nodes are put in GCoD's order; a GCN of two layers learns from the graph; with its weights fixed the values of the
    edges go down the gradient of its loss, of how far from the diagonal they are, and of how far from a graph with
    that share of them at 0, in turns with projections on such graphs; the edges of least value go, and those between
    blocks that then have too few; a new network learns from the rest. An edge and its reverse go together, self-loops
    stay. Memory: O(S + N columns).

    Args:
        edge_index: int64 (2, S), from node to node. x: float32 or float64 (N, D). labels: int64 (N,).
        train: int64: nodes by whose classes networks and values learn. val: int64: nodes that choose the epoch of a
            network; not the test's.
        options: how much is pruned and how long each part takes; by default those of `PruneOptions`.
        thresholds: as of `dense_blocks`.
        bits: 2..16: the second network learns with features, weights and the rows that are summed rounded to so many
            bits, each degree class by a range of its own; by default not rounded.
        stage: called with (what is done, amount done, amount in all).

    Source: GCoD (You et al., HPCA 2022); docs/systems.md says what differs.

    Raises:
        InputError: a tensor is of another kind, nobody trains, an argument is not legal, or METIS is not installed.
    """
    options = options or PruneOptions()
    nodes = _checked(edge_index, x, labels, train, val)
    if bits is not None:
        check_whole("bits", bits, *BITS)
    num_nodes = len(x)
    blocks = ordered_blocks(edge_index, num_nodes, options.block_nodes, thresholds)
    place_N = torch.from_numpy(places_of(blocks.order_N))
    told = {what: None if stage is None else partial(stage, what) for what in ("training", "tuning", "training again")}
    before = train_network(nodes, WholeGraph(edge_index, num_nodes), options, progress=told["training"])
    values = edge_values(place_N[edge_index], nodes, blocks, before.network, options)
    residuals = values.tune(told["tuning"])
    src_S, dst_S = place_N[edge_index].numpy()
    is_kept_S = values.kept()
    by_value = is_kept_S.sum()
    is_kept_S[is_kept_S] = in_full_chunks(src_S[is_kept_S], dst_S[is_kept_S], blocks.stop_P1, options.chunk_floor)
    kept = torch.from_numpy(is_kept_S)
    stays = edge_index[:, kept]
    class_N = torch.from_numpy(np.repeat(blocks.class_P, np.diff(blocks.stop_P1))[place_N.numpy()])
    after = train_network(nodes, WholeGraph(stays, num_nodes), options, bits, class_N, told["training again"])
    order, stop = torch.from_numpy(blocks.order_N), torch.from_numpy(blocks.stop_P1)
    shares = {
        name: share_within(edges, stop)
        for name, edges in (("given", edge_index), ("ordered", place_N[edge_index]), ("tuned", place_N[stays]))
    }
    dropped = int(by_value - is_kept_S.sum())
    return TunedGraph(stays, kept, order, stop, before, after, residuals, dropped, shares)


def ordered_blocks(
    edge_index: torch.Tensor, num_nodes: int, block_nodes: int, thresholds: Sequence[int] | None
) -> DiagonalBlocks:  # fmt: skip
    """GCoD's order of the nodes; an edge that is there twice counts once."""
    src, dst = np.unique(edge_index.numpy().astype(np.int64), axis=1)
    by_target = np.argsort(dst, kind="stable")
    csr = Csr(np.searchsorted(dst[by_target], np.arange(num_nodes + 1)), src[by_target].astype(np.int32), np.empty(0))
    return diagonal_blocks(csr, max(1, min(MAX_PARTS, num_nodes // block_nodes)), thresholds)


def edge_values(
    edge_index: torch.Tensor, nodes: Nodes, blocks: DiagonalBlocks, network: TunedNetwork, options: PruneOptions
) -> EdgeValues:
    """Values of edges, from place to place, by the loss that the training nodes have along them."""
    order = torch.from_numpy(blocks.order_N)
    x_ND, place_N = nodes.x_ND[order], torch.from_numpy(places_of(blocks.order_N))
    train, label = place_N[nodes.train], nodes.label_N[nodes.train]
    graph, sent = WeightedGraph(edge_index, len(x_ND)), network.sent(x_ND)

    def loss(value_S: torch.Tensor) -> torch.Tensor:
        scores = network.weighted_scores(sent, graph, value_S.to(sent.dtype))
        return torch.nn.functional.cross_entropy(scores[train], label).double()

    return EdgeValues(edge_index, len(x_ND), loss, options)


def share_within(edge_index: torch.Tensor, stop: torch.Tensor) -> float:
    """Share of the edges, from place to place, whose ends are in one block."""
    src, dst = torch.bucketize(edge_index.contiguous(), stop, right=True)
    return float((src == dst).double().mean()) if edge_index.shape[1] else 0.0


def _checked(
    edge_index: torch.Tensor, x: torch.Tensor, labels: torch.Tensor, train: torch.Tensor, val: torch.Tensor | None
) -> Nodes:
    """What is known of nodes. InputError where some of it is of another kind."""
    check_tensors(x, edge_index)
    check_range(edge_index, len(x), len(x))
    val = torch.empty(0, dtype=torch.int64) if val is None else val
    for name, value in (("labels", labels), ("train", train), ("val", val)):
        if not isinstance(value, torch.Tensor) or value.dtype != torch.int64 or value.ndim != 1:
            kind = f"{value.dtype} {tuple(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
            raise InputError(f"{name} must be an int64 tensor of one dimension, got {kind}.")
    if len(labels) != len(x):
        raise InputError(f"labels must be one a row of x, {len(x):,}; got {len(labels):,}.")
    if not bool(x.isfinite().all()):
        raise InputError("x holds NaN or infinity; clean the features first.")
    for name, value in (("train", train), ("val", val)):
        if len(value) and not 0 <= int(value.min()) <= int(value.max()) < len(x):
            raise InputError(f"{name} must hold nodes from 0 to {len(x) - 1:,}, got {value.min()} to {value.max()}.")
        if len(value) and int(labels[value].min()) < 0:
            raise InputError(f"{name} holds nodes whose label is negative; give nodes with a class.")
    if not len(train):
        raise InputError("train holds no nodes; give some by whose classes the graph is tuned.")
    return Nodes(x, labels, train, val)
