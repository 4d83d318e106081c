"""The table of what a change of the house costs: each task's speed, imports and starts beside an earlier commit."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import Literal

from benchmarks.bench import Bench
from benchmarks.disk.triples_quality import WN18RR, triples_of
from benchmarks.hosts.word_runs import first_words
from benchmarks.table import Measure, Reading, Row, Table
from benchmarks.versions.runs import Run, started, timed, versions
from benchmarks.versions.size import ROW as SIZE

PAIRS, STARTS = 9, 20
LEAST, NEVER_BELOW = 0.97, 0.95
IMPORT_SECONDS = 0.15
HEAVY = ("numba", "torch")
FIGURES = {"items_per_s": "items/s of training", "seconds": "whole command", "cpu_seconds": "CPU seconds"}


@dataclass(frozen=True)
class Case:
    """One command of a task, on one thread a host."""

    name: str
    verb: str
    model: str
    data: Callable[[Bench], Path]
    flags: Callable[[Bench], Sequence[object]]
    judged: Literal["items_per_s", "seconds"] = "items_per_s"

    def run(self, bench: Bench) -> list[Reading]:
        """Median of the ratios of pairs that take turns in being first; each side has run once before."""
        sides, data, flags = versions(bench), self.data(bench), [*self.flags(bench), "--threads", 1]
        pairs: list[tuple[Run, Run]] = []
        for turn in range(-1, 1 if bench.quick else PAIRS):
            found = {place: timed(bench, sides[place], self.verb, self.model, data, flags) for place in _order(turn)}
            if turn >= 0:
                pairs.append((found[0], found[1]))
        bench.runs[self.name] = [[vars(run) for run in pair] for pair in pairs]
        readings = {
            "items_per_s": ratio([now.items_per_s / before.items_per_s for now, before in pairs]),
            "seconds": ratio([before.seconds / now.seconds for now, before in pairs]),
            "cpu_seconds": ratio([before.cpu_seconds / now.cpu_seconds for now, before in pairs]),
        }
        return [readings[name] for name in self.order]

    @property
    def order(self) -> list[str]:
        """Of the measures: the one that is judged comes first."""
        return sorted(FIGURES, key=lambda name: name != self.judged)

    def row(self) -> Row:
        promise = f"median ≥ {LEAST}, or 95 % hold 1 and begin above {NEVER_BELOW}"
        return Row(
            name=self.name,
            measures=(
                Measure(name=f"{self.verb} {self.model}, {FIGURES[self.judged]}: speed over the commit before",
                        relation=">=", target=LEAST, unit="x", wording=promise),
                *(Measure(name=f"the same, {FIGURES[name]}", relation="", wording="reported")
                  for name in self.order[1:]),
            ),
            run=self.run,
            minutes=3,
        )  # fmt: skip


def ratio(ratios: Sequence[float]) -> Reading:
    """Median, with its interval of 95 % by order statistics; judged by that where it falls short of the promise."""
    middle, (low, high) = statistics.median(ratios), interval(ratios)
    text = f"{middle:.3f}× (95 %: {low:.3f} to {high:.3f}, {len(ratios)} pairs)"
    holds_one = low <= 1 <= high and low > NEVER_BELOW
    is_kept = middle >= LEAST or holds_one
    return Reading(
        value=middle, text=text, target=NEVER_BELOW if holds_one else None, interval=None if is_kept else (low, high)
    )


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Of the median: the innermost order statistics that hold it with 95 %; all values where they are too few."""
    ordered, count = sorted(values), len(values)
    outside = 0.0
    for rank in range(count // 2):
        outside += 2 * comb(count, rank) / 2**count
        if outside > 0.05:
            return ordered[max(rank - 1, 0)], ordered[-max(rank, 1)]
    return ordered[0], ordered[-1]


def _order(turn: int) -> tuple[int, int]:
    return (0, 1) if turn % 2 == 0 else (1, 0)


def imports(bench: Bench) -> list[Reading]:
    """`import any2vec`: median of 20 less that of bare Python, in turns; and whether a heavy library came along."""
    now, _ = versions(bench)
    check = f"import any2vec, sys; sys.exit(any(name in sys.modules for name in {HEAVY!r}))"
    started(now, check)
    pairs = [(started(now, "import any2vec"), started(now, "pass")) for _ in range(2 if bench.quick else STARTS)]
    bench.runs["seconds of a process with the import, and of one without"] = pairs
    seconds = statistics.median(mine for mine, _ in pairs) - statistics.median(bare for _, bare in pairs)
    return [Reading(value=seconds, text=f"{seconds:.3f} s; neither {' nor '.join(HEAVY)}")]


def _planted_clicks(bench: Bench) -> Path:
    from any2vec.testing.planted_clicks import PlantedClicks, write_tsv

    clicks = PlantedClicks(1000 if bench.quick else 60_000)
    return bench.made(f"versions-clicks-{clicks.num_examples}.tsv", lambda target: write_tsv(clicks, target))


def _few_words(bench: Bench) -> Path:
    return bench.made("versions-few-words.txt", lambda target: target.write_text("one two three four five\n" * 2000))


def _edges(bench: Bench) -> Path:
    return bench.edges("ppi" if bench.quick else "blogcatalog")


def _cora(bench: Bench) -> list[object]:
    parts = {"--features": "features.npz", "--labels": "labels.txt.gz", "--split": "split.txt.gz"}
    return [text for flag, name in parts.items() for text in (flag, bench.data(f"graph-planetoid/cora.{name}"))]


def _epochs(full: int, *flags: object) -> Callable[[Bench], list[object]]:
    return lambda bench: [*flags, "--epochs", 1 if bench.quick else full]


def _triples(bench: Bench) -> Path:
    return triples_of(bench, WN18RR.archive, "train")


TRIPLES = ("--dim", 64, "--num-negatives", 500)
LARGE = ("--dim", 256, "--num-negatives", 100, "--batch-size", 500, "--memory", "430MB")
"""some 40 partitions on disk"""
CASES = (
    Case("words", "train", "skipgram", first_words, _epochs(3)),
    Case("nodes", "train", "deepwalk", _edges, _epochs(1, "--walks-per-node", 6, "--walk-length", 40)),
    Case("hosts", "train", "skipgram", first_words, _epochs(3, "--logical-hosts", 2, "--sync", "adasum")),
    Case("triples", "train", "complex", _triples, _epochs(8, *TRIPLES)),
    Case("disk", "train", "complex", _triples, _epochs(3, *LARGE)),
    Case("clicks", "train", "dlrm", _planted_clicks,
         lambda bench: ["--schema", _planted_clicks(bench).with_suffix(".toml"), "--epochs", 1]),
    Case("layers", "train", "ga-mlp", lambda bench: bench.data("graph-planetoid/cora.edges.txt.gz"),
         lambda bench: [*_cora(bench), "--epochs", 3 if bench.quick else 200]),
    Case("streams", "stream", "skipgram", first_words, lambda bench: []),
    Case("start", "train", "skipgram", _few_words, _epochs(1), judged="seconds"),
)  # fmt: skip

TABLE = Table(
    name="versions",
    title="Each task beside the commit before the house was rebuilt, one thread a host",
    rows=(
        *(case.row() for case in CASES),
        Row(
            name="import",
            measures=(
                Measure(name=f"import any2vec less bare Python, median of {STARTS}", relation="<=",
                        target=IMPORT_SECONDS, wording=f"≤ {IMPORT_SECONDS} s, without {' or '.join(HEAVY)}"),
            ),
            run=imports,
            minutes=0.2,
        ),
        SIZE,
    ),
)  # fmt: skip
