"""Writes the committed figures into the documents: all into docs/figures.md, a choice of them into the README.

`python benchmarks/pages.py` fills what stands between a page's markers. Nothing is measured.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import results
from benchmarks.run import TABLES
from benchmarks.table import STALE, Figure, Table, markdown, markdown_grid

PAGES = (results.ROOT / "README.md", results.ROOT / "docs" / "figures.md")
CHOICE = {
    "words-and-graphs": {
        "skipgram-speed": (0, 1), "skipgram-quality": (0,), "cbow-speed": (0, 1), "whole-command": (0,),
        "node2vec-job": (0, 1), "walks": (0, 1), "memory": (0,),
    },
    "many-hosts": {
        "exactness": (0,), "accuracy": (0, 1), "no-loss": (0,), "no-loss-per-byte": (0, 1), "link-bound": (0,),
        "two-hosts": (0,), "sync-cost": (0,), "modelled-speedup": (0,), "faults": (0, 1),
    },
    "clicks": {
        "embedding-part": (0, 1), "whole-step": (0,), "torchrec": (0, 1, 2, 3), "isolation": (2, 3),
        "shadow-quality": (3, 7, 11), "het-bytes": (0, 1, 2, 3), "bagpipe-exact": (0,),
        "bagpipe-speed": (0,), "m-of-n": (0,), "scale": (0, 1),
    },
    "larger-than-memory": {
        "fb15k-237": (0, 1), "wn18rr": (0, 1), "speed-in-memory": (0, 1), "memory": (0, 1),
        "speed-out-of-core": (0, 1), "speed-out-of-core-graph": (0, 1), "speed-out-of-core-words": (0, 1),
        "quality": (0, 1), "quality-small": (0,), "skip-gram": (0,), "two-hosts": (0,), "kill": (1, 2),
        "swaps": (0,), "bytes": (0,),
    },
    "admm": {
        "cora": (0, 1), "citeseer": (0, 1), "exactness": (0,), "bytes": (1, 2), "two-processes": (0, 1),
        "link-bound": (0,),
    },
    "streams": {
        "streaming-vs-batch": (0, 1), "stream-speed, 1 of 2 cores trains": (0,),
        "stream-speed, 2 of 2 cores train": (0,),
        "stream-memory": (0,), "statistics-memory": (0,), "statistics-memory at 1 GB": (0, 1),
        "stream-kills": (0,), "char-LSTM": (0,), "char-LSTM, own negatives": (0,), "unseen words": (0, 1, 2, 3),
        "one-source-stalls": (0, 1),
        "kill-any-role": (0, 1, 2), "table-traffic": (0,),
    },
}  # fmt: skip
"""table -> row -> which of its measures the README shows: what people come for, and whatever of that falls short"""
_BLOCK = re.compile(r"(<!-- (figures|choice) ([\w-]+): begin.*?-->\n).*?(<!-- \2 \3: end -->)", re.DOTALL)


def filled(text: str) -> str:
    """A page with the committed figures between its markers `<!-- figures TABLE: begin -->`, or `choice`, and `end`."""

    def block(found: re.Match[str]) -> str:
        make = _all if found[2] == "figures" else _choice
        return found[1] + make(found[3]) + found[4]

    return _BLOCK.sub(block, text)


def _all(name: str) -> str:
    table, stored = _table(name), results.load(name)
    return markdown(results.latest(table, stored), results.provenance(table, stored))


def _choice(name: str) -> str:
    rows = [(line.measure, line.target, line.figure.split(";")[0], line.verdict) for line in _chosen(name)]
    is_old = any(verdict.endswith(STALE) for *_, verdict in rows)
    note = f"\n{STALE.strip()} measured before its code changed: docs/figures.md has the days.\n" if is_old else ""
    return markdown_grid(("measure", "target", "figure", "verdict"), rows) + note


def _chosen(name: str) -> Iterator[Figure]:
    lines = results.latest(_table(name), results.load(name))
    for row, places in CHOICE[name].items():
        own = [line for line in lines if line.row == row]
        yield from (own[place] for place in places)


def _table(name: str) -> Table:
    table: Table = importlib.import_module(TABLES[name]).TABLE
    return table


def main() -> None:
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
