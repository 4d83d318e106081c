"""Every agreement beside the others: 32 logical hosts on the first 4 M words; bytes, staleness, quality."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.bench import Bench
from benchmarks.hosts.word_runs import CHOSEN, HOSTS, ONE, Setting, best_rate, judged_runs, score_of, sent_of
from benchmarks.table import Measure, Reading, Row
from benchmarks.words.halves import JUDGE

AGREEMENTS = (
    "adasum", "adasum-symmetric", "blend", "spectral", "mean", "sum", "ds-sync:random", "ds-sync:butterfly:2",
    "ds-sync:topology", "leader", "elastic", "gaia", "server:async", "server:bounded:1", "server-mean", "frequent",
)  # fmt: skip
SETTING = Setting(epochs=4, rounds=12, words=4_000_000, tuning_epochs=4, seeds=(1, 2))


def agreements(bench: Bench) -> list[Reading]:
    """One reading for each agreement, at its own learning rate: mean of the five measures, its bytes in the text."""
    chosen = AGREEMENTS[: 3 if bench.tiny else None]
    one, *found = bench.each(lambda side: judged_runs(bench, SETTING, side), (ONE, *chosen))
    readings = [
        Reading(value=_mean(runs), text=_text(runs, _mean(one), best_rate(bench, SETTING, sync)))
        for sync, runs in zip(chosen, found, strict=True)
    ]
    return readings + readings[-1:] * (len(AGREEMENTS) - len(readings))


def _text(runs: list[dict[str, Any]], one: float, rate: float) -> str:
    per_round = sent_of(runs[0]) / runs[0]["rounds"] / runs[0]["hosts"]
    stale = runs[0].get("staleness")
    late = f"staleness up to {max(map(int, stale))} rounds" if stale else "no staleness"
    shown = f"{_mean(runs):.2f} (rate {rate:g}) / one host {one:.2f}"
    return f"{shown}; {per_round / 1e6:.1f} MB a round and host; {late}; {len(runs)} seeds"


def _mean(runs: list[dict[str, Any]]) -> float:
    return statistics.fmean(score_of(run, JUDGE) for run in runs)


ROWS = (
    Row(
        name="agreements",
        measures=tuple(
            Measure(
                name=f"{sync}: mean of five, {HOSTS} logical hosts, first 4 M words", relation="", wording="reported"
            )
            for sync in AGREEMENTS
        ),
        run=agreements,
        minutes=90,
        settings=CHOSEN,
        keeps_runs=True,
    ),
)
