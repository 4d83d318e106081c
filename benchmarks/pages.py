"""Writes the committed figures into the documents: all into docs/figures, a page a table, choices of them into the
README and, by published system, into docs/systems.md.

`python benchmarks/pages.py` fills what stands between a page's markers. Nothing is measured.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections import Counter
from dataclasses import replace
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import results
from benchmarks.run import TABLES
from benchmarks.table import (
    NOT_MEASURED,
    NOT_RESOLVED,
    PASS,
    REPORTED,
    SHORT,
    STALE,
    Figure,
    Table,
    markdown,
    markdown_grid,
)

FIGURES = results.ROOT / "docs" / "figures"
"""a page for each table, and their index"""
PAGES = (results.ROOT / "README.md", results.ROOT / "docs" / "systems.md", *sorted(FIGURES.glob("*.md")))
CHOICE = {
    "readme": (
        ("words-and-graphs", "skipgram-speed", 1), ("words-and-graphs", "skipgram-quality", 0),
        ("graph-networks", "epoch", 0), ("many-hosts", "no-loss", 0), ("many-hosts", "two-hosts", 0),
    ),
    "graphany2vec": (
        ("many-hosts", "exactness", 0), ("many-hosts", "bytes", 0), ("many-hosts", "order-of-volume", 0),
        ("many-hosts", "order-of-volume", 1), ("many-hosts", "link-bound", 0), ("many-hosts", "accuracy", 0),
        ("many-hosts", "accuracy", 1), ("many-hosts", "no-loss", 0), ("many-hosts", "no-loss-per-byte", 0),
        ("many-hosts", "pull-memory", 0), ("many-hosts", "modeled-speedup", 0),
    ),
    "word-servers": (("many-hosts", "agreements", 14), ("many-hosts", "agreements", 15)),
    "shadowsync": (
        ("clicks", "shadow-quality", 2), ("clicks", "shadow-quality", 6), ("clicks", "shadow-quality", 10),
        ("clicks", "isolation", 2), ("clicks", "isolation-served", 2), ("clicks", "scale", 0),
    ),
    "het": (
        ("clicks", "het-bytes", 0), ("clicks", "het-bytes", 1), ("clicks", "het-bytes", 2), ("clicks", "het-bytes", 3),
        ("many-hosts", "crossings", 0), ("many-hosts", "crossings", 6), ("many-hosts", "crossings", 7),
        ("many-hosts", "crossings", 8), ("many-hosts", "cached-words", 0), ("many-hosts", "cached-words", 2),
    ),
    "bagpipe": (("clicks", "bagpipe-exact", 0), ("clicks", "bagpipe-speed", 0), ("clicks", "bagpipe-speed", 1)),
    "marius": (
        ("larger-than-memory", "swaps", 1), ("larger-than-memory", "bytes", 0), ("larger-than-memory", "quality", 0),
        ("larger-than-memory", "staleness", 0), ("larger-than-memory", "kill", 2),
        ("larger-than-memory", "speed-out-of-core", 0), ("larger-than-memory", "two-hosts", 0),
    ),
    "pdadmm": (
        ("admm", "cora", 0), ("admm", "cora", 1), ("admm", "citeseer", 0), ("admm", "citeseer", 1),
        ("admm", "theory", 0), ("admm", "exactness", 0), ("admm", "bytes", 1), ("admm", "two-processes", 0),
    ),
    "streaming": (
        ("streams", "streaming-vs-batch", 0), ("streams", "char-LSTM", 0), ("streams", "unseen words", 0),
        ("streams", "table-traffic", 3), ("streams", "kill-any-role", 1), ("streams", "crawler", 0),
        ("streams", "pip", 0),
    ),
    "gaia": (
        ("many-hosts", "agreements", 7), ("many-hosts", "agreements", 9), ("many-hosts", "agreements", 10),
        ("many-hosts", "agreements", 11),
    ),
    "servers": (
        ("many-hosts", "agreements", 12), ("many-hosts", "agreements", 13), ("clicks", "m-of-n", 0),
        ("clicks", "m-of-n", 1),
    ),
    "graphs": (
        ("graph-networks", "sampler", 0), ("graph-networks", "epoch", 0), ("graph-networks", "inference", 0),
        ("graph-networks", "labor", 0), ("graph-networks", "sample-keys", 1),
    ),
}  # fmt: skip
"""block -> (table, row, place of the measure): what people ask for first, and what of that falls short; by system"""
_AIM = re.compile(r" \(aim [^)]*\)")
"""in names of measures: what is hoped for, mostly a paper's own"""
_VERDICTS = PASS, SHORT, NOT_RESOLVED, REPORTED
_BLOCK = re.compile(r"(<!-- (figures|choice|index) ([\w-]+): begin.*?-->\n).*?(<!-- \2 \3: end -->)", re.DOTALL)


def filled(text: str) -> str:
    """A page with the committed figures between its markers `<!-- figures TABLE: begin -->` and `end`; likewise
    `choice`, and `index`."""

    def block(found: re.Match[str]) -> str:
        make = {"figures": _all, "choice": _choice, "index": _index}[found[2]]
        return found[1] + make(found[3]) + found[4]

    return _BLOCK.sub(block, text)


def _all(name: str) -> str:
    lines = [line for _, row in groupby(_latest(name), lambda line: line.row) for line in _shortened(list(row))]
    return markdown(lines, results.provenance(_table(name), results.load(name)))


def _shortened(row: list[Figure]) -> list[Figure]:
    """The lines of a row; where none of its measures has been measured, and for one reason, they are one line."""
    first, *more = row
    if not more or not first.verdict.startswith(NOT_MEASURED) or len({line.verdict for line in row}) > 1:
        return row
    target = first.target if len({line.target for line in row}) == 1 else "each its own"
    return [replace(first, measure=f"{first.measure}; and {len(more)} more", target=target)]


def _index(name: str) -> str:
    """A line a table: its page, and how its figures stand to their targets."""
    rows = []
    for table in TABLES:
        title = (FIGURES / f"{table}.md").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        counts = Counter(line.verdict.removesuffix(STALE) for line in _latest(table))
        rows.append((f"[{title}]({table}.md)", *(str(counts.pop(verdict, 0)) for verdict in _VERDICTS)))
        rows[-1] += (str(sum(counts.values())),)
    return markdown_grid((name, *_VERDICTS, "not measured"), rows)


def _choice(name: str) -> str:
    latest = {table: _latest(table) for table in dict.fromkeys(table for table, _, _ in CHOICE[name])}
    lines = [[line for line in latest[table] if line.row == row][place] for table, row, place in CHOICE[name]]
    rows = [(_AIM.sub("", line.measure), line.target, _first(line.figure), line.verdict) for line in lines]
    is_old = name == "readme" and any(verdict.endswith(STALE) for *_, verdict in rows)  # docs/systems.md says it once
    note = f"\n{STALE.strip()} measured on an earlier version of the code; dates in docs/figures.\n" if is_old else ""
    return markdown_grid(("measure", "target", "figure", "verdict"), rows) + note


def _first(figure: str) -> str:
    """What stands before the first semicolon that is in no parentheses."""
    depth = 0
    for place, letter in enumerate(figure):
        depth += (letter == "(") - (letter == ")")
        if letter == ";" and not depth:
            return figure[:place]
    return figure


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
