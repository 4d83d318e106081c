"""GCoD's order and dense blocks on a graph: GRAPH BLOCK_NODES THRESHOLDS COLUMNS ROUNDS.

GRAPH: a folder of `any2vec graph build`, or an .npz file with indptr and indices. THRESHOLDS: degrees, 3,6; none.
One JSON line: share of the entries in blocks on the diagonal, nodes as given and in GCoD's order; of those that the
measured break-even has made dense, by columns; milliseconds of sums along entries, and with those blocks, in turn.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from turns import milliseconds_in_turn

from any2vec import machine

machine.keep_freed_memory()
machine.ask_for_huge_pages()

import torch  # noqa: E402

from any2vec import AttributedGraph  # noqa: E402
from any2vec.nn.aggregate import Neighbors, aggregate  # noqa: E402
from any2vec.nn.blocked import tuned  # noqa: E402
from any2vec.plan.sharding.degree_blocks import diagonal_blocks, entries_within  # noqa: E402
from any2vec.plan.sharding.node_orders import reordered  # noqa: E402
from any2vec.types import Csr  # noqa: E402


def main(path: str, block_nodes: str, thresholds: str, columns: str, rounds: str) -> None:
    torch.set_num_threads(1)
    given = csr_of(Path(path))
    num_nodes, degrees = len(given.indptr) - 1, [int(one) for one in thresholds.split(",") if one != "none"]
    found = diagonal_blocks(given, max(1, num_nodes // int(block_nodes)), degrees)
    csr = reordered(given, found.order_N)
    shares = [float(entries_within(one, found.stop_P1).sum() / len(csr.indices)) for one in (given, csr)]
    times: dict[str, list[float]] = {}
    dense: dict[str, float] = {}
    edges = Neighbors(csr.indptr, csr.indices)
    for number in columns.split(","):
        x, graph = torch.randn(num_nodes, int(number)), tuned(csr, found.stop_P1, int(number))
        assert torch.allclose(aggregate(x, edges, reduce="sum"), graph.sum(x), rtol=1e-3, atol=1e-3)
        works: dict[str, Callable[[], object]] = {
            f"{number} entries": lambda x=x: aggregate(x, edges, reduce="sum"),  # type: ignore[misc]
            f"{number} blocks": lambda x=x, graph=graph: graph.sum(x),  # type: ignore[misc]
        }
        times |= milliseconds_in_turn(works, int(rounds))
        dense[number] = graph.share
    print(json.dumps({"shares": shares, "dense": dense, "milliseconds": times}))


def csr_of(path: Path) -> Csr:
    if path.is_dir():
        return AttributedGraph.open(path).csr
    stored = np.load(path)
    return Csr(stored["indptr"], stored["indices"], np.empty(0, np.float32))


if __name__ == "__main__":
    main(*sys.argv[1:])
