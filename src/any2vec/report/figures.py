"""The pictures: places on the map (a 2-D layout, colors by cluster, labels that keep out of each other's way), and
matplotlib without a display. This file is the library's one door to matplotlib.
"""

from __future__ import annotations

import io
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
from matplotlib.ticker import FuncFormatter, LogFormatter, MaxNLocator
from PIL import Image

from any2vec.units import number

NUM_COLORS = 8
_SLOTS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
"""where a label may sit around its point: right first"""


def _unit(vectors_ND: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(vectors_ND, axis=1, keepdims=True)
    return vectors_ND / np.where(norms > 0, norms, 1.0)


def flatten(vectors_ND: np.ndarray, seed: int) -> np.ndarray:
    """(N, D) -> float64 (N, 2) by t-SNE on unit rows (van der Maaten and Hinton 2008), by PCA below 10 rows.

    Deterministic for one seed and set of versions. O(N log N) time; scaled into [0, 1] by the 1 % and 99 % quantiles,
    so that a few outliers do not squeeze the rest.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    unit = _unit(vectors_ND)
    if len(unit) < 10 or unit.shape[1] < 2:
        centerd = unit - unit.mean(axis=0)
        points = PCA(n_components=2).fit_transform(centerd) if unit.shape[1] >= 2 else np.column_stack([unit, 0 * unit])
    else:
        perplexity = min(20.0, (len(unit) - 1) / 3)
        layout = TSNE(n_components=2, init="pca", perplexity=perplexity, random_state=seed, max_iter=700)
        with warnings.catch_warnings(), threadpool_limits(1):  # OpenMP's threads slow so small a job down
            warnings.simplefilter("ignore")
            points = layout.fit_transform(unit)
    low, high = np.quantile(points, [0.01, 0.99], axis=0)
    return np.clip((points - low) / np.where(high > low, high - low, 1.0), -0.03, 1.03)


def clusters(vectors_ND: np.ndarray, seed: int) -> np.ndarray:
    """int (N,): one of NUM_COLORS groups by k-means on unit rows; a color says "alike", nothing more."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    groups = min(NUM_COLORS, max(1, len(vectors_ND) // 8))
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # rows that coincide make fewer clusters than asked for
        return np.asarray(KMeans(groups, random_state=seed, n_init=4).fit_predict(_unit(vectors_ND)))


def place_labels(
    points_N2: np.ndarray, sizes_N2: np.ndarray, gap: float, width: float, height: float
) -> list[tuple[int, float, float]]:
    """Greedy label placement, in pixels: (index, left, bottom) of every label that fits without touching another.

    Labels are tried in the given order (most frequent first), each in eight places around its point; one that fits
    nowhere is left out. O(N^2) over a few hundred labels.
    """
    boxes = np.empty((len(points_N2), 4))
    placed: list[tuple[int, float, float]] = []
    dots = np.column_stack([points_N2 - gap * 0.6, points_N2 + gap * 0.6])
    for index, ((x, y), (wide, high)) in enumerate(zip(points_N2, sizes_N2, strict=True)):
        best, best_hits = None, 3
        for across, up in _SLOTS:
            left = x + gap if across > 0 else (x - gap - wide if across < 0 else x - wide / 2)
            bottom = y + gap / 2 if up > 0 else (y - gap / 2 - high if up < 0 else y - high / 2)
            box = np.array([left, bottom, left + wide, bottom + high])
            if left < 0 or bottom < 0 or box[2] > width or box[3] > height:
                continue
            if _touching(boxes[: len(placed)], box):
                continue
            hits = _touching(dots, box)  # prefer a place that hides few other points
            if hits < best_hits:
                best, best_hits = box, hits
        if best is not None:
            boxes[len(placed)] = best
            placed.append((index, float(best[0]), float(best[1])))
    return placed


def _touching(boxes_N4: np.ndarray, box: np.ndarray) -> int:
    return int(
        np.count_nonzero(
            (boxes_N4[:, 0] < box[2])
            & (boxes_N4[:, 2] > box[0])
            & (boxes_N4[:, 1] < box[3])
            & (boxes_N4[:, 3] > box[1])
        )
    )


LABEL_LENGTH = 22
"""characters of a key that the map shows"""
_DPI = 160
_COLORS = 128
_BLOCKS = {
    "fell_p": "p", "fell_w": "W", "fell_b": "b", "fell_z": "z", "fell_q": "q", "rose_u": "u (adds)",
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
    groups=("#3b6fb6", "#c2562d", "#2f8a62", "#8a4fa3", "#a87a12", "#b33a62", "#3d8a99", "#6b6f76"),
)  # fmt: skip
DARK = Theme(
    background="#171b21", text="#e6e9ee", faint="#98a2b0", grid="#2a313a", line="#7fb0f0", second="#f0946a",
    groups=("#7fb0f0", "#f0946a", "#6fcf9f", "#c795e0", "#e0b95a", "#f08aae", "#79c6d6", "#aab2bd"),
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
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI)
    palette = Image.open(buffer).convert("RGB").quantize(_COLORS, dither=Image.Dither.NONE)  # a third of the bytes
    buffer = io.BytesIO()
    palette.save(buffer, format="png", optimize=True)
    return buffer.getvalue()


def draw_map(points_N2: np.ndarray, keys: Sequence[str], groups_N: np.ndarray, theme: Theme) -> bytes:
    """A PNG with one point per item and as many names as fit without touching; items come most important first.

    points_N2: float (N, 2) in about [0, 1]; groups_N: int (N,), index of a color.
    """
    with _style(theme):
        figure = Figure(figsize=(10, 7.2))
        canvas = FigureCanvasAgg(figure)
        axes = figure.add_axes((0.01, 0.01, 0.98, 0.98))
        axes.set_axis_off()
        axes.set_xlim(-0.05, 1.08)
        axes.set_ylim(-0.05, 1.05)
        colors = [theme.groups[int(group) % len(theme.groups)] for group in groups_N]
        axes.scatter(points_N2[:, 0], points_N2[:, 1], s=9, c=colors, alpha=0.85, linewidths=0)
        renderer = canvas.get_renderer()
        texts, sizes = [], []
        for rank, key in enumerate(keys):
            name = key if len(key) <= LABEL_LENGTH else key[: LABEL_LENGTH - 1] + "…"
            size = 9.5 if rank < 40 else (8.0 if rank < 150 else 7.0)
            text = axes.text(0, 0, name, fontsize=size, color=colors[rank], ha="left", va="bottom")
            box = text.get_window_extent(renderer)
            texts.append(text)
            sizes.append((box.width, box.height * 0.92))
        pixels = axes.transData.transform(points_N2)
        width, height = figure.bbox.width, figure.bbox.height
        placed = place_labels(pixels, np.array(sizes), gap=4.0, width=width, height=height)
        kept = {index for index, _, _ in placed}
        for index, left, bottom in placed:
            x, y = axes.transData.inverted().transform((left, bottom))
            texts[index].set_position((float(x), float(y)))
        for index, text in enumerate(texts):
            if index not in kept:
                text.remove()
        return _png(figure)


def draw_curves(progress: list[dict[str, Any]], theme: Theme) -> bytes:
    """A PNG with loss and items/s over seconds of training; dotted lines where an epoch ends."""
    with _style(theme):
        figure = Figure(figsize=(10, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        _curve(left, progress, "loss", "mean loss", theme.line)
        _curve(right, progress, "items_per_s", "items per second", theme.second)
        right.set_ylim(0, 1.06 * right.get_ylim()[1])  # from zero, and the highest mark whole
        right.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
        for axes in (left, right):
            _mark_epochs(axes, progress, theme)
            _finish(axes, theme, "seconds of training")
            axes.xaxis.set_major_locator(MaxNLocator(7))
        return _png(figure)


def draw_validation(epochs: Sequence[dict[str, Any]], best_epoch: int, theme: Theme) -> bytes:
    """A PNG of metrics by epoch, one picture a metric; the epoch that was kept is marked."""
    names = [name for name in epochs[0] if name != "epoch"]
    with _style(theme):
        figure = Figure(figsize=(10, 3.4), layout="constrained")
        for axes, name, color in zip(
            figure.subplots(1, len(names), squeeze=False)[0], names, theme.groups, strict=False
        ):
            axes.plot([one["epoch"] for one in epochs], [one.get(name) for one in epochs], color=color, linewidth=1.8)
            axes.axvline(best_epoch, color=theme.faint, linewidth=0.9, linestyle=":", zorder=0)
            axes.set_title(name.replace("_", " "), loc="left", fontsize=10, fontweight="bold")
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
            _finish(axes, theme, "epoch")
        return _png(figure)


def draw_monitors(summary: dict[str, Any], theme: Theme) -> bytes:
    """A PNG of every epoch of pdADMM-G: Lagrangian, residual, decrease by block; logarithmic."""
    decrease: dict[str, list[float]] = summary.get("decrease") or {}
    columns = [
        ("Lagrangian", {"": summary["lagrangian"]}), ("residual |p - q|", {"": summary.get("residual") or []}),
        ("its fall by block", {_BLOCKS.get(name, name): values for name, values in decrease.items()}),
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
                axes.yaxis.set_major_formatter(LogFormatter())  # the usual one writes formulas, which are switched off
                axes.yaxis.set_minor_formatter(LogFormatter())
            if len(lines) > 1:
                axes.legend(frameon=False, fontsize=7, ncols=2)
            _finish(axes, theme, "epoch")
        return _png(figure)


def _curve(axes: Axes, progress: list[dict[str, Any]], name: str, title: str, color: str) -> None:
    pairs = [(one.get("seconds"), one.get(name)) for one in progress]
    known = np.array([(x, y) for x, y in pairs if x is not None and y is not None], dtype=np.float64).reshape(-1, 2)
    known = known[np.isfinite(known).all(axis=1)]
    marker = "o" if len(known) < 30 else None
    axes.plot(known[:, 0], known[:, 1], color=color, linewidth=1.8, marker=marker, markersize=3)
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold")


def _mark_epochs(axes: Axes, progress: list[dict[str, Any]], theme: Theme) -> None:
    steps = [
        (after["epoch"] - before["epoch"], before["seconds"])
        for before, after in pairwise(progress)
        if all(one.get(name) is not None for one in (before, after) for name in ("epoch", "seconds"))
    ]
    if any(step > 1 for step, _ in steps):  # epochs shorter than the time between records: their ends are not known
        return
    for step, second in steps:
        if step == 1:
            axes.axvline(second, color=theme.faint, linewidth=0.7, linestyle=":", zorder=0)


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
