"""Row about `any2vec plan`: its constants are fitted on real runs of 2 hosts, and it then foretells runs of 4.

Hosts are processes of this machine; where they are more than its cores each is taken to be slower in proportion, so the
machine must have nothing else to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from benchmarks.bench import Bench
from benchmarks.table import Measure, Reading, Row
from benchmarks.words.text import warm_up

if TYPE_CHECKING:
    from any2vec.plan.cost.hosts import Costs, Spread
    from any2vec.tasks.words.sizing import Sized

FITTED = tuple((2, scheme, rounds) for scheme in ("pull-opt", "rep-opt", "rep-base") for rounds in (3, 24))
UNSEEN = tuple((4, scheme, rounds) for scheme in ("pull-opt", "rep-opt", "rep-base") for rounds in (6, 24))
QUICK = 1
"""of each, in a quick run"""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One run: what the plan takes, and what was counted and measured."""

    spread: Spread
    seconds: float
    """of training, agreements included"""
    agree_seconds: float
    num_bytes: int
    """that all hosts sent in rounds"""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What the runs of 2 hosts say of a host."""

    items_per_s: float
    """of a host while all cores are busy, agreements apart"""
    costs: Costs


def plan_check(bench: Bench) -> list[Reading]:
    """The worst of several runs of 4 hosts: training time and bytes as |plan / run - 1|."""
    warm_up(bench, "skipgram")
    sized = _sized(bench)
    fitted = [_run(bench, *how) for how in (FITTED[:QUICK] if bench.quick else FITTED)]
    found = fit(sized, fitted)
    bench.runs["fit"] = asdict(found)
    times, sizes = [], []
    for how in UNSEEN[:QUICK] if bench.quick else UNSEEN:
        seen = _run(bench, *how)
        seconds, num_bytes = predict(sized, found, seen.spread)
        name = f"{seen.spread.scheme} {seen.spread.rounds_per_epoch} rounds"
        times.append((seconds / seen.seconds - 1, name))
        sizes.append((num_bytes / seen.num_bytes - 1, name))
        bench.runs[name] = {"run": asdict(seen), "plan": {"seconds": seconds, "bytes": num_bytes}}
    return [_worst(times), _worst(sizes)]


def fit(sized: Sized, runs: Sequence[Seen]) -> Fit:
    """The pace of compute, and what agreeing costs: least squares without negative constants, over runs alike."""
    import numpy as np
    from scipy.optimize import nnls

    from any2vec.plan.cost.hosts import Costs

    spent = sum(run.seconds - run.agree_seconds for run in runs)
    items = sum(sized.shape.items / run.spread.hosts * crowding(run.spread.hosts) for run in runs)
    table = np.array([_features(sized, run.spread) for run in runs])
    # Relative errors: a run of seconds counts as much as one of minutes.
    measured = np.array([run.agree_seconds for run in runs])
    constants, _ = nnls(table / measured[:, None], np.ones(len(runs)))
    inspect, numbers, sent, messages = (float(constant) for constant in constants)
    costs = Costs(
        inspect_items_per_s=1 / max(inspect, 1e-12), number_seconds=numbers, byte_seconds=sent, message_seconds=messages
    )
    return Fit(items_per_s=items / spent, costs=costs)


def predict(sized: Sized, found: Fit, spread: Spread) -> tuple[float, int]:
    """(seconds of training, bytes of its rounds) of a run, on this machine's cores."""
    from any2vec.plan.cost.hosts import plan_scheme

    rates = replace(sized.rates, items_per_s=found.items_per_s)
    plan = plan_scheme(sized.shape, rates, spread, found.costs, _sets(sized, spread))
    rounds = spread.rounds_per_epoch * sized.shape.epochs
    return crowding(spread.hosts) * plan.epoch_seconds * sized.shape.epochs, rounds * plan.bytes_per_round


def crowding(hosts: int) -> float:
    """How much slower a host of one thread is because hosts share this machine's cores."""
    from any2vec.machine import usable_cores

    return max(1.0, hosts / usable_cores())


def _features(sized: Sized, spread: Spread) -> list[float]:
    """Seconds of agreement of a whole run if one constant were 1 and the others 0, for each; plans are linear in them.

    The constants are those of inspection, numbers, bytes and messages.
    """
    from any2vec.plan.cost.hosts import agree_seconds
    from any2vec.plan.cost.volume import round_volume

    shape, sets = sized.shape, _sets(sized, spread)
    volume = round_volume(spread.scheme, shape.rows, spread.hosts, shape.dim, spread.bits, sets)
    nothing = {"inspect_items_per_s": float("inf"), "number_seconds": 0.0, "byte_seconds": 0.0, "message_seconds": 0.0}
    items = shape.items / (spread.hosts * spread.rounds_per_epoch)
    rounds = spread.rounds_per_epoch * shape.epochs * crowding(spread.hosts)
    return [
        rounds * sum(agree_seconds(shape, spread, _costs(nothing | {name: 1.0}), sets, volume, items).values())
        for name in nothing
    ]


def _costs(constants: dict[str, float]) -> Costs:
    from any2vec.plan.cost.hosts import Costs

    return Costs(**constants)  # type: ignore[arg-type]


def _sets(sized: Sized, spread: Spread) -> Any:
    from any2vec.plan.cost.occupancy import expected_sets

    return expected_sets(sized.found, sized.reading, spread.hosts, spread.rounds_per_epoch, spread.scheme)


def _sized(bench: Bench) -> Sized:
    """The shape of the runs; its pace is not measured, the runs tell it."""
    from any2vec import SkipGram
    from any2vec.options.run import RunOptions
    from any2vec.tasks.words.sizing import size_of_input

    run = RunOptions(epochs=1, threads=1, cache_dir=bench.cache)
    return size_of_input(SkipGram(), str(bench.words()), run, pace=1.0)


def _run(bench: Bench, hosts: int, scheme: str, rounds: int) -> Seen:
    from any2vec.plan.cost.hosts import Spread

    result = bench.any2vec(
        "train", "skipgram", bench.words(), "--epochs", 1, "--threads", 1, "--hosts", hosts,
        "--sync", "blend", "--scheme", scheme, "--rounds-per-epoch", rounds,
        "--out", bench.scratch("any2vec-hosts"), "--overwrite",
    ).result  # fmt: skip
    phases = ("inspect", "pull", "reduce", "broadcast")
    return Seen(
        spread=Spread(hosts=hosts, rounds_per_epoch=rounds, scheme=scheme),
        seconds=result["train_seconds"],
        agree_seconds=result["agree_seconds"],
        num_bytes=sum(result["bytes_by_phase"].get(phase, 0) for phase in phases),
    )


def _worst(errors: list[tuple[float, str]]) -> Reading:
    error, name = max(errors, key=lambda one: abs(one[0]))
    shown = ", ".join(f"{other} {value:+.1%}" for value, other in errors)
    return Reading(value=abs(error), text=f"{error:+.1%} at worst ({name}); {shown}")


PLAN_CHECK = Row(
    name="plan-check",
    measures=(
        Measure(
            name="training time of 4 hosts (processes) foretold from 2 hosts, worst of six runs",
            relation="",
            wording="error stated",
        ),
        Measure(
            name="bytes of their rounds, foretold from the counts of words, worst of six runs",
            relation="",
            wording="error stated",
        ),
    ),
    run=plan_check,
    minutes=8,
)
