"""Every task keeps to what a task is: of words, nodes, triples, clicks, and of a package outside src."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stranger_packages import forget, install, known_here

import any2vec
from any2vec.data.clicks.schema import ClickReading
from any2vec.options.sync import SyncOptions
from any2vec.testing.conformance.tasks import TaskTests
from any2vec.testing.planted_triples import PlantedTriples
from click_runs import plant


class TestWords(TaskTests):
    def model(self) -> Any:
        return any2vec.SkipGram(dim=8, window=2, min_count=1)

    def data(self, folder: Path) -> str:
        rng = np.random.default_rng(1)
        lines = (" ".join(f"w{word}" for word in rng.integers(0, 60, 10)) for _ in range(3000))
        (folder / "text.txt").write_text("\n".join(lines))
        return str(folder / "text.txt")


class TestNodes(TestWords):
    def model(self) -> Any:
        return any2vec.DeepWalk(dim=8, walk_length=20, walks_per_node=40)

    def data(self, folder: Path) -> str:
        rng = np.random.default_rng(1)
        (folder / "edges.txt").write_text("".join(f"{a} {b}\n" for a, b in rng.integers(0, 60, (300, 2))))
        return str(folder / "edges.txt")


class TestTriples(TaskTests):
    most_hosts = 1

    def model(self) -> Any:
        return any2vec.ComplEx(dim=8, batch_size=200)

    def data(self, folder: Path) -> str:
        triple_M3 = PlantedTriples(entities=100, relations=3, group=10).triples(0, 2000)
        (folder / "triples.tsv").write_text("".join(f"e{a}\tr{b}\te{c}\n" for a, b, c in triple_M3.tolist()))
        return str(folder / "triples.tsv")

    def state(self, result: any2vec.FitResult) -> dict[str, np.ndarray]:
        return super().state(result) | {"relations": result.scorer.relation_vectors}


class TestBPR(TaskTests):
    most_hosts = 1

    def model(self) -> Any:
        return any2vec.BPR(dim=8, num_negatives=2)

    def data(self, folder: Path) -> str:
        rng = np.random.default_rng(1)
        users = (rng.choice(300, 60, replace=False) for _ in range(4000))
        rows = (f"{user} {' '.join(map(str, items))}\n" for user, items in enumerate(users))
        (folder / "likes.txt").write_text("".join(rows))
        return str(folder / "likes.txt")

    def reading(self) -> dict[str, Any]:
        return {"interactions": any2vec.InteractionOptions(lists=True)}

    def state(self, result: any2vec.FitResult) -> dict[str, np.ndarray]:
        return super().state(result) | {"users": result.scorer.user_vectors}


class TestALS(TestBPR):
    def model(self) -> Any:
        return any2vec.ALS(dim=8)


class TestItem2Vec(TestBPR):
    def model(self) -> Any:
        return any2vec.Item2Vec(dim=8, window=3)


class TestClicks(TaskTests):
    def model(self) -> Any:
        pytest.importorskip("torch", reason="models of clicks need torch")
        return any2vec.FactorizationMachine(dim=4, batch_size=100)

    def data(self, folder: Path) -> str:
        self.files = plant(folder, 2000, 10)
        return str(self.files.train)

    def reading(self) -> dict[str, Any]:
        return {"clicks": ClickReading(schema=str(self.files.schema))}

    def options(self, hosts: int) -> dict[str, Any]:
        """Each step together; else they agree when they come to it."""
        return {"sync": SyncOptions(sync="bsp")} if hosts > 1 else {}


class TestBags(TaskTests):
    """Of a package outside src."""

    @pytest.fixture(autouse=True)
    def package(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        folder = install(tmp_path_factory.mktemp("site"), "bag_means", {"any2vec.tasks:bags": "bag_means:BagTask"})
        with pytest.MonkeyPatch.context() as patch:
            known_here(folder, patch)
            yield
        forget()

    def model(self) -> Any:
        return import_module("bag_means").BagMeans(dim=4)

    def data(self, folder: Path) -> str:
        rng = np.random.default_rng(1)
        lines = (",".join(f"i{item}" for item in rng.integers(0, 60, 5)) for _ in range(400))
        (folder / "bags.txt").write_text("\n".join(lines))
        return str(folder / "bags.txt")
