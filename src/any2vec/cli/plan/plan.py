"""`any2vec plan`."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from any2vec import machine
from any2vec.cli.bar import Bar
from any2vec.cli.options import with_flags
from any2vec.cli.output import AsJson, columns, duration, facts, guarded, note, number, parts, print_json, show, size
from any2vec.cli.run.job import PLANNED_MODELS, READING, Job, job_flags, make_job
from any2vec.errors import InputError
from any2vec.sync.options.hosts import HostOptions

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)\s*([kKMGT]?)")
_UNITS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
MOST_ROWS = 10**12
MOST_TOKENS = 10**16
_SAID = {
    "compute": "training", "inspect": "finding rows", "merge": "merging rows",
    "handle": "copies and messages", "link": "links",
}  # fmt: skip
"""parts of a round, as JSON has them -> in words"""
_SHAPE, _MACHINE, _SEQUENCES = "Without an input", "Machines", "Machines for words and nodes"


def _plan(
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="INPUT...", help="As for train.", show_default=False)
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help=f"{', '.join(PLANNED_MODELS)}.", show_default=False)
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option("--rows", help="So many vectors, like 399k or 5G.", rich_help_panel=_SHAPE, show_default=False),
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option("--tokens", help="Of words and nodes: words (steps) in an epoch, by default 100 a row.",
                     rich_help_panel=_SHAPE, show_default=False),
    ] = None,
    zipf: Annotated[
        float | None,
        typer.Option("--zipf", help="Exponent of Zipf's law, by default 1.", rich_help_panel=_SHAPE,
                     show_default=False),
    ] = None,
    num_columns: Annotated[
        int | None,
        typer.Option("--columns", min=1, help="Of clicks: columns of categories, by default 26.",
                     rich_help_panel=_SHAPE, show_default=False),
    ] = None,
    num_dense: Annotated[
        int | None,
        typer.Option("--numbers", min=0, help="Of clicks: columns of numbers, by default 13.",
                     rich_help_panel=_SHAPE, show_default=False),
    ] = None,
    items_per_s: Annotated[
        str | None,
        typer.Option(
            "--items-per-s", help="Pace of one thread; measured here if it is not given.", rich_help_panel=_MACHINE,
            show_default=False,
        ),
    ] = None,
    efficiency: Annotated[
        float | None,
        typer.Option("--efficiency", help="Of a thread beside others, 0 to 1, by default 0.92.",
                     rich_help_panel=_SEQUENCES, show_default=False),
    ] = None,
    memory_bandwidth: Annotated[
        str | None,
        typer.Option(
            "--memory-bandwidth", help="Bytes/s of a host's memory, like 200G, as a limit of its pace.",
            rich_help_panel=_SEQUENCES, show_default=False,
        ),
    ] = None,
    agree_threads: Annotated[
        int | None,
        typer.Option(
            "--agree-threads", min=1, help="Threads of a host that agree; by default all.", show_default=False,
            rich_help_panel=_SEQUENCES,
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="TOML file with the same names as the flags.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    **values: Any,
) -> None:  # fmt: skip
    """Memory, bytes, rounds and modelled time of a run over hosts, before anything starts.

    any2vec plan corpus.txt --model skipgram --hosts 4 --threads 8 --link 10Gbit,50us

    any2vec plan --model skipgram --dim 200 --hosts 32 --threads 48 --link 100Gbit,2us --rows 399k --tokens 665M

    Takes the flags of train. Reads the input, or takes a shape, and trains for a second on one thread to see how fast
    that is (or takes --items-per-s); times of more threads, of links and of agreements are modelled.
    """
    from any2vec.plan.cost.hosts import Costs
    from any2vec.train.foresight import plan_hosts
    from any2vec.train.sizing import RunSettings, size_of_input, size_of_plan

    if rows is None and not inputs and config is None:
        raise InputError("Say what to plan for: an INPUT, or --rows.")
    job = make_job(inputs, model, None, config, values, needs_input=rows is None, models=PLANNED_MODELS)
    if rows is not None and inputs:
        raise InputError("Give an INPUT or --rows, not both.")
    clicks = {"--columns": num_columns, "--numbers": num_dense}
    sequences = {"--efficiency": efficiency, "--memory-bandwidth": memory_bandwidth, "--agree-threads": agree_threads}
    _refuse(
        sequences | {"--tokens": tokens} if job.is_clicks else clicks,
        f"is for models of {'words and nodes' if job.is_clicks else 'clicks'}, not {job.name}; leave it out",
    )
    if rows is None:
        _refuse({"--tokens": tokens, "--zipf": zipf} | clicks, "goes with --rows; an INPUT has its own")
    else:
        flags = (job_flags()[name] for name in values)
        reading = {flag.flag: values[flag.name] for flag in flags if flag.defaults.keys() <= READING}
        _refuse(reading, "says how an INPUT is read; leave it out with --rows")
    exponent = 1.0 if zipf is None else zipf
    pace = None if items_per_s is None else float(quantity("--items-per-s", items_per_s, 1, 10**15))
    if job.is_clicks:
        from any2vec.cli.plan.clicks import plan_clicks

        total = None if rows is None else quantity("--rows", rows, 2, MOST_ROWS)
        shape = (26 if num_columns is None else num_columns, 13 if num_dense is None else num_dense, exponent)
        with Bar(quiet) as bar:
            plan_clicks(job, total, *shape, pace, bar.stage, as_json)
        return
    limit = 0.0 if memory_bandwidth is None else float(quantity("--memory-bandwidth", memory_bandwidth, 1, 10**18))
    threads = job.run.threads or machine.usable_cores()
    costs = Costs(threads=agree_threads or threads)
    settings = {item.name: getattr(job.run, item.name) for item in fields(RunSettings)} | {"threads": 1}
    spread, cut = _spread(job), _cut(job)
    with Bar(quiet) as bar:
        if rows is not None:
            num_rows = quantity("--rows", rows, 2, MOST_ROWS)
            num_tokens = 100 * num_rows if tokens is None else quantity("--tokens", tokens, 1, MOST_TOKENS)
            sized = size_of_plan(job.model, num_rows, num_tokens, RunSettings(**settings), exponent=exponent, pace=pace)
        else:
            sized = size_of_input(
                job.model, job.data, RunSettings(**settings), text=job.text, graph=job.graph, stage=bar.stage, pace=pace
            )
    found = plan_hosts(
        sized, spread, threads, efficiency=0.92 if efficiency is None else efficiency, memory_bandwidth=limit,
        costs=costs, cut=cut,
    )  # fmt: skip
    result = found.as_dict() | {
        "model": job.name, "shape": sized.as_dict()["shape"] | {"threads": found.threads}, "link": job.hosts.link,
        "thread_items_per_s": sized.rates.items_per_s, "is_pace_given": pace is not None,
    }  # fmt: skip
    if as_json:
        print_json(result)
        return
    _print(result)
    if spread.hosts > 1 and spread.link is None:
        note("No --link was given, so the links' time is left out.", quiet)
    if found.part is not None and job.is_graph:
        note("The time that walkers travel is left out.", quiet)


plan = with_flags(guarded(_plan), job_flags())


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


def _spread(job: Job) -> Any:
    """The hosts and their agreement, as the flags have them."""
    from any2vec.cluster.link import parse_link
    from any2vec.plan.cost.hosts import Spread
    from any2vec.sync.options.names import MERGES

    options = job.hosts
    assert isinstance(options, HostOptions)
    if not options.agreement.has_scheme:
        raise InputError(f"Only {', '.join(MERGES)} can be planned, got --sync {options.sync}.")
    hosts = options.hosts or options.logical_hosts or 1
    return Spread(
        hosts=hosts, rounds_per_epoch=options.rounds(hosts), scheme=options.form(hosts) or "pull-opt",
        bits=options.bits,
        link=None if options.link is None else parse_link(options.link), is_overlapped=options.overlap,
    )  # fmt: skip


def _cut(job: Job) -> str | None:
    """How the input is cut into parts, one a host, as `plan_hosts` wants it; None: it is not."""
    from any2vec.plan.cost.part import TEXT
    from any2vec.train.words.parts import check_parts
    from any2vec.train.words.prepare import check_partition

    assert isinstance(job.hosts, HostOptions)
    if job.hosts.partition is not None:
        check_partition(job.model, job.data)
    elif job.hosts.read == "parts":
        check_parts(job.model, job.data)
        return TEXT
    return job.hosts.partition


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
