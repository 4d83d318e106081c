"""The page itself: one HTML file with its style and pictures inside, for light and dark screens and for paper."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import PurePath
from typing import Any

from any2vec._version import __version__
from any2vec.embeddings import Embeddings
from any2vec.units import number, size

STYLE = """
:root { --page: #f5f6f8; --card: #ffffff; --text: #1d232b; --faint: #66707d;
  --line: #e3e6ea; --bar: #e4ecf7; }
@media screen and (prefers-color-scheme: dark) {
  :root { --page: #0f1217; --card: #171b21; --text: #e6e9ee; --faint: #98a2b0;
    --line: #2a313a; --bar: #233349; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 36px 20px 56px; }
header p { color: var(--faint); margin: 2px 0 0; }
h1 { font-size: 27px; line-height: 1.2; margin: 0; letter-spacing: -0.01em; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 0 0 12px; }
h3 { font-size: 15px; margin: 26px 0 6px; }
h2 + h3 { margin-top: 0; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 20px 22px; margin-top: 18px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); gap: 12px; margin-top: 20px; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 16px; }
.tile b { display: block; font-size: 21px; font-weight: 650; line-height: 1.25; white-space: nowrap; }
.tile span { color: var(--faint); font-size: 13px; }
img { width: 100%; height: auto; display: block; border-radius: 6px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; min-width: 50%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 5px 14px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--faint); font-weight: 600; font-size: 13px; }
tr:last-child td, tr:last-child th { border-bottom: 0; }
td.number, th.number { text-align: right; }
table.scores { margin-top: 10px; }
td.item { font-weight: 650; white-space: nowrap; }
.near { display: inline-block; white-space: nowrap; margin: 1px 6px 1px 0; padding: 0 8px;
  border-radius: 10px; background: var(--bar); }
.near small { color: var(--faint); margin-left: 5px; }
.pair { columns: 2 440px; column-gap: 18px; }
.pair section { break-inside: avoid; margin-top: 0; margin-bottom: 18px; }
.pair { margin-top: 18px; }
.pair table { width: 100%; }
.pair td { overflow-wrap: anywhere; width: 60%; }
.pair th { white-space: nowrap; }
p.caption { color: var(--faint); margin: 10px 0 0; }
footer { color: var(--faint); font-size: 13px; margin-top: 22px; }
@media print {
  body { background: #fff; font-size: 12px; } main { max-width: none; padding: 0; }
  section, .tile { border-color: #ccc; break-inside: avoid; }
}
"""


SIGNATURE = "<footer>Written by any2vec "
"""begins the last line of every page, and no text from outside can hold it: that is escaped"""
_NOT_SCORES = {"task", "name", "data", "protocol"}
_IN_SETTINGS = {"data", "dim", "epochs", "model", "seed", "threads"}
"""what a run's summary repeats of its settings"""


_WORTH_SAYING = 0.1
"""seconds; a shorter compilation is none"""


@dataclass(frozen=True)
class Figure:
    """One picture in two themes, as PNG bytes."""

    name: str
    caption: str
    light: bytes
    dark: bytes


def render(
    *,
    title: str,
    run_name: str,
    about: dict[str, Any],
    embeddings: Embeddings,
    figures: Sequence[Figure],
    neighbors: Sequence[tuple[str, list[tuple[str, float]]]],
    evaluation: Sequence[dict[str, Any]],
) -> str:
    """The whole page as text. Keys, settings and scores may hold anything: all of it is escaped."""
    summary = _dict(about.get("summary"))
    settings = {key: value for key, value in about.items() if key not in {"summary", "machine", "format"}}
    settings = {**_dict(settings.pop("settings", None)), **settings}
    settings = {**_dict(settings.get("model")), **{key: value for key, value in settings.items() if key != "model"}}
    figures_of_run = {key: value for key, value in summary.items() if key not in {*_IN_SETTINGS, "validation"}}
    spent = figures_of_run.get("compile_seconds")
    if isinstance(spent, int | float) and spent < _WORTH_SAYING:  # all kernels were compiled before
        del figures_of_run["compile_seconds"]
    titles = {"map": "Map", "curves": "Training", "validation": "Validation"}
    parts = [_header(title, run_name, embeddings), _tiles(summary, embeddings)]
    parts += [_section(titles.get(figure.name, figure.name), _picture(figure)) for figure in figures]
    if neighbors:
        parts.append(_section("Nearest neighbors", _neighbors(neighbors)))
    if evaluation:
        parts.append(_section("Evaluation", "".join(_scores(one) for one in evaluation)))
    lists = {"Settings": settings, "Machine": _dict(about.get("machine")), "Figures of the run": figures_of_run}
    halves = [_section(name, metadata(values)) for name, values in lists.items() if values]
    parts.append(f'<div class="pair">{"".join(halves)}</div>')
    made = time.strftime("%Y-%m-%d %H:%M", time.localtime())
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body><main>{''.join(parts)}"
        f"{SIGNATURE}{__version__} on {made}. The pictures are inside this page.</footer>"
        "</main></body></html>\n"
    )


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _header(title: str, run_name: str, embeddings: Embeddings) -> str:
    items = f"{len(embeddings):,} items of {embeddings.dim} numbers each"
    return f"<header><h1>{escape(title)}</h1><p>{items} · folder {escape(run_name)}</p></header>"


def _tiles(summary: dict[str, Any], embeddings: Embeddings) -> str:
    """The figures that one looks for first; those that the run did not leave are left out."""
    shown = [("rows", f"{len(embeddings):,}"), ("numbers a row", str(embeddings.dim))]
    for key, words, form in (
        ("items_per_s", "items per second", number),
        ("train_seconds", "seconds of training", lambda value: f"{value:,.1f}"),
        ("loss", "mean loss", lambda value: f"{value:.4f}"),
        ("peak_rss_bytes", "peak memory", size),
        ("hosts", "hosts", str),
        ("bytes", "bytes between hosts", size),
        ("agree_share", "of the time in agreement", lambda value: f"{value:.0%}"),
    ):
        sent = sum(_dict(summary.get("bytes_by_kind")).values()) or None
        value = sent if key == "bytes" else summary.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            shown.append((words, form(value)))
    best = [one for one in summary.get("validation") or () if one.get("epoch") == summary.get("best_epoch")]
    for name, value in list(best[0].items())[:2] if best else ():
        shown += [(f"{_words(name)} of validation, epoch {best[0]['epoch']}", f"{value:.4f}")] * (name != "epoch")
    return '<div class="tiles">' + "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(words)}</span></div>' for words, value in shown
    ) + "</div>"  # fmt: skip


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _picture(figure: Figure) -> str:
    light, dark = (f"data:image/png;base64,{base64.b64encode(one).decode()}" for one in (figure.light, figure.dark))
    return (
        f'<picture><source media="screen and (prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img alt="{escape(figure.caption)}" src="{light}"></picture><p class="caption">'
        f"{escape(figure.caption)}.</p>"
    )


def _neighbors(neighbors: Sequence[tuple[str, list[tuple[str, float]]]]) -> str:
    rows = []
    for item, near in neighbors:
        chips = "".join(f'<span class="near">{escape(key)}<small>{score:.2f}</small></span>' for key, score in near)
        rows.append(f'<tr><td class="item">{escape(item)}</td><td>{chips}</td></tr>')
    head = "<tr><th>item</th><th>nearest, with their cosine</th></tr>"
    return f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>'


def _scores(result: dict[str, Any]) -> str:
    """One evaluation: heading, single figures, one table per list of records, the protocol in small print."""
    heading = _words(str(result.get("task") or result.get("name") or "scores"))
    if result.get("data"):
        heading += f" · {PurePath(str(result['data'])).name}"
    tables = {key: _records(value) for key, value in result.items() if _is_records(value)}
    totals = {key: value for key, value in result.items() if isinstance(value, dict) and key not in tables}
    if tables:  # such as the sums over all sections of the analogies
        next(iter(tables.values())).extend({"name": key, **value} for key, value in totals.items())
    tables = {key: records for key, records in tables.items() if len(records) > 1 or "pairs" not in result}
    single = {
        key: value if isinstance(value, int | str) else _score(key, value)
        for key, value in result.items()
        if key not in tables and key not in _NOT_SCORES and not isinstance(value, dict | list | tuple | None)
    }
    parts = [f"<h3>{escape(heading)}</h3>", metadata(single) if single else ""]
    parts += [_table(records) for records in tables.values()]
    if result.get("protocol"):
        parts.append(f'<p class="caption">{escape(str(result["protocol"]))}.</p>')
    return "".join(parts)


def _is_records(value: Any) -> bool:
    values = list(value.values()) if isinstance(value, dict) else value
    return isinstance(values, list | tuple) and len(values) > 0 and all(isinstance(one, dict) for one in values)


def _records(value: Any) -> list[dict[str, Any]]:
    """Rows of a table, without the lists that hold every single shuffle."""
    rows = [{"name": key, **one} for key, one in value.items()] if isinstance(value, dict) else value
    return [{key: one for key, one in row.items() if not isinstance(one, dict | list | tuple)} for row in rows]


def _score(name: str, value: Any) -> str:
    """A measured figure in four decimals, so that columns line up; anything else as ever."""
    is_measured = isinstance(value, float) and name not in {"fraction", "test_share"} and abs(value) < 100
    return f"{value:.4f}" if is_measured else value_text(name, value)


def _table(records: list[dict[str, Any]]) -> str:
    columns = list(dict.fromkeys(key for one in records for key in one))
    numeric = {key: all(isinstance(one.get(key), int | float | None) for one in records) for key in columns}
    cell = {key: ' class="number"' if numeric[key] else "" for key in columns}
    head = "".join(f"<th{cell[key]}>{escape(_words(key))}</th>" for key in columns)
    rows = (
        "<tr>" + "".join(f"<td{cell[key]}>{escape(_score(key, one.get(key)))}</td>" for key in columns) + "</tr>"
        for one in records
    )
    return f'<div class="scroll"><table class="scores"><tr>{head}</tr>{"".join(rows)}</table></div>'


def metadata(values: dict[str, Any]) -> str:
    """Names and values as a two-column table; inner dicts are opened, one level after another."""
    rows = "".join(
        f"<tr><th>{escape(_words(key))}</th><td>{escape(value_text(key, value))}</td></tr>"
        for key, value in _open(values)
    )
    return f'<div class="scroll"><table>{rows}</table></div>'


def _open(values: dict[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in values.items():
        name = f"{before}{key}"
        if isinstance(value, dict) and value:
            yield from _open(value, f"{name} · ")
        elif value not in (None, "", [], {}):
            yield name, value


def _words(name: str) -> str:
    for old, new in (("bad_bytes", "invalid"), ("_per_s", " per second"), ("_bytes", ""), ("_", " ")):
        name = name.replace(old, new)
    return name


def value_text(name: str, value: Any) -> str:
    """A value as a person writes it: bytes in MB, floats in four figures, thousands apart, lists joined."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and "bytes" in re.split(r"\W|_", name):
        return size(value)
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(value_text("", one) for one in value)
    return str(value)
