"""One self-contained page for a run: curves, map, neighbors, scores, settings, machine."""

from __future__ import annotations

from any2vec.report.run import write_report

__all__ = ["write_report"]
