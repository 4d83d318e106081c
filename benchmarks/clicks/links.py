"""Rows about click models whose hosts have links of their own: what synchronization and rows cost during training.

Hosts are processes in network namespaces on one machine.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.bench import Bench
from benchmarks.clicks.hosts import pool_of, run_hosts, steps_of, warm_up
from benchmarks.clicks.slow import ROWS as SLOW
from benchmarks.machine.namespaces import BURST, QUEUE, network
from benchmarks.table import Measure, Reading, Row, RowError, number

CAPS = (10, 5, 1)
"""Mbit/s of the link to the sync server"""
REPEATS = 7
SYNC_SECONDS = 20.0
SYNC_BATCH, SYNC_BATCHES = 128, 400
LEAST_SPEED, MOST_FIXED, LEAST_USE, LEAST_BUSY = 0.95, 0.95, 0.7, 0.9

LATENCY = 0.001
LINE = "100mbit"
LOOKS = (1, 10, 50)
LOOK_AHEAD = 200
ROW_BATCH, ROW_STEPS, ROW_WARM = 2048, 40, 100
ROW_PAIRS = 5
LAYERS = ("--bottom", "512-256-64", "--top", "512-256")
"""of the row about one host"""


def isolation(bench: Bench) -> list[Reading]:
    """Trainers with rows of their own: nothing but batches keeps their cores busy, and nothing leaves them idle."""
    return _isolation(bench, "--local-rows")


def isolation_served(bench: Bench) -> list[Reading]:
    """Trainers that wait for each other's rows, and leave a part of their cores to whoever synchronizes."""
    return _isolation(bench)


def _isolation(bench: Bench, *where: str) -> list[Reading]:
    """Examples/s with synchronization behind the workers over none, where only the sync server's link is capped."""
    pool = pool_of(bench, 2 * SYNC_BATCH * SYNC_BATCHES)
    caps = CAPS[:1] if bench.quick else CAPS
    speed: dict[str, list[float]] = {}
    shares: dict[str, list[float]] = {}
    used: dict[int, list[tuple[float, float]]] = {cap: [] for cap in caps}
    shadows: dict[int, list[dict[str, Any]]] = {cap: [] for cap in caps}
    with network(3) as net:
        bench.runs["tbf"] = {"burst": BURST, "queue": QUEUE, "ends": "both of the sync server's veth"}

        def run(sync: str, cap: int | None) -> list[dict[str, Any]]:
            if cap is not None:
                net.cap(2, f"{cap}mbit")
            found = run_hosts(
                bench, net, "--pool", pool, "--batch", SYNC_BATCH, "--batches", SYNC_BATCHES, "--sync", sync,
                "--sync-servers", 1, "--warm", 20 if bench.quick else 50,
                "--seconds", 1.5 if bench.tiny else 4 if bench.quick else SYNC_SECONDS, "--cut", *where,
            )  # fmt: skip
            speed.setdefault(_name(sync, cap), []).append(_examples_per_s(found[:2]))
            shares.setdefault(_name(sync, cap), []).append(_worker_share(found[:2]))
            return found

        warm_up(bench, lambda: run("shadow-easgd", None))
        speed.clear()
        shares.clear()
        for repeat in range(1 if bench.quick else REPEATS):
            # Forwards and backwards, so that what drifts is on both sides.
            order = [None, *caps] if repeat % 2 == 0 else [*reversed(caps), None]
            for cap in order:
                if cap is None:
                    run("none", None)
                    continue
                found = run("shadow-easgd", cap)
                used[cap].append(_use_of(found, cap))
                shadows[cap].append(_shadow_of(found))
            for cap in caps if repeat < 3 else ():
                run("fr-easgd:5", cap)
    bench.runs["examples_per_s"] = speed
    bench.runs["share of a core of a trainer's worker"] = shares
    bench.runs["used"] = used
    bench.runs["shadows"] = shadows
    alone = speed["none"]
    readings = [_speed_reading(speed[_name("shadow-easgd", cap)], alone, shadows[cap]) for cap in caps]
    while len(readings) < len(CAPS):
        readings.append(readings[-1])
    fixed = {cap: statistics.median(speed[_name("fr-easgd:5", cap)]) / statistics.median(alone) for cap in caps}
    falls = all(before > after for before, after in zip(fixed.values(), list(fixed.values())[1:], strict=False))
    uses = {cap: tuple(statistics.fmean(column) for column in zip(*used[cap], strict=True)) for cap in caps}
    busy = {name: statistics.median(values) for name, values in shares.items()}
    return [
        *readings,
        Reading(value=busy["none"], text=", ".join(f"{name} {share:.1%}" for name, share in busy.items())),
        Reading(
            value=max(fixed.values()) if falls else float("inf"),
            text=", ".join(f"{share:.3f}× at {cap} Mbit/s" for cap, share in fixed.items()),
        ),
        Reading(
            value=min(share for share, _ in uses.values()),
            text="; ".join(
                f"{cap} Mbit/s: {share:.2f} (the kernel counts {kernel:.2f})" for cap, (share, kernel) in uses.items()
            ),
        ),
    ]


def bagpipe_speed(bench: Bench) -> list[Reading]:
    """Step time with rows on a server behind a cache that looks ahead, over the same step with rows at each trainer."""
    steps, warm = (8, 6) if bench.quick else (ROW_STEPS, ROW_WARM)
    ahead = 10 if bench.quick else LOOK_AHEAD
    batch = 256 if bench.quick else ROW_BATCH
    batches = warm + steps + ahead + 10
    pool = pool_of(bench, 2 * batch * batches)
    common = (
        "--pool", pool, "--batch", batch, "--batches", batches, "--sync", "bsp", "--latency", LATENCY, *LAYERS,
        "--steps", steps, "--cut",
    )  # fmt: skip
    found: dict[str, list[dict[str, Any]]] = {}
    with network(3, LINE) as net:
        goodput = net.goodput()
        bench.runs["tbf"] = {"rate": LINE, "burst": BURST, "goodput": goodput, "latency": f"{LATENCY} s, emulated"}

        def run(cache: str | None, warm: int) -> float:
            """Seconds a step; cache None: rows of one's own."""
            way = ("--local-rows", "--servers", 1) if cache is None else ("--servers", 1, "--cache", cache)
            reported = run_hosts(bench, net, *common, *way, "--warm", warm)
            found.setdefault(cache or "local", []).append(steps_of(reported[:2]))
            return float(found[cache or "local"][-1]["step"])

        short = min(warm, 20)
        warm_up(bench, lambda: (run(None, 2), run(f"bagpipe:{ahead}", 2)))
        found.clear()
        pairs = [(run(None, short), run(f"bagpipe:{ahead}", warm)) for _ in range(1 if bench.quick else ROW_PAIRS)]
        for look in () if bench.quick else LOOKS:
            run(f"bagpipe:{look}", 60)
        demand = run("none", short)
    bench.runs["steps"] = found
    ratios = [cached / own for own, cached in pairs]
    middle, own = statistics.median(ratios), statistics.median(own for own, _ in pairs)
    best = found[f"bagpipe:{ahead}"]
    cached = statistics.median(cached for _, cached in pairs)
    waits = {name: statistics.median(one[name] for one in best) for name in ("fetch", "trainers", "dense")}
    sweep = ", ".join(
        f"L={look} {found[f'bagpipe:{look}'][0]['step'] / own:.2f}×"
        for look in LOOKS if f"bagpipe:{look}" in found
    )  # fmt: skip
    return [
        Reading(
            value=middle,
            text=f"{middle:.2f}× ({min(ratios):.2f}–{max(ratios):.2f}, {len(ratios)} pairs): {1e3 * cached:.0f} / "
            f"{1e3 * own:.0f} ms a step at tbf 100 Mbit/s, measured goodput {goodput / 1e6:.1f} Mbit/s; a step waits "
            f"{1e3 * waits['fetch']:.1f} ms for fetched rows, {1e3 * waits['trainers']:.1f} ms for rows' gradients, "
            f"{1e3 * waits['dense']:.0f} ms for dense ones (own rows: {1e3 * found['local'][0]['dense']:.0f} ms)"
            + (f"; {sweep}" if sweep else ""),
        ),
        Reading(
            value=cached / demand,
            text=f"{cached / demand:.2f}× ({1e3 * cached:.0f} / {1e3 * demand:.0f} ms a step; on demand over own rows "
            f"{demand / own:.2f}×)",
        ),
    ]


def _name(sync: str, cap: int | None) -> str:
    return sync if cap is None else f"{sync} at {cap} Mbit/s"


def _examples_per_s(trainers: Sequence[Mapping[str, Any]]) -> float:
    return sum(float(one["examples"] / one["seconds"]) for one in trainers)


def _worker_share(trainers: Sequence[Mapping[str, Any]]) -> float:
    """Of a core: what a trainer's worker thread uses, whatever runs behind it."""
    return statistics.fmean(one["worker_cpu_seconds"] / one["seconds"] for one in trainers)


def _use_of(hosts: Sequence[Mapping[str, Any]], cap: int) -> tuple[float, float]:
    """How much of the link's cap syncs x bytes is, in the direction in which it is less; and what the kernel counted,
    headers included, at the sync server's end."""
    trainers, line = hosts[:2], hosts[2]["line"]
    begun, ended = max(one["from"] for one in trainers), min(one["to"] for one in trainers)
    seconds = statistics.fmean(one["seconds"] for one in trainers)
    bits = [8 * sum(one["dense"][f"sync_bytes_{way}"] for one in trainers) for way in ("sent", "received")]
    seen = [entry for entry in line if begun <= entry[0] <= ended]
    if len(seen) < 2:
        raise RowError("the sync server's link was not watched")
    first, last = seen[0], seen[-1]
    kernel = min(8 * (last[way] - first[way]) / (last[0] - first[0]) for way in (2, 3))
    return min(bits) / (cap * 1e6 * seconds), kernel / (cap * 1e6)


def _shadow_of(hosts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The sync gaps of both trainers, and shares of a core: of a trainer's shadow, and of the sync server."""
    trainers, line = hosts[:2], hosts[2]["line"]
    gaps: Counter[int] = Counter()
    for one in trainers:
        gaps.update({int(gap): count for gap, count in one["dense"]["sync_gap"].items()})
    between = [entry for entry in line if trainers[0]["from"] <= entry[0] <= trainers[0]["to"]]
    server = (between[-1][1] - between[0][1]) / (between[-1][0] - between[0][0])
    return {
        "gaps": {str(gap): gaps[gap] for gap in sorted(gaps) if gaps[gap]},
        "shadow_share": max(one["dense"]["shadow_cpu_seconds"] / one["seconds"] for one in trainers),
        "server_share": server,
        "syncs": sum(one["dense"]["syncs"] for one in trainers),
        "trainer_share": statistics.fmean(one["cpu_seconds"] / one["seconds"] for one in trainers),
    }


def _speed_reading(ours: Sequence[float], alone: Sequence[float], shadows: Sequence[Mapping[str, Any]]) -> Reading:
    ratios = [mine / other for mine, other in zip(ours, alone, strict=True)]
    middle = statistics.median(ratios)
    gaps = Counter[int]()
    for one in shadows:
        gaps.update({int(gap): count for gap, count in one["gaps"].items()})
    spread = [gap for gap in sorted(gaps) for _ in range(gaps[gap])] or [0]
    tenth, half, ninth = (spread[min(len(spread) - 1, len(spread) * part // 10)] for part in (1, 5, 9))
    share, server = (statistics.median(one[name] for one in shadows) for name in ("shadow_share", "server_share"))
    return Reading(
        value=middle,
        text=f"{middle:.3f}× ({min(ratios):.3f}–{max(ratios):.3f}, {len(ratios)} pairs); "
        f"{number(statistics.median(ours))} / none {number(statistics.median(alone))} examples/s; sync gap {half} "
        f"iterations ({tenth}–{ninth}: 80 % of {len(spread)}); of a core: shadow {share:.1%}, sync server {server:.1%}",
    )


_LINKED = "DLRM, 2 trainers of a thread"


def _isolation_measures(rows: str, busy: Measure) -> tuple[Measure, ...]:
    return (
        *(
            Measure(
                name=f"{_LINKED}, {rows}, shadow-easgd over none, examples/s, the sync server's link at tbf {cap} "
                "Mbit/s",
                relation=">=", target=LEAST_SPEED, unit="x",
            )
            for cap in CAPS
        ),
        busy,
        Measure(
            name="fr-easgd:5 over none, examples/s, at the cap where it is most",
            relation="<=", target=MOST_FIXED, unit="x", wording="falls with the cap",
        ),
        Measure(
            name="syncs × bytes over cap × time, of the link's direction that is used less, at the lowest cap",
            relation=">=", target=LEAST_USE,
        ),
    )  # fmt: skip


_SHARE = "share of a core that a trainer's worker uses without synchronization"
ROWS = (
    Row(
        name="isolation",
        measures=_isolation_measures("rows of its own each", Measure(name=_SHARE, relation=">=", target=LEAST_BUSY)),
        run=isolation,
        minutes=18,
    ),
    Row(
        name="isolation-served",
        measures=_isolation_measures(
            "rows of each other", Measure(name=_SHARE, relation="", wording="reported")
        ),
        run=isolation_served,
        minutes=18,
    ),
    Row(
        name="bagpipe-speed",
        measures=(
            Measure(
                name=f"{_LINKED}, 1 server, tbf 100 Mbit/s, 1 ms emulated: a step with bagpipe:{LOOK_AHEAD} over one "
                "with all rows local (dense exchange in both)",
                relation="<=", target=1.3, unit="x",
            ),
            Measure(name="the same over rows fetched on demand", relation="", wording="reported", unit="x"),
        ),
        run=bagpipe_speed,
        minutes=14,
    ),
    *SLOW,
)  # fmt: skip
