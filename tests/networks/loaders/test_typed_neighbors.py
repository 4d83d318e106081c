"""Neighborhoods by type of edge: equal to a plain twin, the same for any threads, full ones are all there is."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from any2vec.errors import InputError
from any2vec.kernels.common.rng import PURPOSE_NEIGHBOR, stream_key
from any2vec.sampling.neighbors import NeighborOptions, NeighborSampler
from any2vec.sampling.typed_neighbors import EdgeType, TypedNeighborhood, TypedNeighborSampler
from any2vec.types import Csr
from marks import uint64_wraps
from naive.models import typed_neighbors as naive
from naive.models.walks import build_alias

pytestmark = uint64_wraps
NODES = {"paper": 60, "author": 40, "topic": 5}
KINDS: list[EdgeType] = [
    ("author", "writes", "paper"), ("paper", "by", "author"), ("paper", "cites", "paper"), ("topic", "of", "paper"),
    ("paper", "about", "topic"),
]  # fmt: skip


def random_csrs(seed: int = 0, weighted: tuple[int, ...] = ()) -> dict[EdgeType, Csr]:
    """With equal edges and, of citations, loops; some nodes have no neighbors."""
    rng = np.random.default_rng(seed)
    csrs = {}
    for number, (src, name, dst) in enumerate(KINDS):
        degree = rng.integers(0, 9, NODES[dst]) * (rng.random(NODES[dst]) < 0.9)
        indptr = np.concatenate([[0], np.cumsum(degree)]).astype(np.int64)
        weights = rng.random(indptr[-1]).astype(np.float32) + 0.01 if number in weighted else np.empty(0, np.float32)
        csrs[src, name, dst] = Csr(indptr, rng.integers(0, NODES[src], indptr[-1]).astype(np.int32), weights)
    return csrs


def rows_of(csr: Csr) -> list[list[tuple[int, float]]]:
    weights = csr.weights if len(csr.weights) else np.ones(len(csr.indices))
    return [
        list(zip(csr.indices[a:b].tolist(), weights[a:b].tolist(), strict=True))
        for a, b in pairwise(csr.indptr.tolist())
    ]


def key_of(seed: int, epoch: int, number: int) -> Any:
    key = int(stream_key(seed, PURPOSE_NEIGHBOR, epoch))
    return lambda relation, hop: int(stream_key(key, relation << 16 | hop, number))


def check_form(csrs: Mapping[EdgeType, Csr], got: TypedNeighborhood) -> None:
    """What holds of every neighborhood."""
    for kind, nodes in got.nodes.items():
        assert len(set(nodes.tolist())) == len(nodes) == sum(got.nodes_by_hop[kind])
    for kind, edges in got.edges.items():
        src, dst = edges.edge_index()
        assert len(src) == sum(edges.by_hop) == edges.stop_D1[-1]
        assert (csrs[kind].indices[edges.edge_S] == got.nodes[kind[0]][src]).all()
        row = np.searchsorted(csrs[kind].indptr, edges.edge_S, side="right") - 1
        assert (row == got.nodes[kind[2]][dst]).all()
        seen = np.cumsum(got.nodes_by_hop[kind[2]])
        for hop, stop in enumerate(np.cumsum(edges.by_hop)):
            assert (dst[:stop] < seen[hop]).all()


BY_TYPE = [
    dict.fromkeys(KINDS, (4, 3)),
    dict.fromkeys(KINDS, (-1, 2, 2)),
    dict(zip(KINDS, [(3, 0), (0, 2), (2, 1), (-1, -1), (0, 0)], strict=True)),
]


@pytest.mark.parametrize("fanouts", BY_TYPE)
@pytest.mark.parametrize(
    ("law", "replace"), [("uniform", False), ("uniform", True), ("labor", False), ("weighted", False)]
)
def test_equal_to_plain_twin(law: Any, replace: bool, fanouts: Any) -> None:
    csrs = random_csrs(weighted=(0, 2) if law == "weighted" else ())
    options = NeighborOptions(law=law, replace=replace, seed=7, key="batch")
    sampler = TypedNeighborSampler(csrs, NODES, fanouts, options)
    rows = {kind: rows_of(csr) for kind, csr in csrs.items()}
    tables = {
        kind: [build_alias([weight for _, weight in row]) if row else ([], []) for row in rows[kind]]
        for kind, csr in csrs.items()
        if len(csr.weights)
    }
    seeds = {"paper": [5, 0, 31], "author": [7], "topic": []}
    for epoch, batch in ((0, 0), (2, 3)):
        given = {kind: np.array(nodes, np.int64) for kind, nodes in seeds.items()}
        got = sampler.sample(given, epoch, batch, with_edges=True)
        key = key_of(7, epoch, batch + 1)
        found, sampled = naive.sample(rows, seeds, fanouts, law, replace, key, tables)
        check_form(csrs, got)
        for kind in KINDS:
            edges, dst = got.edges[kind], got.nodes[kind[2]]
            assert set(dst[: len(edges.stop_D1) - 1].tolist()) == set(sampled[kind])
            for d, (start, stop) in enumerate(pairwise(edges.stop_D1.tolist())):
                node, row = int(dst[d]), rows[kind][int(dst[d])]
                mine = (edges.edge_S[start:stop] - csrs[kind].indptr[node]).tolist()
                expected = sampled[kind][node]
                if law == "labor":  # equal edges have equal draws: which of them is left open, and the order
                    assert sorted(row[place] for place in mine) == sorted(row[place] for place in expected)
                else:
                    assert mine == expected
        for node_kind, nodes in got.nodes.items():
            assert sorted(nodes.tolist()) == sorted(found[node_kind])
            assert law == "labor" or nodes.tolist() == found[node_kind]


def test_one_type_is_sampled_as_a_graph_without_types() -> None:
    csr = random_csrs()["paper", "cites", "paper"]
    options = NeighborOptions(fanouts=(3, 2), seed=4)
    typed = TypedNeighborSampler({("paper", "cites", "paper"): csr}, {"paper": 60}, {}, options)
    seeds = np.array([3, 50, 7])
    one, other = typed.sample({"paper": seeds}, 2), NeighborSampler(csr, options).sample(seeds, 2)
    assert np.array_equal(one.nodes["paper"], other.node_M) and one.nodes_by_hop["paper"] == other.nodes_by_hop
    (edges,) = one.edges.values()
    assert np.array_equal(edges.edge_index(), other.edge_index()) and edges.by_hop == other.edges_by_hop


def test_types_of_edges_draw_by_themselves() -> None:
    """The same rows under two names: other samples."""
    csr = Csr(np.array([0, 1000]), np.arange(1000, dtype=np.int32), np.empty(0, np.float32))
    csrs: dict[EdgeType, Csr] = {("b", "one", "a"): csr, ("b", "two", "a"): csr}
    sampler = TypedNeighborSampler(csrs, {"a": 1, "b": 1000}, {}, NeighborOptions(fanouts=(10,)))
    one, two = sampler.sample({"a": np.array([0])}, with_edges=True).edges.values()
    assert len(one.edge_S) == len(two.edge_S) == 10 and set(one.edge_S.tolist()) != set(two.edge_S.tolist())


def test_a_node_keeps_its_sample_whoever_is_in_the_batch_and_in_any_thread() -> None:
    csrs = random_csrs()
    sampler = TypedNeighborSampler(csrs, NODES, {}, NeighborOptions(fanouts=(2,)))

    def sources(seeds: list[int]) -> dict[int, list[int]]:
        got = sampler.sample({"paper": np.array(seeds)}, 1)
        edges = got.edges["author", "writes", "paper"]
        return {
            node: got.nodes["author"][edges.neighbor_S[a:b]].tolist()
            for node, (a, b) in zip(seeds, pairwise(edges.stop_D1.tolist()), strict=True)
        }

    whole = sources(list(range(60)))
    with ThreadPoolExecutor(4) as pool:
        for part in pool.map(sources, [[i, 59 - i] for i in range(25)] * 4):
            assert all(whole[node] == found for node, found in part.items())


@pytest.mark.parametrize(
    ("fanouts", "said"),
    [
        ({KINDS[0]: (1, 2)}, "same number of hops"), ({KINDS[0]: (-2,)}, "author__writes__paper must be whole numbers"),
        ({KINDS[1]: "3"}, "paper__by__author must be"), ({KINDS[1]: ()}, "paper__by__author must be"),
        ({KINDS[1]: (True,)}, "paper__by__author must be"),
    ],
)  # fmt: skip
def test_fanouts_that_are_refused(fanouts: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        TypedNeighborSampler(random_csrs(), NODES, fanouts, NeighborOptions(fanouts=(3,)))


def test_seeds_that_are_refused() -> None:
    sampler = TypedNeighborSampler(random_csrs(), NODES, {}, NeighborOptions(fanouts=(3,)))
    for seeds, said in (([40], "Seed 40 is no node of author"), ([1, 1], "twice among the seeds of author")):
        with pytest.raises(InputError, match=said):
            sampler.sample({"author": np.array(seeds)})
    with pytest.raises(InputError, match="Seeds of author are whole numbers"):
        sampler.sample({"author": np.array([0.5])})
    assert len(sampler.sample({"author": np.array([1])}).nodes["author"]) >= 1
