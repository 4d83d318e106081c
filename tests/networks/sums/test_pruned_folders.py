"""`any2vec graph prune`: a graph with fewer edges as a folder of its own, and what is refused."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from any2vec import AttributedGraph, GraphOptions, write_graph
from any2vec.plan.sharding.pruning import PruneOptions
from any2vec.tasks.graphs.prune import prune_graph
from cli_runs import done, refused
from marks import needs_metis
from planted_nodes import plant

pytest.importorskip("torch")
FLAGS = ("--share", "0.2", "--block-nodes", "30", "--epochs", "10", "--steps", "3")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("planted")
    planted = plant(folder)
    flags = [word for name in ("features", "labels", "split") for word in (f"--{name}", str(planted[name]))]
    done("graph", "build", str(planted["edges"]), *flags, "--out", str(folder / "g"), "--quiet")
    return planted | {"folder": folder / "g", "flags": flags}


def pairs_of(graph: AttributedGraph) -> set[tuple[int, int]]:
    dst = np.repeat(np.arange(len(graph)), np.diff(graph.csr.indptr))
    return set(zip(graph.csr.indices.tolist(), dst.tolist(), strict=True))


@needs_metis
def test_a_pruned_graph_is_a_folder_of_its_own(built: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "pruned"
    said = json.loads(done("graph", "prune", str(built["folder"]), "--out", str(out), *FLAGS, "--json"))
    before, after = AttributedGraph.open(built["folder"]), AttributedGraph.open(out)
    assert json.loads(done("graph", "show", str(out), "--check", "--json")) == said | {"problems": []}
    assert said["pruned"]["edges_before"] == before.num_edges
    asked = {"share": 0.2, "block_nodes": 30, "epochs": 10, "steps": 3, "rounds": 4, "seed": 1, "split_index": 0}
    assert asked.items() <= said["pruned"].items()
    assert said["edges"] == said["pruned"]["edges"] == before.num_edges - round(0.2 * before.num_edges)
    kept = pairs_of(after)
    assert kept < pairs_of(before) and kept == {(dst, src) for src, dst in kept}
    assert len(kept) == 2 * after.num_edges
    assert before.features is not None and after.features is not None
    assert np.array_equal(before.features.row_ND, after.features.row_ND)
    assert np.array_equal(before.labels, after.labels) and np.array_equal(before.splits, after.splits)
    assert before.classes == after.classes and list(before.keys) == list(after.keys)
    assert not [found for found in after.check() if found.problem]
    shown = done("graph", "show", str(out))
    assert f"of {before.num_edges:,} edges {after.num_edges:,} stay" in shown
    meta = json.loads((out / "meta.json").read_text())
    for damaged in (3, {}, meta["pruned"] | {"edges": "many"}, meta["pruned"] | {"val_accuracy": []}):
        (out / "meta.json").write_text(json.dumps(meta | {"pruned": damaged}))
        assert "meta.json is damaged" in refused("graph", "show", str(out))
    (out / "meta.json").write_text(json.dumps(meta))
    run = tmp_path / "run"
    trained = done(
        "train", "gcn", str(out), "--sampling", "full-graph", "--node-order", "gcod", "--epochs", "20", "--out",
        str(run), "--json", "--quiet",
    )  # fmt: skip
    assert json.loads(trained)["test_accuracy"] > 0.7
    assert json.loads(trained)["pruned"] == said["pruned"]
    said_of_run = done("train", "sgc", str(out), "--epochs", "1", "--quiet")
    assert f"of {before.num_edges:,} edges {after.num_edges:,} stay: another graph, another model" in said_of_run
    (out / "meta.json").write_text(json.dumps(meta | {"pruned": 3}))
    assert "meta.json is damaged" in refused("train", "sgc", str(out), "--epochs", "1", "--quiet")
    assert len(done("score", str(run), str(built["folder"])).splitlines()) >= 90


@needs_metis
def test_directed_weighted_edges_of_named_nodes_keep_what_is_theirs(tmp_path: Path) -> None:
    """Weights, features of edges and rows in 8 bits; an edge and its reverse go together, self-loops stay."""
    rng = np.random.default_rng(1)
    pairs = sorted({(int(u), int(v)) for u, v in rng.integers(0, 40, (260, 2))} | {(7, 7)})
    lines = [f"n{u}\tn{v}\t{1 + number / 100}" for number, (u, v) in enumerate(pairs)]
    (tmp_path / "edges").write_text("\n".join(lines) + "\n")
    given = {"features": tmp_path / "x.vec", "labels": tmp_path / "labels", "split": tmp_path / "split"}
    rows = [" ".join(f"{value:.3f}" for value in rng.standard_normal(4)) for _ in range(40)]
    given["features"].write_text("".join(f"n{node} {row}\n" for node, row in enumerate(rows)))
    given["labels"].write_text("".join(f"n{node}\t{'ab'[node % 2]}\n" for node in range(40)))
    given["split"].write_text("".join(f"n{node}\t{('train', 'val')[node % 3 == 0]}\n" for node in range(40)))
    np.save(tmp_path / "e.npy", np.arange(len(pairs), dtype=np.float32)[:, None])
    before = write_graph(
        tmp_path / "edges", tmp_path / "g", graph=GraphOptions(directed=True, weighted=True), feature_type="int8",
        edge_features=tmp_path / "e.npy", **given,
    )  # fmt: skip
    options = PruneOptions(share=0.3, block_nodes=10, epochs=3, rounds=2, steps=2)
    after = prune_graph(tmp_path / "g", tmp_path / "out", options)
    known, kept = entries_of(before), entries_of(after)
    assert kept.items() < known.items() and {pair for pair in known if pair[0] == pair[1]} <= kept.keys()
    assert all((dst, src) in kept for src, dst in kept if (dst, src) in known)
    unordered = [{frozenset(pair) for pair in found if pair[0] != pair[1]} for found in (known, kept)]
    assert len(unordered[0]) - len(unordered[1]) == round(0.3 * len(unordered[0]))
    assert after.is_directed and after.num_edges == len(kept) == after.metadata["pruned"]["edges"]
    assert list(after.keys) == list(before.keys) and after.metadata["pruned"]["val_accuracy"] is not None
    assert after.features is not None and before.features is not None
    assert np.array_equal(after.features.scale_N, before.features.scale_N)


@needs_metis
def test_a_graph_pruned_again_knows_all_times_and_tells_how_far_it_is(built: dict[str, Any], tmp_path: Path) -> None:
    options, heard = PruneOptions(share=0.2, block_nodes=30, epochs=4, rounds=2, steps=2), list[Any]()
    folders = [built["folder"], *(tmp_path / name for name in "abc")]
    made = [
        prune_graph(source, out, options, stage=lambda *one: heard.append(one)) for source, out in pairwise(folders)
    ]
    sizes = [AttributedGraph.open(folders[0]).num_edges, *(graph.num_edges for graph in made)]
    times = [(one["edges_before"], one["edges"]) for one in made[-1].metadata["pruned"]["earlier"]]
    assert times == [*pairwise(sizes)][:2] and "earlier" not in made[0].metadata["pruned"]
    last = made[-1].metadata["pruned"]
    assert (last["edges_before"], last["edges"]) == (sizes[2], sizes[3]) and "earlier" not in last["earlier"][1]
    shown = done("graph", "show", str(folders[-1]))
    assert f"of {sizes[0]:,} edges {sizes[-1]:,} stay, pruned 3 times: another graph" in shown
    epochs = [(number, 4) for number in range(5)]
    steps = [("training", *one) for one in epochs] + [("tuning", number, 2) for number in range(3)]
    assert heard == 3 * [*steps, *[("training again", *one) for one in epochs]]


def entries_of(graph: AttributedGraph) -> dict[tuple[int, int], tuple[float, float]]:
    """(from, to) -> weight, and the number that the edge has for a feature."""
    dst = np.repeat(np.arange(len(graph)), np.diff(graph.csr.indptr)).tolist()
    assert graph.edge_features is not None
    beside = zip(graph.csr.weights.tolist(), graph.edge_features.row_ND[:, 0].tolist(), strict=True)
    return dict(zip(zip(graph.csr.indices.tolist(), dst, strict=True), beside, strict=True))


@needs_metis
def test_what_cannot_be_pruned_is_refused(built: dict[str, Any], tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    bare = str(tmp_path / "bare")
    done("graph", "build", str(built["edges"]), "--out", bare, "--quiet")
    assert "holds no features" in refused("graph", "prune", bare, "--out", out)
    assert "holds no labels" in refused(*_without(built, "labels", tmp_path), "--out", out)
    assert "holds no split" in refused(*_without(built, "split", tmp_path), "--out", out)
    for flag, value in (("--share", "0.99"), ("--rounds", "0"), ("--split-index", "3")):
        refused("graph", "prune", str(built["folder"]), "--out", out, flag, value)
    assert not Path(out).exists()


def _without(built: dict[str, Any], name: str, folder: Path) -> list[str]:
    """The command on a graph that was built without a flag."""
    flags, out = list(built["flags"]), folder / f"no-{name}"
    at = flags.index(f"--{name}")
    done("graph", "build", str(built["edges"]), *flags[:at], *flags[at + 2 :], "--out", str(out), "--quiet")
    return ["graph", "prune", str(out)]
