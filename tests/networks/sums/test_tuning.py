"""GCoD's tuning: each step is its slow twin's, symmetric graphs stay so, and noise goes before what is true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from any2vec.errors import InputError
from any2vec.plan.sharding.pruning import PruneOptions, in_full_chunks, largest, pair_numbers
from marks import needs_metis
from naive.models import tuning as naive

torch = pytest.importorskip("torch")

from any2vec.nn import GCNConv, tune_graph  # noqa: E402
from any2vec.nn.tuning.admm import EdgeValues  # noqa: E402
from any2vec.nn.tuning.graph import edge_values, share_within  # noqa: E402
from any2vec.nn.tuning.network import (  # noqa: E402
    Nodes,
    TunedNetwork,
    WeightedGraph,
    WholeGraph,
    accuracy,
    train_network,
)
from any2vec.nn.tuning.quantized import quantized  # noqa: E402
from any2vec.plan.sharding.degree_blocks import DiagonalBlocks  # noqa: E402

NODES, CLASSES, COLUMNS = 24, 3, 5


@pytest.mark.parametrize("share", [0.0, 0.1, 0.37, 0.95])
def test_exactly_the_share_of_least_value_goes(share: float) -> None:
    rng = np.random.default_rng(1)
    value, distance = rng.integers(0, 6, 83) / 5, rng.integers(1, 4, 83)  # many ties
    found = largest(value, distance, share)
    assert found.tolist() == naive.kept_pairs(value.tolist(), distance.tolist(), share)
    assert np.count_nonzero(~found) == round(share * 83)


@pytest.mark.parametrize("floor", [0, 1, 2, 3, 9])
def test_chunks_under_the_floor_are_emptied_and_blocks_are_not(floor: int) -> None:
    rng = np.random.default_rng(2)
    src, dst, stop = rng.integers(0, 20, 60), rng.integers(0, 20, 60), np.array([0, 3, 9, 14, 20])
    block = np.repeat(np.arange(4), np.diff(stop)).tolist()
    found = in_full_chunks(src, dst, stop, floor)
    assert found.tolist() == naive.in_full_chunks(list(zip(src.tolist(), dst.tolist(), strict=True)), block, floor)
    assert not len(in_full_chunks(src[:0], dst[:0], stop, floor))
    if floor == 9:
        assert found.sum() == sum(block[i] == block[j] for i, j in zip(src, dst, strict=True))


def test_an_edge_and_its_reverse_are_one_pair() -> None:
    pair, num = pair_numbers(np.array([0, 2, 1, 3, 0]), np.array([2, 0, 2, 3, 2]), 4)
    assert pair.tolist() == [0, 0, 1, -1, 0] and num == 2


def small(is_directed: bool = False, dtype: Any = None) -> tuple[Any, Nodes, np.ndarray]:
    """(edges with a self-loop, nodes, the dense adjacency without it)."""
    rng = np.random.default_rng(3)
    matrix = np.triu(rng.random((NODES, NODES)) < 0.2, 1).astype(float)
    if not is_directed:
        matrix = matrix + matrix.T
    dst, src = np.nonzero(matrix)
    edge_index = torch.from_numpy(np.concatenate([[src, dst], [[4], [4]]], axis=1))
    x = torch.from_numpy(rng.standard_normal((NODES, COLUMNS))).to(dtype or torch.float64)
    labels = torch.from_numpy(rng.integers(0, CLASSES, NODES))
    return edge_index, Nodes(x, labels, torch.arange(0, 12), torch.arange(12, 18)), matrix


def network_of(nodes: Nodes) -> tuple[TunedNetwork, list[tuple[np.ndarray, np.ndarray]]]:
    network = TunedNetwork(COLUMNS, 7, CLASSES).to(nodes.x_ND.dtype)
    network.start(torch.Generator().manual_seed(5))
    with torch.no_grad():
        for layer in (network.first, network.second):
            layer.bias.uniform_(-0.3, 0.3, generator=torch.Generator().manual_seed(6))
    layers = [(layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in (network.first, network.second)]
    return network, layers


@pytest.mark.parametrize("is_directed", [False, True])
def test_scores_along_values_are_those_of_the_dense_matrix(is_directed: bool) -> None:
    edge_index, nodes, matrix = small(is_directed)
    network, layers = network_of(nodes)
    value = torch.rand(edge_index.shape[1], dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    value[-1] = 1  # of a self-loop, as `EdgeValues` has it
    weighted = np.zeros_like(matrix)
    weighted[edge_index[1, :-1], edge_index[0, :-1]] = value[:-1]
    graph = WeightedGraph(edge_index, NODES)
    found = network.weighted_scores(network.sent(nodes.x_ND), graph, value)
    assert np.allclose(found.numpy(), naive.scores(weighted, nodes.x_ND.numpy(), layers))
    whole = network.scores(nodes.x_ND, WholeGraph(edge_index, NODES)).detach()
    assert np.allclose(whole.numpy(), naive.scores(matrix, nodes.x_ND.numpy(), layers))
    given = value.clone()
    given[-1] = 1  # GCNConv takes a loop's weight, where here it counts as one
    first, second = GCNConv(COLUMNS, 7).double(), GCNConv(7, CLASSES).double()
    for layer, known in ((first, network.first), (second, network.second)):
        layer.load_state_dict({"lin.weight": known.weight, "bias": known.bias})
    convolved = second(first(nodes.x_ND, edge_index, given).relu(), edge_index, given)
    assert torch.allclose(convolved, found)


def blocks_of(order: np.ndarray) -> DiagonalBlocks:
    return DiagonalBlocks(order, np.array([0, 8, 16, NODES]), np.array([0, 0, 1]))


def dense_objective(
    values: EdgeValues, order: np.ndarray, nodes: Nodes, edges: Any, layers: list[Any]
) -> Callable[[np.ndarray], float]:
    """Of a dense matrix in the order of places."""

    def found(matrix: np.ndarray) -> float:
        place = np.argsort(order)
        score = naive.scores(matrix, nodes.x_ND.numpy()[order], layers)
        loss = naive.cross_entropy(score, nodes.label_N.numpy()[order], place[nodes.train.numpy()])
        i, j = np.indices(matrix.shape)
        pull = (abs(i - j) * matrix).sum() / edges.shape[1]
        return float(loss + values.options.polarization * pull)

    return found


@pytest.mark.parametrize("is_directed", [False, True])
def test_gradients_of_values_are_finite_differences_of_the_dense_objective(is_directed: bool) -> None:
    edge_index, nodes, _ = small(is_directed)
    network, layers = network_of(nodes)
    order = np.random.default_rng(8).permutation(NODES)
    options = PruneOptions(polarization=0.05, penalty=0.2, share=0.3, step_size=0.01)
    edges = torch.from_numpy(np.argsort(order))[edge_index]
    values = edge_values(edges, nodes, blocks_of(order), network, options)
    draw = torch.Generator().manual_seed(9)
    values.a_U = torch.rand(len(values.a_U), dtype=torch.float64, generator=draw) * 0.8 + 0.1
    values.z_U = torch.rand(len(values.a_U), dtype=torch.float64, generator=draw)
    values.u_U = torch.rand(len(values.a_U), dtype=torch.float64, generator=draw)
    objective = dense_objective(values, order, nodes, edges, layers)

    def at(value_U: Any) -> float:
        matrix = np.zeros((NODES, NODES))
        for number in range(edges.shape[1]):
            if (pair := int(values.pair_S[number])) >= 0:
                matrix[edges[1, number], edges[0, number]] = value_U[pair]
        apart = (value_U - values.z_U + values.u_U).numpy()
        return objective(matrix) + 0.2 * float((apart**2).sum())

    assert float(values.objective(values.a_U)) == pytest.approx(at(values.a_U), abs=1e-12)
    before, step = values.a_U.clone(), 1e-6
    values.step()
    gradient = (before - values.a_U) / options.step_size
    for pair in range(0, len(before), 3):
        change = torch.zeros_like(before)
        change[pair] = step
        difference = (at(before + change) - at(before - change)) / (2 * step)
        assert float(gradient[pair]) == pytest.approx(difference, abs=1e-6)


def quadratic(target_U: Any, pair_S: np.ndarray) -> Callable[[Any], Any]:
    """A loss that is least where values are those of a target: ADMM then has an answer that is known."""
    first = np.array([np.flatnonzero(pair_S == pair)[0] for pair in range(len(target_U))])
    return lambda value_S: (value_S[first] - target_U).square().sum()


def test_the_residual_falls_and_values_of_a_known_answer_are_found() -> None:
    """Least squares with a share of zeros: pairs keep their targets but for the least ones, which go to 0."""
    edge_index, _, _ = small()
    pair_S, num = pair_numbers(edge_index[0].numpy(), edge_index[1].numpy(), NODES)
    target = torch.from_numpy(np.random.default_rng(4).permutation(num) / num * 0.8 + 0.1)
    options = PruneOptions(share=0.5, rounds=60, steps=30, step_size=0.05, penalty=1.0, polarization=0)
    values = EdgeValues(edge_index, NODES, quadratic(target, pair_S), options)
    residuals = values.tune()
    assert residuals[-1] < 1e-3 < 0.1 < residuals[0]
    smallest = target <= target.sort().values[round(0.5 * num) - 1]
    assert torch.equal(values.z_U == 0, smallest)
    assert torch.allclose(values.a_U, torch.where(smallest, 0, target), atol=1e-2)
    assert np.array_equal(values.kept()[:-1], ~smallest.numpy()[pair_S[:-1]]) and values.kept()[-1]


def test_a_round_is_steps_then_the_projection_then_the_duals() -> None:
    edge_index, _, _ = small()
    pair_S, num = pair_numbers(edge_index[0].numpy(), edge_index[1].numpy(), NODES)
    target = torch.linspace(-0.5, 1.5, num, dtype=torch.float64)  # values stay within 0..1
    options = PruneOptions(share=0.25, rounds=3, steps=2, step_size=0.1, penalty=0.5, polarization=0)
    values = EdgeValues(edge_index, NODES, quadratic(target, pair_S), options)
    found = values.tune()
    a, z, u, residuals = np.ones(num), np.ones(num), np.zeros(num), []
    for _ in range(3):
        for _ in range(2):
            a = np.clip(a - 0.1 * (2 * (a - target.numpy()) + 2 * 0.5 * (a - z + u)), 0, 1)
        kept = naive.kept_pairs((a + u).tolist(), values.distance_U.tolist(), 0.25)
        z = np.where(kept, a + u, 0)
        u = u + a - z
        residuals.append(np.sqrt(((a - z) ** 2).mean()))
    assert found == pytest.approx(residuals)
    assert np.allclose(values.a_U, a) and np.allclose(values.z_U, z) and np.allclose(values.u_U, u)


def test_numbers_go_to_the_nearest_level_of_their_class_and_gradients_pass() -> None:
    x = torch.from_numpy(np.random.default_rng(10).standard_normal((9, 4))).requires_grad_()
    class_N = torch.tensor([0, 2, 2, 0, 1, 1, 2, 0, 2])
    found = quantized(x, 3, class_N)
    assert np.allclose(found.detach().numpy(), naive.quantized(x.tolist(), 3, class_N.tolist()))
    weight = torch.rand(9, 4, dtype=torch.float64)
    (found * weight).sum().backward()
    assert torch.equal(x.grad, weight)
    assert np.allclose(quantized(x, 2).detach().numpy(), naive.quantized(x.tolist(), 2, [0] * 9))
    assert quantized(x, None) is x and torch.equal(quantized(torch.ones(2, 2), 4), torch.ones(2, 2))


def noisy(seed: int) -> tuple[Any, Any, Any, np.ndarray]:
    """(edges in both directions, features, classes, whether each edge is noise): true edges within a class, noise
    between two. Features tell the classes, a little."""
    rng = np.random.default_rng(seed)
    num = 240
    label = rng.integers(0, CLASSES, num)
    same = label[:, None] == label
    chance = np.where(same, 8 / (num / CLASSES), 3 / (num - num / CLASSES))
    one, other = np.nonzero(np.triu(rng.random((num, num)) < chance, 1))
    src, dst = np.concatenate([one, other]), np.concatenate([other, one])
    x = rng.standard_normal((num, 8))
    x[np.arange(num), label] += 1.0
    edge_index, is_noise = torch.from_numpy(np.stack([src, dst])), ~same[src, dst]
    return edge_index, torch.from_numpy(x.astype(np.float32)), torch.from_numpy(label), is_noise


NOISY = PruneOptions(share=0.2, block_nodes=60, polarization=0, hidden=16, epochs=40, steps=10, step_size=20.0)


@needs_metis
def test_planted_noise_goes_before_true_edges_and_symmetric_graphs_stay_symmetric() -> None:
    edge_index, x, label, is_noise = noisy(1)
    train, val = torch.arange(0, 160), torch.arange(160, 200)
    found = tune_graph(edge_index, x, label, train, val, NOISY)
    gone = ~found.is_kept.numpy()
    assert gone.sum() == 2 * round(0.2 * edge_index.shape[1] / 2) and found.dropped_by_chunk == 0
    assert gone[is_noise].mean() > 3 * gone[~is_noise].mean()
    assert torch.equal(found.edge_index, edge_index[:, found.is_kept])
    pairs = set(map(tuple, found.edge_index.T.tolist()))
    assert {(dst, src) for src, dst in pairs} == pairs
    for one in (found.before, found.after):
        assert one.val_accuracy == accuracy(one.score_NC, label, val) > 0.6
    again = tune_graph(edge_index, x, label, train, val, NOISY)
    assert torch.equal(again.is_kept, found.is_kept) and torch.equal(again.after.score_NC, found.after.score_NC)


@needs_metis
def test_polarization_and_the_floor_of_chunks_gather_the_edges_in_blocks() -> None:
    edge_index, x, label, _ = noisy(2)
    train = torch.arange(0, 160)
    plain = tune_graph(edge_index, x, label, train, options=NOISY)
    pulled = tune_graph(edge_index, x, label, train, options=replace(NOISY, polarization=1, step_size=1.0))
    floored = tune_graph(edge_index, x, label, train, options=replace(NOISY, chunk_floor=10_000), bits=6)
    assert plain.shares["given"] < plain.shares["ordered"] < pulled.shares["tuned"] < floored.shares["tuned"] == 1
    assert floored.dropped_by_chunk > 0 and plain.before.val_accuracy is None
    place = torch.argsort(plain.order)
    assert plain.shares["tuned"] == share_within(place[plain.edge_index], plain.stop)
    assert torch.equal(plain.before.score_NC, floored.before.score_NC)
    unrounded = train_network(
        Nodes(x, label, train, train[:0]), WholeGraph(floored.edge_index, 240), replace(NOISY, chunk_floor=10_000)
    )
    assert not torch.equal(unrounded.score_NC, floored.after.score_NC)
    assert float((unrounded.score_NC.argmax(1) == floored.after.score_NC.argmax(1)).float().mean()) > 0.9


@needs_metis
@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"labels": torch.zeros(23, dtype=torch.int64)}, "labels"), ({"labels": torch.zeros(NODES)}, "labels"),
        ({"train": torch.tensor([], dtype=torch.int64)}, "train"), ({"train": torch.tensor([NODES])}, "train"),
        ({"val": torch.tensor([-1])}, "val"), ({"x": torch.full((NODES, 2), float("nan"))}, "x holds"),
        ({"edge_index": torch.tensor([[0], [NODES]])}, "edge_index"), ({"bits": 1}, "bits"), ({"bits": 17}, "bits"),
        ({"labels": torch.full((NODES,), -1)}, "negative"),
    ],
)  # fmt: skip
def test_what_cannot_be_tuned_is_refused(change: dict[str, Any], word: str) -> None:
    edge_index, nodes, _ = small()
    given = {"edge_index": edge_index, "x": nodes.x_ND, "labels": nodes.label_N, "train": nodes.train}
    with pytest.raises(InputError, match=word):
        tune_graph(**(given | change))


@pytest.mark.parametrize("bad", [{"share": 1.0}, {"rounds": 0}, {"step_size": 0}, {"penalty": -1}, {"chunk_floor": -1}])
def test_options_out_of_their_interval_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(bad))):
        PruneOptions(**bad)
