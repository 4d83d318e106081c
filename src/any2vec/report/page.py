"""The page itself: one HTML file with its style and pictures inside, for light and dark screens and for paper."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from typing import Any

from any2vec._version import __version__
from any2vec.data.io.kept_scores import told_apart
from any2vec.embeddings import Embeddings
from any2vec.report.map import STYLE as MAP_STYLE
from any2vec.report.map import MapPicture
from any2vec.report.scores import Confusions, classes_section, headlines
from any2vec.report.stages import stages_of, stages_section
from any2vec.report.tables import metadata, scores
from any2vec.units import duration, number, size

STYLE = """
:root { --page: #f5f6f8; --card: #ffffff; --text: #1d232b; --faint: #66707d;
  --line: #e3e6ea; --bar: #e4ecf7; --heat: 59, 111, 182; }
@media screen and (prefers-color-scheme: dark) {
  :root { --page: #0f1217; --card: #171b21; --text: #e6e9ee; --faint: #98a2b0;
    --line: #2a313a; --bar: #233349; --heat: 127, 176, 240; }
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
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin-top: 20px; }
.tile { flex: 1 1 var(--tile, 140px); min-width: 116px;
  background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 12px 16px; }
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
table.heat td, table.heat th { padding: 3px 8px; white-space: nowrap; } table.heat { min-width: 0; }
td.item { font-weight: 650; overflow-wrap: anywhere; min-width: 8em; }
.near { display: inline-block; overflow-wrap: anywhere; max-width: 100%; margin: 1px 6px 1px 0; padding: 0 8px;
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
.wide { overflow-x: auto; }
@media screen and (max-width: 640px) { .wide img { width: 820px; } }
@media (max-width: 640px) {
  main { padding: 20px 10px; } section { padding: 14px 12px; }
  .near small { display: inline-block; } table.scores td:first-child { overflow-wrap: anywhere; min-width: 8em; }
  .near-table tr, .near-table td { display: block; border: 0; padding-right: 0; } .near-table th { display: none; }
}
@media print {
  body { background: #fff; font-size: 12px; } main { max-width: none; padding: 0; }
  section, .tile { border-color: #ccc; break-inside: avoid; }
}
"""


_TILES = 7
"""beside each other, at most"""
COLORS = ("#3b6fb6", "#c2562d", "#2f8a62", "#8a4fa3", "#a87a12", "#b33a62", "#3d8a99", "#5a7d1f", "#7a5c3e", "#4c5fd0")
DARK_COLORS = (
    "#7fb0f0", "#f0946a", "#6fcf9f", "#c795e0", "#e0b95a", "#f08aae", "#79c6d6", "#b5d46a", "#cfa98a", "#9aa8ff",
)  # fmt: skip
"""of the groups on a map"""


def _colors() -> str:
    """Rules for the groups of the map and the shades of confusions."""
    light, dark = (
        "".join(f".g{at} {{ fill: {color}; }} " for at, color in enumerate(colors)) for colors in (COLORS, DARK_COLORS)
    )
    tiles = "".join(f".by{count} {{ --tile: {0.9 / count:.0%}; }} " for count in range(1, _TILES + 1))
    heat = "".join(f"td.h{at} {{ background: rgba(var(--heat), {0.06 * at:.2f}); }} " for at in range(1, 11))
    return (
        f".gx {{ fill: var(--faint); }} {light}{tiles}{heat}@media screen and (prefers-color-scheme: dark) {{ {dark}}}"
    )


PAGE_STYLE = STYLE + MAP_STYLE + _colors()
SIGNATURE = "<footer>Written by any2vec "
"""begins the last line of every page, and no text from outside can hold it: that is escaped"""
UNDER_TITLE = "</h1><p>"
"""stands in the head of every report, not of a comparison; nor can text from outside hold it"""
UNENCODED = "backslashreplace"
"""how a page shows what is no text: names of files may hold any bytes"""
_IN_SETTINGS = {"data", "dim", "epochs", "model", "seed", "threads"}
"""what a run's summary repeats of its settings"""
_NO_SETTINGS = {"summary", "machine", "format", "files", "checksum"}
"""what run.json holds beside settings, and what was used"""
_IN_SECTIONS = {"validation", "seconds_by_stage", "waits_by_stage"}
"""what stands in a section of its own"""
_MONITORS = {"lagrangian", "residual", "decrease"}
"""what the picture of monitors shows, where there are epochs enough for one"""


_HINT = "Drag to move, Ctrl and the wheel, + and − or a double click to zoom; click an item for its neighbors."
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
    map_picture: MapPicture | None,
    figures: Sequence[Figure],
    classes: Confusions | None,
    neighbors: Sequence[tuple[str, list[tuple[str, float]]]],
    evaluation: Sequence[dict[str, Any]],
) -> str:
    """The whole page as text. Keys, settings and scores may hold anything: all of it is escaped."""
    summary = _dict(about.get("summary"))
    settings = {key: value for key, value in about.items() if key not in _NO_SETTINGS}
    settings = {**_dict(settings.pop("settings", None)), **settings}
    settings = {**_dict(settings.get("model")), **{key: value for key, value in settings.items() if key != "model"}}
    shown_elsewhere = _IN_SETTINGS | _IN_SECTIONS
    if any(figure.name == "monitors" for figure in figures):
        shown_elsewhere |= _MONITORS
    figures_of_run = {key: value for key, value in summary.items() if key not in shown_elsewhere}
    spent = figures_of_run.get("compile_seconds")
    if isinstance(spent, int | float) and spent < _WORTH_SAYING:  # all kernels were compiled before
        del figures_of_run["compile_seconds"]
    titles = {
        "map": "Map",
        "curves": "Training",
        "validation": "Validation",
        "stages": "Stages",
        "monitors": "Training by pdADMM-G",
    }
    parts = [_header(title, run_name, embeddings), _tiles(summary, embeddings, evaluation)]
    if classes is not None:
        parts.append(section("Classes", classes_section(classes)))
    for figure in figures:
        shown = picture(figure)
        if figure.name == "map" and map_picture is not None:
            caption = f'<p class="caption">{escape(figure.caption)}. {_HINT}</p>'
            shown = f"{map_picture.section}<noscript>{shown}</noscript>{caption}"
        if figure.name == "stages":
            shown += stages_section(stages_of(summary), summary)
        parts.append(section(titles.get(figure.name, figure.name), shown))
    if neighbors:
        parts.append(section("Nearest neighbors", _neighbors(neighbors)))
    if evaluation:
        named = zip(evaluation, told_apart(evaluation), strict=True)
        parts.append(section("Evaluation", "".join(scores(one, data) for one, data in named)))
    lists = {"Settings": settings, "Machine": _dict(about.get("machine")), "Figures of the run": figures_of_run}
    halves = [section(name, metadata(values)) for name, values in lists.items() if values]
    parts.append(f'<div class="pair">{"".join(halves)}</div>')
    return document(title, parts, map_picture)


def document(title: str, parts: Sequence[str], map_picture: MapPicture | None = None) -> str:
    """A whole page of these parts, HTML each; the title is text. map_picture: whose data and script go with it."""
    made = time.strftime("%Y-%m-%d %H:%M", time.localtime())
    script = "" if map_picture is None else map_picture.script
    data = "" if map_picture is None else f'<script type="application/json" id="map-data">{map_picture.data}</script>'
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(PAGE_STYLE, script)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{PAGE_STYLE}</style></head>\n<body><main>{''.join(parts)}"
        f"{data}{f'<script>{script}</script>' if script else ''}"
        f"{SIGNATURE}{__version__} on {made}. The pictures are inside this page.</footer>"
        "</main></body></html>\n"
    )


def _policy(*inside: str) -> str:
    """The page may show and run what it was written with, and fetch nothing."""
    style, script = (f"'sha256-{base64.b64encode(sha256(one.encode()).digest()).decode()}'" for one in inside)
    return f"default-src 'none'; img-src data:; style-src {style}; script-src {script}"


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _header(title: str, run_name: str, embeddings: Embeddings) -> str:
    items = f"{len(embeddings):,} items of {embeddings.dim} numbers each"
    return f"<header><h1>{escape(title)}{UNDER_TITLE}{items} · folder {escape(run_name)}</p></header>"


def _tiles(summary: dict[str, Any], embeddings: Embeddings, evaluation: Sequence[dict[str, Any]]) -> str:
    """The figures that one looks for first, scores before all; those that the run did not leave are left out."""
    shown = headlines(summary, evaluation)
    own = summary.get(
        "peak_anon_bytes", summary.get("peak_rss_bytes")
    )  # without mapped files, as the curve and `watch`
    summary = summary | {"memory": own}
    shown += [("rows", f"{len(embeddings):,}"), ("numbers a row", str(embeddings.dim))]
    for key, words, form in (
        ("items_per_s", "items per second", number),
        ("train_seconds", "of training", duration),
        ("loss", "mean loss", lambda value: f"{value:.4f}"),
        ("memory", "peak memory", size),
        ("hosts", "hosts", str),
        ("bytes", "bytes between hosts", size),
        ("agree_share", "of the time in agreement", lambda value: f"{value:.0%}"),
    ):
        sent = sum(_dict(summary.get("bytes_by_kind")).values()) or None
        value = sent if key == "bytes" else summary.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and not (key == "hosts" and value == 1):
            shown.append((words, form(value)))
    rows = -(-len(shown) // _TILES)
    return f'<div class="tiles by{-(-len(shown) // rows)}">' + "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(words)}</span></div>' for words, value in shown
    ) + "</div>"  # fmt: skip


def section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def picture(figure: Figure) -> str:
    light, dark = (f"data:image/png;base64,{base64.b64encode(one).decode()}" for one in (figure.light, figure.dark))
    return (
        f'<div class="wide"><picture><source media="screen and (prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img alt="{escape(figure.caption)}" src="{light}"></picture></div><p class="caption">'
        f"{escape(figure.caption)}.</p>"
    )


def _neighbors(neighbors: Sequence[tuple[str, list[tuple[str, float]]]]) -> str:
    rows = []
    for item, near in neighbors:
        chips = "".join(f'<span class="near">{escape(key)}<small>{score:.2f}</small></span>' for key, score in near)
        rows.append(f'<tr><td class="item">{escape(item)}</td><td>{chips}</td></tr>')
    head = "<tr><th>item</th><th>nearest, with their cosine</th></tr>"
    return f'<div class="scroll"><table class="near-table">{head}{"".join(rows)}</table></div>'
