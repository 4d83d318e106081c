"""The nouns of a benchmark table, its verdicts and its rendering. Pure: nothing here measures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

PASS, SHORT, QUICK, REPORTED = "pass", "short", "quick", "reported"
NOT_RESOLVED = "not resolved"
NOT_MEASURED, FAILED = "not measured: ", "failed: "
STALE = " †"
"""behind the verdict of a row whose code has changed since it was measured, or is not known"""
_HEADER = ("row", "measure", "target", "settings", "figure", "verdict")
LEAST_SEEDS = 3


class NotMeasuredError(Exception):
    """This machine lacks what a row needs (data, a peer, rights); the message names it, in a few words."""


class RowError(Exception):
    """Something that a row ran went wrong; the message says what, in a few words."""


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One line that a row promises: what is measured and the target."""

    name: str
    relation: str
    """'>=' or '<=' against `target`; '' when the figure is only reported"""
    target: float = 0.0
    unit: str = ""
    """'x' for ratios, '' for points"""
    wording: str = ""
    """the target in words, where a number alone does not say it"""
    is_accuracy: bool = False
    """what is learned, which chance changes: without an interval of three seeds or more it is not resolved"""

    def target_text(self) -> str:
        if self.wording or not self.relation:
            return self.wording or REPORTED
        return f"{'≥' if self.relation == '>=' else '≤'} {self.target:g}{'×' if self.unit == 'x' else ''}"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line of the printed table."""

    row: str
    measure: str
    target: str
    figure: str
    verdict: str
    value: float | None = None
    settings: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """Under _HEADER."""
        return self.row, self.measure, self.target, self.settings, self.figure, self.verdict

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A named row: its measures, and the function that gives one reading for each of them, in order."""

    name: str
    measures: tuple[Measure, ...]
    run: Callable[[Any], Sequence[Reading]]
    minutes: float
    """rough time of the full run on two cores"""
    keeps_runs: bool = False
    """its figures come from runs that are kept in files (`Bench.kept`), which may be older than it"""
    settings: str = "as named"
    """on which data the settings of all sides were chosen"""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a row measured for one measure: the number that is judged and how it is shown."""

    value: float
    text: str
    target: float | None = None
    """replaces the measure's target where the target itself was measured (a peer's score less its margin)"""
    interval: tuple[float, float] | None = None
    """of the value, as wide as chance may have made it: one that holds the target resolves nothing"""

    @classmethod
    def of_seeds(cls, differences: Sequence[float], text: str) -> Reading:
        """The mean of one difference a seed, and two standard errors each way; no interval of fewer than three."""
        mean = statistics.fmean(differences)
        if len(differences) < LEAST_SEEDS:
            return cls(value=mean, text=f"{text} ({len(differences)} seeds)")
        error = statistics.stdev(differences) / math.sqrt(len(differences))
        return cls(
            value=mean,
            text=f"{text} (± {error:.2g}, {len(differences)} seeds)",
            interval=(mean - 2 * error, mean + 2 * error),
        )

    @classmethod
    def within(cls, differences: Sequence[float], text: str) -> Reading:
        """As `of_seeds`, of how far their mean is from 0, to either side."""
        found = cls.of_seeds(differences, text)
        if found.interval is None:
            return replace(found, value=abs(found.value))
        half = found.interval[1] - found.value
        return replace(found, value=abs(found.value), interval=(abs(found.value) - half, abs(found.value) + half))


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of one issue: `python benchmarks/run.py NAME` prints it."""

    name: str
    title: str
    rows: tuple[Row, ...]

    def row(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(name)


def verdict(measure: Measure, reading: Reading) -> str:
    """`pass` or `short`, `reported` where there is no target, `not resolved` where the interval holds the target; a
    value that is not a finite number is short."""
    if not math.isfinite(reading.value):
        return SHORT
    target = measure.target if reading.target is None else reading.target
    if not measure.relation:
        return REPORTED
    low, high = reading.interval or ((-math.inf, math.inf) if measure.is_accuracy else (target, target))
    if low < target < high:
        return NOT_RESOLVED
    return PASS if (reading.value >= target if measure.relation == ">=" else reading.value <= target) else SHORT


def figures(row: Row, readings: Sequence[Reading], *, quick: bool = False) -> list[Figure]:
    """The lines of a row that ran. Raises ValueError when it did not read each of its measures."""
    return [
        Figure(
            row=row.name,
            measure=measure.name,
            target=measure.target_text(),
            figure=reading.text,
            verdict=QUICK if quick else verdict(measure, reading),
            value=reading.value if math.isfinite(reading.value) else None,
            settings=row.settings,
        )
        for measure, reading in zip(row.measures, readings, strict=True)
    ]


def missing(row: Row, why: str) -> list[Figure]:
    """The lines of a row that could not be measured."""
    return _without_figures(row, NOT_MEASURED, why)


def failed(row: Row, why: str) -> list[Figure]:
    """The lines of a row that was run and ended with an error."""
    return _without_figures(row, FAILED, why)


def _without_figures(row: Row, verdict: str, why: str) -> list[Figure]:
    why = " ".join(why.split()) or "no reason was given"
    return [
        Figure(
            row=row.name,
            measure=measure.name,
            target=measure.target_text(),
            figure="–",
            verdict=verdict + why,
            settings=row.settings,
        )
        for measure in row.measures
    ]


def exit_code(lines: Sequence[Figure]) -> int:
    """0 when every line passed, is reported or a quick one, else 1."""
    return 0 if lines and all(line.verdict.removesuffix(STALE) in (PASS, REPORTED, QUICK) for line in lines) else 1


def number(value: float) -> str:
    """A number for people: four digits at most, thousands and millions shortened."""
    if not math.isfinite(value):
        return str(value)
    if abs(value) >= 1e6:
        return f"{value / 1e6:.2f} M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:.0f} k"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def ratio_reading(ours: Sequence[float], theirs: Sequence[float], unit: str, *, peer: str = "gensim") -> Reading:
    """Median of the ratios of alternating pairs, their spread, and both medians in `unit`."""
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    middle = statistics.median(ratios)
    spread = f" ({min(ratios):.3g}–{max(ratios):.3g}, {len(ratios)} pairs)" if len(ratios) > 1 else ""
    sides = f"{number(statistics.median(ours))} / {peer} {number(statistics.median(theirs))} {unit}"
    return Reading(value=middle, text=f"{middle:.3g}×{spread}; {sides}")


def quality_readings(
    ours: Mapping[str, Sequence[float]], theirs: Mapping[str, Sequence[float]], names: Sequence[str]
) -> list[Reading]:
    """The mean of all scores first, then each score; one value a seed, in points.

    Targets: mean >= the peer's mean - 0.3; each >= the peer's - max(0.5, 2 standard errors of the difference of means).
    """
    our_means = [statistics.fmean(ours[name]) for name in names]
    their_means = [statistics.fmean(theirs[name]) for name in names]
    mine, other = statistics.fmean(our_means), statistics.fmean(their_means)
    seeds = [[statistics.fmean(scores) for scores in zip(*(side[name] for name in names), strict=True)]
             for side in (ours, theirs)]  # fmt: skip
    error = standard_error(*seeds)
    text = f"{mine:.2f} / gensim {other:.2f} ({mine - other:+.2f}, standard error {error:.2f})"
    has_interval = len(seeds[0]) >= LEAST_SEEDS
    around = (mine - 2 * error, mine + 2 * error) if has_interval else None
    readings = [Reading(value=mine, target=other - 0.3, text=text, interval=around)]
    for name, mine, other in zip(names, our_means, their_means, strict=True):
        error = standard_error(ours[name], theirs[name])
        margin = max(0.5, 2 * error)
        text = f"{mine:.2f} / gensim {other:.2f} ({mine - other:+.2f}, standard error {error:.2f})"
        readings.append(Reading(value=mine, target=other - margin, text=text))
    return readings


def standard_error(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Standard error of the difference of two means (Welch); a side with one value adds nothing."""
    return math.sqrt(sum(statistics.variance(side) / len(side) for side in (ours, theirs) if len(side) > 1))


def markdown(lines: Sequence[Figure], notes: Sequence[str] = ()) -> str:
    """The table as Markdown, for the README; `notes` follow as a paragraph."""
    text = markdown_grid(_HEADER, (line.cells for line in lines))
    return "\n".join([text, *notes, ""]) if notes else text


def markdown_grid(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """These cells as a table of Markdown."""
    text = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (header, *rows)]
    text.insert(1, "|" + "---|" * len(header))
    return "\n".join(text) + "\n"


def plain(lines: Sequence[Figure]) -> str:
    """The table in columns for a terminal."""
    cells = [_HEADER, *(line.cells for line in lines)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEADER))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )
