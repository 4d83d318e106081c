"""Writes the committed figures into the documents: all into docs/figures.md, a choice of them into the README.

`python benchmarks/pages.py` fills what stands between a page's markers. Nothing is measured.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import results
from benchmarks.run import TABLES
from benchmarks.table import STALE, Figure, Table, markdown, markdown_grid

PAGES = (results.ROOT / "README.md", results.ROOT / "docs" / "figures.md")
CHOICE = {
    "readme": (
        ("words-and-graphs", "skipgram-speed", 1), ("words-and-graphs", "skipgram-quality", 0),
        ("words-and-graphs", "node2vec-job", 0), ("larger-than-memory", "speed-in-memory", 0),
        ("clicks", "embedding-part", 1), ("many-hosts", "no-loss", 0), ("many-hosts", "two-hosts", 0),
    ),
}  # fmt: skip
"""block -> (table, row, place of the measure): what people ask for first, and what of that falls short"""
_BLOCK = re.compile(r"(<!-- (figures|choice) ([\w-]+): begin.*?-->\n).*?(<!-- \2 \3: end -->)", re.DOTALL)


def filled(text: str) -> str:
    """A page with the committed figures between its markers `<!-- figures TABLE: begin -->`, or `choice`, and `end`."""

    def block(found: re.Match[str]) -> str:
        make = _all if found[2] == "figures" else _choice
        return found[1] + make(found[3]) + found[4]

    return _BLOCK.sub(block, text)


def _all(name: str) -> str:
    return markdown(_latest(name), results.provenance(_table(name), results.load(name)))


def _choice(name: str) -> str:
    latest = {table: _latest(table) for table in dict.fromkeys(table for table, _, _ in CHOICE[name])}
    lines = [[line for line in latest[table] if line.row == row][place] for table, row, place in CHOICE[name]]
    rows = [(line.measure, line.target, line.figure.split(";")[0], line.verdict) for line in lines]
    is_old = any(verdict.endswith(STALE) for *_, verdict in rows)
    note = f"\n{STALE.strip()} measured before its code changed: docs/figures.md has the days.\n" if is_old else ""
    return markdown_grid(("measure", "target", "figure", "verdict"), rows) + note


def _latest(name: str) -> list[Figure]:
    return results.latest(_table(name), results.load(name))


def _table(name: str) -> Table:
    table: Table = importlib.import_module(TABLES[name]).TABLE
    return table


def main() -> None:
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
