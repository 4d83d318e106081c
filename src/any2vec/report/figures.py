"""The pictures, by matplotlib without a display. This file is the library's one door to matplotlib."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

from any2vec.report.items import OTHER, MapItems
from any2vec.report.layout import place_labels
from any2vec.report.page import COLORS, DARK_COLORS
from any2vec.report.stages import StageSeconds
from any2vec.report.tables import spell_name
from any2vec.units import number, size, visible

LABEL_LENGTH = 22
"""characters of a key that the map shows"""
_DPI = 160
_COLORS = 128
_BLOCKS = {
    "fell_p": "p", "fell_w": "W", "fell_b": "b", "fell_z": "z", "fell_q": "q", "rose_u": "u (what it adds)",
}  # fmt: skip
"""a block's name in a summary -> in a picture"""


@dataclass(frozen=True, kw_only=True)
class Theme:
    """Colors of one picture."""

    background: str
    text: str
    faint: str
    grid: str
    line: str
    second: str
    groups: tuple[str, ...]


LIGHT = Theme(
    background="#ffffff", text="#1d232b", faint="#66707d", grid="#e6e9ed", line="#3b6fb6", second="#c2562d",
    groups=COLORS,
)  # fmt: skip
DARK = Theme(
    background="#171b21", text="#e6e9ee", faint="#98a2b0", grid="#2a313a", line="#7fb0f0", second="#f0946a",
    groups=DARK_COLORS,
)  # fmt: skip


@contextmanager
def _style(theme: Theme) -> Iterator[None]:
    options: Any = {
        "font.family": ["DejaVu Sans"],
        "font.size": 9,
        "text.color": theme.text,
        "text.parse_math": False,  # a key such as "$x" is text, not a formula
        "axes.edgecolor": theme.grid,
        "axes.facecolor": theme.background,
        "axes.labelcolor": theme.faint,
        "axes.titlecolor": theme.text,
        "figure.facecolor": theme.background,
        "xtick.color": theme.faint,
        "ytick.color": theme.faint,
    }
    with matplotlib.rc_context(options), warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Glyph .* missing"
        )  # scripts that the shipped font lacks show as boxes
        yield


def _png(figure: Figure) -> bytes:
    figure.set_dpi(_DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    palette = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    palette = palette.quantize(_COLORS, dither=Image.Dither.NONE)  # a third of the bytes
    buffer = io.BytesIO()
    palette.save(buffer, format="png")
    return buffer.getvalue()


def draw_map(points_N2: np.ndarray, keys: Sequence[str], items: MapItems, *themes: Theme) -> list[bytes]:
    """A PNG for each theme with one point per item, as many names as fit without touching, and what the colors mean.

    points_N2: float (N, 2) in about [0, 1].
    """
    names = [_short(key) for key in keys]
    sizes = [8.5 if not items.is_ranked or rank >= 40 else 10.0 for rank in range(len(names))]
    placed: list[tuple[int, float, float]] = []  # of the first theme, and of all others: fonts are the same
    pictures = []
    for theme in themes:
        with _style(theme):
            figure = Figure(figsize=(10, 7.6))
            axes = figure.add_axes((0.01, 0.06, 0.98, 0.93))
            axes.set_axis_off()
            axes.set_xlim(-0.05, 1.08)
            axes.set_ylim(-0.05, 1.05)
            colors = [theme.faint if group == OTHER else theme.groups[int(group)] for group in items.group_N]
            axes.scatter(points_N2[:, 0], points_N2[:, 1], s=9, c=colors, alpha=0.85, linewidths=0)
            _legend(figure, items, theme)
            placed = placed or _placed(axes, points_N2, names, sizes)
            for index, x, y in placed:
                axes.text(x, y, names[index], fontsize=sizes[index], color=colors[index], ha="left", va="bottom")
            pictures.append(_png(figure))
    return pictures


def _short(key: str) -> str:
    """A name on one line, its middle left out where it is long."""
    name = " ".join(key.split()) or key
    return name if len(name) <= LABEL_LENGTH else name[:8] + "…" + name[9 - LABEL_LENGTH :]


def _placed(
    axes: Axes, points_N2: np.ndarray, names: Sequence[str], sizes: Sequence[float]
) -> list[tuple[int, float, float]]:
    """(index, x, y) of the labels that fit, in the axes' own units. sizes: of the fonts, in points."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    renderer = FigureCanvasAgg(figure).get_renderer()
    fonts = {points: FontProperties(size=points) for points in set(sizes)}
    letter = axes.text(0, 0, "x")
    least = {}  # even a low name takes a line's height
    for points in fonts:
        letter.set_fontsize(points)
        least[points] = letter.get_window_extent(renderer).height
    letter.remove()
    boxes = []
    for name, points in zip(names, sizes, strict=True):
        width, height, _ = renderer.get_text_width_height_descent(name, fonts[points], False)
        boxes.append((width, max(height, least[points]) * 0.92))
    pixels = axes.transData.transform(points_N2)
    placed = place_labels(pixels, np.array(boxes), gap=4.0, width=figure.bbox.width, height=figure.bbox.height)
    corners = axes.transData.inverted().transform([corner for _, *corner in placed]).tolist() if placed else []
    return [(index, x, y) for (index, _, _), (x, y) in zip(placed, corners, strict=True)]


def _legend(figure: Figure, items: MapItems, theme: Theme) -> None:
    """The groups that are on the map, below it."""
    present = set(items.group_N.tolist())
    named = [(theme.groups[at], name) for at, name in enumerate(items.legend) if at in present]
    named += [(theme.faint, "others")] if OTHER in present else []
    marks = [Line2D([], [], color=color, marker="o", linestyle="", markersize=4) for color, _ in named]
    names = [name if len(name) <= 2 * LABEL_LENGTH else name[: 2 * LABEL_LENGTH - 1] + "…" for _, name in named]
    legend = figure.legend(
        marks, ["name"] * len(names), loc="lower center", ncols=min(5, len(named)) or 1, frameon=False, fontsize=7,
        labelcolor=theme.text, handletextpad=0.1, columnspacing=1.2,
    )  # fmt: skip
    _name(legend, names)


def _name(legend: Legend, names: Sequence[str]) -> None:
    """Write names into a legend that is there: where one is made, matplotlib drops names that begin with `_`."""
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(visible(name))


FEWEST_POINTS = 3
"""of a curve; fewer say nothing that the tiles do not"""


def draw_curves(progress: list[dict[str, Any]], theme: Theme) -> bytes | None:
    """A PNG with loss, items/s and memory over seconds of training; dotted lines at `epoch_ends`.

    Sizes begin at 0. None where no curve has as many points as `FEWEST_POINTS`.
    """
    asked = (
        ("loss", "mean loss", theme.line, None), ("items_per_s", "items per second", theme.second, number),
        ("words_per_s", "words per second", theme.second, number),
        ("rss_bytes", "memory of the process", theme.groups[2], size),
    )  # fmt: skip
    known = [(_points(progress, name), title, color, spell) for name, title, color, spell in asked]
    known = [curve for curve in known if len(curve[0]) >= FEWEST_POINTS]
    if not known:
        return None
    with _style(theme):
        figure = Figure(figsize=(10, 3.2), layout="constrained")
        for axes, (points, title, color, spell) in zip(
            figure.subplots(1, len(known), squeeze=False)[0], known, strict=True
        ):
            axes.plot(
                points[:, 0],
                points[:, 1],
                color=color,
                linewidth=1.8,
                marker="o" if len(points) < 30 else None,
                markersize=3,
            )
            axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
            if spell is not None:
                axes.set_ylim(0, 1.06 * max(points[:, 1].max(), 1e-9))
                axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _, spell=spell: spell(value)))
                axes.tick_params(axis="both", pad=6)  # the zeros of both axes stand beside each other
            axes.set_xlim(_start(points[:, 0]), 1.02 * max(points[-1, 0], 1e-9))
            for second in epoch_ends(progress):
                axes.axvline(second, color=theme.faint, linewidth=0.7, linestyle=":", zorder=0)
            _finish(axes, theme, "seconds of training")
            axes.xaxis.set_major_locator(MaxNLocator(5))
        return _png(figure)


def _start(second_K: np.ndarray) -> float:
    """Where an axis of time begins: at 0, or at the first record where those before it are gone."""
    step = (second_K[-1] - second_K[0]) / max(len(second_K) - 1, 1)
    return float(second_K[0]) if second_K[0] > 2 * step > 0 else 0.0


def draw_validation(epochs: Sequence[dict[str, Any]], best_epoch: int, theme: Theme) -> bytes:
    """A PNG of metrics by epoch, one picture a metric; the epoch that was kept is marked."""
    names = [name for name in epochs[0] if name != "epoch"]
    with _style(theme):
        figure = Figure(figsize=(10, 3.4), layout="constrained")
        for axes, name, color in zip(
            figure.subplots(1, len(names), squeeze=False)[0], names, theme.groups, strict=False
        ):
            axes.plot([one["epoch"] for one in epochs], [one.get(name) for one in epochs], color=color, linewidth=1.8)
            axes.axvline(best_epoch, color=theme.text, linewidth=1.0, linestyle=":", zorder=1)
            axes.set_title(spell_name(name), loc="left", fontsize=10, fontweight="bold")
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
            _finish(axes, theme, "epoch")
        return _png(figure)


def draw_runs(curves: Sequence[tuple[str, dict[str, list[tuple[float, float]]]]], theme: Theme) -> bytes:
    """A PNG of runs side by side: a picture a curve, a line a run.

    curves: (title of the picture and of what goes to the right, run -> points).
    """
    with _style(theme):
        figure = Figure(figsize=(10, 3.8), layout="constrained")
        for axes, (title, lines) in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves, strict=True):
            name, _, right = title.partition(" by ")
            for number_of, points in enumerate(lines.values()):
                color = theme.groups[number_of % len(theme.groups)]
                style = "-" if number_of < len(theme.groups) else "--"
                axes.plot(*zip(*points, strict=True), style, color=color, linewidth=1.6)
            axes.set_title(spell_name(name), loc="left", fontsize=10, fontweight="bold")
            _name(axes.legend(axes.lines, ["run"] * len(lines), frameon=False, fontsize=8), list(lines))
            if right == "epoch":
                axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
            _finish(axes, theme, right)
        return _png(figure)


def draw_monitors(summary: dict[str, Any], theme: Theme) -> bytes:
    """A PNG of every epoch of pdADMM-G: Lagrangian, residual, decrease by block; logarithmic."""
    decrease: dict[str, list[float]] = summary.get("decrease") or {}
    columns = [
        ("Lagrangian", {"": summary["lagrangian"]}), ("residual |p - q|", {"": summary.get("residual") or []}),
        ("what each block takes off it", {_BLOCKS.get(name, name): values for name, values in decrease.items()}),
    ]  # fmt: skip
    with _style(theme):
        figure = Figure(figsize=(10, 3.4), layout="constrained")
        for axes, (title, lines) in zip(figure.subplots(1, 3), columns, strict=True):
            for color, (name, values) in zip(theme.groups, lines.items(), strict=False):
                shown = np.array(values, np.float64)
                shown[~(shown > 0)] = np.nan  # a logarithm has no room for what did not move
                axes.plot(np.arange(1, len(shown) + 1), shown, color=color, linewidth=1.2, label=name)
            axes.set_title(title, loc="left", color=theme.text, fontsize=10)
            if any(np.nanmax(line.get_ydata(), initial=0.0) > 0 for line in axes.lines):
                axes.set_yscale("log")
                _spell_logarithms(axes)
            _finish(axes, theme, "epoch", "both")
            if len(lines) > 1:
                figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=8)
        return _png(figure)


def draw_stages(stages: Sequence[StageSeconds], theme: Theme) -> bytes:
    """A PNG with a bar a stage: seconds at work, and waiting."""
    parts = {
        "at work": ([one.at_work for one in stages], theme.line),
        "waiting for what comes in": ([one.for_input for one in stages], theme.second),
        "waiting for room": ([one.for_room for one in stages], theme.faint),
    }
    names, ends = [one.name for one in stages], np.zeros(len(stages))
    with _style(theme):
        figure = Figure(figsize=(10, 0.9 + 0.32 * len(stages)), layout="constrained")
        axes = figure.subplots()
        for words, (seconds, color) in parts.items():
            axes.barh(names, seconds, left=ends, height=0.6, color=color, label=words)
            ends = ends + np.array(seconds)
        axes.invert_yaxis()
        figure.legend(loc="outside upper left", ncols=3, frameon=False, fontsize=8)
        _finish(axes, theme, "seconds")
        return _png(figure)


def _points(progress: list[dict[str, Any]], name: str) -> np.ndarray:
    """float64 (K, 2): seconds and value of the records that have both."""
    pairs = [(one.get("seconds"), one.get(name)) for one in progress]
    known = np.array([(x, y) for x, y in pairs if x is not None and y is not None], dtype=np.float64).reshape(-1, 2)
    return np.asarray(known[np.isfinite(known).all(axis=1)])


MOST_ENDS = 12
"""lines that end an epoch; more of them would hide the curve"""


def epoch_ends(progress: list[dict[str, Any]]) -> list[float]:
    """Seconds at which epochs ended; none where they are shorter than the time between records, or too many."""
    steps = [
        (after["epoch"] - before["epoch"], before["seconds"])
        for before, after in pairwise(progress)
        if all(one.get(name) is not None for one in (before, after) for name in ("epoch", "seconds"))
    ]
    ends = [second for step, second in steps if step == 1]
    return ends if len(ends) <= MOST_ENDS and not any(step > 1 for step, _ in steps) else []


def _spell_logarithms(axes: Axes) -> None:
    """Numbers at the powers of ten; where fewer than two of these are seen, between them, too, all or at 2 and 5."""
    low, high = axes.get_ylim()
    powers = math.floor(math.log10(high)) - math.ceil(math.log10(low)) + 1
    starts = "" if powers > 1 else "123456789" if high < 6 * low else "25"
    # the usual formatters write formulas, which are switched off
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in starts else ""))


def _finish(axes: Axes, theme: Theme, name: str, ticks: Literal["major", "both"] = "major") -> None:
    """What all axes of numbers share. name: of what goes to the right; ticks: that have no marks."""
    axes.set_xlabel(name)
    axes.grid(color=theme.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, which=ticks)
    axes.spines[["top", "right", "left"]].set_visible(False)


def draw_dimension(
    spectrum: Sequence[float], edge: float, curve: Sequence[float], dim: int, even_noise: int, theme: Theme
) -> bytes:
    """A PNG of how a dimension was chosen: the spectrum beside the end of the noise's, and the expected PIP loss.

    curve[k] is that of k dimensions, over that of none; dim is the chosen one, even_noise its limit from above.
    """
    with _style(theme):
        figure = Figure(figsize=(10, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        left.plot(range(1, len(spectrum) + 1), spectrum, color=theme.line, linewidth=1.8)
        left.axhline(edge, color=theme.second, linewidth=1.2, linestyle="--")
        left.annotate("noise ends here", (len(spectrum), edge), ha="right", va="bottom", color=theme.second)
        left.set_yscale("log")
        for axis_format in (left.yaxis.set_major_formatter, left.yaxis.set_minor_formatter):
            axis_format(FuncFormatter(lambda value, _: number(value)))
        left.set_title("spectrum of SPPMI", loc="left", fontsize=10, fontweight="bold")
        right.plot(range(len(curve)), curve, color=theme.line, linewidth=1.8)
        right.plot([dim], [curve[dim]], "o", color=theme.second, markersize=6)
        right.annotate(
            f"{dim} dimensions", (dim, curve[dim]), xytext=(0, 14), textcoords="offset points", ha="center",
            color=theme.second,
        )  # fmt: skip
        if dim != even_noise < len(spectrum):
            right.axvline(even_noise, color=theme.faint, linewidth=0.8, linestyle=":")
            right.annotate("even noise ", (even_noise, max(curve)), ha="right", va="top", color=theme.faint)
        right.set_title("expected PIP loss", loc="left", fontsize=10, fontweight="bold")
        for axes, name in ((left, "factor"), (right, "dimensions")):
            _finish(axes, theme, name, "both")
        return _png(figure)
