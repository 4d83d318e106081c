"""A graph whose nodes' classes are planted, and runs of a small GA-MLP on it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import any2vec

SMALL: dict[str, Any] = {"layers": 4, "width": 8, "growth": "2", "hops": 2}


def plant(folder: Path) -> dict[str, Any]:
    """Three communities of 30 nodes as files; features tell little of a node and, with its neighbors', all."""
    random = np.random.default_rng(0)
    label = np.repeat(np.arange(3), 30)
    edges = [
        (u, v) for u, v in itertools.combinations(range(90), 2)
        if random.random() < (0.3 if label[u] == label[v] else 0.01)
    ]  # fmt: skip
    features = 0.7 * random.standard_normal((90, 12)) + np.eye(3, 12)[label]
    parts = np.array(["train", "val", "test", "test"])[np.arange(90) % 4]
    files = {"edges": "".join(f"{u}\t{v}\n" for u, v in edges)}
    files |= {"labels": "".join(f"{node}\tc{name}\n" for node, name in enumerate(label))}
    files |= {"split": "".join(f"{node}\t{part}\n" for node, part in enumerate(parts))}
    for name, text in files.items():
        (folder / name).write_text(text)
    sparse.save_npz(folder / "features.npz", sparse.csr_array(features.astype(np.float32)))
    paths = {name: folder / name for name in files} | {"features": folder / "features.npz"}
    return paths | {"x": features, "y": label, "parts": parts}


def options(planted: dict[str, Any], **more: Any) -> any2vec.NodeOptions:
    found = {name: planted[name] for name in ("features", "labels", "split")}
    return any2vec.NodeOptions(**(found | more))


def trained(planted: dict[str, Any], epochs: int = 30, model: Any = SMALL, **more: Any) -> any2vec.FitResult:
    nodes = more.pop("nodes", options(planted))
    return any2vec.fit(any2vec.GAMLP(**model), planted["edges"], nodes=nodes, epochs=epochs, seed=2, **more)


def same(one: any2vec.FitResult, other: any2vec.FitResult) -> bool:
    pairs = zip(one.scorer.weights, other.scorer.weights, strict=True)
    return all(np.array_equal(mine, theirs) for ours, their in pairs for mine, theirs in zip(ours, their, strict=True))
