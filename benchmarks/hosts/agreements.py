"""Every agreement beside the others: 8 logical hosts on the first 2 M words; bytes, staleness, quality."""

from __future__ import annotations

from typing import Any

from benchmarks.bench import Bench
from benchmarks.hosts.accuracy import WORDS, final_score, first_words, run_on_hosts
from benchmarks.table import Measure, Reading, Row

HOSTS, EPOCHS = 8, 4
AGREEMENTS = (
    "adasum", "adasum-symmetric", "blend", "mean", "sum", "ds-sync:random", "ds-sync:butterfly:2", "ds-sync:topology",
    "leader", "elastic", "gaia", "server:async", "server:bounded:1", "server-mean", "frequent",
)  # fmt: skip


def agreements(bench: Bench) -> list[Reading]:
    """One reading for each agreement, all at one learning rate: mean of the five measures, its bytes in the text."""
    text = first_words(bench)
    one = final_score(run_on_hosts(bench, "SkipGram", WORDS, None, text, _epochs(bench)))
    readings = []
    for sync in AGREEMENTS[: 3 if bench.tiny else None]:
        spread = {"logical_hosts": 4 if bench.quick else HOSTS, "sync": sync}
        found = run_on_hosts(bench, "SkipGram", WORDS, spread, text, _epochs(bench))
        readings.append(Reading(value=final_score(found), text=_text(found, one)))
    return readings + readings[-1:] * (len(AGREEMENTS) - len(readings))


def _text(found: dict[str, Any], one: float) -> str:
    sent = sum(found["bytes_by_kind"].values()) - found["bytes_by_phase"].get("gather", 0)
    per_round = sent / found["rounds"] / found["hosts"]
    stale = found.get("staleness")
    late = f"staleness up to {max(map(int, stale))} rounds" if stale else "no staleness"
    return f"{final_score(found):.2f} / one host {one:.2f}; {per_round / 1e6:.1f} MB a round and host; {late}"


def _epochs(bench: Bench) -> int:
    return 1 if bench.quick else EPOCHS


ROWS = (
    Row(
        name="agreements",
        measures=tuple(
            Measure(
                name=f"{sync}: mean of five, {HOSTS} logical hosts, first 2 M words", relation="", wording="reported"
            )
            for sync in AGREEMENTS
        ),
        run=agreements,
        minutes=15,
        settings="one rate for all, not tuned",
        keeps_runs=True,
    ),
)
