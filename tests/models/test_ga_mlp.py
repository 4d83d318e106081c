"""GA-MLP: augmentation, layers on hosts, growth, checkpoints, bad input; end to end on planted communities."""

from __future__ import annotations

import importlib.util
import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import any2vec
from any2vec.cluster.grid import Grid, even_grid
from any2vec.cluster.message import HEAD, PART, Message, encode
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.data.graph.augment import Own, PageRank, Powers, augment, multiply, normalized_adjacency
from any2vec.errors import DataError, InputError, MessageError
from any2vec.models.layers.activation import activation
from any2vec.models.layers.admm.blocks import Steps
from any2vec.models.layers.admm.group import AdmmGroup
from any2vec.models.layers.admm.layer import Penalties
from any2vec.models.layers.admm.network import Quantized, make_layers
from any2vec.models.layers.ga_mlp import stage_ends
from any2vec.models.layers.neighbors import neighbors_of
from any2vec.models.layers.weights import start_weights
from any2vec.plan.sharding.layers import boundary_bytes, critical_path, layers_of_hosts
from any2vec.tasks.layers.prepare import prepare_nodes
from any2vec.types import Csr
from planted_nodes import SMALL, options, plant, same, trained
from spreads import spread

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
LAYERS, NODES, WIDTH, ITERATIONS = 10, 20, 8, 50


# ---- augmentation


def a_graph(num_nodes: int = 12, num_edges: int = 30) -> tuple[Csr, np.ndarray]:
    """(a weighted undirected graph with loops, its dense adjacency)."""
    random = np.random.default_rng(3)
    dense = np.zeros((num_nodes, num_nodes))
    for _ in range(num_edges):
        u, v = random.integers(0, num_nodes, 2)
        dense[u, v] = dense[v, u] = random.integers(1, 4)
    found = sparse.csr_array(dense)
    found.sort_indices()
    return Csr(found.indptr.astype(np.int64), found.indices.astype(np.int32), found.data.astype(np.float32)), dense


def naive_normalized(dense: np.ndarray, row_of: np.ndarray, num_rows: int) -> np.ndarray:
    found = np.zeros((num_rows, num_rows))
    for u, v in np.ndindex(dense.shape):
        if u != v:
            found[row_of[u], row_of[v]] = dense[u, v]
    found += np.eye(num_rows)
    scale = found.sum(axis=1) ** -0.5
    return scale[:, None] * found * scale


def test_augmentation_equals_dense_powers_in_blocks_of_any_width() -> None:
    csr, dense = a_graph()
    row_of = np.random.default_rng(1).permutation(15)[:12]  # three rows have no edges
    adjacency = normalized_adjacency(csr, row_of, 15)
    a = naive_normalized(dense, row_of, 15)
    np.testing.assert_allclose(adjacency.toarray(), a, rtol=1e-6)
    h = np.random.default_rng(2).standard_normal((15, 7)).astype(np.float32)
    rows, w = np.array([3, 0, 14]), np.random.default_rng(4).standard_normal((28, 5)).astype(np.float32)
    x = np.hstack([np.linalg.matrix_power(a, power) @ h for power in range(4)])
    for memory, features in itertools.product((1, 12 * 15 * 3, 1 << 28), (h, sparse.csr_array(h))):
        np.testing.assert_allclose(augment(adjacency, features, Powers(3), rows, memory), x[rows], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(multiply(adjacency, features, Powers(3), w, memory), x @ w, rtol=1e-4, atol=1e-4)
    walk = sum(0.2 * 0.8**step * np.linalg.matrix_power(a, step) for step in range(200))
    np.testing.assert_allclose(
        augment(adjacency, h, PageRank(0.2, 200), rows), np.hstack([h, walk @ h])[rows], rtol=1e-3, atol=1e-4
    )
    own = Own(lambda adjacency, block: [block, 2 * (adjacency @ block)])
    np.testing.assert_allclose(
        augment(adjacency, h, own, rows, 1), np.hstack([h, 2 * a @ h])[rows], rtol=1e-4, atol=1e-5
    )
    with pytest.raises(InputError, match="psi must give finite arrays of the shape"):
        augment(adjacency, h, Own(lambda adjacency, block: [block[:2]]), rows)


# ---- layers on hosts


def run_layers(
    transport: Transport, hosts: int, quantized: Quantized | None, sends_u: bool, bounds: list[int] | None = None
) -> tuple[list[Any], Counter[tuple[str, str]]]:
    """(blocks of this host's layers after 50 iterations, bytes it has sent by kind and phase)."""
    random = np.random.default_rng(5)
    x, label = random.standard_normal((NODES, 30)).astype(np.float32), random.integers(0, 4, NODES)
    weights = [w._replace(w_IO=4 * w.w_IO) for w in start_weights([30, *[WIDTH] * (LAYERS - 1), 4], 7)]
    bounds = bounds or layers_of_hosts([1.0] * LAYERS, hosts)
    first, stop = bounds[transport.rank], bounds[transport.rank + 1]
    layers = make_layers(weights, x, label, activation("relu"), Steps(), quantized, first, stop)
    group = AdmmGroup(layers, transport, neighbors_of(transport.rank, bounds), sends_u)
    for number in range(ITERATIONS):
        group.iterate(Penalties(0.01, 0.01 * 1.02**number, 0.1))
    group.quiesce()
    sent: Counter[tuple[str, str]] = Counter()
    for (kind, _, phase), count in transport.counters.sent.items():
        sent[kind, phase] += count
    return [(layer.w_IO, layer.b_O, layer.p_TI, layer.z_TO, layer.q_TO, layer.left_u_TI) for layer in layers], sent


BYTES = {"none": (None, 4, 4), "pq8": (Quantized(True, True, 8), 1, 1), "p16": (Quantized(True, False, 16), 2, 4)}
BYTES |= {"q grid": (Quantized(False, True, Grid([0.0, 0.1, 0.5, 1.0, 4.0])), 4, 1)}


@pytest.mark.parametrize("sends_u", [True, False], ids=["u sent", "u computed"])
@pytest.mark.parametrize("name", BYTES)
def test_hosts_hold_what_one_host_holds_and_send_what_the_formula_says(name: str, sends_u: bool) -> None:
    quantized, p_bytes, q_bytes = BYTES[name]
    ((alone, nothing),) = run_logical(1, lambda transport: run_layers(transport, 1, quantized, sends_u))
    assert not nothing and np.isfinite(alone[0][0]).all()
    for hosts in (2, 5, 10):
        found = run_logical(hosts, lambda transport, n=hosts: run_layers(transport, n, quantized, sends_u))
        blocks = [layer for layers, _ in found for layer in layers]
        for one, other in zip(alone, blocks, strict=True):
            for mine, theirs in zip(one, other, strict=True):
                assert (mine is None and theirs is None) or np.array_equal(mine, theirs)
        sent: Counter[str] = Counter()
        for _, counts in found:
            for (kind, phase), count in counts.items():
                sent[phase if kind == "dense" else kind] += count
        each = boundary_bytes(NODES, WIDTH, p_bytes, q_bytes, 4 if sends_u else 0)
        assert {kind: sent[kind] for kind in each} == {
            kind: count * ITERATIONS * (hosts - 1) for kind, count in each.items()
        }
    if name == "pq8":
        full, now = boundary_bytes(NODES, WIDTH), boundary_bytes(NODES, WIDTH, 1, 1, 4 if sends_u else 0)
        saved = 1 - sum(now[kind] for kind in "pqu") / sum(full[kind] for kind in "pqu")
        assert saved == pytest.approx(1 / 2 if sends_u else 5 / 6)


def test_eight_bits_are_one_byte_on_the_wire() -> None:
    grid = even_grid(8, 0, 1)
    part = grid.pack(grid.nearest(np.random.default_rng(0).random((NODES, WIDTH), np.float32)))
    head, pieces = encode(Message(0, 0, 0, "p", (part,)))
    wire = len(head) + sum(np.asarray(piece).nbytes for piece in pieces)
    assert wire == HEAD.size + PART.size + NODES * WIDTH
    with pytest.raises(MessageError, match="places on a grid of 3"):
        Grid([0.0, 1.0, 2.0]).unpack(part, np.float32)


def test_neighbors_that_do_not_fit_are_reported() -> None:
    def work(transport: Transport) -> None:
        random = np.random.default_rng(0)
        width = 4 + transport.rank
        weights = start_weights([6, width, width, 2], 1)
        layers = make_layers(
            weights, random.random((9, 6), np.float32), np.zeros(9, np.int64), activation("relu"), Steps(), None,
            transport.rank, 2 + transport.rank,
        )[:1]  # fmt: skip
        group = AdmmGroup(layers, transport, neighbors_of(transport.rank, [0, 1, 2]))
        group.iterate(Penalties(0.1, 0.1, 0.0))

    with pytest.raises(MessageError, match=r"Rank 1 sent p as float32 \(9, 5\) where float32 \(9, 4\) was due"):
        run_logical(2, work)


def test_layers_are_assigned_so_that_the_dearest_host_is_cheapest() -> None:
    random = np.random.default_rng(0)
    for layers, hosts in itertools.product((1, 4, 7), (1, 2, 3, 6)):
        costs = random.integers(1, 20, layers).astype(float).tolist()
        bounds = layers_of_hosts(costs, hosts)
        busy = min(layers, hosts)
        assert len(bounds) == hosts + 1 and bounds[0] == 0 and bounds[busy:] == [layers] * (hosts - busy + 1)
        cuts = itertools.combinations(range(1, layers), busy - 1)
        best = min(max(sum(costs[start:stop]) for start, stop in itertools.pairwise([0, *cut, layers])) for cut in cuts)
        mine = [sum(costs[start:stop]) for start, stop in itertools.pairwise(bounds[: busy + 1])]
        assert max(mine) == best and all(start < stop for start, stop in itertools.pairwise(bounds[: busy + 1]))
        assert critical_path(costs, bounds) == pytest.approx(sum(costs) / best)
    assert neighbors_of(0, [0, 1, 3, 3]) == (None, 1) and neighbors_of(1, [0, 1, 3, 3]) == (0, None)


def test_growth_shares_the_epochs_out() -> None:
    assert stage_ends(3, 200) == [100, 150, 200] and stage_ends(1, 7) == [7] and stage_ends(3, 3) == [1, 2, 3]
    assert stage_ends(4, 4) == [1, 2, 3, 4]  # each has an epoch
    assert any2vec.GAMLP().sizes == (2, 5, 10) and any2vec.GAMLP(layers=5, growth="2-5-8").sizes == (2, 5)
    with pytest.raises(InputError, match="epochs must be at least 3"):
        stage_ends(3, 2)


# ---- whole runs


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return plant(tmp_path_factory.mktemp("nodes"))


def test_it_learns_what_neighbors_announce(planted: dict[str, Any]) -> None:
    result = trained(planted, 60)
    alone = trained(planted, 60, SMALL | {"hops": 0})
    assert result.summary["test_accuracy"] > 0.85 and alone.summary["test_accuracy"] < 0.75
    assert len(result.summary["lagrangian"]) == len(result.summary["residual"]) == 60
    assert result.embeddings.vectors.shape == (90, 8) and result.summary["bytes_by_kind"]["p"] == 0
    for psi in ({"psi": "pagerank", "hops": 8}, {"normalize": "row"}, {"normalize": "none"}, {"activation": "tanh"}):
        assert trained(planted, 60, SMALL | psi).summary["test_accuracy"] > 0.65


@pytest.mark.parametrize("quantize", ["none", "8", "grid"])
def test_hosts_of_any_number_make_the_same_model(planted: dict[str, Any], quantize: str) -> None:
    model = SMALL | {"quantize": quantize} | ({"grid": "-1,0,0.25,0.5,1,2,4"} if quantize == "grid" else {})
    alone = trained(planted, 12, model)
    for hosts, dual in ((2, "sent"), (4, "computed")):
        found = trained(planted, 12, model, **spread(logical_hosts=hosts, dual=dual))
        assert same(alone, found) and np.array_equal(alone.embeddings.vectors, found.embeddings.vectors)
        assert found.summary["lagrangian"] == alone.summary["lagrangian"]
        wide = {"none": 4, "8": 1, "grid": 1}[quantize]
        boundaries = 6 + 6 * (hosts - 1)  # of two layers in the first six epochs, of four in the others
        reported = boundary_bytes(23, 8, wide, wide, 4 if dual == "sent" else 0)
        assert {kind: found.summary["bytes_by_kind"][kind] for kind in "pqu"} == {
            kind: boundaries * reported[kind] for kind in "pqu"
        }
        assert sum(found.summary["layers_by_host"]) == 4


@needs_torch
def test_a_step_of_gradient_descent_is_the_gradient_of_the_objective(planted: dict[str, Any]) -> None:
    model: dict[str, Any] = {"layers": 2, "width": 3, "growth": "", "hops": 1, "normalize": "none", "weight_decay": 0.5}
    model |= {"trainer": "gd", "learning_rate": 0.01, "activation": "tanh"}
    made = trained(planted, 1, model)
    (w0, b0), (w1, b1) = start_weights([24, 3, 3], 2)
    labels, rows = planted["y"], np.flatnonzero(planted["parts"] == "train")
    features = planted["x"].astype(np.float32)
    graph = any2vec.read_graph(planted["edges"])
    row_of = np.array([int(key) for key in graph.keys])
    x = augment(normalized_adjacency(graph.csr, row_of, 90), features, Powers(1), rows).astype(np.float64)

    def objective(w0: np.ndarray) -> float:
        score = np.tanh(x @ w0 + b0) @ w1 + b1
        chosen = score[np.arange(len(rows)), labels[rows]]
        loss = float((np.log(np.exp(score).sum(axis=1)) - chosen).mean())
        return loss + 0.5 / (2 * len(rows)) * float((w0**2).sum() + (w1**2).sum())

    for place in ((0, 0), (13, 2), (23, 1)):
        step = np.zeros_like(w0, np.float64)
        step[place] = 1e-5
        slope = (objective(w0 + step) - objective(w0 - step)) / 2e-5
        assert made.scorer.weights[0].w_IO[place] - w0[place] == pytest.approx(-0.01 * slope, rel=1e-3, abs=1e-7)


def test_new_nodes_features_of_embeddings_and_the_estimator(planted: dict[str, Any], tmp_path: Path) -> None:
    label = np.where(planted["parts"] == "train", planted["y"], -1)
    graph = any2vec.read_graph(planted["edges"])
    estimator = any2vec.GAMLPClassifier(**SMALL, epochs=60, seed=2).fit(graph, planted["x"], label)
    assert estimator.score(graph, planted["x"], planted["y"]) > 0.85 and estimator.classes_.tolist() == [0, 1, 2]
    proba = estimator.predict_proba(graph, planted["x"])
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    # a new node that knows five of the last community and tells nothing itself
    more = any2vec.read_graph(sparse.csr_array((np.ones(5), (np.full(5, 90), np.arange(70, 75))), shape=(91, 91)))
    old = sparse.csr_array((np.ones(len(graph.csr.indices)), (
        np.repeat([int(key) for key in graph.keys], np.diff(graph.csr.indptr)),
        [int(graph.keys[at]) for at in graph.csr.indices],
    )), shape=(91, 91))  # fmt: skip
    new = sparse.csr_array((np.ones(5), (np.full(5, 90), np.arange(70, 75))), shape=(91, 91))
    assert len(more) >= 6 and estimator.predict(old + new, np.vstack([planted["x"], np.zeros(12)]))[90] == 2
    keys = [f"n{node}" for node in range(90)]
    vectors = any2vec.Embeddings(keys, planted["x"])
    vectors.save(tmp_path / "vectors")
    (tmp_path / "edges").write_text("".join(f"n{u} n{v}\n" for u, v in _pairs(planted["edges"])))
    (tmp_path / "labels").write_text("".join(f"n{u} {v}\n" for u, v in enumerate(planted["y"]) if label[u] >= 0))
    nodes = any2vec.NodeOptions(features=tmp_path / "vectors", labels=tmp_path / "labels")
    result = any2vec.fit(any2vec.GAMLP(**SMALL), tmp_path / "edges", nodes=nodes, epochs=60, seed=2)
    assert result.embeddings.keys == keys and result.summary["train_accuracy"] == 1
    np.testing.assert_allclose(result.embeddings.vectors, estimator.embeddings_.vectors, rtol=1e-4, atol=1e-5)
    own = any2vec.GAMLPClassifier(**SMALL | {"psi": lambda adjacency, block: [block, adjacency @ block]}, epochs=20)
    assert own.fit(graph, planted["x"], label).classifier_.weights[0].w_IO.shape == (24, 8)


@pytest.mark.parametrize("hosts", [1, 2])
def test_classes_have_names_and_nodes_their_numbers(planted: dict[str, Any], hosts: int) -> None:
    if hosts > 1:
        pytest.importorskip("torch", reason="hosts as processes need torch")
    names = np.array(["tea", "cup", "saw"], object)[planted["y"]]
    names[::9] = None
    of_node = {node: name for node, name in enumerate(names) if name is not None}
    number = np.where(names == None, -1, planted["y"])  # noqa: E711  by element
    graph = any2vec.read_graph(planted["edges"])
    spread = any2vec.HostOptions(hosts=hosts) if hosts > 1 else None
    found = [
        any2vec.fit(any2vec.GAMLP(**SMALL), planted["edges"] if spread else graph, epochs=9, seed=2, hosts=spread,
                    nodes=any2vec.NodeOptions(features=planted["x"], labels=labels))
        for labels in (names, of_node, number)
    ]  # fmt: skip
    assert found[0].scorer.classes == found[1].scorer.classes == ["cup", "saw", "tea"]
    assert found[0].embeddings.vectors.tobytes() == found[1].embeddings.vectors.tobytes()
    assert list(found[2].embeddings) == list(range(90))
    assert found[0].summary["data"]["num_train"] == found[2].summary["data"]["num_train"] == 80


def test_penalties_stay_at_their_limits_however_long_a_run_is() -> None:
    model = any2vec.GAMLP(rho_growth=1000.0, rho_every=1)
    assert model.penalties(0, 0) == (0.01, 0.01, 0.3) and model.penalties(1, 0)[:2] == (1, 1)
    assert model.penalties(999, 0) == (1, 1, 0.3)
    assert any2vec.GAMLP(rho=2.0, rho_growth=1000.0, rho_every=1).penalties(999, 0) == (0.01, 2.0, 0.3)


def test_an_estimator_tells_classes_by_name(planted: dict[str, Any]) -> None:
    names = np.array(["tea", "cup", "saw"], object)[planted["y"]]
    estimator = any2vec.GAMLPClassifier(**SMALL, epochs=60, seed=2).fit(planted["edges"], planted["x"], names)
    assert estimator.classes_.tolist() == ["cup", "saw", "tea"]
    names[0] = None
    assert estimator.score(planted["edges"], planted["x"], names) > 0.85


@pytest.mark.parametrize("hosts", [1, 2])
def test_tables_go_by_node_and_in_estimators_by_row(planted: dict[str, Any], hosts: int) -> None:
    pandas = pytest.importorskip("pandas")
    if hosts > 1:
        pytest.importorskip("torch", reason="hosts as processes need torch")
    order = np.random.default_rng(3).permutation(90)
    x, y = pandas.DataFrame(planted["x"][order], index=order), pandas.Series(planted["y"][order], index=order)
    options = {"epochs": 5, "seed": 2, "hosts": any2vec.HostOptions(hosts=hosts) if hosts > 1 else None}
    vectors = [
        any2vec.fit(any2vec.GAMLP(**SMALL), planted["edges"], nodes=any2vec.NodeOptions(**nodes), **options).embeddings
        for nodes in (
            {"features": x, "labels": y, "split": pandas.Series("train", index=order)},
            {"features": x.assign(node=order).reset_index(drop=True), "labels": {"id": order, "label": y.to_numpy()}},
            {"features": any2vec.Embeddings(order.tolist(), planted["x"][order]), "labels": y.to_dict()},
        )
    ]
    assert list(vectors[0]) == list(vectors[1]) == list(vectors[2]) == order.tolist()
    assert vectors[0].vectors.tobytes() == vectors[1].vectors.tobytes() == vectors[2].vectors.tobytes()
    if hosts > 1:
        return
    with pytest.raises(DataError, match="The labels go by place and the rows of features by node"):
        any2vec.fit("ga-mlp", planted["edges"], nodes=any2vec.NodeOptions(features=x, labels=planted["y"]))
    placed = x.set_axis(range(90)), y.set_axis(range(90))  # classes of rows, of whatever node
    for given in (x.assign(node=order), y), (x.assign(node=order), y.to_numpy()), (planted["x"], y.sort_index()):
        estimator = any2vec.GAMLPClassifier(**SMALL, epochs=60, seed=2).fit(planted["edges"], *given)
        assert estimator.score(planted["edges"], *given) > 0.85
    found = [
        any2vec.GAMLPClassifier(**SMALL, epochs=3, seed=2).fit(planted["edges"], *given).embeddings_.vectors.tobytes()
        for given in ((x, y), placed)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("form", ["int8", "strings", "objects", "list", "dict", "mixed", "floats"])
def test_predictions_are_of_the_type_of_the_classes(planted: dict[str, Any], form: str) -> None:
    texts = np.array(["10", "-2", "3"])[planted["y"]]
    given: dict[str, Any] = {
        "int8": planted["y"].astype(np.int8), "strings": texts, "objects": texts.astype(object), "list": texts.tolist(),
        "dict": dict(enumerate(texts.tolist())), "mixed": np.array([1.5, True, "3"], object)[planted["y"]],
        "floats": np.array([1.5, 2.0, 0.25], object)[planted["y"]],
    }  # fmt: skip
    y = given[form]
    truth = texts if form == "dict" else np.asarray(y)
    estimator = any2vec.GAMLPClassifier(**SMALL, epochs=60, seed=2).fit(planted["edges"], planted["x"], y)
    assert set(estimator.classes_.tolist()) == set(truth.tolist())
    assert {type(one) for one in estimator.classes_.tolist()} == {type(one) for one in truth.tolist()}
    assert estimator.score(planted["edges"], planted["x"], truth) > 0.85


def _pairs(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()]


# ---- what is odd


def test_a_grid_of_an_odd_activation_reaches_below_zero_as_far_as_above() -> None:
    rng = np.random.default_rng(0)
    x_TX, label_T = rng.normal(size=(9, 4)).astype(np.float32), rng.integers(0, 2, 9)
    weights = start_weights((4, 5, 2), 1)
    for name, below in (("tanh", 1.5), ("relu", 0.25), ("sigmoid", 0.25)):
        quantized = Quantized(p=True, q=True, grid=8)
        first = make_layers(weights, x_TX, label_T, activation(name), Steps(), quantized, 0, 1)[0]
        grid = first.rules.output_grid
        assert grid is not None
        low, high = (float(grid.nearest(np.float32([far]))[0]) for far in (-1e9, 1e9))
        assert low == pytest.approx(-below / 1.5 * high, rel=0.02)


def test_numbers_that_are_none_stay_so() -> None:
    f, nan = activation("tanh"), np.full(2, np.nan)
    assert np.isnan(f.best_z(nan, nan, nan)).all()


def test_other_places_of_the_same_numbers_are_other_features(tmp_path: Path) -> None:
    planted = plant(tmp_path)
    bags = sparse.random_array((90, 12), density=0.3, rng=np.random.default_rng(1), format="csr", dtype=np.float32)
    bags.data[:] = 1
    digests = []
    for features in (bags, sparse.csr_array(bags[::-1])):
        sparse.save_npz(planted["features"], features)
        nodes = options(planted)
        digests.append(
            prepare_nodes(any2vec.GAMLP(**SMALL), planted["edges"], nodes, None, None, None).metadata["digest"]
        )
    assert digests[0] != digests[1]


def test_features_of_any_size_are_scaled(tmp_path: Path) -> None:
    planted = plant(tmp_path)
    for size in (1e22, 1e-25):
        sparse.save_npz(planted["features"], sparse.csr_array((planted["x"] * size).astype(np.float32)))
        model = any2vec.GAMLP(**SMALL)
        prepared = prepare_nodes(model, planted["edges"], options(planted), None, None, None)
        scaled, factor = prepared.scaled
        assert np.isfinite(scaled).all() and scaled.any() and 0 < factor < np.inf


def test_a_split_with_another_part_is_refused(tmp_path: Path) -> None:
    planted = plant(tmp_path)
    nodes = options(planted, split={"train": [0, 31, 61], "valid": [1], "test": [2]})
    with pytest.raises(DataError, match="has a part 'valid'; parts are train, val, test"):
        prepare_nodes(any2vec.GAMLP(**SMALL), planted["edges"], nodes, None, None, None)
