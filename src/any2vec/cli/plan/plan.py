"""`any2vec plan MODEL`."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from any2vec import machine
from any2vec.cli.bar import Bar
from any2vec.cli.options import with_flags
from any2vec.cli.output import columns, duration, facts, guarded, note, number, parts, print_json, show, size
from any2vec.cli.run.flags import make_spec, model_flags, planning_flags
from any2vec.cli.run.group import AsJson, Config, Inputs, Quiet, model_group
from any2vec.errors import InputError
from any2vec.sync.options.rounds import RoundAgreement
from any2vec.train.registry import models_of, task_named
from any2vec.train.spec import Hooks, RunSpec
from any2vec.train.task import Task, refuse_absent

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)\s*([kKMGT]?)")
_UNITS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
MOST_ROWS = 10**12
MOST_TOKENS = 10**16
_SAID = {
    "compute": "training", "inspect": "finding rows", "merge": "merging rows",
    "handle": "copies and messages", "link": "links",
}  # fmt: skip
"""parts of a round, as JSON has them -> in words"""
_SHAPE, _MACHINE = "Without an INPUT", "Machines"


Rows = Annotated[
    str | None,
    typer.Option("--rows", help="number of vectors, like 399k or 5G", rich_help_panel=_SHAPE, show_default=False),
]
Zipf = Annotated[
    float | None,
    typer.Option("--zipf", help=r"exponent of Zipf's law \[default 1]", rich_help_panel=_SHAPE, show_default=False),
]
Pace = Annotated[
    str | None,
    typer.Option(
        "--items-per-s", help="items/s of one thread; by default measured here", rich_help_panel=_MACHINE,
        show_default=False,
    ),
]  # fmt: skip


def plan_command(task: Task, model: str) -> Any:
    """The function behind `any2vec plan MODEL`."""
    function = PLANS[task.name](task, model)
    function.__doc__ = (
        f"Memory, bytes and modeled time of a run of {model} over hosts, before it starts.\n\nany2vec plan "
        f"{model} INPUT --hosts 4 --threads 8 --link 10Gbit,50us\n\nReads the input, or takes a shape, and measures "
        "the speed of one thread (or takes --items-per-s); everything else is modeled. Accepts all options of train; "
        "those that change no plan are not listed."
    )
    return with_flags(guarded(function), planning_flags(task.name, model))


def _planned(
    task: Task, model: str, inputs: Any, config: Path | None, values: dict[str, Any], rows: str | None,
    shape: dict[str, Any],
) -> RunSpec:  # fmt: skip
    """The run to plan. shape: flag -> value of what goes with --rows alone."""
    if rows is None and not inputs and config is None:
        raise InputError("Say what to plan for: an INPUT, or --rows.")
    spec = make_spec(task, model, inputs, None, config, values, needs_input=rows is None)
    refuse_absent(task, spec)
    if rows is not None and inputs:
        raise InputError("Give an INPUT or --rows, not both.")
    if rows is None:
        _refuse(shape, "goes with --rows; an INPUT has its own")
        return spec
    flags, kinds = model_flags(task.name, model), set(task.reading_of(model))
    reading = {flags[name].flag: value for name, value in values.items() if flags[name].defaults.keys() <= kinds}
    _refuse(reading, "says how an INPUT is read; leave it out with --rows")
    return spec


def _pace_of(items_per_s: str | None) -> float | None:
    return None if items_per_s is None else float(quantity("--items-per-s", items_per_s, 1, 10**15))


def plan_clicks_command(task: Task, model: str) -> Any:
    """`any2vec plan` of a model of clicks."""

    def plan(
        inputs: Inputs = None,
        rows: Rows = None,
        zipf: Zipf = None,
        num_columns: Annotated[
            int | None,
            typer.Option("--columns", min=1, help=r"columns of categories \[default 26]", rich_help_panel=_SHAPE,
                         show_default=False),
        ] = None,
        num_dense: Annotated[
            int | None,
            typer.Option("--numbers", min=0, help=r"columns of numbers \[default 13]", rich_help_panel=_SHAPE,
                         show_default=False),
        ] = None,
        items_per_s: Pace = None,
        config: Config = None,
        as_json: AsJson = False,
        quiet: Quiet = False,
        **values: Any,
    ) -> None:  # fmt: skip
        from any2vec.cli.plan.clicks import plan_clicks

        own = {"--zipf": zipf, "--columns": num_columns, "--numbers": num_dense}
        spec = _planned(task, model, inputs, config, values, rows, own)
        total = None if rows is None else quantity("--rows", rows, 2, MOST_ROWS)
        columns = 26 if num_columns is None else num_columns
        numbers = 13 if num_dense is None else num_dense
        exponent = 1.0 if zipf is None else zipf
        with Bar(quiet) as bar:
            plan_clicks(spec, total, columns, numbers, exponent, _pace_of(items_per_s), bar.stage, as_json)

    return plan


def plan_sequences_command(task: Task, model: str) -> Any:
    """`any2vec plan` of a model of sequences."""

    def plan(
        inputs: Inputs = None,
        rows: Rows = None,
        tokens: Annotated[
            str | None,
            typer.Option("--tokens", help="words (steps) per epoch; by default 100 per row", rich_help_panel=_SHAPE,
                         show_default=False),
        ] = None,
        zipf: Zipf = None,
        items_per_s: Pace = None,
        efficiency: Annotated[
            float | None,
            typer.Option("--efficiency", help=r"of a thread beside others, 0 to 1 \[default 0.92]",
                         rich_help_panel=_MACHINE, show_default=False),
        ] = None,
        memory_bandwidth: Annotated[
            str | None,
            typer.Option("--memory-bandwidth", help="bytes/s of a host, like 200G; by default no limit",
                         rich_help_panel=_MACHINE, show_default=False),
        ] = None,
        agree_threads: Annotated[
            int | None,
            typer.Option("--agree-threads", min=1, help="threads of a host that synchronize; by default all",
                         show_default=False, rich_help_panel=_MACHINE),
        ] = None,
        config: Config = None,
        as_json: AsJson = False,
        quiet: Quiet = False,
        **values: Any,
    ) -> None:  # fmt: skip
        spec = _planned(task, model, inputs, config, values, rows, {"--tokens": tokens, "--zipf": zipf})
        limit = 0.0 if memory_bandwidth is None else float(quantity("--memory-bandwidth", memory_bandwidth, 1, 10**18))
        threads = spec.run.threads or machine.usable_cores()
        machines = {
            "efficiency": 0.92 if efficiency is None else efficiency, "memory_bandwidth": limit,
            "agree_threads": agree_threads or threads,
        }  # fmt: skip
        with Bar(quiet) as bar:
            exponent = 1.0 if zipf is None else zipf
            _plan_sequences(spec, rows, tokens, exponent, _pace_of(items_per_s), threads, machines, bar, as_json, quiet)

    return plan


def _plan_sequences(
    spec: RunSpec, rows: str | None, tokens: str | None, exponent: float, pace: float | None, threads: int,
    machines: dict[str, Any], bar: Bar, as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    from any2vec.plan.cost.hosts import Costs
    from any2vec.tasks.words.foresight import plan_hosts
    from any2vec.tasks.words.sizing import RunSettings, size_of_input, size_of_plan

    own = {item.name: getattr(spec.run, item.name) for item in fields(RunSettings)} | {"threads": 1}
    run = RunSettings(**own)
    task_named(spec.task).check(spec, Hooks())
    spread, cut = _spread(spec), _cut(spec)
    if rows is not None:
        num_rows = quantity("--rows", rows, 2, MOST_ROWS)
        num_tokens = 100 * num_rows if tokens is None else quantity("--tokens", tokens, 1, MOST_TOKENS)
        sized = size_of_plan(spec.model, num_rows, num_tokens, run, exponent=exponent, pace=pace)
    else:
        text, graph = spec.reading.get("text"), spec.reading.get("graph")
        sized = size_of_input(spec.model, spec.data, run, text=text, graph=graph, stage=bar.stage, pace=pace)
    found = plan_hosts(
        sized, spread, threads, efficiency=machines["efficiency"], memory_bandwidth=machines["memory_bandwidth"],
        costs=Costs(threads=machines["agree_threads"]), cut=cut,
    )  # fmt: skip
    result = found.as_dict() | {
        "model": spec.model.name, "shape": sized.as_dict()["shape"] | {"threads": found.threads},
        "link": spec.hosts.link, "thread_items_per_s": sized.rates.items_per_s, "is_pace_given": pace is not None,
    }  # fmt: skip
    if as_json:
        print_json(result)
        return
    _print(result)
    if spread.hosts > 1 and spread.link is None:
        note("No --link was given, so the links' time is left out.", quiet)
    if found.part is not None and spec.model.is_graph:
        note("The time that walkers travel is left out.", quiet)


PLANS = {"words": plan_sequences_command, "clicks": plan_clicks_command}
"""task -> what plans its models"""
NOT_PLANNED = ("ngram",)


def _known() -> dict[str, Task]:
    return {name: task for name, task in models_of("train").items() if task.name in PLANS and name not in NOT_PLANNED}


plan = model_group("plan", "Memory, bytes and modeled time of a run over hosts.", plan_command, _known)


def _refuse(values: dict[str, Any], why: str) -> None:
    """Raise InputError for the first flag that has a value."""
    for flag, value in values.items():
        if value is not None:
            raise InputError(f"{flag} {why}.")


def quantity(flag: str, text: str, low: int, high: int) -> int:
    """The whole number that a flag says, like 399000, 399k, 2.5G or 1e9.

    Raises:
        InputError: it is not written like that, or not from low to high.
    """
    found = _QUANTITY.fullmatch(text.strip().replace(",", "").replace("_", ""))
    value = round(float(found[1]) * _UNITS[found[2]]) if found and len(found[1]) < 20 and float(found[1]) < 1e18 else -1
    if not low <= value <= high:
        raise InputError(
            f"{flag} must be a number from {low} to {high:.0e}, with k, M, G or T for thousands, got {text!r}."
        )
    return value


def _spread(spec: RunSpec) -> Any:
    """The hosts and their agreement, as the flags have them."""
    from any2vec.plan.cost.hosts import Spread
    from any2vec.sync.options.names import MERGES

    if spec.sync.cache != "none":
        raise InputError(f"Only {', '.join(MERGES)} can be planned, got --cache {spec.sync.cache}.")
    agreement = RoundAgreement.of(spec.hosts, spec.sync)
    if not agreement.agreement.has_scheme:
        raise InputError(f"Only {', '.join(MERGES)} can be planned, got --sync {agreement.sync}.")
    hosts = spec.hosts.trainers or 1
    return Spread(
        hosts=hosts, rounds_per_epoch=agreement.rounds(hosts), scheme=agreement.form(hosts) or "pull-opt",
        bits=agreement.bits, link=spec.hosts.link_model,
        is_overlapped=agreement.overlap,
    )  # fmt: skip


def _cut(spec: RunSpec) -> str | None:
    """How the input is cut into parts, one a host, as `plan_hosts` wants it; None: it is not."""
    from any2vec.plan.cost.part import TEXT

    return TEXT if spec.hosts.read == "parts" else spec.hosts.partition


def _print(result: dict[str, Any]) -> None:
    shape, host = result["shape"], result["host"]
    unit = "steps" if shape["is_graph"] else "words"
    hosts, threads = result["hosts"], result["threads"]
    said = "given" if result["is_pace_given"] else "measured here"
    pairs = [
        ("vectors", f"{shape['rows']:,} × {shape['dim']}"),
        ("epochs", f"{shape['epochs']} × {number(shape['items'])} {unit}"),
        ("hosts", f"{hosts:,} × {threads} thread{'s' * (threads > 1)}" + _link(result)),
        ("one thread", f"{number(result['thread_items_per_s'])} {unit}/s, {said}"),
        ("one host", f"{number(result['host_items_per_s'])} {unit}/s, {'modelled' if threads > 1 else said}"),
    ]
    if hosts > 1:
        pairs += [
            ("rounds", f"{result['rounds_per_epoch']:,} an epoch, {result['rounds']:,} in all"),
            ("all hosts", f"{number(result['items_per_s'])} {unit}/s, {result['speedup']:.3g} × one host, modelled"),
        ]
    pairs += [
        ("time", f"{duration(host['seconds'])}, modelled"),
        ("", parts({_SAID.get(name, name): seconds for name, seconds in host["time"].items()}, duration)),
        ("bottleneck", _SAID.get(result["bottleneck"], result["bottleneck"])),
        ("memory", f"{size(host['memory_bytes'])} a host"),
        ("", parts(host["memory"], size)),
        *_part(result["part"]),
        ("disk", f"{size(host['disk_peak_bytes'])}"),
    ]
    tables = [facts("", pairs)]
    if result["schemes"]:
        tables.append(_schemes(result))
    show(*tables)


def _part(part: dict[str, Any] | None) -> list[tuple[str, str]]:
    """What a host holds of the input, where none holds all of it."""
    if part is None:
        return []
    if not part["nodes"]:
        return [("its part", f"{part['tokens']:,} tokens of the text")]
    told = (
        f"{part['cut']}: {part['nodes']:,} nodes, {part['edges']:,} stored edges, {size(sum(part['memory'].values()))}"
    )
    first = [("", f"+ {size(part['reading_bytes'])} for a while to read and cut the graph, on the first host")]
    return [("its part", told), *(first if part["edges"] else [])]


def _link(result: dict[str, Any]) -> str:
    return f", links of {result['link']}" if result["link"] else ""


def _schemes(result: dict[str, Any]) -> Any:
    """The four schemes side by side."""
    plans = result["schemes"]
    said = {
        "a round, all hosts": lambda plan: size(plan["bytes_per_round"]),
        "a host sends": lambda plan: size(plan["bytes_per_host"]),
        "the busiest line": lambda plan: size(plan["busiest_bytes"]),
        "an epoch": lambda plan: size(plan["bytes_per_epoch"]),
        "a host's memory": lambda plan: f"+ {size(sum(plan['memory'].values()))}",
        "time of an epoch": lambda plan: duration(plan["epoch_seconds"]),
        "speed-up": lambda plan: f"{plan['speedup']:.3g} ×",
        "bottleneck": lambda plan: _SAID.get(plan["bottleneck"], plan["bottleneck"]),
    }
    names = ["", *(name + (" *" if name == result["scheme"] else "") for name in plans)]
    rows = [[what, *(spelled(plan) for plan in plans.values())] for what, spelled in said.items()]
    return columns(f"Schemes, {result['bits']} bits, times modelled (* asked for)", names, rows)
