"""Sums of neighbors' rows of 128 columns over a whole graph beside `torch.sparse.mm`: GRAPH.npz ROUNDS.

One JSON line: milliseconds of both, by order of the nodes (as given; METIS, 100 parts) and threads; bytes of rows that
two threads read a second, over the machine's triad.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pymetis
from scipy import sparse

from any2vec import machine

machine.keep_freed_memory()
machine.ask_for_huge_pages()

import torch  # noqa: E402

from any2vec.kernels.common.jit import jit  # noqa: E402
from any2vec.nn.aggregate import Neighbors, aggregate  # noqa: E402

COLUMNS, PARTS = 128, 100


def main(path: str, rounds: str) -> None:
    stored = np.load(path)
    found: dict[str, list[float]] = {}
    graphs = {"given": (stored["indptr"], stored["indices"])}
    graphs["ordered"] = ordered(*graphs["given"])
    x = torch.randn(len(stored["indptr"]) - 1, COLUMNS)
    triad = [triad_bytes(2) for _ in range(5)]
    with torch.no_grad():
        for name, (indptr, indices) in graphs.items():
            matrix = torch.sparse_csr_tensor(
                torch.from_numpy(indptr.astype(np.int32)), torch.from_numpy(indices), torch.ones(len(indices)),
                (len(indptr) - 1,) * 2,
            )  # fmt: skip
            neighbors = Neighbors(indptr, indices)
            sides: dict[str, Callable[[], torch.Tensor]] = {
                "any2vec": lambda csr=neighbors: aggregate(x, csr, reduce="sum"),  # type: ignore[misc]
                "torch": lambda csr=matrix: torch.sparse.mm(csr, x),  # type: ignore[misc]
            }
            for threads in (1, 2):
                torch.set_num_threads(threads)
                assert torch.allclose(sides["any2vec"](), sides["torch"](), atol=1e-3)
                for _ in range(int(rounds)):
                    for side, call in sides.items():
                        started = time.perf_counter()
                        call()
                        found.setdefault(f"{name} {threads} {side}", []).append(1000 * (time.perf_counter() - started))
    row_bytes = 4 * COLUMNS * len(stored["indices"])
    rate = row_bytes / (float(np.median(found["ordered 2 any2vec"])) / 1000)
    print(json.dumps({"milliseconds": found, "of_triad": rate / float(np.median(triad)), "triad": triad}))


def ordered(indptr: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same graph with its nodes sorted by their part of METIS."""
    _, parts = pymetis.part_graph(PARTS, xadj=indptr.tolist(), adjncy=indices.tolist())
    order = np.argsort(parts, kind="stable")
    matrix = sparse.csr_array((np.ones(len(indices), np.int8), indices, indptr))[order][:, order]
    matrix.sort_indices()
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)


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
