"""The plan of a run over hosts, from a model and what was found out about its input."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from any2vec import machine
from any2vec.errors import InputError
from any2vec.plan.cost.estimate import TEXT, HostPart, part_of_graph, part_of_text
from any2vec.plan.cost.hosts import Costs, Pace, RunPlan, Spread, accessed_bytes, check_pace, plan_run
from any2vec.plan.cost.size import Forecast
from any2vec.sync.options.names import MERGES
from any2vec.sync.options.rules import is_curved
from any2vec.tasks.words.agreement import agreement_of
from any2vec.tasks.words.sizing import Sized, size_of_input, size_of_plan
from any2vec.train.task import with_best
from any2vec.units import duration, number, parts, size

if TYPE_CHECKING:
    from any2vec.options.planning import HostMachines, TokenShape
    from any2vec.train.spec import RunSpec
    from any2vec.types import Stage

_SAID = {
    "compute": "training", "inspect": "finding rows", "merge": "merging rows",
    "curvature": "the curvature of rows", "handle": "copies and messages", "link": "links",
}  # fmt: skip
"""parts of a round, as JSON has them -> in words"""


def plan_hosts(
    sized: Sized, spread: Spread, threads: int, *, efficiency: float = 0.92, memory_bandwidth: float = 0.0,
    costs: Costs | None = None, cut: str | None = None,
) -> RunPlan:  # fmt: skip
    """The plan of a run of which one thread's needs are known.

    sized: with one thread; threads: of each host; memory_bandwidth: of each host, bytes/s, 0: no limit; cut: how the
    input is cut into parts, one a host: "text", or the partition of a graph; None: every host holds all of it.

    Raises:
        InputError: a rate is not legal.
    """
    shape = sized.shape
    pace = Pace(
        thread_items_per_s=sized.rates.items_per_s, efficiency=efficiency, memory_bandwidth=memory_bandwidth,
        bytes_per_item=accessed_bytes(shape.dim, sized.found.keep_rate(sized.reading.subsample), sized.reading.draws),
    )  # fmt: skip
    check_pace(pace)
    rates = replace(
        sized.rates, items_per_s=pace.items_per_s(threads), walk_items_per_s=sized.rates.walk_items_per_s * threads
    )
    shape = replace(shape, threads=threads)
    part = None if cut is None or spread.hosts == 1 else _part_of(sized, spread, cut)
    return plan_run(shape, rates, spread, sized.found, sized.reading, costs, part)


def _part_of(sized: Sized, spread: Spread, cut: str) -> HostPart:
    """What the fullest host holds of the input. Of a shape without edges, walks are taken to have no dead ends."""
    if cut == TEXT:
        return part_of_text(sized.shape, spread.hosts)
    from any2vec.sampling.distributed_walks import IN_FLIGHT, bytes_in_flight

    walker, in_all = sized.walker, spread.hosts * spread.rounds_per_epoch
    slots = sized.shape.items if walker is None else walker.num_walks * walker.stride
    # Under way are at most as many walkers as a round has walks, on average spread evenly over the hosts. Copied rows
    # are left out: hardly any step asks for one.
    under_way = 0 if walker is None else min(IN_FLIGHT, -(-walker.num_walks // spread.rounds_per_epoch)) // spread.hosts
    return part_of_graph(
        sized.shape, None if walker is None else walker.csr.indptr, spread.hosts, cut, round_slots=-(-slots // in_all),
        walkers_bytes=0 if walker is None else bytes_in_flight(under_way, walker.options.walk_length, 0, 0),
    )  # fmt: skip


def plan_words(spec: RunSpec, shape: TokenShape, machines: HostMachines, stage: Stage) -> Forecast:
    """What a run over hosts needs, sends and takes. shape: has rows where there are no data.

    Raises:
        InputError: an option is not legal, the agreement is none that can be planned, or there is a budget.
    """
    if spec.storage.memory is not None:
        raise InputError(
            "any2vec plan is for rows in memory; leave out memory, or see any2vec estimate, which lays rows out within "
            "a budget."
        )
    run = replace(spec.run, threads=1)
    threads = spec.run.threads or machine.usable_cores()
    spread, cut = _spread(spec), TEXT if spec.hosts.read == "parts" else spec.hosts.partition
    limit, pace = machines.bandwidth, machines.pace
    if shape.rows is not None:
        sized = size_of_plan(spec.model, shape.num_rows, shape.num_tokens, run, exponent=shape.zipf, pace=pace)
    else:
        text, graph = spec.reading.get("text"), spec.reading.get("graph")
        sized = size_of_input(spec.model, spec.data, run, text=text, graph=graph, stage=stage, pace=pace)
    found = plan_hosts(
        sized, spread, threads, efficiency=machines.efficiency, memory_bandwidth=limit,
        costs=Costs(threads=machines.agree_threads or threads), cut=cut,
    )  # fmt: skip
    result = found.as_dict() | {
        "model": spec.model.name, "shape": sized.as_dict()["shape"] | {"threads": found.threads},
        "sync": agreement_of(spec).sync, "link": spec.hosts.link,
        "thread_items_per_s": sized.rates.items_per_s, "is_pace_given": pace is not None,
    }  # fmt: skip
    table = {"rows": sized.shape.rows, "columns": 2 * sized.shape.dim}
    result["host"] = with_best(result["host"], {"input and output": table}, spec)
    notes = []
    if spread.hosts > 1 and spread.link is None:
        notes.append("No --link was given, so the links' time is left out.")
    if found.part is not None and spec.model.is_graph:
        notes.append("The time that walkers travel is left out.")
    return Forecast(result, _lines(result), [_schemes(result)] if result["schemes"] else [], notes)


def _spread(spec: RunSpec) -> Any:
    """The hosts and their agreement, as the flags have them."""
    if spec.sync.cache != "none":
        raise InputError(f"What a cache saves depends on the data; plan without it, got --cache {spec.sync.cache}.")
    agreement = agreement_of(spec)
    if not agreement.agreement.has_scheme:
        raise InputError(f"Only {', '.join(MERGES)} can be planned, got --sync {agreement.sync}.")
    hosts = spec.hosts.trainers or 1
    return Spread(
        hosts=hosts, rounds_per_epoch=agreement.rounds(hosts), scheme=agreement.form(hosts) or "pull-opt",
        bits=agreement.bits, link=spec.hosts.link_model,
        is_overlapped=agreement.overlap, is_curved=is_curved(agreement.sync),
    )  # fmt: skip


def _lines(result: dict[str, Any]) -> list[tuple[str, str]]:
    """What people read."""
    shape, host = result["shape"], result["host"]
    unit = "steps" if shape["is_graph"] else "words"
    hosts, threads = result["hosts"], result["threads"]
    said = "given" if result["is_pace_given"] else "measured here"
    pairs = [
        ("vectors", f"{shape['rows']:,} × {shape['dim']}"),
        ("epochs", f"{shape['epochs']} × {number(shape['items'])} {unit}"),
        ("hosts", f"{hosts:,} × {threads} thread{'s' * (threads > 1)}" + _link(result)),
        ("one thread", f"{number(result['thread_items_per_s'])} {unit}/s, {said}"),
        ("one host", f"{number(result['host_items_per_s'])} {unit}/s, {'modeled' if threads > 1 else said}"),
    ]
    if hosts > 1:
        pairs += [
            ("rounds", f"{result['rounds_per_epoch']:,} an epoch, {result['rounds']:,} in all"),
            ("agreement", f"{result['sync']}, {result['scheme']}"),
            ("all hosts", f"{number(result['items_per_s'])} {unit}/s, {result['speedup']:.3g} × one host, modeled"),
        ]
    pairs += [
        ("time", f"{duration(host['seconds'])}, modeled"),
        ("", parts({_SAID.get(name, name): seconds for name, seconds in host["time"].items()}, duration)),
        ("bottleneck", _SAID.get(result["bottleneck"], result["bottleneck"])),
        ("memory", f"{size(host['memory_bytes'])} a host"),
        ("", parts(host["memory"], size)),
        *_part(result["part"]),
        ("disk", f"{size(host['disk_peak_bytes'])}"),
    ]
    return pairs


def _part(part: dict[str, Any] | None) -> list[tuple[str, str]]:
    """What a host holds of the input, where none holds all of it."""
    if part is None:
        return []
    if not part["nodes"]:
        return [("its part", f"{part['tokens']:,} tokens of the text")]
    part_row = (
        f"{part['cut']}: {part['nodes']:,} nodes, {part['edges']:,} stored edges, {size(sum(part['memory'].values()))}"
    )
    first = [("", f"+ {size(part['reading_bytes'])} for a while to read and cut the graph, on the first host")]
    return [("its part", part_row), *(first if part["edges"] else [])]


def _link(result: dict[str, Any]) -> str:
    return f", links of {result['link']}" if result["link"] else ""


def _schemes(result: dict[str, Any]) -> tuple[str, list[str], list[list[str]]]:
    """The four schemes side by side."""
    plans = result["schemes"]
    said = {
        "a round, all hosts": lambda plan: size(plan["bytes_per_round"]),
        "a host sends": lambda plan: size(plan["bytes_per_host"]),
        "the busiest line": lambda plan: size(plan["busiest_bytes"]),
        "an epoch": lambda plan: size(plan["bytes_per_epoch"]),
        "rows and agreement": lambda plan: size(sum(plan["memory"].values())),
        "time of an epoch": lambda plan: duration(plan["epoch_seconds"]),
        "speed-up": lambda plan: f"{plan['speedup']:.3g} ×",
        "bottleneck": lambda plan: _SAID.get(plan["bottleneck"], plan["bottleneck"]),
    }
    names = ["", *(name + (" *" if name == result["scheme"] else "") for name in plans)]
    rows = [[what, *(spelled(plan) for plan in plans.values())] for what, spelled in said.items()]
    return f"Schemes, {result['bits']} bits, times modeled (* asked for)", names, rows
