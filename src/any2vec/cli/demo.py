"""The demo: words of Python's help texts and modules of its library, trained, shown and drawn in under a minute."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import any2vec
from any2vec.data.catalog.catalog import demo_text, import_graph
from any2vec.data.io.storage import atomic_file, storage_errors
from any2vec.errors import StorageError
from any2vec.report import write_report
from any2vec.types import Progress, Stage

NEIGHBORS = 5
"""how many neighbors of an item are shown, and among how many the named ones must be"""
_PLACES = ("words.txt", "words", "imports.txt", "modules")
_MARK = f"Made by `any2vec demo`; the next demo in this folder replaces {', '.join(_PLACES)}.\n"
"""what a file of the folder says as soon as a demo has these places"""
T = TypeVar("T")
Callback = Callable[[Progress], None] | None
WORDS = {"true": "false", "left": "right", "global": "nonlocal", "list": "tuple", "break": "continue"}
"""words that are shown, each with a neighbor that any good training on this text finds"""
MODULES = {"bz2": "lzma", "decimal": "fractions", "random": "statistics", "ssl": "socket", "datetime": "calendar"}
"""the same of modules"""


@dataclass(frozen=True, kw_only=True)
class DemoPart:
    """One of the two runs: what it was, neighbors of chosen items, speed and seconds of training, its page."""

    title: str
    expected: dict[str, str]
    neighbors: dict[str, list[tuple[str, float]]]
    items_per_s: float
    seconds: float
    page: Path

    @property
    def found(self) -> list[str]:
        """Shown items whose named neighbor is among the nearest."""
        return [item for item, near in self.neighbors.items() if self.expected[item] in {key for key, _ in near}]


def train_words(
    out: Path | str, *, threads: int = 0, seed: int = 1, callback: Callback = None, stage: Stage | None = None
) -> DemoPart:
    """Skip-gram on Python's help texts. Writes `out/words.txt` and the run folder `out/words` with its report.

    Args are those of `fit`; what an earlier demo left in these places is replaced. StorageError: other files are there.
    """
    out = _claimed(out)
    sentences = demo_text()
    data = _write(out / "words.txt", [" ".join(sentence) for sentence in sentences])
    model = any2vec.SkipGram(dim=64, window=5, min_count=5, subsample=1e-3, learning_rate=0.05)
    result = any2vec.fit(
        model, data, epochs=40, out=out / "words", overwrite=True,
        threads=threads, seed=seed, callback=callback, stage=stage,
    )  # fmt: skip
    size = f"{sum(map(len, sentences)):,} words in {len(sentences):,} sentences"
    return _shown(f"Words of Python's help texts: skip-gram on {size}", result, WORDS, seed, stage)


def train_modules(
    out: Path | str, *, threads: int = 0, seed: int = 1, callback: Callback = None, stage: Stage | None = None
) -> DemoPart:
    """node2vec on who imports whom in Python's library. Writes `out/imports.txt` and the run folder `out/modules`.

    Args are those of `fit`; what an earlier demo left in these places is replaced. StorageError: other files are there.
    """
    out = _claimed(out)
    edges = _warned(stage, "reading the imports of the standard library", import_graph)
    data = _write(out / "imports.txt", [f"{module} {imported}" for module, imported in edges])
    model = any2vec.Node2Vec(dim=32, window=5, walks_per_node=20, walk_length=20, p=1.0, q=0.5)
    result = any2vec.fit(
        model, data, epochs=5, out=out / "modules", overwrite=True,
        threads=threads, seed=seed, callback=callback, stage=stage,
    )  # fmt: skip
    size = f"{len(edges):,} imports among {len(result.embeddings):,} modules"
    return _shown(f"Modules of Python's library: node2vec on {size}", result, MODULES, seed, stage)


PARTS = {"words": train_words, "modules": train_modules}
"""the demo: name -> what trains, draws and returns it"""


def _claimed(out: Path | str) -> Path:
    """The folder, in which the places of the demo are free or an earlier demo's; from now on they are this one's.

    Raises:
        StorageError: something else is in one of them, or the folder cannot be written.
    """
    out = Path(out)
    mark = out / "demo.txt"
    with storage_errors(mark):
        if mark.is_file() and mark.read_bytes() == _MARK.encode():
            return out
        for name in (mark.name, *_PLACES):
            if os.path.lexists(out / name):
                raise StorageError(
                    f"{out / name} is not of a demo, which would replace it; choose another folder, --out, or move it."
                )
        with atomic_file(mark) as temporary:
            temporary.write_text(_MARK, encoding="utf-8")
    return out


def _shown(title: str, result: any2vec.FitResult, expected: dict[str, str], seed: int, stage: Stage | None) -> DemoPart:
    """Look up the neighbors and write the page of one run."""
    path = result.path
    assert path is not None
    embeddings = result.embeddings
    expected = {item: near for item, near in expected.items() if item in embeddings}
    heading = title.partition(":")[0]
    page = _warned(
        stage, "drawing the report", lambda: write_report(path, items=list(expected), title=heading, seed=seed)
    )
    return DemoPart(
        title=title,
        expected=expected,
        neighbors={item: embeddings.nearest(item, NEIGHBORS) for item in expected},
        items_per_s=float(result.summary["items_per_s"]),
        seconds=float(result.summary["train_seconds"]),
        page=page,
    )


def _warned(stage: Stage | None, name: str, work: Callable[[], T]) -> T:
    """Do the work, and say when it starts and ends."""
    announce = stage or (lambda name, done, total: None)
    announce(name, 0, 1)
    result = work()
    announce(name, 1, 1)
    return result


def _write(path: Path, lines: list[str]) -> Path:
    with atomic_file(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
