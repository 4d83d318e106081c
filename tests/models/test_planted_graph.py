"""What is said of planted graphs is what enumerating all labels says: of tiny ones, and in the mean."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from any2vec import InputError
from any2vec.testing import planted_graph
from any2vec.testing.planted_graph import PlantedGraph

TINY: dict[str, Any] = {"nodes": 6, "classes": 2, "columns": 3, "degree": 2.0, "apart": 0.7, "mixing": 0.3}


def tiny(kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> PlantedGraph:
    monkeypatch.setattr(planted_graph, "REACH", 2)  # of six nodes on a ring one is too far
    return PlantedGraph(kind=kind, seed=seed, **TINY)  # type: ignore[arg-type]


def base(graph: PlantedGraph, u: int, v: int) -> float:
    if graph.kind == "ring":
        return float(graph.scale) if min((u - v) % 6, (v - u) % 6) <= 2 else 0.0
    return float(graph.scale * graph.propensity_N[u] * graph.propensity_N[v])


def log_chance(graph: PlantedGraph, labels: tuple[int, ...]) -> float:
    """Of labels, features and edges, pair by pair, but for what all labels share."""
    edges = set(zip(graph.src_E.tolist(), graph.dst_E.tolist(), strict=True))
    found = 0.0
    for node, label in enumerate(labels):
        mean = np.zeros(3)
        mean[label] = graph.apart
        found -= 0.5 * float(((graph.x_ND[node] - mean) ** 2).sum())
    for u, v in combinations(range(6), 2):
        rate = base(graph, u, v) * (1.0 if labels[u] == labels[v] else graph.mixing)
        found += np.log(-np.expm1(-rate)) if (u, v) in edges else -rate
    return found


def all_chances(graph: PlantedGraph) -> dict[tuple[int, ...], float]:
    chances = {labels: np.exp(log_chance(graph, labels)) for labels in product(range(2), repeat=6)}
    total = sum(chances.values())
    return {labels: chance / total for labels, chance in chances.items()}


@pytest.mark.parametrize("kind", ["blocks", "ring"])
def test_who_is_told_all_other_classes_judges_by_the_chances_of_the_model(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(4):
        graph = tiny(kind, seed, monkeypatch)
        chances, truth = all_chances(graph), graph.label_N.tolist()
        assert len(graph.src_E)
        for node, found in enumerate(graph.given_others()):
            both = [chances[(*truth[:node], label, *truth[node + 1 :])] for label in range(2)]
            np.testing.assert_allclose(found, np.array(both) / sum(both), rtol=1e-5)


def test_the_bound_is_above_the_bayes_accuracy(monkeypatch: pytest.MonkeyPatch) -> None:
    """By enumeration over labels, in the mean over many graphs; told nothing of the others one is right less often."""
    graphs = [tiny("blocks", seed, monkeypatch) for seed in range(150)]
    bayes = []
    for graph in graphs:
        share_NC = np.zeros((6, 2))
        for labels, chance in all_chances(graph).items():
            share_NC[np.arange(6), labels] += chance
        bayes.append(share_NC.max(axis=1).mean())
    bound, alone = np.mean([graph.bound(np.arange(6)) for graph in graphs]), graphs[0].features_alone()
    assert alone + 0.01 < np.mean(bayes) < bound - 0.01


def test_belief_propagation_is_exact_on_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pairs without an edge say nothing: of a tree by edges alone, with a class that is known."""
    graph = tiny("blocks", 1, monkeypatch)
    graph.src_E, graph.dst_E = np.array([0, 0, 1, 1, 4]), np.array([1, 2, 3, 4, 5])
    monkeypatch.setattr(PlantedGraph, "exposure", lambda self, share_NC: np.zeros_like(share_NC))
    share_NC = np.zeros((6, 2))
    for labels in product(range(2), repeat=6):
        if labels[3] == graph.label_N[3]:
            chance = 1.0
            for node, label in enumerate(labels):
                chance *= np.exp(graph.apart * float(graph.x_ND[node, label]))
            for u, v in zip(graph.src_E, graph.dst_E, strict=True):
                chance *= np.expm1(base(graph, u, v) * (1.0 if labels[u] == labels[v] else graph.mixing))
            share_NC[np.arange(6), labels] += chance
    share_NC /= share_NC.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(graph.beliefs(np.array([3]), rounds=80), share_NC, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", ["blocks", "ring"])
def test_graphs_are_what_they_say(kind: Any) -> None:
    graph = PlantedGraph(nodes=3000, kind=kind)
    num, test = len(graph.label_N), np.flatnonzero(graph.split_N == 2)
    degree_N = np.bincount(np.concatenate([graph.src_E, graph.dst_E]), minlength=num)
    assert 5.0 < degree_N.mean() < 6.5 and (graph.src_E < graph.dst_E).all()  # equal pairs become one edge
    assert (degree_N.max() > 60) == (kind == "blocks")
    within = (graph.label_N[graph.src_E] == graph.label_N[graph.dst_E]).mean()
    assert within == pytest.approx(1 / (1 + 3 * 0.1), abs=0.04)
    alone = (graph.x_ND[:, :4].argmax(axis=1) == graph.label_N).mean()
    assert abs(alone - graph.features_alone()) < 4 * 0.5 / np.sqrt(num)
    estimate, bound = graph.estimate(test), graph.bound(test)
    assert graph.features_alone() + 0.1 < estimate < bound + 0.02 and bound < 0.99
    told = (graph.given_others().argmax(axis=1) == graph.label_N)[test].mean()
    assert abs(told - bound) < 4 * 0.5 / np.sqrt(len(test))
    again, other = (PlantedGraph(nodes=3000, kind=kind, seed=seed) for seed in (1, 2))
    assert np.array_equal(again.x_ND, graph.x_ND) and not np.array_equal(other.x_ND, graph.x_ND)


def test_numbers_that_are_not_legal_are_refused() -> None:
    with pytest.raises(InputError, match="kind must be one of blocks, ring"):
        PlantedGraph(kind="star")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="nodes must"):
        PlantedGraph(nodes=40, kind="ring")
    with pytest.raises(InputError, match="mixing must"):
        PlantedGraph(mixing=0)
