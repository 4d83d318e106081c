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
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from any2vec.embeddings import Embeddings
from any2vec.train.frame import Program
from any2vec.train.loop import Alone, LoopParts
from any2vec.train.result import Result
from any2vec.train.task import Nouns, Task
from any2vec.types import Round, Stats, Work


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

    def program(self, request, data, transport):
        return BagProgram(request, data, transport)


class BagProgram(Program):
    def __init__(self, request, data, transport):
        super().__init__(request, transport)
        self.lines, self.data_facts, self.learner = data.lines, data.metadata, self
        self.keys = [key for key, _ in Counter(item for line in data.lines for item in line).most_common()]
        self.vectors = np.zeros((len(self.keys), request.spec.model.dim), np.float32)

    def learning_rate(self, progress):
        return 0.0

    def run(self, work):
        for line in work.payload:
            for item in line:
                for other in line:
                    self.vectors[self.keys.index(item), self.keys.index(other) % self.vectors.shape[1]] += item != other
        return Stats(len(work.payload), 0.0, 0)

    def working(self, recorder):
        works = [Work(self.lines, 0, Round(0, ()), 1.0)]
        return nullcontext(LoopParts(works, self, Alone(), recorder.add))

    def stored(self):
        return Result(Embeddings(self.keys, self.vectors, meta={"model": self.request.spec.model.as_dict()}))
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
