"""Rows about many hosts that are modeled: the order of volumes, and the speed-up of 32 hosts of 48 cores.

What is counted: the rows that each host of a round reads, by the inspection pass over the very tokens; the bytes that
follow are those of the wire, to the byte. What is measured: the kernel's words/s on one thread of this machine, what
agreeing on those very rows takes a host, on one thread (`inspected.agreement_of`; what a byte and a message cost comes
from `plan-check`). What is modeled: more threads, no faster than memory, the link, and that rounds are alike.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.bench import Bench
from benchmarks.hosts.inspected import (
    Inspected,
    Setting,
    agreement_of,
    block_of,
    inspect_round,
    parts_of_round,
    planted_setting,
)  # fmt: skip
from benchmarks.hosts.plan_check import PLAN_CHECK
from benchmarks.table import Measure, Reading, Row, number

if TYPE_CHECKING:
    from any2vec.plan.cost.hosts import Costs, SchemePlan

SCHEMES = ("rep-base", "rep-opt", "pull-base", "pull-opt")
HOSTS, THREADS = 32, 48
NUM_ROWS, WORDS, DIM, WINDOW, NUM_NEGATIVES, SUBSAMPLE, EPOCHS, SENTENCE = (
    399_000, 665_500_000, 200, 5, 15, 1e-4, 16, 10_000,
)  # fmt: skip
"""the reference's 1-billion-word settings (GraphAny2Vec, IPDPS 2021, section 5)"""
MEMORY_BANDWIDTH = 205e9
"""bytes/s of the reference's host: two processors with six channels of DDR4-2666 each, four fifths of their peak"""
EFFICIENCY = 0.92
"""of each of two threads beside the other, as the row `two-threads` measures it; taken to hold for 48"""
LINK = "100Gbit,2us"


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A setting of the agreement for the modeled speed-up."""

    scheme: str = "pull-opt"
    rule: str = "spectral"
    rounds: int = 48
    bits: int = 8
    is_overlapped: bool = False

    def words(self) -> str:
        """For people."""
        extra = [f"{THREADS} threads agree", *(["overlapped"] if self.is_overlapped else [])]
        return f"{self.rule}, {self.scheme}, {self.rounds} rounds, {self.bits} bits, {', '.join(extra)}"


SCENARIO = Scenario()
"""the one that is judged"""
BESIDE = tuple(
    Scenario(rule=rule, rounds=rounds, bits=bits, is_overlapped=is_overlapped)
    for rule in ("spectral", "blend")
    for is_overlapped in (False, True)
    for rounds, bits in ((48, 32), (48, 8), (96, 8))
)
"""shown beside it"""


def modeled_speedup(bench: Bench) -> list[Reading]:
    """32 hosts over one such host, and words/s of all hosts; bytes counted on a planted text, the link modeled."""
    pace = one_thread_pace(bench)
    found = {scenario: speedup(bench, scenario, pace) for scenario in dict.fromkeys((SCENARIO, *BESIDE))}
    bench.runs["one_thread_words_per_s"] = pace
    bench.runs["scenarios"] = [asdict(scenario) | asdict(plan) for scenario, plan in found.items()]
    plan = found[SCENARIO]
    beside = "; ".join(f"{other.words()} {one.speedup:.3g}×" for other, one in found.items() if other != SCENARIO)
    parts = ", ".join(f"{name} {seconds * 1e3:.1f} ms" for name, seconds in plan.round_seconds.items())
    text = f"{plan.speedup:.3g}× ({SCENARIO.words()}; a round {parts}; modeled); beside it {beside}"
    words = f"{number(plan.items_per_s)} words/s modeled, one host {number(plan.items_per_s / plan.speedup)}, "
    words += f"one thread {number(pace)} measured; {plan.bytes_per_host / 1e6:,.0f} MB a host and round counted"
    return [Reading(value=plan.speedup, text=text), Reading(value=plan.items_per_s, text=words)]


def speedup(bench: Bench, scenario: Scenario, pace: float, costs: Costs | None = None) -> SchemePlan:
    """One scenario; pace: words/s of one thread."""
    from any2vec.cluster.link import parse_link
    from any2vec.plan.cost.estimate import Rates, RunShape
    from any2vec.plan.cost.hosts import Costs, Pace, Spread, accessed_bytes, agree_numbers, plan_scheme
    from any2vec.plan.cost.occupancy import of_counts
    from any2vec.sync.options.rules import is_curved
    from any2vec.tasks.words.sizing import reading_of

    setting, inspected = counted_round(bench, scenario)
    found = of_counts(setting.counts)
    keep_rate = found.keep_rate(SUBSAMPLE)
    draws = reading_of(setting.model, block_of(setting), keep_rate * WORDS / setting.positions).draws
    host = Pace(
        thread_items_per_s=pace, efficiency=EFFICIENCY, memory_bandwidth=MEMORY_BANDWIDTH,
        bytes_per_item=accessed_bytes(DIM, keep_rate, draws),
    )  # fmt: skip
    shape = RunShape(rows=NUM_ROWS, dim=DIM, items=WORDS, epochs=EPOCHS, threads=THREADS, tokens=setting.positions)
    rates = Rates(items_per_s=host.items_per_s(THREADS), read_bytes_per_s=1e9)
    spread = Spread(
        hosts=HOSTS, rounds_per_epoch=scenario.rounds, scheme=scenario.scheme, bits=scenario.bits,
        link=parse_link(LINK), is_overlapped=scenario.is_overlapped, is_curved=is_curved(scenario.rule),
    )  # fmt: skip
    own = costs or replace(Costs(), inspect_items_per_s=inspected.items / inspected.seconds)
    own, sets = replace(own, threads=THREADS), inspected.of(scenario.scheme)
    if costs is None:
        agreed = bench.once(
            ("agreed", scenario.rule, scenario.rounds, scenario.bits),
            lambda: agreement_of(inspected, scenario.rule, DIM, scenario.bits, THREADS, MEMORY_BANDWIDTH),
        )
        seconds = agreed.side_by_side + agreed.alone  # the curvature's among them
        number_seconds = seconds * THREADS / agree_numbers(shape, spread, sets)
        own = replace(own, number_seconds=number_seconds, curve_seconds=0.0, eigen_seconds=0.0)
        bench.runs.setdefault("agreements", {})[scenario.words()] = asdict(agreed)
    return plan_scheme(shape, rates, spread, own, sets)


def counted_round(bench: Bench, scenario: Scenario) -> tuple[Setting, Inspected]:
    """The true sets of rows of one round of 32 hosts on a planted text: 433 k words a host at 48 rounds."""
    words = WORDS // (HOSTS * scenario.rounds) // (400 if bench.tiny else 20 if bench.quick else 1)

    def inspect() -> tuple[Setting, Inspected]:
        setting = planted_setting(reference_model(), NUM_ROWS, WORDS, HOSTS * words, SENTENCE)
        size = len(setting.tokens)
        parts = [(size * host // HOSTS, size * (host + 1) // HOSTS) for host in range(HOSTS)]
        found = inspect_round(setting, parts)
        return replace(setting, tokens=setting.tokens[:0]), found  # 50 MB that nobody needs any more

    found: tuple[Setting, Inspected] = bench.once(("planted round", words), inspect)
    return found


def reference_model() -> Any:
    from any2vec import SkipGram

    return SkipGram(dim=DIM, window=WINDOW, num_negatives=NUM_NEGATIVES, subsample=SUBSAMPLE)


def one_thread_pace(bench: Bench) -> float:
    """words/s of the kernel on one thread at the reference's settings, median of three."""
    from any2vec.options.run import RunOptions
    from any2vec.tasks.words.sizing import size_of_plan

    paces = [
        size_of_plan(reference_model(), NUM_ROWS, WORDS, RunOptions(threads=1)).rates.items_per_s
        for _ in range(1 if bench.quick else 3)
    ]
    bench.runs["one_thread_words_per_s_each"] = paces
    return sorted(paces)[len(paces) // 2]


def order_of_volume(bench: Bench) -> list[Reading]:
    """Bytes of a round on the corpus, 32 hosts, by scheme, for shared and for classic negatives."""
    from any2vec.sync.options.rounds import RoundAgreement

    rounds = RoundAgreement().rounds(HOSTS)
    readings = []
    for kernel in ("block", "classic"):
        volumes = counted_volumes(bench, kernel, rounds)
        bench.runs[kernel] = volumes
        order = sorted(volumes, key=lambda scheme: volumes[scheme], reverse=True)
        is_right = order[0] == "rep-base" and order[-1] == "pull-opt"
        text = " > ".join(f"{scheme} {volumes[scheme] / 1e6:.1f}" for scheme in order)
        text += f" MB a host and round; {why(volumes)}"
        readings.append(Reading(value=float(is_right), text=text))
    return readings


def counted_volumes(bench: Bench, kernel: str, rounds: int) -> dict[str, int]:
    """Bytes that a host sends in a round, on average over the hosts and three rounds of an epoch, by scheme."""
    from any2vec.models.words.source import StoredTokens
    from any2vec.plan.cost.volume import round_volume

    setting = corpus_setting(bench, kernel)
    boundary = StoredTokens(setting.tokens, block_of(setting)).boundary
    numbers = (0,) if bench.quick else (0, rounds // 2, rounds - 1)
    totals = dict.fromkeys(SCHEMES, 0)
    for at in numbers:
        found = inspect_round(setting, parts_of_round(setting, boundary, HOSTS, rounds, at))
        for scheme in SCHEMES:
            volume = round_volume(scheme, len(setting.counts), HOSTS, setting.model.dim, 32, found.of(scheme))
            totals[scheme] += volume.total()
    return {scheme: total // (HOSTS * len(numbers)) for scheme, total in totals.items()}


def corpus_setting(bench: Bench, kernel: str) -> Setting:
    """text-enwiki2015 with skip-gram's defaults."""
    import numpy as np

    from any2vec import SkipGram
    from any2vec.data.text.text import encode_text

    model = SkipGram(kernel=kernel)  # type: ignore[arg-type]
    corpus = bench.once("encoded words", lambda: encode_text(str(bench.words()), cache_dir=bench.cache))
    vocabulary = corpus.vocabulary.truncate(model.min_count)
    return Setting(model, np.asarray(corpus.tokens), vocabulary.counts, len(corpus.tokens))


def why(volumes: dict[str, int]) -> str:
    """What decides which of the two middle schemes sends more."""
    if volumes["pull-base"] > volumes["rep-opt"]:
        return (
            "so many negatives make nearly every host read most rows: PullModel-Base moves both labels of each, twice, "
            "RepModel-Opt only what changed"
        )
    return (
        "shared negatives are few, so a host reads a small part of the rows, and RepModel-Opt sends everyone what any "
        "of all hosts changed"
    )


ROWS = (
    PLAN_CHECK,
    Row(
        name="order-of-volume",
        measures=tuple(
            Measure(
                name=f"bytes of a round, 32 hosts, text-enwiki2015, {kind} negatives",
                relation=">=",
                target=1,
                wording="Base largest, Pull-Opt smallest",
            )
            for kind in ("shared", "classic")
        ),
        run=order_of_volume,
        minutes=2,
    ),
    Row(
        name="modeled-speedup",
        measures=(
            Measure(
                name="32 hosts of 48 cores, 100 Gbit/s, over one such host, 1-billion-word settings, modeled",
                relation=">=",
                target=12,
                unit="x",
            ),
            Measure(name="words/s of all hosts, modeled", relation="", wording="reported"),
        ),
        run=modeled_speedup,
        minutes=2,
    ),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row's readings alone: `python benchmarks/hosts/modeled.py modeled-speedup [--quick]`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("row", choices=[row.name for row in ROWS])
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(arguments)
    bench = Bench(quick=options.quick)
    row = next(row for row in ROWS if row.name == options.row)
    for measure, reading in zip(row.measures, row.run(bench), strict=True):
        print(f"{measure.name}: {reading.text}")
    print(json.dumps(bench.runs), file=sys.stderr)


if __name__ == "__main__":
    main()
