"""Links: pairs are those of the plain twin, the same for any company; edges that are learned send no messages."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chisquare

from any2vec.data.graph.reader import read_graph
from any2vec.data.options import GraphOptions
from any2vec.errors import InputError
from any2vec.evaluate.graph.scores import ranking_of_pairs
from any2vec.evaluate.graph.split import hold_out
from any2vec.kernels.common.rng import PURPOSE_NEGATIVE, PURPOSE_PAIR, stream_key
from any2vec.sampling.links import CANDIDATES, LinkOptions, LinkSampler, WalkPairs, by_degree, without_edges
from any2vec.sampling.neighbors import NeighborOptions, NeighborSampler
from any2vec.types import Csr
from marks import uint64_wraps
from naive.models import links as naive


def random_csr(directed: bool, num_nodes: int = 60, num_edges: int = 400) -> Csr:
    """Low ids are hubs. A directed one has out-neighbors as in-neighbors: any rows do."""
    rng = np.random.default_rng(1)
    src = np.minimum(*rng.integers(0, num_nodes, (2, num_edges)))
    return read_graph((src, rng.integers(0, num_nodes, num_edges)), GraphOptions(directed=directed)).csr


def rows_of(csr: Csr) -> list[list[int]]:
    return [csr.indices[a:b].tolist() for a, b in pairwise(csr.indptr.tolist())]


def edges_of(csr: Csr) -> set[tuple[int, int]]:
    """(source, target)"""
    return {(source, target) for target, row in enumerate(rows_of(csr)) for source in row}


@uint64_wraps
@pytest.mark.parametrize("law", ["uniform", "degree"])
def test_negatives_are_those_of_the_plain_twin(law: str) -> None:
    csr = random_csr(directed=True)
    data, csr = hold_out(csr, True, 0, 0, 1)
    options = LinkOptions(num_negatives=3, negatives=law, seed=5)  # type: ignore[arg-type]
    sampler, edges = LinkSampler(csr, data.train, options), np.array([7, 0, 31])
    node_B, src_P, dst_P, num = sampler.sample(edges, epoch=2)
    assert num == 3 and (np.diff(node_B) > 0).all()
    pairs = np.stack([node_B[src_P], node_B[dst_P]])
    assert np.array_equal(pairs[:, :3], data.train[:, edges])
    table = None if law == "uniform" else tuple(array.tolist() for array in by_degree(csr))
    key = int(stream_key(5, PURPOSE_NEGATIVE, 2))
    wanted = [pair for edge in edges.tolist() for pair in naive.draw_pairs(rows_of(csr), table, key, edge, 3)]  # type: ignore[arg-type]
    assert list(zip(*pairs[:, 3:].tolist(), strict=True)) == wanted


def test_negatives_are_no_edges_whatever_the_company_of_an_edge() -> None:
    csr = random_csr(directed=False)
    data, csr = hold_out(csr, False, 0.1, 0.1, 1)
    sampler, known = LinkSampler(csr, data.train, LinkOptions(num_negatives=4)), edges_of(csr)
    all_edges = np.arange(data.train.shape[1])
    nodes, src, dst, num = sampler.sample(all_edges)
    pairs = list(zip(nodes[src].tolist(), nodes[dst].tolist(), strict=True))
    assert set(pairs[:num]) <= known and not set(pairs[num:]) & known and all(a != b for a, b in pairs)
    nodes, src, dst, _ = sampler.sample(all_edges[-1:])
    assert list(zip(nodes[src].tolist(), nodes[dst].tolist(), strict=True))[1:] == pairs[-4:]
    assert not np.array_equal(sampler.sample(all_edges, 1).src_P, src)


def test_negatives_by_degree_are_drawn_by_its_power() -> None:
    star = read_graph((np.zeros(16, int), np.arange(1, 17))).csr  # a hub of 16 neighbors, whose power is 8
    pairs = WalkPairs(star, 2, 30_000, 1).sample(0, 1)
    counts = np.bincount(pairs[0][pairs[3]], minlength=17)
    assert chisquare(counts, np.array([8.0] + [1.0] * 16) / 24 * 30_000).pvalue > 1e-4


@uint64_wraps
def test_pairs_of_walks_are_those_of_the_plain_twin() -> None:
    csr, length = random_csr(directed=True), 4
    pairs = WalkPairs(csr, length, 5, seed=9)
    walks = np.empty(20 * (length + 1), np.int32)
    pairs._walker.sample(30, 50, 3, walks)
    key = int(stream_key(9, PURPOSE_PAIR, 3))
    wanted = [
        (int(walk[0]), found)
        for number, walk in enumerate(walks.reshape(20, -1))
        if (found := naive.partner(walk.tolist(), key, 30 + number)) not in (-1, walk[0])
    ]
    node_B, src_P, dst_P, negative_K = pairs.sample(30, 50, 3)
    assert list(zip(node_B[src_P].tolist(), node_B[dst_P].tolist(), strict=True)) == wanted
    assert len(negative_K) == 5 and len(wanted) < 20  # some walks end where they start, or at once


def test_every_node_starts_one_walk_an_epoch() -> None:
    csr = random_csr(directed=False)
    pairs = WalkPairs(csr, 3, 2, seed=1)
    starts = [
        node for first in range(0, pairs.num_walks, 16)
        for node_B, src_P, *_ in [pairs.sample(first, min(first + 16, pairs.num_walks))] for node in node_B[src_P]
    ]  # fmt: skip
    assert pairs.num_walks == len(csr.indptr) - 1 and len(set(starts)) == len(starts) > 40


@pytest.mark.parametrize("fanout", [3, -1])
def test_edges_left_out_send_nothing_to_the_seeds(fanout: int) -> None:
    csr = random_csr(directed=False)
    seeds = np.array([0, 3, 8, 20, 41])
    found = NeighborSampler(csr, NeighborOptions(fanouts=(fanout, 2))).sample(seeds, with_edges=True)
    first = found.neighbor_S[: found.stop_D1[1]]
    target_K, source_K = np.array([0, 0, 8]), np.array([found.node_M[first[0]], found.node_M[first[1]], 59])
    left = without_edges(found, target_K, source_K)

    def messages(of: object) -> list[tuple[int, int]]:
        stop, neighbor, node = of.stop_D1, of.neighbor_S, of.node_M  # type: ignore[attr-defined]
        return [
            (int(node[d]), int(node[place])) for d in range(len(stop) - 1) for place in neighbor[stop[d] : stop[d + 1]]
        ]

    out = set(zip(target_K.tolist(), source_K.tolist(), strict=True))
    num = found.stop_D1[5]
    kept = [edge for edge in messages(found)[:num] if edge not in out] + messages(found)[num:]
    assert messages(left) == kept and len(kept) <= len(messages(found)) - 2
    assert sum(left.edges_by_hop) == len(left.neighbor_S) == len(left.edge_S) == left.stop_D1[-1]
    assert np.array_equal(csr.indices[left.edge_S], left.node_M[left.neighbor_S])


@pytest.mark.parametrize("directed", [False, True])
def test_held_out_edges_are_in_no_message_and_negatives_are_no_edges(directed: bool) -> None:
    csr = random_csr(directed)
    data, rest = hold_out(csr, directed, 0.1, 0.2, 3)
    parts = [set(zip(*part.tolist(), strict=True)) for part in (data.train, data.val, data.test)]
    known, left = edges_of(csr), edges_of(rest)
    proper = {edge for edge in known if edge[0] != edge[1]}
    both = [part | (set() if directed else {edge[::-1] for edge in part}) for part in parts]
    assert proper == set.union(*both) and sum(map(len, both)) == len(proper)
    assert left == known - both[1] - both[2]
    singles = [len({(min(edge), max(edge)) for edge in part}) for part in (proper, *parts[1:])]
    assert singles[1:] == [round(0.1 * singles[0]), round(0.2 * singles[0])]
    for part in parts[1:]:  # an edge and its reverse go together
        back = {edge[::-1] for edge in part}
        assert not back & left and back & known == (back & part if directed else back)
    assert not directed or any(edge[::-1] in parts[2] for edge in parts[2])
    for negatives, part in ((data.val_negatives, parts[1]), (data.test_negatives, parts[2])):
        pairs = set(zip(*negatives.tolist(), strict=True))
        assert len(pairs) == len(part) and not pairs & known and all(a != b for a, b in pairs)
    again, _ = hold_out(csr, directed, 0.1, 0.2, 3)
    other, _ = hold_out(csr, directed, 0.1, 0.2, 4)
    assert np.array_equal(again.test, data.test) and not np.array_equal(other.test, data.test)
    degree = np.zeros(len(csr.indptr) - 1, int)
    np.add.at(degree, list(zip(*left, strict=True)), 1)
    before = np.zeros_like(degree)
    np.add.at(before, list(zip(*proper, strict=True)), 1)
    assert (degree[before > 0] > 0).all()  # each node that has an edge keeps one


@pytest.mark.parametrize("directed", [False, True])
def test_candidates_have_no_edge_from_the_source_of_an_edge(directed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    csr = random_csr(directed)
    data, known = hold_out(csr, directed, 0.1, 0.2, 3)[0], edges_of(csr)
    assert data.val_ranking.shape == (2 + CANDIDATES, data.val.shape[1])
    for part, ranking in ((data.val, data.val_ranking), (data.test, data.test_ranking)):
        src, dst, *candidates = ranking.tolist()
        edges = [*zip(*part.tolist(), strict=True)]
        turned = [edge[::-1] for edge in edges]
        ranked = [*zip(src, dst, strict=True)]
        assert all(a in pair for a, *pair in zip(ranked, edges, turned, strict=True))
        assert (ranked == edges) == directed  # else either end is the source
        pairs = {(source, node) for row in candidates for source, node in zip(src, row, strict=True)}
        assert not pairs & known and all(a != b for a, b in pairs) and len(pairs) > 20 * len(set(src))
    monkeypatch.setattr("any2vec.evaluate.graph.split.RANKED", 5)
    few = hold_out(csr, directed, 0.1, 0.2, 3)[0]
    assert few.test_ranking.shape == (2 + CANDIDATES, 5) and np.array_equal(few.test, data.test)


def test_a_source_with_an_edge_to_every_node_is_not_ranked() -> None:
    """Of a hub that all nodes stand to, edges on the rim alone, or those that are turned to it, have candidates."""
    rim = np.arange(1, 31)
    src, dst = np.r_[np.zeros(30, int), rim], np.r_[rim, np.roll(rim, 1)]
    data, _ = hold_out(read_graph((src, dst)).csr, False, 0.0, 0.5, 1)
    sources = data.test_ranking[0]
    assert 0 not in sources and 0 < len(sources) < data.test.shape[1] and (data.test_ranking >= 0).all()
    assert data.val_ranking.shape == (2 + CANDIDATES, 0)


def test_ranks_are_those_of_the_plain_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    vectors, ranking = rng.integers(-2, 3, (20, 3)), rng.integers(0, 20, (16, 90))  # with ties
    wanted = naive.ranking(vectors.tolist(), ranking.T.tolist())
    found = ranking_of_pairs(vectors.astype(np.float32), ranking)
    assert (found["mrr"], found["hits_at_10"]) == pytest.approx(wanted) and 0.1 < wanted[0] < wanted[1] < 1
    monkeypatch.setattr("any2vec.evaluate.graph.scores._BLOCK_NUMBERS", 100)
    assert ranking_of_pairs(vectors.astype(np.float32), ranking) == pytest.approx(found)
    assert ranking_of_pairs(vectors.astype(np.float32), ranking[:, :0]) == {}


@pytest.mark.parametrize("directed", [False, True])
def test_edges_of_several_types_between_two_nodes_are_held_out_as_one(directed: bool) -> None:
    csr = random_csr(directed)
    twice = Csr(2 * csr.indptr, np.repeat(csr.indices, 2), np.empty(0, np.float32))  # as a graph with types has them
    (one, rest), (two, rest_of_two) = (hold_out(each, directed, 0.1, 0.2, 3) for each in (csr, twice))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert np.array_equal(rest.indptr, rest_of_two.indptr) and np.array_equal(rest.indices, rest_of_two.indices)


def test_a_tree_has_no_edge_to_hold_out() -> None:
    path = read_graph((np.arange(9), np.arange(1, 10))).csr
    with pytest.raises(InputError, match="none can be held out for validation"):
        hold_out(path, False, 0.1, 0.1, 1)
    data, rest = hold_out(path, False, 0, 0, 1)
    assert data.train.shape == (2, 9) and data.val.shape == data.test_negatives.shape == (2, 0)
    assert np.array_equal(rest.indices, path.indices)


def test_what_is_held_out_is_shared_where_a_forest_leaves_too_little() -> None:
    ring = read_graph((np.arange(10), (np.arange(10) + 1) % 10)).csr
    extra = read_graph((np.r_[np.arange(10), 0, 2, 4], np.r_[(np.arange(10) + 1) % 10, 5, 7, 9])).csr
    with pytest.raises(InputError, match="none can be held out"):
        hold_out(ring, False, 0.3, 0.3, 1)  # one spare edge for two parts
    data, _ = hold_out(extra, False, 0.3, 0.3, 1)
    assert data.val.shape[1] + data.test.shape[1] == 4 and data.val.shape[1] == data.test.shape[1] == 2
    for val_share, wanted in ((0.08, (1, 3)), (0.0, (0, 4))):  # 1 of 13 edges: its share of 4 is less than one
        data, _ = hold_out(extra, False, val_share, 0.6, 1)
        assert (data.val.shape[1], data.test.shape[1]) == wanted
