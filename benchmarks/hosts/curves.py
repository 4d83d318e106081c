"""The picture of the guide of hosts: accuracy by epoch of 32 logical hosts and of one, from the committed results.

`python benchmarks/hosts/curves.py docs/images/hosts-curves.png` draws what the row `early-epochs` has left.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.results import has_failed, load

SHOWN = ("one host", "spectral", "blend", "adasum", "mean", "sum")


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the curves."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("picture", type=Path)
    options = parser.parse_args(arguments)
    found = load("many-hosts")["rows"].get("early-epochs")
    if not found or has_failed(found[-1]):
        raise SystemExit("There are no curves: run `python benchmarks/run.py many-hosts --row early-epochs`.")
    draw(found[-1]["runs"]["curves"], options.picture)


def draw(curves: dict[str, list[float]], target: Path) -> None:
    """curves: name -> score after each epoch, in per cent."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for name in sorted((name for name in SHOWN if name in curves), key=lambda name: -curves[name][-1]):
        epochs, label = range(1, len(curves[name]) + 1), f"{name}: {curves[name][-1]:.1f}"
        axes.plot(epochs, curves[name], label=label, linewidth=2.4 if name == "one host" else 1.4)
    axes.set(xlabel="epoch", ylabel="mean of five word measures, %", ylim=(0, None), xlim=(1, None))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", fontsize=8)
    figure.savefig(target, dpi=130)


if __name__ == "__main__":
    main()
