"""Fan-outs by type of edge: options, samples by a plain count, and a command that trains with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec
from any2vec import RGCN
from any2vec.errors import InputError
from any2vec.models.networks.classifier import NetworkClassifier
from any2vec.sampling.neighbors import NeighborOptions, NeighborSampler
from any2vec.sampling.relation_neighbors import RelationSampler
from any2vec.types import Csr
from cli_runs import called, done
from marks import uint64_wraps

pytestmark = uint64_wraps
NODES, RELATIONS = 60, 3
FANOUTS = ((2, 1), (-1, 0), (0, 3))
NAMES = ("cites", "writes", "inverse of cites", "inverse of writes")


def graph(seed: int = 0) -> tuple[Csr, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = np.unique(rng.integers(0, NODES * NODES * RELATIONS, 900))
    target, rest = np.divmod(codes, NODES * RELATIONS)
    source, kind = np.divmod(rest, RELATIONS)
    indptr = np.searchsorted(target, np.arange(NODES + 1))
    return Csr(indptr, source.astype(np.int32), np.empty(0, np.float32)), kind.astype(np.int32)


@pytest.mark.parametrize("law", ["uniform", "labor"])
def test_each_node_samples_so_many_of_each_type_and_no_others(law: Any) -> None:
    csr, type_E = graph()
    sampler = RelationSampler(csr, type_E, FANOUTS, NeighborOptions(law=law))
    found = sampler.sample(np.array([3, 50, 7]), epoch=2, with_edges=True)
    assert len(set(found.node_M.tolist())) == len(found.node_M) and found.node_M[:3].tolist() == [3, 50, 7]
    assert sum(found.nodes_by_hop) == len(found.node_M) and sum(found.edges_by_hop) == len(found.neighbor_S)
    assert found.edges_by_hop[0] == found.stop_D1[3] and len(found.stop_D1) == sum(found.nodes_by_hop[:2]) + 1
    for number, node in enumerate(found.node_M[: len(found.stop_D1) - 1].tolist()):
        part, hop = slice(found.stop_D1[number], found.stop_D1[number + 1]), int(number >= 3)
        places = found.edge_S[part]
        assert len(set(places.tolist())) == len(places)
        assert ((places >= csr.indptr[node]) & (places < csr.indptr[node + 1])).all()
        np.testing.assert_array_equal(csr.indices[places], found.node_M[found.neighbor_S[part]])
        there = np.bincount(type_E[csr.indptr[node] : csr.indptr[node + 1]], minlength=RELATIONS)
        wanted = [min(have, row[hop]) if row[hop] >= 0 else have for have, row in zip(there, FANOUTS, strict=True)]
        assert np.bincount(type_E[places], minlength=RELATIONS).tolist() == wanted


def test_samples_are_the_nodes_own_whoever_is_in_the_batch() -> None:
    csr, type_E = graph()
    sampler = RelationSampler(csr, type_E, FANOUTS, NeighborOptions(seed=5))
    alone, among = (sampler.sample(np.array(seeds), 1, with_edges=True) for seeds in ([9], [4, 9, 30]))
    assert alone.edge_S[: alone.stop_D1[1]].tolist() == among.edge_S[among.stop_D1[1] : among.stop_D1[2]].tolist()
    drawn = [sampler.sample(np.array([9]), epoch, with_edges=True).edge_S.tolist() for epoch in range(20)]
    assert len({tuple(edges) for edges in drawn}) > 5


def test_of_one_type_they_are_the_samples_without_types() -> None:
    csr, _ = graph()
    one = RelationSampler(csr, np.zeros(len(csr.indices), np.int32), [(3, 2)], NeighborOptions())
    plain = NeighborSampler(csr, NeighborOptions(fanouts=(3, 2)))
    for found, expected in zip(one.sample(np.arange(9)), plain.sample(np.arange(9)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_options_name_each_type_or_others() -> None:
    rows = RGCN(fanouts="cites=10,5; writes = 5,0").fanouts_of(NAMES)
    assert rows == ((10, 5), (5, 0), (10, 5), (5, 0))
    rows = RGCN(fanouts={"cites": [10, 5], "*": "all", "inverse of cites": (1, 0)}).fanouts_of(NAMES)
    assert rows == ((10, 5), (-1, -1), (1, 0), (-1, -1))
    assert RGCN(fanouts="10,5").fanouts_of(NAMES) is None
    model = RGCN(fanouts={"a=b": [1, 2], "*": [3, 0]})
    assert model.fanouts_of(["a=b", "c"]) == ((1, 2), (3, 0)) and model.fanouts_by_hop == (3, 2)
    assert RGCN(**{name: value for name, value in model.as_dict().items() if name != "model"}) == model


@pytest.mark.parametrize(
    ("fanouts", "said"),
    [
        ("cites=10,5", "do not name 'writes'"),
        ("cites=10,5;reads=1,1;*=1,1", "name 'reads', which is no type"),
        ("cites=10;*=1,1", "got 'cites=10'"),
        ("cites=10,-2", "got 'cites=10,-2'"),
        ({"cites": 5}, "got 'cites': 5"),
        ({"cites": [5]}, r"got 'cites': \[5\]"),
        ({"cites": [5, True]}, r"got 'cites': \[5, True\]"),
        ({"cites": [5, None]}, r"got 'cites': \[5, None\]"),
        ({3: [5, 1]}, "by three names, each once; got 3"),
        ({"a__b__a": [5, 1], ("a", "b", "a"): [1, 1]}, "each once; got"),
        ({}, "fanouts must be 2 whole numbers"),
        ("=1,1", "got '=1,1'"),
        ("cites=1,1;cites=2,2", "each type once"),
        ("cites=70000,1", "from 0 to 65,536"),
        ("cites=1,1;", "got ''"),
    ],
)
def test_options_that_are_none_are_refused(fanouts: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        RGCN(fanouts=fanouts).fanouts_of(NAMES)


def test_a_dict_is_kept_as_json_holds_it() -> None:
    """With names that a text could not tell apart, PyG's types of three names, and -1 for all."""
    given: Any = {("u", "a", "u"): np.array([3, -1]), "b;c=1": (0, 2), "*": "all"}
    model = RGCN(fanouts=given)
    assert model.fanouts_of(["b;c=1", "u__a__u", "d"]) == ((0, 2), (3, -1), (-1, -1))
    about = json.loads(json.dumps(model.as_dict()))
    assert about["fanouts"] == {"u__a__u": [3, -1], "b;c=1": [0, 2], "*": "all"} and about == model.as_dict()
    assert RGCN(**{name: value for name, value in about.items() if name != "model"}) == model
    assert RGCN(fanouts="a=-1,2").fanouts_of(["a"]) == ((-1, 2),)
    assert any2vec.GCN(fanouts=[-1, 5]).fanouts_by_hop == (-1, 5)  # type: ignore[arg-type]


def test_a_hop_may_take_none(tmp_path: Path) -> None:
    """Of any type: the outer layer's nodes have their own rows alone. The run, whose options are a dict, goes on."""
    pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    pairs, names = rng.integers(0, 40, (200, 2)), rng.choice(["a;b", "c"], 200)
    triples = [(str(src), name, str(dst)) for (src, dst), name in zip(pairs, names, strict=True)]
    labels = {str(node): int(node) % 2 for node in np.unique(pairs)}
    graph = any2vec.write_graph(triples, tmp_path / "graph", labels=labels, edge_types="triples")
    found = []
    for given in ({"a;b": [5, 0], "c": [5, 0]}, {"*": [5, 0]}):
        model = RGCN(hidden=8, fanouts=given)  # type: ignore[arg-type]
        out = tmp_path / str(len(found))
        found.append(any2vec.fit(model, graph, epochs=2, threads=1, out=out).embeddings.vectors)
        assert NetworkClassifier.load(out).model == model
        assert json.loads((out / "run.json").read_text())["settings"]["model"]["fanouts"] == given
    np.testing.assert_array_equal(*found)


def test_other_networks_say_what_they_take() -> None:
    with pytest.raises(InputError, match="fanouts must be 2 whole numbers"):
        any2vec.GCN(fanouts="cites=10,5;*=1,1")


def test_the_command_trains_by_type(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    pairs = rng.integers(0, 40, (200, 2))
    names = rng.choice(["cites", "writes"], 200)
    lines = [f"{src} {name} {dst}" for (src, dst), name in zip(pairs, names, strict=True)]
    (tmp_path / "triples.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "labels.txt").write_text("".join(f"{node} {node % 2}\n" for node in np.unique(pairs)))
    train = ["train", "rgcn", str(tmp_path / "triples.txt"), "--labels", str(tmp_path / "labels.txt"), "--epochs", "2"]
    done(*train, "--hidden", "8", "--fanouts", "cites=4,2;writes=0,1", "--out", str(tmp_path / "run"))
    capsys.readouterr()
    assert called([*train, "--fanouts", "cites=4,2", "--out", str(tmp_path / "other")]) == 2
    assert "do not name 'writes'" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "other").exists()
