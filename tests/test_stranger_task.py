"""A task of another package, found by its entry point: it gets the command, its help, refusals, and `fit`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from found_by_children import python_path

TASK = '''
"""Vectors of items: counts of the items that stand on the same line."""

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from any2vec.embeddings import Embeddings
from any2vec.train.host import Made
from any2vec.train.run_folder import run_folder, write_result
from any2vec.train.task import Nouns, Task


@dataclass(frozen=True, kw_only=True)
class BagCounts:
    name: ClassVar[str] = "bag-counts"
    default_epochs: ClassVar[int] = 1
    dim: int = 4
    """numbers per vector, 1..64"""

    def as_dict(self):
        return {"model": self.name} | asdict(self)


@dataclass(frozen=True, kw_only=True)
class BagOptions:
    separator: str = ","
    """between the items of a line"""


@dataclass(frozen=True)
class Bags:
    lines: list
    metadata: dict


class BagTask(Task):
    name = "bags"
    title = "bags of items"
    models: ClassVar = {"bag-counts": "bag_task:BagCounts"}
    about: ClassVar = {"bag-counts": "vectors of items by hashed counts of their neighbors"}
    reading: ClassVar = {"bags": "bag_task:BagOptions"}
    has: ClassVar = {"run": ("epochs", "threads", "seed", "out", "resume", "overwrite", "checkpoint_seconds")}
    lacks: ClassVar = {"hosts": "counting takes one host"}

    def nouns(self, model):
        return Nouns("items", "lines")

    def read(self, spec, hooks):
        separator = spec.reading.get("bags", BagOptions()).separator
        lines = [line.split(separator) for line in Path(spec.data).read_text().splitlines()]
        return Bags(lines, {"kind": "bags", "lines": len(lines)})

    def host(self, request, data, transport):
        return BagHost(request, data)


@dataclass
class BagHost:
    request: object
    data: Bags

    def train(self):
        spec, counts = self.request.spec, Counter(item for line in self.data.lines for item in line)
        keys = [key for key, _ in counts.most_common()]
        vectors = np.zeros((len(keys), spec.model.dim), np.float32)
        for line in self.data.lines:
            for item in line:
                for other in line:
                    vectors[keys.index(item), keys.index(other) % spec.model.dim] += item != other
        found = Embeddings(keys, vectors, meta={"model": spec.model.as_dict()})
        summary = {"model": spec.model.name, "rows": len(keys), "dim": spec.model.dim, "items": len(self.data.lines),
                   "items_per_s": 1.0, "loss": None, "train_seconds": 0.0, "seconds": 0.0, "peak_rss_bytes": 1,
                   "epochs": spec.run.epochs, "threads": 1, "seed": spec.run.seed, "data": self.data.metadata}
        if spec.run.out is not None:
            with run_folder(spec.run.out, spec.run.resume, self.request.settings):
                write_result(spec.run.out, found, summary, self.request.settings, {})
        return Made(found, summary)
'''


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as pip would have installed it, and a file of its data."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "bag_task.py").write_text(TASK)
    about = folder / "bag_task-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: bag-task\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[any2vec.tasks]\nbags = bag_task:BagTask\n")
    (folder / "items.txt").write_text("a;b;c\na;b\nc;d\n")
    return folder


def run(package: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": python_path(package), "PATH": "", "HOME": str(package), "COLUMNS": "80"}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=package, env=environment, capture_output=True, text=True, timeout=120)


def test_its_model_stands_beside_ours(package: Path) -> None:
    listed = run(package, "-m", "any2vec", "train", "--help").stdout
    assert "bag-counts" in listed and "Bags of items" in listed and "skipgram" in listed
    shown = run(package, "-m", "any2vec", "train", "bag-counts", "--help").stdout
    assert "--separator" in shown and "--dim" in shown and "--window" not in shown and "--hosts" not in shown


def test_it_trains_by_command(package: Path) -> None:
    done = run(package, "-m", "any2vec", "train", "bag-counts", "items.txt", "--separator", ";", "--dim", "8", "--out",
               "out", "--json", "--quiet")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 4
    again = run(package, "-m", "any2vec", "train", "bag-counts", "items.txt", "--separator", ";", "--dim", "8", "--out",
                "out", "--json", "--quiet", "--resume")  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert run(package, "-m", "any2vec", "nearest", "out", "a").returncode == 0


def test_what_it_has_not_got_is_refused_with_its_reason(package: Path) -> None:
    done = run(package, "-m", "any2vec", "train", "bag-counts", "items.txt", "--hosts", "2", "--out", "no")
    assert done.returncode == 2 and "counting takes one host" in done.stderr and not (package / "no").exists()


def test_it_trains_from_python(package: Path) -> None:
    code = (
        "import any2vec as a2v; from bag_task import BagCounts, BagOptions\n"
        "found = a2v.fit(BagCounts(dim=8), 'items.txt', reading={'bags': BagOptions(separator=';')})\n"
        "assert found.embeddings['a'].sum() == 3, found.embeddings['a']\n"
        "try:\n    a2v.fit(BagCounts(), 'items.txt', hosts=2)\n"
        "except a2v.InputError as error:\n    print(error)\n"
    )
    done = run(package, "-c", code)
    assert done.returncode == 0, done.stderr
    assert "counting takes one host" in done.stdout


def test_a_package_that_does_not_load_is_named(package: Path, tmp_path: Path) -> None:
    about = tmp_path / "broken-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[any2vec.tasks]\nbroken = nowhere:Task\n")
    done = run(tmp_path, "-m", "any2vec", "train", "--help")
    assert done.returncode == 2 and "broken" in done.stderr
