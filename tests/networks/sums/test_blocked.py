"""GCoD's order finds blocks that were planted, and sums with dense blocks are those along entries, gradients too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from any2vec.errors import InputError
from any2vec.plan.sharding.degree_blocks import diagonal_blocks, entries_within, shares
from any2vec.plan.sharding.node_orders import reordered
from any2vec.types import Csr
from marks import needs_metis

torch = pytest.importorskip("torch")

from any2vec.nn import blocked, dense_blocks  # noqa: E402
from any2vec.nn.aggregate import Neighbors, aggregate  # noqa: E402
from any2vec.nn.blocked import BlockedGraph, tuned  # noqa: E402

COUNT, SIZE = 8, 24


def csr_of(matrix: np.ndarray) -> Csr:
    rows, columns = np.nonzero(matrix)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(matrix)))])
    return Csr(indptr, columns.astype(np.int32), np.empty(0, np.float32))


def planted() -> Csr:
    """Cliques of two sizes, whose nodes so have two degrees, and a ring of edges; shuffled."""
    sizes = [SIZE] * COUNT + [SIZE // 2] * COUNT
    stop = np.concatenate([[0], np.cumsum(sizes)])
    block = np.repeat(np.arange(len(sizes)), sizes)
    matrix = (block[:, None] == block).astype(float) - np.eye(stop[-1])
    for one, other in zip(stop[:-1], np.roll(stop[:-1] + 1, -1), strict=True):
        matrix[one, other] = matrix[other, one] = 1
    order = np.random.default_rng(0).permutation(len(matrix))
    return csr_of(matrix[order][:, order])


@needs_metis
@pytest.mark.parametrize("groups", [1, 3])
def test_the_order_gathers_the_edges_in_blocks_of_one_class(groups: int) -> None:
    csr = planted()
    found = diagonal_blocks(csr, COUNT + 3, [16], groups)  # by edges: one a large clique, three for the small ones
    num_nodes = len(csr.indptr) - 1
    assert sorted(found.order_N.tolist()) == list(range(num_nodes)) and found.stop_P1[-1] == num_nodes
    degree_N = np.diff(csr.indptr)[found.order_N]
    for start, stop, one in zip(found.stop_P1, found.stop_P1[1:], found.class_P, strict=False):
        assert (degree_N[start:stop] < 16).all() if one == 0 else (degree_N[start:stop] >= 16).all()
    assert sorted(found.class_P.tolist()) == found.class_P.tolist() and set(found.class_P) == {0, 1}
    within = entries_within(reordered(csr, found.order_N), found.stop_P1).sum() / len(csr.indices)
    before = entries_within(csr, found.stop_P1).sum() / len(csr.indices)
    assert within > 0.8 > 0.3 > before


def test_blocks_are_shared_by_edges_one_a_class_at_least() -> None:
    assert shares(np.array([10, 30, 60]), 13).tolist() == [2, 4, 7]
    assert shares(np.array([0, 5]), 4).tolist() == [1, 3]
    assert shares(np.array([1, 1, 1]), 2).tolist() == [1, 1, 1]
    for bad, word in (({"thresholds": [4, 4]}, "ascend"), ({"num_blocks": 0}, "num_blocks"), ({"groups": 0}, "groups")):
        with pytest.raises(InputError, match=word):
            diagonal_blocks(planted(), **({"num_blocks": 4} | bad))


def directed(seed: int) -> tuple[Csr, np.ndarray, Any]:
    """A directed graph with loops, and four blocks, one of a node."""
    matrix = (np.random.default_rng(seed).random((30, 30)) < 0.3).astype(np.float32)
    matrix[5] = 0
    return csr_of(matrix), np.array([0, 10, 11, 22, 30]), torch.from_numpy(matrix)


@pytest.mark.parametrize("dense", [(), (0,), (1, 3), (0, 1, 2, 3)])
def test_sums_and_gradients_are_those_of_the_matrix(dense: tuple[int, ...]) -> None:
    csr, stop, matrix = directed(2)
    is_dense = np.isin(np.arange(4), dense)
    graph = BlockedGraph(csr, stop, is_dense)
    assert [(block.start, block.stop) for block in graph.dense] == [(stop[p], stop[p + 1]) for p in dense]
    within = entries_within(csr, stop)
    assert graph.share == pytest.approx(within[is_dense].sum() / len(csr.indices))
    assert len(graph.rest.neighbor_S) == len(csr.indices) - within[is_dense].sum()
    x, weight = torch.randn(30, 7, requires_grad=True), torch.randn(30, 7)
    out = graph.sum(x)
    (out * weight).sum().backward()
    assert torch.allclose(out, matrix @ x, atol=1e-5) and torch.allclose(x.grad, matrix.T @ weight, atol=1e-5)


@pytest.mark.parametrize("x", [torch.ones(29, 2), torch.ones(30, 2).double(), torch.ones(30), np.ones((30, 2))])
def test_rows_that_are_not_one_a_node_are_refused(x: Any) -> None:
    csr, stop, _ = directed(2)
    with pytest.raises(InputError, match="x must be"):
        BlockedGraph(csr, stop, np.ones(4, bool)).sum(x)


def test_blocks_are_dense_where_that_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that is told what work takes: 1 an entry, 0.3 a number of a product, and what the whole does."""
    csr, stop, _ = directed(3)
    within, size = entries_within(csr, stop), np.diff(stop)
    monkeypatch.setattr(blocked, "_product_seconds", lambda sizes, columns: 0.3 * sizes**2)
    for whole, is_kept in ((0.96, True), (0.98, False)):
        times = iter([[float(len(csr.indices))], [whole, 1.0]])
        monkeypatch.setattr(blocked, "_seconds", lambda *works, times=times: next(times))
        found = tuned(csr, stop, 8)
        expected = np.flatnonzero(within > 0.3 * size**2) if is_kept else []
        assert [block.start for block in found.dense] == [stop[p] for p in expected]
    assert 0 < np.count_nonzero(within > 0.3 * size**2) < 4


def test_tuning_takes_times_of_its_own_and_changes_no_sum() -> None:
    csr, stop, matrix = directed(4)
    x = torch.randn(30, 16)
    assert torch.allclose(tuned(csr, stop, 16).sum(x), matrix @ x, atol=1e-5)
    assert torch.equal(
        BlockedGraph(csr, stop, np.zeros(4, bool)).sum(x), aggregate(x, Neighbors(csr.indptr, csr.indices), 30, "sum")
    )


@needs_metis
def test_dense_blocks_of_edges_sum_in_the_order_that_they_name() -> None:
    """Edges of a directed graph, some twice, in any order."""
    generator = torch.Generator().manual_seed(5)
    edge_index = torch.randint(0, 50, (2, 400), generator=generator)
    graph, order = dense_blocks(edge_index, 50, 8, block_nodes=10)
    matrix, x = torch.zeros(50, 50), torch.randn(50, 8)
    matrix[edge_index[1], edge_index[0]] = 1
    assert torch.allclose(graph.sum(x[order]), (matrix @ x)[order], atol=1e-5)
    for bad, word in (({"block_nodes": 0}, "block_nodes"), ({"num_nodes": 20}, "edge_index"), ({"columns": 0}, "col")):
        with pytest.raises(InputError, match=word):
            dense_blocks(**({"edge_index": edge_index, "num_nodes": 50, "columns": 8} | bad))
