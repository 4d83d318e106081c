"""Runs that rows about accuracy read: each of a side and a seed is kept by itself, so that a row that was cut short
goes on, and runs go side by side where several jobs are allowed."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from benchmarks import environments
from benchmarks.bench import Bench
from benchmarks.table import Reading

SEEDS = (1, 2, 3, 4, 5)
POINTS = 100
OURS, PYG = "any2vec", "PyG"
_NUMBERS = ("val_accuracy", "test_accuracy", "val_auc", "test_auc", "micro_f1", "rows_read")
"""of a run's result, what is kept"""
Key = TypeVar("Key")
Runs = Sequence[Mapping[str, Any]]
"""of one side, seed by seed"""


class Graph(NamedTuple):
    """A folder that `any2vec graph build` has written."""

    name: str
    folder: Path

    @property
    def known_as(self) -> tuple[str, str]:
        """What a request says of it, on any machine: its name, and a hash of the checksums of its arrays."""
        return self.name, hashlib.sha256((self.folder / "meta.json").read_bytes()).hexdigest()[:16]


class Asked(NamedTuple):
    """A run of one side with one seed."""

    request: tuple[object, ...]
    """all that it is asked, JSON"""
    starts_as: tuple[object, ...]
    """the same but for the graph"""
    make: Callable[[], Mapping[str, Any]]


def of_any2vec(bench: Bench, graph: Graph, model: str, seed: int, *flags: object) -> Asked:
    """A run of `any2vec train` with one thread."""
    asked = ("--seed", seed, "--threads", 1, *flags)
    request = (OURS, *graph.known_as, model, *map(str, asked))
    return Asked(request, (model, *asked), lambda: bench.any2vec("train", model, graph.folder, *asked).result)


def of_script(
    bench: Bench, environment: str, script: str, graph: Graph, *asked: object, before: Sequence[object] = ()
) -> Asked:
    """A run of a script of peers/ over a folder. environment: a peer's, or `OURS`; before: what the script is given
    before the folder."""
    run = bench.ours if environment == OURS else partial(bench.peer, environment)
    request = (script, *versions(environment), *graph.known_as, *before, *asked)
    return Asked(request, (script, *before, *asked), lambda: run(script, *before, graph.folder, *asked).result)


def versions(environment: str) -> Sequence[str]:
    """What a request says of the libraries that a peer's run is of, for no kept run's code holds them."""
    if environment == OURS:
        return tuple(f"{name}=={version(name)}" for name in ("torch", "torch_geometric"))
    return environments.PINS[environment]


def kept_runs(bench: Bench, asked: Mapping[Key, Sequence[Asked]]) -> dict[Key, Runs]:
    """Of each key the numbers of its runs, in their order; rows that only start run one graph of each kind."""

    def one(run: Asked) -> dict[str, Any]:
        return bench.kept("graph-accuracy", run.request, lambda: _numbers(run.make()))

    def same_as(run: Asked) -> tuple[object, ...]:
        return run.starts_as if bench.tiny else run.request

    distinct = {same_as(run): run for runs in asked.values() for run in runs}
    found = dict(zip(distinct, bench.each(one, [*distinct.values()]), strict=True))
    return {key: [found[same_as(run)] for run in runs] for key, runs in asked.items()}


def _numbers(result: Mapping[str, Any]) -> dict[str, Any]:
    return {name: result[name] for name in _NUMBERS if name in result}


def seeds_of(bench: Bench, seeds: Sequence[int] = SEEDS) -> Sequence[int]:
    """One, where nothing is judged."""
    return seeds[:1] if bench.quick else seeds


def points(runs: Runs, name: str = "test_accuracy") -> list[float]:
    return [POINTS * run[name] for run in runs]


def beside(ours: Sequence[float], theirs: Sequence[float], note: str = "", *, peer: str = PYG) -> Reading:
    """How many points more, seed by seed; note: what is to be said besides."""
    differences = [one - other for one, other in zip(ours, theirs, strict=True)]
    means = f"{statistics.fmean(ours):.2f} / {peer} {statistics.fmean(theirs):.2f}"
    return Reading.of_seeds(differences, f"{statistics.fmean(differences):+.2f}: {means}{note}")
