"""The demo: words of Python's help texts and modules of its library, trained, shown and drawn in under a minute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import any2vec
from any2vec.data.builtin import demo_text, import_graph
from any2vec.data.files import atomic_file
from any2vec.report import write_report
from any2vec.types import Progress

NEIGHBOURS = 5
"""how many neighbours of an item are shown, and among how many the named ones must be"""
WORDS = {"true": "false", "left": "right", "global": "nonlocal", "list": "tuple", "break": "continue"}
"""words that are shown, each with a neighbour that any good training on this text finds"""
MODULES = {"bz2": "lzma", "decimal": "fractions", "random": "statistics", "ssl": "socket", "datetime": "calendar"}
"""the same of modules"""


@dataclass(frozen=True, kw_only=True)
class DemoPart:
    """One of the two runs: its neighbours, whether the named one is among them, its page."""

    title: str
    expected: dict[str, str]
    neighbours: dict[str, list[tuple[str, float]]]
    items_per_s: float
    seconds: float
    page: Path

    @property
    def found(self) -> list[str]:
        """Shown items whose named neighbour is among the nearest."""
        return [item for item, near in self.neighbours.items() if self.expected[item] in {key for key, _ in near}]


def run_demo(
    out: Path | str,
    *,
    threads: int = 0,
    seed: int = 1,
    say: Callable[[str], None] | None = None,
    callback: Callable[[Progress], None] | None = None,
    stage: Callable[[str, int, int | None], None] | None = None,
) -> list[DemoPart]:
    """Train skip-gram on the help texts and node2vec on the import graph; write runs, inputs and reports below `out`.

    Args:
        out: a folder; gets `words.txt`, `imports.txt` (the inputs), `words/` and `modules/` (run folders with
            `report.html`). What an earlier demo left there is replaced.
        say: called with each line that a person should read.
        threads, seed, callback, stage: as for `fit`.

    Returns:
        The words' part and the modules' part.
    """
    out = Path(out)
    tell = say or (lambda line: None)
    sentences, edges = demo_text(), import_graph()
    words = [" ".join(sentence) for sentence in sentences]
    imports = [f"{module} {imported}" for module, imported in edges]
    count = sum(map(len, sentences))
    tell(f"Words: skip-gram on Python's own help texts, {count:,} words in {len(words):,} sentences")
    skipgram = any2vec.SkipGram(dim=64, window=5, min_count=5, subsample=1e-3, learning_rate=0.05)
    data = _write(out / "words.txt", words)
    run: dict[str, Any] = {"threads": threads, "seed": seed, "callback": callback, "stage": stage, "overwrite": True}
    result = any2vec.fit(skipgram, data, epochs=40, out=out / "words", **run)
    first = _shown("words", result, WORDS, out, seed)
    tell(f"Modules: node2vec on who imports whom in Python's library, {len(edges):,} imports")
    node2vec = any2vec.Node2Vec(dim=32, window=5, walks_per_node=20, walk_length=20, p=1.0, q=0.5)
    data = _write(out / "imports.txt", imports)
    result = any2vec.fit(node2vec, data, epochs=5, out=out / "modules", **run)
    return [first, _shown("modules", result, MODULES, out, seed)]


def _shown(name: str, result: any2vec.FitResult, expected: dict[str, str], out: Path, seed: int) -> DemoPart:
    """Look up the neighbours and write the page of one run."""
    embeddings = result.embeddings
    expected = {item: near for item, near in expected.items() if item in embeddings}
    return DemoPart(
        title=name,
        expected=expected,
        neighbours={item: embeddings.nearest(item, NEIGHBOURS) for item in expected},
        items_per_s=float(result.summary["items_per_s"]),
        seconds=float(result.summary["seconds"]),
        page=write_report(out / name, items=list(expected), title=f"Demo: {name}", seed=seed),
    )


def _write(path: Path, lines: list[str]) -> Path:
    with atomic_file(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
