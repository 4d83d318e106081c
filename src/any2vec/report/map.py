"""The map in the page: points that can be zoomed, searched and asked for their neighbors, without a network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources

import numpy as np

from any2vec.report.items import OTHER, MapItems

STYLE = """
.map svg { width: 100%; height: auto; display: block; touch-action: pan-y; cursor: grab; border-radius: 6px; }
.map svg:focus-visible { outline: 2px solid var(--faint); }
.map text { font: 12px system-ui, sans-serif; cursor: pointer; user-select: none; }
.map text.strong { font-weight: 700; } .map circle { cursor: pointer; } .map circle.faint { opacity: 0.15; }
.tools { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin-bottom: 8px; }
.tools form { display: flex; gap: 8px; align-items: center; flex: 1; }
.tools input { font: inherit; padding: 4px 10px; border: 1px solid var(--line); border-radius: 8px; min-width: 0;
  background: var(--page); color: var(--text); }
.tools button, .legend button { font: inherit; color: var(--text); background: var(--page);
  border: 1px solid var(--line); border-radius: 8px; padding: 3px 11px; cursor: pointer; }
.legend { display: flex; flex-wrap: wrap; gap: 6px; margin-top: 10px; font-size: 13px; }
.legend button { padding: 1px 9px; text-align: left; max-width: 100%; overflow-wrap: anywhere; display: flex; }
.legend button[aria-pressed=true] { border-color: var(--text); }
.legend svg { width: 10px; height: 10px; margin: 5px 6px 0 0; flex: none; }
button.near { border: 0; font: inherit; color: inherit; cursor: pointer; }
@media (max-width: 640px) { .tools form { flex: 1 1 100%; } .tools input { flex: 1; } }
#map-about { min-height: 28px; margin-top: 10px; } #map-count { color: var(--faint); white-space: nowrap; }
"""


@dataclass(frozen=True)
class MapPicture:
    """The map as parts of a page."""

    section: str
    script: str
    """what runs in the page, and nothing else may"""
    data: str
    """JSON that the script reads"""


@cache
def script() -> str:
    return (resources.files("any2vec.report") / "map.js").read_text(encoding="utf-8")


def map_picture(
    keys: Sequence[str], items: MapItems, point_N2: np.ndarray, nearest: Sequence[Sequence[tuple[str, float]]]
) -> MapPicture:
    """keys and nearest: of each of the items. point_N2: float (N, 2) in about [0, 1]."""
    about = [
        [key, round(float(x), 4), round(float(y), 4), int(group), [[near, round(score, 3)] for near, score in one]]
        for key, (x, y), group, one in zip(keys, point_N2, items.group_N, nearest, strict=True)
    ]
    data = json.dumps({"items": about, "legend": items.legend, "kind": items.kind}, ensure_ascii=False).replace(
        "<", "\\u003c"
    )
    tools = (
        '<div class="tools"><form id="map-form"><input id="map-search" type="search" autocomplete="off" '
        'placeholder="find an item" aria-label="find an item on the map"><span id="map-count"></span></form>'
        '<button id="map-closer" aria-label="closer">+</button><button id="map-farther" aria-label="farther">−</button>'
        '<button id="map-whole">whole map</button></div>'
    )
    drawing = f'<svg viewBox="0 0 1000 680" role="img" tabindex="0" aria-label="{escape(items.caption)}"></svg>'
    section = (
        f'{tools}<div class="map" id="map">{drawing}</div><div id="map-about"></div>'
        f'<div class="legend" id="map-legend">{_legend(items)}</div>'
    )
    return MapPicture(section, script(), data)


def _legend(items: MapItems) -> str:
    present = set(items.group_N.tolist())
    names = [*enumerate(items.legend), (OTHER, "others")]
    return "".join(
        f'<button value="{group}" aria-pressed="false"><svg viewBox="0 0 10 10"><circle cx="5" cy="5" r="5" '
        f'class="{"gx" if group == OTHER else f"g{group}"}"/></svg>{escape(name)}</button>'
        for group, name in names
        if group in present
    )
