"""Traveling walkers: the walks of one host, bit for bit, by hosts that hold their part and no more."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from any2vec.cli.app import app
from any2vec.cluster.message import Part
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.data.graph.graph import Graph
from any2vec.data.graph.reader import read_graph
from any2vec.data.options import GraphOptions
from any2vec.data.text.corpus import Corpus
from any2vec.errors import HostError, InputError, MessageError
from any2vec.kernels.common.rng import PURPOSE_ORDER, PURPOSE_WALK, stream_key
from any2vec.kernels.graph import walk as one_host
from any2vec.kernels.graph import walk_parts as kernels
from any2vec.models.words.source import WalkedTokens
from any2vec.models.words.walk_corpus import WalkCorpusTokens
from any2vec.plan.sharding.nodes import NodeSharding
from any2vec.sampling import distributed_walks, walk_corpus
from any2vec.sampling.distributed_walks import DistributedWalker, bytes_in_flight
from any2vec.sampling.parts import GraphPart, cut_part, split_graph
from any2vec.sampling.walk_corpus import count_visits_together, share_of, write_distributed_walks
from any2vec.sampling.walker_messages import Message, pack_walkers
from any2vec.sampling.walks import Walker, WalkOptions, count_visits, row_sums, write_walks
from marks import CUTS, with_metis
from naive.models import walks as naive

SECONDS = 60.0
PQ = [(1, 1), (0.25, 4), (4, 0.5), (0.5, 2), (1e-6, 1), (1e6, 1e-6)]
SEED, EPOCH = 5, 2


def random_graph(num_nodes: int, num_edges: int, seed: int, *, weighted: bool = False, directed: bool = False) -> Graph:
    """Hubs, loops, lone nodes, and, where edges have a direction, dead ends."""
    rng = np.random.default_rng(seed)
    src, dst = (rng.integers(0, num_nodes, num_edges) for _ in range(2))
    src = np.minimum(src, rng.integers(0, num_nodes, num_edges))
    weights = (rng.random(num_edges) ** 3 * 5 + 0.01,) if weighted else ()
    return read_graph((src, dst, *weights), GraphOptions(directed=directed))


def expected(graph: Graph, options: WalkOptions, epoch: int = EPOCH) -> np.ndarray:
    walker = Walker(graph.csr, options, SEED, is_directed=graph.is_directed)
    out = np.empty(walker.num_walks * walker.stride, np.int32)
    walker.sample(0, walker.num_walks, epoch, out)
    return out


def together(
    parts: list[GraphPart], options: WalkOptions, work: Callable[[DistributedWalker], Any], in_flight: int = 1 << 12
) -> list[Any]:
    """What `work` returns at each logical host."""

    def host(transport: Transport) -> Any:
        return work(DistributedWalker(parts[transport.rank], transport, options, SEED, in_flight=in_flight))

    return run_logical(len(parts), host, patience=SECONDS)


def own_share(walker: DistributedWalker) -> tuple[np.ndarray, DistributedWalker]:
    share = share_of(0, walker.num_walks, walker.transport.rank, walker.transport.hosts)
    return walker.sample(*share, EPOCH), walker


def distributed(graph: Graph, options: WalkOptions, hosts: int, method: str, in_flight: int = 1 << 12) -> np.ndarray:
    parts = split_graph(graph, NodeSharding.make(graph.csr, hosts, method))
    return np.concatenate([walks for walks, _ in together(parts, options, own_share, in_flight)])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("p", "q"), PQ)
@pytest.mark.parametrize("cuts", [[(1, "hash"), (2, "contiguous"), (3, "hash")], with_metis([(5, "metis")])])
def test_equal_to_one_host_and_to_the_plain_twin(
    cuts: list[tuple[int, str]], p: float, q: float, weighted: bool, directed: bool
) -> None:
    graph = random_graph(90, 260, 3, weighted=weighted, directed=directed)
    options = WalkOptions(walks_per_node=2, walk_length=9, p=p, q=q)
    keys = [int(stream_key(SEED, purpose, EPOCH)) for purpose in (PURPOSE_WALK, PURPOSE_ORDER)]
    indptr, indices, weights = (array.tolist() for array in graph.csr)
    weights = weights or [1.0] * len(indices)
    neighbors = [list(zip(indices[a:b], weights[a:b], strict=True)) for a, b in pairwise(indptr)]
    plain = [naive.walk(neighbors, weighted, number, 9, p, q, *keys) for number in range(2 * len(graph))]
    twin = np.concatenate([row + [-1] * (10 - len(row)) for row in plain])
    whole = expected(graph, options)
    assert np.array_equal(whole, twin)
    for hosts, method in cuts:
        assert np.array_equal(distributed(graph, options, hosts, method), whole), (hosts, method)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    num_nodes=st.integers(2, 40), density=st.integers(1, 6), seed=st.integers(0, 1000), weighted=st.booleans(),
    directed=st.booleans(), pq=st.sampled_from(PQ), length=st.integers(1, 12), hosts=st.sampled_from([1, 2, 3, 5]),
    method=st.sampled_from(["contiguous", "hash", "random"]), in_flight=st.sampled_from([5, 17, 1 << 12]),
)  # fmt: skip
def test_any_graph_on_any_hosts(
    num_nodes: int, density: int, seed: int, weighted: bool, directed: bool, pq: tuple[float, float], length: int,
    hosts: int, method: str, in_flight: int,
) -> None:  # fmt: skip
    graph = random_graph(num_nodes, num_nodes * density, seed, weighted=weighted, directed=directed)
    options = WalkOptions(walks_per_node=1, walk_length=length, p=pq[0], q=pq[1])
    part_N = np.random.default_rng(seed).integers(0, hosts, len(graph))
    sharding = NodeSharding.of(part_N, hosts) if method == "random" else NodeSharding.make(graph.csr, hosts, method)
    found = together(split_graph(graph, sharding), options, own_share, in_flight)
    assert np.array_equal(np.concatenate([walks for walks, _ in found]), expected(graph, options))
    assert max(walker.stats.most_walkers for _, walker in found) <= in_flight


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("room", [1, 1 << 16])
def test_enumerated_steps_fetch_rows(
    room: int, directed: bool, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every rejection is followed by the enumerated step; with little room rows come one at a time."""
    monkeypatch.setattr(one_host, "PATIENCE", -1000)
    monkeypatch.setattr(distributed_walks, "ROW_ROOM", room)
    graph = random_graph(60, 240, 8, weighted=weighted, directed=directed)
    options = WalkOptions(walks_per_node=3, walk_length=10, p=5, q=0.3)
    found = together(split_graph(graph, NodeSharding.make(graph.csr, 3, "hash")), options, own_share)
    assert np.array_equal(np.concatenate([walks for walks, _ in found]), expected(graph, options))
    assert sum(walker.stats.rows_asked for _, walker in found) > 20


def test_dead_ends_and_lone_nodes() -> None:
    graph = read_graph([(0, 1), (1, 2), (3, 3), (4, 0)], GraphOptions(directed=True))
    for p in (1, 0.5):
        options = WalkOptions(walks_per_node=3, walk_length=6, p=p)
        for hosts, method in ((2, "contiguous"), (5, "contiguous"), (5, "hash"), (8, "contiguous")):
            assert np.array_equal(distributed(graph, options, hosts, method), expected(graph, options))


@pytest.mark.parametrize("method", ["hash", with_metis("metis")])
def test_any_range_of_walks_at_any_host(method: str) -> None:
    """Ranges that overlap, or are empty, and hosts that ask for nothing."""
    graph = random_graph(300, 900, 1, weighted=True)
    options = WalkOptions(walks_per_node=2, walk_length=12, p=0.5, q=2)
    whole = expected(graph, options).reshape(-1, 13)
    asked = [(100, 340), (7, 7), (0, 2 * len(graph))]

    def work(walker: DistributedWalker) -> list[np.ndarray]:
        rank = walker.transport.rank
        return [walker.sample(*asked[(rank + turn) % 3], EPOCH) for turn in range(3)] + [walker.sample(0, 0, EPOCH)]

    parts = split_graph(graph, NodeSharding.make(graph.csr, 3, method))
    for rank, walks in enumerate(together(parts, options, work, in_flight=100)):
        for turn in range(3):
            start, stop = asked[(rank + turn) % 3]
            assert np.array_equal(walks[turn], whole[start:stop].ravel())
        assert walks[3].size == 0


@pytest.mark.parametrize("method", CUTS)
def test_hosts_hold_their_part_and_what_is_in_flight(method: str) -> None:
    graph = random_graph(400, 3000, 4, weighted=True)
    options = WalkOptions(walks_per_node=1, walk_length=10, p=0.5, q=2)
    widest = int(np.diff(graph.csr.indptr).max())
    sharding = NodeSharding.make(graph.csr, 4, method)
    parts = split_graph(graph, sharding)
    assert sorted(np.concatenate([part.nodes for part in parts]).tolist()) == list(range(400))
    assert sum(len(part.csr.indices) for part in parts) == len(graph.csr.indices)
    for part in parts:
        entries, nodes = len(part.csr.indices), len(part.nodes)
        assert entries == int(np.diff(graph.csr.indptr)[part.nodes].sum()) < len(graph.csr.indices) / 2
        assert not any(np.shares_memory(mine, whole) for mine in part.rows[:7] for whole in graph.csr)
        held = {name: len(array) for name, array in part.rows._asdict().items() if name not in ("owned", "first")}
        per_edge = dict.fromkeys(("indices", "weights", "threshold", "alias"), entries)
        assert held == {"indptr": nodes + 1, "row_weight": nodes} | per_edge
        maps = {"contiguous": 8 * 5, "hash": 16 * (400 // 64 + 1), "metis": 16 * (400 // 64 + 1) + 2 * 400}
        assert part.nbytes == 16 * entries + 20 * nodes + 8 + maps[method]
    for in_flight in (40, 200):
        for _, walker in together(parts, options, own_share, in_flight):
            assert 0 < walker.stats.most_walkers <= in_flight
            assert walker.stats.most_bytes <= bytes_in_flight(in_flight, 10, 4, widest)
            beside_rows = bytes_in_flight(in_flight, 10, 0, widest)
            assert walker.stats.rows_asked or walker.stats.most_bytes <= beside_rows


def test_row_sums_do_not_depend_on_where_the_row_lies() -> None:
    weights = np.random.default_rng(0).random(30_000).astype(np.float32)
    csr = read_graph(
        (np.repeat([0, 1, 2], 10_000), np.tile(np.arange(10_000), 3), weights), GraphOptions(directed=True)
    ).csr
    parts = split_graph(read_graph((np.repeat([0, 1, 2], 10_000), np.tile(np.arange(10_000), 3), weights),
                                   GraphOptions(directed=True)), NodeSharding.of(np.arange(10_000) % 3, 3))  # fmt: skip
    for part in parts:
        assert np.array_equal(part.rows.row_weight, row_sums(csr)[part.nodes])


@pytest.mark.parametrize("block", [1, 100, 1 << 20])
@pytest.mark.parametrize("method", CUTS)
def test_a_part_of_a_stored_graph(method: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the blocks of rows that are copied at a time; some rows are empty."""
    graph = random_graph(200, 800, 6, weighted=True, directed=True)
    graph.save(tmp_path / "graph")
    stored = Graph.open(tmp_path / "graph")
    sharding = NodeSharding.make(graph.csr, 3, method)
    parts = split_graph(graph, sharding)
    monkeypatch.setattr("any2vec.sampling.parts._BLOCK_ENTRIES", block)
    for rank, part in enumerate(parts):
        opened = cut_part(stored.csr, sharding, rank, stored.is_directed)
        for mine, other in zip(opened.csr, part.csr, strict=True):
            assert np.array_equal(mine, other) and not isinstance(mine.base, np.memmap)
        rows = [graph.csr.indices[graph.csr.indptr[v] : graph.csr.indptr[v + 1]] for v in part.nodes]
        assert np.array_equal(opened.csr.indices, np.concatenate(rows))
        weights = [graph.csr.weights[graph.csr.indptr[v] : graph.csr.indptr[v + 1]] for v in part.nodes]
        assert np.array_equal(opened.csr.weights, np.concatenate(weights))
        assert opened.widest_row == max(len(row) for row in rows)


@pytest.mark.parametrize("method", ["random", *CUTS])
def test_owners_and_rows_of_nodes(method: str) -> None:
    part_N = np.random.default_rng(3).integers(0, 4, 1000)
    graph = read_graph((np.arange(1000), (np.arange(1000) + 1) % 1000))
    sharding = NodeSharding.of(part_N, 4) if method == "random" else NodeSharding.make(graph.csr, 4, method)
    found = sharding.owner(np.arange(1000))
    for part in split_graph(graph, sharding):
        assert np.array_equal(part.nodes, np.flatnonzero(found == part.rank))
        rows = [int(kernels.local_row(part.rows, node)) for node in range(1000)]
        place = {int(node): row for row, node in enumerate(part.nodes)}
        assert rows == [place.get(node, -1) for node in range(1000)]
    with pytest.raises(InputError, match="parts of nodes"):
        NodeSharding.of(part_N, 3)


@pytest.mark.parametrize("hosts", [1, 4])
def test_counts_and_tokens(hosts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk_corpus, "_BLOCK_SLOTS", 1000)  # several collective calls
    graph = random_graph(120, 500, 2)
    options = WalkOptions(walks_per_node=3, walk_length=9, p=0.5, q=2)
    walker = Walker(graph.csr, options, SEED)
    counts, plain = count_visits(walker, EPOCH), WalkedTokens(walker)

    def work(mine: DistributedWalker) -> int:
        assert np.array_equal(count_visits_together(mine, EPOCH), counts)
        received = mine.transport.counters.received.items()
        dense = [size for (kind, _, _), size in received if kind == "dense"]
        assert sum(dense) <= 2 * counts.nbytes  # one other's counts and the sum: no host holds those of all
        tokens, rank = WalkCorpusTokens(mine), mine.transport.rank
        assert (tokens.unit, tokens.num_positions) == (plain.unit, plain.num_positions)
        assert tokens.piece(0, 0, 0)[0].size == 0
        for epoch in range(2):
            start, stop = (10 * cut for cut in share_of(0, 3 * len(graph), rank, hosts))
            tokens.ahead(epoch, [(start, stop)])
            for at in range(start, stop, 50):
                found, begin, end, offset = tokens.piece(epoch, at, min(stop, at + 50))
                assert begin + offset == at and not found.flags.writeable
                expected, first, last, _ = plain.piece(epoch, at, min(stop, at + 50))
                assert np.array_equal(found[begin:end], expected[first:last])
            with pytest.raises(InputError, match="not walked ahead"):
                tokens.piece(epoch + 1, start, stop)
        with pytest.raises(InputError, match="multiples of 10"):
            tokens.ahead(0, [(5, 20)])
        return 1

    assert together(split_graph(graph, NodeSharding.make(graph.csr, hosts, "hash")), options, work) == [1] * hosts


@pytest.mark.parametrize("method", CUTS)
def test_stored_walks_are_the_very_same(method: str, tmp_path: Path) -> None:
    graph = random_graph(100, 300, 2, weighted=True)
    options = WalkOptions(walks_per_node=3, walk_length=8, p=0.5, q=2)
    write_walks(graph, options, 4, tmp_path / "one", threads=1)
    _, cost = write_distributed_walks(graph, options, 4, tmp_path / "many", hosts=3, method=method)
    for name in ("tokens.npy", "counts.npy", "words.npy", "meta.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "many" / name).read_bytes(), name
    assert cost.steps == Corpus.open(tmp_path / "one").num_tokens
    assert cost.messages == 3 * 2 * (cost.supersteps + 1)  # each to each other, and once to agree
    assert cost.bytes_by_kind["ids"] > 0 == cost.bytes_by_kind["rows"]
    assert cost.bytes_per_step == sum(cost.bytes_by_kind.values()) / cost.steps


def test_illegal_calls() -> None:
    graph = random_graph(20, 60, 1)
    parts = split_graph(graph, NodeSharding.make(graph.csr, 2, "contiguous"))
    options = WalkOptions(walks_per_node=1, walk_length=5)
    with pytest.raises(InputError, match="was given part"):
        together(parts[::-1], options, own_share)
    with pytest.raises(InputError, match="in_flight"):
        together(parts, options, own_share, in_flight=1)
    with pytest.raises(InputError, match="walks must lie"):
        together(parts, options, lambda walker: walker.sample(0, 99, 0))
    with pytest.raises(HostError, match="disagree"):
        together(parts, options, lambda walker: walker.sample(0, 9, walker.transport.rank))


def test_messages_come_back_whole() -> None:
    walkers = np.arange(20, dtype=np.int64).reshape(2, 10)
    message = Message.empty()._replace(
        walkers=pack_walkers(walkers, (0, 2, 4)), near=np.array([3], np.uint8), is_done=True
    )
    back = Message.of(message.parts(), 1)
    assert back.walkers.tolist() == [[0, 2, 4], [10, 12, 14]] and back.near.tolist() == [3] and back.is_done
    assert len(message.parts()) == 3 and back.segments.size == back.rows.size == 0
    for wrong in ([], message.parts()[:2], [message.parts()[0], *message.parts()[:0:-1]], [Part("ids", np.zeros(3))]):
        with pytest.raises(MessageError, match="Rank 1"):
            Message.of(wrong, 1)
    with pytest.raises(OverflowError):
        pack_walkers(walkers << 40, (0, 2, 4))


def put(place: tuple[Any, ...] | int, value: int) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array[place] = value
        return array

    return change


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("walkers", put((0, 0), 1 << 30)), ("walkers", put((0, 1), 10**6)), ("walkers", put((0, 2), 0)),
        ("walkers", put((0, 2), 99)), ("walkers", put((0, 3), 10**6)), ("walkers", lambda array: array[:, :4]),
        ("segments", put(0, -1 - 10**6)), ("segments", put(0, 5)), ("segments", lambda array: np.tile(array, 9)),
        ("edges", put((0, 0), -1)), ("edges", put((0, 1), 10**6)), ("edges", lambda array: array[:, 0]),
        ("near", lambda array: np.append(array, array)), ("nodes", put(0, 10**6)), ("rows", put(0, -1)),
        ("rows", lambda array: array[:-1]), ("rows", lambda array: np.tile(array, 999)),
    ],
)  # fmt: skip
def test_what_a_faulty_host_sends_is_an_error(
    field: str, change: Callable[[np.ndarray], np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not memory that is read or written beyond its end, nor a loop for ever."""
    monkeypatch.setattr(one_host, "PATIENCE", -1000 if field in ("nodes", "rows") else one_host.PATIENCE)
    true = Message.of

    def of(parts: Any, sender: int) -> Message:
        message = true(parts, sender)
        array = getattr(message, field)
        return message._replace(**{field: change(array.copy())}) if sender == 1 and len(array) else message

    monkeypatch.setattr(Message, "of", of)
    graph = random_graph(60, 240, 8)
    options = WalkOptions(walks_per_node=3, walk_length=10, p=5, q=0.3)
    with pytest.raises(MessageError, match=r"Rank 1|A host sent"):
        together(split_graph(graph, NodeSharding.make(graph.csr, 2, "hash")), options, own_share)


@pytest.mark.parametrize("method", CUTS)
def test_the_command_writes_the_same_file(method: str, tmp_path: Path) -> None:
    edges = tmp_path / "edges.txt"
    edges.write_text("".join(f"{a} {b}\n" for a in range(30) for b in range(a) if (a * b) % 7 < 2))
    walk = ["walk", str(edges), "--walks-per-node", "2", "--walk-length", "8", "--p", "0.5", "--json", "--quiet"]
    runner = CliRunner()

    def run(name: str, *more: str) -> dict[str, Any]:
        done = runner.invoke(app, [*walk, "--out", str(tmp_path / name), *more])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    assert "hosts" not in run("one")
    reported = run(method, "--logical-hosts", "3", "--partition", method)
    assert (tmp_path / method / "tokens.npy").read_bytes() == (tmp_path / "one" / "tokens.npy").read_bytes()
    assert (reported["hosts"], reported["partition"]) == (3, method)
    assert reported["edge_cut"] > 0 and reported["messages"] > 0 and reported["largest_part_bytes"] > 0
    assert reported["bytes_per_step"] == pytest.approx(sum(reported["bytes_by_kind"].values()) / reported["steps"])
    walk.remove("--json")
    shown = runner.invoke(app, [*walk, "--out", str(tmp_path / "shown"), "--logical-hosts", "3", "--partition", method])
    assert shown.exit_code == 0, shown.output
    assert f"3 logical, {method}" in shown.output and f"{reported['messages']:,} messages" in shown.output
    done = runner.invoke(app, [*walk, "--out", str(tmp_path / "x"), "--partition", "hash"])
    assert done.exit_code == 2 and "--logical-hosts" in done.output
