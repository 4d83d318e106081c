"""Short runs of models of clicks on planted files, shared by tests."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec
import spreads
from any2vec.evaluate.clicks import ClicksResult, evaluate_clicks
from any2vec.sync.options.names import parse_click_sync
from any2vec.testing.planted_clicks import PlantedClicks, write_tsv
from any2vec.train import monitor
from any2vec.train.in_memory import program
from any2vec.types import Span, Stats, Work

SMALL = any2vec.DLRM(dim=4, bottom="8", top="8", batch_size=32)


@dataclass(frozen=True)
class PlantedFiles:
    """A stream as files: its beginning to train on, its end to test on."""

    clicks: PlantedClicks
    train: Path
    test: Path
    num_train: int

    @property
    def schema(self) -> Path:
        return self.train.with_suffix(".toml")

    def fit(self, model: Any = SMALL, hosts: dict[str, Any] | None = None, **more: Any) -> any2vec.FitResult:
        """Train with one thread, where nothing else is said; hosts: options of hosts and of their agreement."""
        options: dict[str, Any] = {"threads": 1, "schema": self.schema, "cache_dir": self.train.parent / "cache"} | more
        return any2vec.fit(model, options.pop("data", self.train), **spreads.spread(**(hosts or {})), **options)

    def judge(self, scorer: Any) -> ClicksResult:
        """How good a scorer is on the test file."""
        probabilities, labels = zip(*scorer.score(self.test), strict=True)
        return evaluate_clicks(np.concatenate(labels), np.concatenate(probabilities))


def plant(folder: Path, num_train: int, num_test: int, **options: Any) -> PlantedFiles:
    """Write a stream of three columns of one value and one of bags, and three of numbers."""
    clicks = PlantedClicks(num_train + num_test, columns=4, dense=3, multi_valued=1, seed=5, **options)
    files = PlantedFiles(clicks, folder / "train.tsv", folder / "test.tsv", num_train)
    write_tsv(clicks, files.train, 0, num_train)
    write_tsv(clicks, files.test, num_train)
    return files


def spread(sync: str, options: dict[str, Any]) -> dict[str, Any]:
    """Options of trainers with this agreement, less servers of dense layers where it has none."""
    is_served = parse_click_sync(sync).is_served
    return {name: value for name, value in options.items() if is_served or name != "sync_servers"} | {"sync": sync}


def dense_of(result: any2vec.FitResult) -> np.ndarray:
    """All dense parameters, one behind the other."""
    return np.concatenate([array.ravel() for array in result.scorer.dense.values()])


def same(one: any2vec.FitResult, other: any2vec.FitResult) -> bool:
    """Bit for bit: vectors, weights beside them, dense parameters."""
    weights = [np.zeros(0) if result.scorer.weights is None else result.scorer.weights for result in (one, other)]
    arrays = (one.embeddings.vectors, other.embeddings.vectors), weights, (dense_of(one), dense_of(other))
    return all(np.array_equal(first, second) for first, second in arrays)


def stop_at(progress: float, patch: pytest.MonkeyPatch) -> None:
    """Let a signal ask for a stop when so much of a run is done; works are one batch long."""
    on_work = monitor.Monitor.on_work

    def received(self: monitor.Monitor, work: Work[Span], stats: Stats) -> None:
        if self.transport.rank == 0 and work.progress > progress:
            self.program.stop_signal = signal.SIGINT
        on_work(self, work, stats)

    patch.setattr(monitor.Monitor, "on_work", received)
    patch.setattr(program, "WORK_SECONDS", 0.0)
