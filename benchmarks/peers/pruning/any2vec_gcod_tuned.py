"""GCoD's tuning of a graph: learn GRAPH BLOCK_NODES THRESHOLDS SHARES BITS SEED EPOCHS: one JSON line, for each share
of the edges pruned and each number of bits (0: none) the accuracy of a GCN before and after on the validation and the
test nodes, the edges that stay, and the share of them within blocks.

sums GRAPH BLOCK_NODES THRESHOLDS SHARE EPOCHS COLUMNS ROUNDS: milliseconds of sums over neighbors of the graph so
pruned (seed 1), along edges and with the blocks that the measured break-even has made dense, and along the edges of the
given graph, in turn. THRESHOLDS: degrees, 3,6. GRAPH: a folder of `any2vec graph build`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from turns import milliseconds_in_turn

from any2vec import machine

machine.keep_freed_memory()
machine.ask_for_huge_pages()

import torch  # noqa: E402

from any2vec import AttributedGraph  # noqa: E402
from any2vec.nn import PruneOptions, tune_graph  # noqa: E402
from any2vec.nn.aggregate import Neighbors, aggregate  # noqa: E402
from any2vec.nn.blocked import tuned  # noqa: E402
from any2vec.nn.tuning.graph import TunedGraph  # noqa: E402
from any2vec.nn.tuning.network import accuracy  # noqa: E402
from any2vec.types import Csr  # noqa: E402


class Inputs(NamedTuple):
    """Letters: N nodes, E entries."""

    edge_index: torch.Tensor
    """int64 (2, E)"""
    x: torch.Tensor
    """float32 (N, features)"""
    labels: torch.Tensor
    """int64 (N,)"""
    parts: dict[str, torch.Tensor]
    """train, val and test -> int64: nodes"""


def inputs_of(folder: Path) -> Inputs:
    graph = AttributedGraph.open(folder)
    assert graph.features is not None
    dst = np.repeat(np.arange(len(graph)), np.diff(graph.csr.indptr))
    edge_index = torch.from_numpy(np.stack([graph.csr.indices.astype(np.int64), dst]))
    x = torch.from_numpy(graph.features.take(np.arange(len(graph))))
    parts = {part: torch.from_numpy(graph.rows(part)) for part in ("train", "val", "test")}
    return Inputs(edge_index, x, torch.from_numpy(np.asarray(graph.labels, np.int64)), parts)


def found_in(given: Inputs, degrees: str, bits: int, **options: Any) -> TunedGraph:
    return tune_graph(
        given.edge_index, given.x, given.labels, given.parts["train"], given.parts["val"], PruneOptions(**options),
        thresholds=[int(one) for one in degrees.split(",")], bits=bits or None,
    )  # fmt: skip


def learn(path: str, block_nodes: str, degrees: str, shares: str, bits: str, seed: str, epochs: str) -> Any:
    given = inputs_of(Path(path))
    found = []
    for share in shares.split(","):
        for number in bits.split(","):
            done = found_in(
                given, degrees, int(number), share=float(share), block_nodes=int(block_nodes), seed=int(seed),
                epochs=int(epochs),
            )  # fmt: skip
            scores = {
                side: {part: accuracy(score_NC, given.labels, given.parts[part]) for part in ("val", "test")}
                for side, score_NC in (("before", done.before.score_NC), ("after", done.after.score_NC))
            }
            edges = {"edges": given.edge_index.shape[1], "kept": done.edge_index.shape[1], "within": done.shares}
            found.append({"share": float(share), "bits": int(number)} | scores | edges)
    return {"runs": found}


def sums(path: str, block_nodes: str, degrees: str, share: str, epochs: str, columns: str, rounds: str) -> Any:
    given = inputs_of(Path(path))
    done = found_in(given, degrees, 0, share=float(share), block_nodes=int(block_nodes), epochs=int(epochs))
    place, num_nodes = torch.argsort(done.order), len(given.x)
    whole, pruned = (csr_of(place[edges], num_nodes) for edges in (given.edge_index, done.edge_index))
    entries, given_edges = (Neighbors(csr.indptr, csr.indices) for csr in (pruned, whole))
    times: dict[str, list[float]] = {}
    dense: dict[str, float] = {}
    for number in columns.split(","):
        x, graph = torch.randn(num_nodes, int(number)), tuned(pruned, done.stop.numpy(), int(number))
        assert torch.allclose(aggregate(x, entries, reduce="sum"), graph.sum(x), rtol=1e-3, atol=1e-3)
        works: dict[str, Callable[[], object]] = {
            f"{number} entries": lambda x=x: aggregate(x, entries, reduce="sum"),  # type: ignore[misc]
            f"{number} blocks": lambda x=x, graph=graph: graph.sum(x),  # type: ignore[misc]
            f"{number} given": lambda x=x: aggregate(x, given_edges, reduce="sum"),  # type: ignore[misc]
        }
        times |= milliseconds_in_turn(works, int(rounds))
        dense[number] = graph.share
    return {"dense": dense, "milliseconds": times}


def csr_of(edge_index: torch.Tensor, num_nodes: int) -> Csr:
    src, dst = edge_index.numpy()
    order = np.lexsort((src, dst))
    return Csr(np.searchsorted(dst[order], np.arange(num_nodes + 1)), src[order].astype(np.int32), np.empty(0))


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps({"learn": learn, "sums": sums}[sys.argv[1]](*sys.argv[2:])))
