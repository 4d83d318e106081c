"""Sums of neighbors' rows of 128 columns over a whole graph beside `torch.sparse.mm`: GRAPH.npz ROUNDS.

One JSON line: milliseconds of both, by order of the nodes (as given; METIS) and threads, and of rows in bfloat16 and in
8 bits; of any2vec's alone by the other orders; seconds that orders take; bytes of rows that two threads read a second,
over the machine's triad.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from any2vec import machine

machine.keep_freed_memory()
machine.ask_for_huge_pages()

import torch  # noqa: E402

from any2vec.kernels.common.jit import jit  # noqa: E402
from any2vec.nn import round_rows  # noqa: E402
from any2vec.nn.aggregate import Neighbors, aggregate  # noqa: E402
from any2vec.plan.sharding.node_orders import NODE_ORDERS, node_order, reordered  # noqa: E402
from any2vec.types import Csr  # noqa: E402

COLUMNS = 128
Calls = dict[str, Callable[[], object]]


def main(path: str, rounds: str) -> None:
    stored = np.load(path)
    given = Csr(stored["indptr"], stored["indices"], np.empty(0, np.float32))
    graphs, order_seconds = {}, {}
    for name in NODE_ORDERS:
        node_order(given, name)  # compiles
        started = time.perf_counter()
        graphs[name] = reordered(given, node_order(given, name))
        order_seconds[name] = time.perf_counter() - started
    x = torch.randn(len(given.indptr) - 1, COLUMNS)
    triad = [triad_bytes(2) for _ in range(5)]
    found: dict[str, list[float]] = {}
    with torch.no_grad():
        for name, csr in (("given", graphs["none"]), ("ordered", graphs["metis"])):
            for threads in (1, 2):
                torch.set_num_threads(threads)
                found |= timed(sides(x, csr), f"{name} {threads}", int(rounds))
        torch.set_num_threads(1)
        by_order = {name: Neighbors(csr.indptr, csr.indices) for name, csr in graphs.items()}
        calls: Calls = {
            name: lambda edges=edges: aggregate(x, edges, reduce="sum")  # type: ignore[misc]
            for name, edges in by_order.items()
        }
        found |= timed(calls, "order", int(rounds))
    row_bytes = 4 * COLUMNS * len(given.indices)
    rate = row_bytes / (float(np.median(found["ordered 2 any2vec"])) / 1000)
    result = {"milliseconds": found, "of_triad": rate / float(np.median(triad)), "triad": triad}
    print(json.dumps(result | {"order_seconds": order_seconds}))


def sides(x: torch.Tensor, csr: Csr) -> Calls:
    """Both libraries' sums over a graph, whose sums are compared first, and ours of rounded rows."""
    matrix = torch.sparse_csr_tensor(
        torch.from_numpy(csr.indptr.astype(np.int32)), torch.from_numpy(csr.indices), torch.ones(len(csr.indices)),
        (len(csr.indptr) - 1,) * 2,
    )  # fmt: skip
    neighbors = Neighbors(csr.indptr, csr.indices)
    halves, codes = round_rows(x, torch.bfloat16), round_rows(x, torch.int8)
    exact = torch.sparse.mm(matrix, x)
    assert torch.allclose(aggregate(x, neighbors, reduce="sum"), exact, atol=1e-3)
    for rows, share in ((halves, 2**-8), (codes, 1 / 254)):
        off = aggregate(rows, neighbors, reduce="sum").sub_(exact).norm() / exact.norm()
        assert off < 4 * share
    return {
        "any2vec": lambda: aggregate(x, neighbors, reduce="sum"),
        "torch": lambda: torch.sparse.mm(matrix, x),
        "bfloat16": lambda: aggregate(halves, neighbors, reduce="sum"),
        "8 bits": lambda: aggregate(codes, neighbors, reduce="sum"),
    }


def timed(calls: Calls, what: str, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each, in turn."""
    found: dict[str, list[float]] = {f"{what} {side}": [] for side in calls}
    for _ in range(rounds):
        for side, call in calls.items():
            started = time.perf_counter()
            call()
            found[f"{what} {side}"].append(1000 * (time.perf_counter() - started))
    return found


@jit
def triad(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    """STREAM's (McCalpin 1995): a = b + 3 c."""
    for i in range(a.size):
        a[i] = b[i] + 3 * c[i]


def triad_bytes(threads: int, size: int = 1 << 24) -> float:
    """Bytes a second that triads of some threads move, 24 a number."""
    arrays = [[np.ones(size) for _ in range(3)] for _ in range(threads)]
    for part in arrays:
        triad(*part)
    with ThreadPoolExecutor(threads) as pool:
        started = time.perf_counter()
        list(pool.map(lambda part: triad(*part), arrays))
        return 24 * size * threads / (time.perf_counter() - started)


if __name__ == "__main__":
    main(*sys.argv[1:])
