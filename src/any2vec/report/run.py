"""Collect what a run left in its folder, draw it, and write the page and its pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.checks import check_whole, parse_json
from any2vec.data.attributed.predictions import Predicted
from any2vec.data.io.storage import atomic_file, storage_errors
from any2vec.embeddings import Embeddings
from any2vec.errors import FormatError, InputError, StorageError
from any2vec.models.clicks.keys import trained_keys
from any2vec.report.figures import (
    DARK,
    FEWEST_POINTS,
    LIGHT,
    draw_curves,
    draw_map,
    draw_monitors,
    draw_stages,
    draw_validation,
    epoch_ends,
)
from any2vec.report.items import MapItems, choose_items
from any2vec.report.layout import flatten
from any2vec.report.map import MapPicture, map_picture
from any2vec.report.page import SIGNATURE, UNDER_TITLE, UNENCODED, Figure, render
from any2vec.report.scores import confusions
from any2vec.report.stages import stages_of
from any2vec.report.tables import is_number
from any2vec.train.progress import rotated_log

MAP_ITEMS = 600
"""items on the map, unless more or fewer are asked for"""
MOST_MAP_ITEMS = 10_000
NEIGHBOR_ITEMS = 12
NEIGHBORS = 6
_FIGURES = ("map", "curves", "validation", "stages", "monitors")
ABOUTS = ("run.json", "stream.json")
"""the file in which a run says what it is: of a stream the second"""
_LAST_LINE = 500
"""bytes of a page's end in which its signature is looked for"""
_Near = list[tuple[str, float]]
"""keys and their cosine, best first"""


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """What `train` wrote: rows, one record per progress line, config, machine, summary."""

    name: str
    embeddings: Embeddings
    progress: list[dict[str, Any]] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)
    evaluation: list[dict[str, Any]] = field(default_factory=list)
    predicted: Predicted | None = None
    """of a classifier of nodes"""


def read_run(run_dir: Path) -> RunFolder:
    """Open a run folder; everything but the embeddings may be missing. FormatError for a file that is damaged."""
    if not run_dir.is_dir():
        raise InputError(f"{run_dir} is not a folder that `any2vec train --out` wrote; give that folder.")
    about = read_about(run_dir)  # first: of a run that is damaged here and has no result, this is told
    return RunFolder(
        name=run_dir.resolve().name,
        embeddings=trained_keys(Embeddings.load(run_dir)),
        progress=read_progress(run_dir),
        about=about,
        evaluation=read_json_lines(run_dir / "evaluation.jsonl"),
        predicted=Predicted.read(run_dir),
    )


def read_about(run_dir: Path) -> dict[str, Any]:
    """What a run, or a stream, says of itself; {} where it says nothing."""
    path = next((run_dir / name for name in ABOUTS if (run_dir / name).is_file()), run_dir / ABOUTS[0])
    return (read_json_lines(path, whole=True) or [{}])[0]


def read_progress(run_dir: Path) -> list[dict[str, Any]]:
    """The records of a run, oldest first; of a stream those of the log before, too."""
    log = run_dir / "progress.jsonl"
    former, newer = read_json_lines(rotated_log(log)), read_json_lines(log)
    # A stream that went on from a checkpoint wrote its last records again; those of the full log are then still there.
    start = newer[0].get("seconds") if newer else None
    if is_number(start):
        former = [one for one in former if is_number(one.get("seconds")) and not one["seconds"] >= start]
    return former + newer


def read_json_lines(path: Path, whole: bool = False) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8", errors="replace")
    records = []
    lines = [text] if whole else text.removesuffix("\n").split("\n")  # a string may hold other ends of lines
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = parse_json(line)
        except ValueError as error:
            if not whole and number == len(lines):  # a run that was killed may leave half a last line
                break
            raise FormatError(
                f"{path.name}, line {number}: not JSON ({getattr(error, 'msg', error)}); train the run again."
            ) from error
        if isinstance(record, dict):
            records.append(record)
    return records


def write_report(
    run_dir: Path | str,
    out: Path | str | None = None,
    evaluation: list[dict[str, Any]] | None = None,
    *,
    items: Sequence[str] = (),
    title: str | None = None,
    map_items: int = MAP_ITEMS,
    seed: int = 1,
    overwrite: bool = False,
) -> Path:
    """Write one HTML page without any outside reference, and its pictures as PNG files beside it.

    Args:
        run_dir: the folder that `any2vec train --out` or `fit(..., out=...)` wrote.
        out: the page; default `report.html` in `run_dir`. Its pictures go beside it as `report-map.png` ....
        evaluation: results of `evaluate_*(...).as_dict()`; default: those in `evaluation.jsonl` of `run_dir`, if any.
        items: keys whose neighbors come first in the table; the most frequent ones follow.
        map_items: how many items the map has, 3 to 10,000; beyond some thousands its layout takes minutes.
        title: heading; default: model and folder name.
        overwrite: replace `out` whatever it is; without it, only a page that this function wrote is replaced.
        seed: of the map's layout. Same embeddings, seed and library versions give the same picture.

    Returns:
        The path of the page.

    Raises:
        InputError: `run_dir` is no run folder, an item is unknown, or map_items is out of range.
        FormatError: it is damaged. StorageError: the page cannot be written, or something else is in its place.
    """
    check_whole("map_items", map_items, 3, MOST_MAP_ITEMS)
    run = read_run(Path(run_dir))
    page = Path(out) if out is not None else Path(run_dir) / "report.html"
    check_replaceable(page, overwrite)
    is_again = _is_report(page)
    shown = _in_table(run.embeddings, [run.embeddings.row(item) for item in items])
    on_map = choose_items(run.embeddings, _classes(run), map_items, seed)
    nearest = _nearest(run.embeddings, [*shown, *on_map.rows.tolist()])
    mapped = _map(run, on_map, nearest[len(shown) :], seed)
    figures = [*([mapped[0]] if mapped else []), *_figures(run)]
    text = render(
        title=title or _title(run),
        run_name=run.name,
        about=run.about,
        embeddings=run.embeddings,
        map_picture=mapped[1] if mapped else None,
        figures=figures,
        classes=None if run.predicted is None else confusions(run.predicted),
        neighbors=[(run.embeddings.keys.names[row], near) for row, near in zip(shown, nearest, strict=False)],
        evaluation=run.evaluation if evaluation is None else evaluation,
    )
    with atomic_file(page) as temporary:
        temporary.write_text(text, encoding="utf-8", errors=UNENCODED)
    for name in {*_FIGURES} - {figure.name for figure in figures} if is_again else ():  # of the page that was there
        _picture(page, name).unlink(missing_ok=True)
    for figure in figures:  # after the page, which says that they are ours
        with atomic_file(_picture(page, figure.name)) as temporary:
            temporary.write_bytes(figure.light)
    return page


def pictures_of(page: Path) -> list[Path]:
    """The pictures that `write_report` has put beside a page."""
    return [path for path in (_picture(page, name) for name in _FIGURES) if path.is_file()]


def check_replaceable(page: Path, overwrite: bool, names: Sequence[str] = _FIGURES) -> None:
    """A page of ours is replaced, a report with its pictures; StorageError where anything else is in their place.

    The folder of a run is ours: a run that began again there may have left a picture of the page before.

    names: of the pictures that are to go beside the page.
    """
    if overwrite:
        return
    is_of_run = page.name == "report.html" and (page.parent / "run.json").is_file()
    pictures = [] if is_of_run or _is_report(page) else [_picture(page, name) for name in names]
    for path in [*([] if _is_ours(page) else [page]), *pictures]:
        if path.exists():
            raise StorageError(
                f"{path} exists and is not of a report that any2vec wrote; choose another path or pass --overwrite "
                "(overwrite=True)."
            )


def _is_ours(page: Path) -> bool:
    if not page.is_file():
        return False
    with storage_errors(page), page.open("rb") as file:
        file.seek(max(0, page.stat().st_size - _LAST_LINE))
        return SIGNATURE.encode() in file.read()


def _is_report(page: Path) -> bool:
    """Whether it is a page of ours that has pictures beside it; that of `compare` has none."""
    if not _is_ours(page):
        return False
    with storage_errors(page):
        return UNDER_TITLE.encode() in page.read_bytes()


def _picture(page: Path, name: str) -> Path:
    return page.with_name(f"{page.stem}-{name}.png")


def _title(run: RunFolder) -> str:
    settings = run.about.get("settings")
    model = settings.get("model") if isinstance(settings, dict) else None
    name = model.get("model") if isinstance(model, dict) else None
    return f"{name} · {run.name}" if isinstance(name, str) else run.name


def _map(run: RunFolder, items: MapItems, nearest: list[_Near], seed: int) -> tuple[Figure, MapPicture] | None:
    """The map as a picture for each theme, and as what can be zoomed; None where there is nothing to lay out."""
    if len(items.rows) < 3:
        return None
    points = flatten(np.asarray(run.embeddings.vectors[items.rows], dtype=np.float64), seed)
    keys = [str(run.embeddings.keys.names[row]) for row in items.rows.tolist()]
    light, dark = draw_map(points, keys, items, LIGHT, DARK)
    caption = f"{items.caption} (t-SNE of cosine distances); colors: {items.colors}"
    return Figure("map", caption, light, dark), map_picture(keys, items, points, nearest)


def _classes(run: RunFolder) -> list[str | None] | None:
    """The known class of each row, where a classifier of nodes of one class each left them."""
    found = run.predicted
    if found is None or len(found.label) != len(run.embeddings) or any(isinstance(one, list) for one in found.label):
        return None
    return found.label


def _figures(run: RunFolder) -> list[Figure]:
    """Draw each other picture once per theme."""
    figures = []
    curves = [draw_curves(run.progress, theme) for theme in (LIGHT, DARK)]
    if curves[0] is not None and curves[1] is not None:
        ends = "; dotted lines end an epoch" if epoch_ends(run.progress) else ""
        caption = f"Since the record before, over the time of training{ends}"
        figures.append(Figure("curves", caption, curves[0], curves[1]))
    summary = run.about.get("summary")
    if isinstance(summary, dict) and len(epochs := summary.get("validation") or ()) >= FEWEST_POINTS:
        best = int(summary["best_epoch"])
        light, dark = (draw_validation(epochs, best, theme) for theme in (LIGHT, DARK))
        title = f"Scores on validation data by epoch; epoch {best}, the dotted line, is the one that is kept"
        figures.append(Figure("validation", title, light, dark))
    if isinstance(summary, dict) and (stages := stages_of(summary)):
        light, dark = (draw_stages(stages, theme) for theme in (LIGHT, DARK))
        figures.append(
            Figure("stages", "Where the time went, by stage; stages of several threads overlap", light, dark)
        )
    if isinstance(summary, dict) and len(summary.get("lagrangian") or ()) >= FEWEST_POINTS:
        light, dark = (draw_monitors(summary, theme) for theme in (LIGHT, DARK))
        title = (
            "Lagrangian, residual between layers, and what each block of variables takes off the Lagrangian, by epoch; "
            "a network that grows has larger ones from then on"
        )
        figures.append(Figure("monitors", title, light, dark))
    return figures


def _in_table(embeddings: Embeddings, first: list[int]) -> list[int]:
    """The given rows, then those of frequent items, the very commonest of long lists left out."""
    if len(embeddings) < 2:
        return []
    frequent = embeddings.frequent_rows(1_000)
    # the commonest words of a text ("the", "of") have dull neighbors: step over a tenth of the list, at most 50
    frequent = frequent[min(50, len(frequent) // 10) :: max(1, len(frequent) // 80)]
    return list(dict.fromkeys([*first, *(int(row) for row in frequent)]))[: max(NEIGHBOR_ITEMS, len(first))]


def _nearest(embeddings: Embeddings, rows: list[int]) -> list[_Near]:
    """Of each row its nearest. All are asked for at once: every question goes over all vectors."""
    found = embeddings.nearest([embeddings.keys[row] for row in rows], NEIGHBORS)
    return [[(str(key), score) for key, score in one] for one in found]
