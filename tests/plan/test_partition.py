"""Partitions: every node has one part, METIS finds planted blocks, and the report counts what a plain loop counts."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest

from any2vec.data.graph.graph import Graph
from any2vec.data.graph.reader import read_graph
from any2vec.data.options import GraphOptions
from any2vec.errors import InputError
from any2vec.kernels.graph.partitioning import plain_symmetric
from any2vec.plan.sharding.graph import partition, report_partition
from any2vec.plan.sharding.sharding import contiguous_bounds
from marks import CUTS, needs_metis, with_metis
from naive.common import rng as naive


def random_graph(num_nodes: int, num_edges: int, seed: int, directed: bool = False) -> Graph:
    src, dst = np.random.default_rng(seed).integers(0, num_nodes, (2, num_edges))
    return read_graph((src, dst), GraphOptions(directed=directed))


def planted(blocks: int, size: int) -> tuple[Graph, np.ndarray]:
    """Cliques in a ring, one edge from each to the next; the clique of each node, ids shuffled."""
    edges = [(b * size + i, b * size + j) for b in range(blocks) for i in range(size) for j in range(i)]
    edges += [(b * size, (b + 1) % blocks * size + 1) for b in range(blocks)]
    names = np.random.default_rng(0).permutation(blocks * size)
    graph = read_graph((names[[a for a, _ in edges]], names[[b for _, b in edges]]))
    block = np.empty(len(names), np.int64)
    block[names] = np.arange(len(names)) // size
    return graph, block


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("parts", [1, 2, 5])
@pytest.mark.parametrize("method", CUTS)
def test_report_counts_as_a_plain_loop(method: str, parts: int, directed: bool) -> None:
    graph = random_graph(60, 150, 2, directed)
    part_N = partition(graph.csr, parts, method)
    assert part_N.dtype == np.int32 and part_N.shape == (len(graph),)
    assert np.array_equal(part_N, partition(graph.csr, parts, method))
    report = report_partition(graph.csr, part_N, parts, is_directed=directed)
    part, indptr, indices = part_N.tolist(), graph.csr.indptr.tolist(), graph.csr.indices.tolist()
    edges = {(v, w) for v in range(len(graph)) for w in indices[indptr[v] : indptr[v + 1]] if directed or v <= w}
    assert len(edges) == graph.report.num_edges
    assert report.edge_cut == sum(part[v] != part[w] for v, w in edges)
    assert report.cut_share == report.edge_cut / len(edges)
    assert report.nodes == tuple(part.count(one) for one in range(parts))
    held = [sum(indptr[v + 1] - indptr[v] for v in range(len(graph)) if part[v] == one) for one in range(parts)]
    assert report.edges == tuple(held)
    assert report.balance == pytest.approx(max(held) * parts / sum(held))


@pytest.mark.parametrize(("num_nodes", "parts"), [(10, 3), (2, 5), (64, 64), (7, 1)])
def test_blocks_are_even_and_in_order(num_nodes: int, parts: int) -> None:
    bounds = contiguous_bounds(num_nodes, parts)
    sizes = np.diff(bounds)
    assert bounds[0] == 0 and bounds[-1] == num_nodes and sizes.max() - sizes.min() <= 1
    ring = np.arange(num_nodes)
    part_N = partition(read_graph((ring, (ring + 1) % num_nodes)).csr, parts)
    assert np.array_equal(np.bincount(part_N, minlength=parts), sizes) and (np.diff(part_N) >= 0).all()


def test_hash_is_the_draw_of_the_node() -> None:
    ring = np.arange(1000)
    part_N = partition(read_graph((ring, (ring + 1) % 1000)).csr, 7, "hash")
    assert part_N.tolist() == [naive.below(naive.draw(0, node) >> 32, 7) for node in range(1000)]


@needs_metis
def test_metis_finds_planted_blocks() -> None:
    graph, block = planted(4, 12)
    part_N = partition(graph.csr, 4, "metis")
    assert len({(int(a), int(b)) for a, b in zip(part_N, block, strict=True)}) == 4
    report = report_partition(graph.csr, part_N, 4, is_directed=False)
    assert report.edge_cut == 4 and report.nodes == (12,) * 4
    by_hash = report_partition(graph.csr, partition(graph.csr, 4, "hash"), 4, is_directed=False)
    assert by_hash.edge_cut > 100


def test_symmetric_pattern_equals_sets() -> None:
    graph = random_graph(30, 90, 5, directed=True)
    indptr, indices = (array.tolist() for array in plain_symmetric(graph.csr.indptr, graph.csr.indices))
    src = np.repeat(np.arange(30), np.diff(graph.csr.indptr)).tolist()
    pairs = {pair for v, w in zip(src, graph.csr.indices.tolist(), strict=True) if v != w for pair in ((v, w), (w, v))}
    for node in range(30):
        assert indices[indptr[node] : indptr[node + 1]] == sorted(w for v, w in pairs if v == node)


@pytest.mark.parametrize(
    ("parts", "method", "word"), [(0, "hash", "parts"), (2, "random", "partition"), with_metis(4, "metis", "4 parts")]
)
def test_illegal(parts: int, method: str, word: str) -> None:
    with pytest.raises(InputError, match=word):
        partition(read_graph([(0, 1), (1, 2)]).csr, parts, method)


def test_metis_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "pymetis":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"pip install -e .*\.\[partition\]"):
        partition(read_graph([(0, 1), (1, 2)]).csr, 2, "metis")
