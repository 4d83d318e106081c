"""Pictures of click models from the committed results: quality by number of trainers, bytes by bound of the cache.

`python benchmarks/clicks/curves.py docs/images` draws what the rows `shadow-quality` and `het-bytes` have left.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.results import has_failed, load

COLORS = {"easgd": "C0", "ma": "C1", "bmuf": "C2"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the pictures of the rows that have been measured."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    rows = load("clicks")["rows"]
    missing = [name for name in PICTURES if name not in rows or has_failed(rows[name][-1])]
    if missing:
        raise SystemExit(f"There is nothing to draw: run `python benchmarks/run.py clicks --row {missing[0]}`.")
    for name, (file, draw) in PICTURES.items():
        draw(rows[name][-1]["runs"], options.folder / file)


def draw_quality(runs: Mapping[str, Any], target: Path) -> None:
    """Normalized entropy on held-out examples by number of trainers; bars are the range over seeds."""
    figure, axes = _axes()
    entropy = dict(runs["entropy"])
    floor, alone = (statistics.fmean(entropy.pop(name)["1"]) for name in ("Bayes floor", "one trainer"))
    for place, (name, by_count) in enumerate(entropy.items()):
        is_shadow = name.startswith("shadow")
        counts = [int(count) * (1 + 0.025 * (place - 2.5)) for count in by_count]  # beside each other, not hidden
        means = [statistics.fmean(values) for values in by_count.values()]
        low, high = ([abs(pick(values) - mean) for values, mean in zip(by_count.values(), means, strict=True)]
                     for pick in (min, max))  # fmt: skip
        axes.errorbar(
            counts, means, (low, high), label=name, color=COLORS[name.split(":")[0].split("-")[1]],
            linestyle="-" if is_shadow else "--", marker="o" if is_shadow else "x", markersize=4, linewidth=1.3,
            elinewidth=0.8,
        )  # fmt: skip
    axes.axhline(alone, color="black", linewidth=0.8, label=f"one trainer alone: {alone:.4f}")
    axes.axhline(floor, color="grey", linewidth=0.8, linestyle=":", label=f"Bayes floor: {floor:.4f}")
    axes.set_xscale("log", base=2)
    axes.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
    axes.minorticks_off()
    axes.set(xlabel="logical trainers, each with its part of one pass", ylabel="normalized entropy, held out")
    axes.legend(fontsize=8, ncol=2, loc="center")  # between the floor and the rest
    figure.savefig(target, dpi=130)


def draw_bytes(runs: Mapping[str, Any], target: Path) -> None:
    """Bytes of rows by bound, in per cent of those without a cache."""
    figure, axes = _axes()
    for color, zipf in enumerate(("1.1", "1.3")):
        curve = runs[f"Zipf {zipf}, by bound"]
        bounds = list(range(len(curve)))
        shares = [100 * (1 - point["saved"]) for point in curve.values()]
        axes.plot(bounds, shares, marker="o", markersize=4, color=f"C{color}", label=f"Zipf {zipf}")
        side = {"ha": "right", "xytext": (-2, -11)} if zipf == "1.3" else {"xytext": (1, 6)}  # beside the lines
        for bound, share in zip(bounds, shares, strict=True):
            axes.annotate(
                f"{share:.0f}", (bound, share), textcoords="offset points", fontsize=8,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.3}, **side,
            )  # fmt: skip
        axes.axhline(
            100 * (1 - runs["targets"][zipf]), color=f"C{color}", linewidth=0.8, linestyle=":",
            label=f"target at Zipf {zipf}",
        )  # fmt: skip
        axes.set_xticks(bounds, list(curve))
    axes.set(
        xlabel="bound, updates that a read may miss", ylabel="bytes of rows, % of those without a cache", ylim=(0, 105)
    )
    axes.legend(fontsize=8)
    figure.savefig(target, dpi=130)


def _axes() -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    axes.grid(alpha=0.3)
    return figure, axes


PICTURES = {
    "shadow-quality": ("clicks-quality.png", draw_quality),
    "het-bytes": ("clicks-bytes.png", draw_bytes),
}
"""row -> its picture, and what draws it from the row's raw numbers"""


if __name__ == "__main__":
    main()
