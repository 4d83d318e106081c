"""Runs side by side: settings that differ, figures, scores, curves; as data, and as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from any2vec.data.io.kept_scores import FILE as EVALUATION
from any2vec.data.io.kept_scores import told_apart
from any2vec.data.io.storage import atomic_file
from any2vec.errors import InputError
from any2vec.report.figures import DARK, LIGHT, draw_runs
from any2vec.report.page import UNENCODED, Figure, document, picture, section
from any2vec.report.run import ABOUTS, check_replaceable, read_about, read_json_lines, read_progress
from any2vec.report.scores import OF_RUN, of_most_nodes
from any2vec.report.tables import is_number, records_table, spell_name, value_text

MOST = 24
"""runs of a comparison"""
_FIGURES = (
    "loss", "items", "items_per_s", "words", "words_per_s", "train_seconds", "peak_rss_bytes", "rows", "vocabulary",
    "best_epoch", "epochs_done",
)  # fmt: skip
_SPEEDS = ("items_per_s", "words_per_s")
"""0 where the process that went on with a stream has found nothing new, which says nothing of the run"""
_SCORES = "Scores"
"""heading of the table of scores"""
_HOW = ("threads", "hosts", "sync", "scheme", "bits", "rounds_per_epoch", "partitions", "capacity")
"""how a run was trained, of its summary: no settings that a run that goes on must have"""
_DATA = "data.digest"
_LEFT_OUT = ("data.", "init")
"""settings that are digests and counts of data; what is true or false of data stays, whether they have weights, and the
digest of all: whether runs were trained on the same"""


@dataclass(frozen=True)
class Comparison:
    """Of each name the values of all runs, in their order; None where a run has none."""

    runs: list[str]
    settings: dict[str, list[Any]]
    """those that differ, by name"""
    figures: dict[str, list[Any]]
    scores: dict[str, list[Any]]
    """of validation (the best epoch's) and of `any2vec evaluate`"""
    curves: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)
    """"WHAT by WHAT" -> run -> points"""

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)

    def tables(self) -> dict[str, dict[str, list[Any]]]:
        """Those that have rows, by heading."""
        found = {"Settings that differ": self.settings, "Figures": self.figures, _SCORES: self.scores}
        return {name: rows for name, rows in found.items() if rows}


def compare_runs(folders: Sequence[Path | str]) -> Comparison:
    """Read run folders, finished or under way; two or more.

    Raises:
        InputError: there are fewer than two, or too many, one is named twice, or is no run folder.
        FormatError: one is damaged.
    """
    paths = [Path(folder) for folder in folders]
    if not 2 <= len(paths) <= MOST:
        raise InputError(f"Give 2 to {MOST} run folders to compare, got {len(paths)}.")
    if len({path.resolve() for path in paths}) < len(paths):
        raise InputError("A run is named twice; name each once.")
    names = _names(paths)
    found = [_Run.read(path) for path in paths]
    return Comparison(
        names,
        {name: row for name, row in _rows([one.settings for one in found]).items() if _differ(row)},
        _rows([one.figures for one in found]),
        _rows(_scores(found)),
        _curves(dict(zip(names, found, strict=True))),
    )


def write_comparison(found: Comparison, page: Path, overwrite: bool = False) -> Path:
    """Write a page without outside references.

    Raises:
        StorageError: it cannot be written, or something else is in its place.
    """
    check_replaceable(page, overwrite, names=())
    title = f"{len(found.runs)} runs"
    parts = [f"<header><h1>{title}</h1></header>"]
    if found.curves:
        light, dark = (draw_runs(list(found.curves.items()), theme) for theme in (LIGHT, DARK))
        caption = ", ".join(map(spell_name, found.curves))
        parts.append(section("Curves", picture(Figure("curves", caption, light, dark))))
    for heading, rows in found.tables().items():
        parts.append(section(heading, _table(found.runs, rows, heading == _SCORES)))
    with atomic_file(page) as temporary:
        temporary.write_text(document(title, parts), encoding="utf-8", errors=UNENCODED)
    return page


def _table(runs: Sequence[str], rows: Mapping[str, Sequence[Any]], is_scores: bool) -> str:
    """Names of runs stand as they are. Those of scores hold names of data, which do not say how a value is written."""
    spell = spell_score if is_scores else spell_name
    cells = [
        {"": spell(name)}
        | {run: value_text("" if is_scores else name, value) for run, value in zip(runs, row, strict=True)}
        for name, row in rows.items()
    ]
    return records_table(cells, str)


def spell_score(name: str) -> str:
    """The name of a score as a person writes it: of its words the last, which is the metric, alone is spelled."""
    about, space, metric = name.rpartition(" ")
    return f"{about}{space}{spell_name(metric)}"


@dataclass(frozen=True)
class _Run:
    """What is compared of one run."""

    settings: dict[str, Any]
    figures: dict[str, Any]
    scores: dict[str, Any]
    """of validation, and of the run's own test"""
    evaluation: list[dict[str, Any]]
    progress: list[dict[str, Any]]
    validation: list[dict[str, Any]]

    @classmethod
    def read(cls, folder: Path) -> _Run:
        if not any((folder / name).is_file() for name in ABOUTS):
            raise InputError(f"{folder} is not a folder that `any2vec train --out` wrote; give that folder.")
        said = read_about(folder)
        is_stream = not (folder / ABOUTS[0]).is_file()
        progress = read_progress(folder)
        settings = {
            name: one for name, one in _flat(said.get("settings")).items()
            if isinstance(one, bool) or name == _DATA or not name.startswith(_LEFT_OUT)
        }  # fmt: skip
        summary = said.get("summary")
        if not isinstance(summary, dict):  # it goes on, or was stopped
            summary = {**(progress[-1] if progress else {})}
        settings |= {name: summary[name] for name in _HOW if summary.get(name) is not None}
        validation = [
            {"epoch": one["epoch"] + 1, **one["validation"]}
            for one in progress
            if isinstance(one.get("validation"), dict)
        ]
        best = next((one for one in validation if one["epoch"] == summary.get("best_epoch")), {})
        scores = {f"validation {name}": value for name, value in best.items() if name != "epoch"}
        scores |= {words: summary[name] for name, words in OF_RUN.items() if is_number(summary.get(name))}
        evaluation = read_json_lines(folder / EVALUATION)
        return cls(settings, _figures(summary, is_stream), scores, evaluation, progress, validation)


def _figures(summary: Mapping[str, Any], is_stream: bool) -> dict[str, Any]:
    """Those that a run has, in their order. A stream that went on tells its words and its seconds of all processes."""
    found = {name: summary[name] for name in _FIGURES if summary.get(name) is not None}
    words, seconds = found.get("words"), found.get("train_seconds")
    if is_stream and is_number(words) and is_number(seconds) and seconds > 0:
        found["words_per_s"] = words / seconds
    return {name: found[name] for name in _FIGURES if name in found and not (name in _SPEEDS and found[name] == 0)}


def _scores(runs: Sequence[_Run]) -> list[dict[str, float]]:
    """Of each run those of validation and of its tests, by names that are those of the same tests of other runs."""
    on_data = iter(told_apart([one for run in runs for one in run.evaluation]))
    found = []
    for run in runs:
        scores = dict(run.scores)
        for one in run.evaluation:
            about = " ".join(filter(None, [str(one.get("task") or one.get("name") or ""), next(on_data)]))
            own = {name: value for name, value in of_most_nodes(one).items() if name in ("micro_f1", "macro_f1")} | one
            scores |= {f"{about} {name}": value for name, value in own.items() if isinstance(value, float)}
        found.append(scores)
    return found


def _flat(values: Any, before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items() if isinstance(values, dict) else ():
        if isinstance(value, dict):
            found |= _flat(value, "" if name == "model" else f"{before}{name}.")
        else:
            found[f"{before}{name}"] = value
    return found


def _names(paths: Sequence[Path]) -> list[str]:
    """The folders' names, with as many folders above as tells them apart."""
    parts = [path.resolve().parts for path in paths]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            break
    return names


def _rows(found: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for one in found for name in one)
    return {name: [one.get(name) for one in found] for name in names}


def _differ(row: Sequence[Any]) -> bool:
    return any(value != row[0] for value in row)


def _curves(runs: Mapping[str, _Run]) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Loss by seconds, and the metric that decides by epoch, of runs that have two points or more."""
    loss = {name: _points(run.progress, "seconds", "loss") for name, run in runs.items()}
    found = {"loss by seconds of training": loss}
    for metric in dict.fromkeys(
        next(name for name in run.validation[0] if name != "epoch") for run in runs.values() if run.validation
    ):
        found[f"validation {metric} by epoch"] = {
            name: _points(run.validation, "epoch", metric) for name, run in runs.items()
        }
    kept = {title: {run: points for run, points in lines.items() if len(points) > 1} for title, lines in found.items()}
    return {title: lines for title, lines in kept.items() if lines}


def _points(records: Sequence[Mapping[str, Any]], right: str, up: str) -> list[tuple[float, float]]:
    pairs = [(one.get(right), one.get(up)) for one in records]
    return [(float(x), float(y)) for x, y in pairs if isinstance(x, int | float) and isinstance(y, int | float)]
