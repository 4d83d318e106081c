"""Scores, settings and figures of a run as tables of HTML. Names and values may hold anything: all of it is escaped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from html import escape
from typing import Any, TypeGuard

from any2vec.units import size

MOST_VALUES = 24
"""numbers of a list that are written one by one; of more the first and the last"""
_SPELLED = (
    ("peak_rss_bytes", "peak memory with mapped files"), ("peak_anon_bytes", "peak memory"),
    ("bad_bytes", "invalid bytes"), ("_bytes", ""), ("_", " "),
)  # fmt: skip
_ABBREVIATIONS = {"ndcg": "NDCG", "auc": "AUC", "mrr": "MRR", "f1": "F1", "rss": "RSS", "cpu": "CPU", "l2": "L2"}
_NOT_SCORES = {"task", "name", "data", "protocol"}


def scores(result: dict[str, Any], data: str = "") -> str:
    """One evaluation: heading, single figures, one table per list of records, the protocol in small print.

    data: what it was measured on, in the words of the heading.
    """
    heading = spell_name(str(result.get("task") or result.get("name") or "scores"))
    if data:
        heading += f" · {data}"
    tables = {key: _records(value) for key, value in result.items() if _is_records(value)}
    totals = {key: value for key, value in result.items() if isinstance(value, dict) and key not in tables}
    totals = {key: value for key, value in totals.items() if value.get("questions") != 0}
    if tables:  # such as the sums over all sections of the analogies
        next(iter(tables.values())).extend({"name": key, **value} for key, value in totals.items())
    tables = {key: records for key, records in tables.items() if len(records) > 1 or "pairs" not in result}
    single = {
        key: value if isinstance(value, int | str) else _score(key, value)
        for key, value in result.items()
        if key not in tables and key not in _NOT_SCORES and not isinstance(value, dict | list | tuple | None)
    }
    parts = [f"<h3>{escape(heading)}</h3>", metadata(single) if single else ""]
    parts += [records_table(records) for records in tables.values()]
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


def records_table(records: list[dict[str, Any]], spell: Callable[[str], str] | None = None) -> str:
    """Records as rows. spell: how the names of columns are written; None: as those of figures."""
    spell = spell or spell_name
    columns = list(dict.fromkeys(key for one in records for key in one))
    numeric = {key: all(isinstance(one.get(key), int | float | None) for one in records) for key in columns}
    cell = {key: ' class="number"' if numeric[key] else "" for key in columns}
    head = "".join(f"<th{cell[key]}>{escape(spell(key))}</th>" for key in columns)
    rows = (
        "<tr>" + "".join(f"<td{cell[key]}>{escape(_score(key, one.get(key)))}</td>" for key in columns) + "</tr>"
        for one in records
    )
    return f'<div class="scroll"><table class="scores"><tr>{head}</tr>{"".join(rows)}</table></div>'


def metadata(values: dict[str, Any]) -> str:
    """Names and values as a two-column table; inner dicts are opened, one level after another."""
    rows = "".join(
        f"<tr><th>{escape(spell_name(key))}</th><td>{escape(value_text(key, value))}</td></tr>"
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


def spell_name(name: str) -> str:
    """A name of a setting, figure or metric as a person writes it."""
    name = re.sub("_per_s(?![a-z])", " per second", name)
    for old, new in _SPELLED:
        name = name.replace(old, new)
    return " ".join(_ABBREVIATIONS.get(word, word) for word in name.split(" "))


def value_text(name: str, value: Any) -> str:
    """A value as a person writes it: bytes in MB, floats in four figures, thousands apart, lists joined."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and "bytes" in re.split(r"\W|_", name) and not name.endswith("bad_bytes"):
        return size(value)
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    if isinstance(value, list | tuple) and len(value) > MOST_VALUES and all(is_number(one) for one in value):
        return f"{len(value):,} values, {value_text('', value[0])} to {value_text('', value[-1])}"
    if isinstance(value, list | tuple):
        return ", ".join(value_text("", one) for one in value)
    return str(value)


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it is one; yes and no are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)
