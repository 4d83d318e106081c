"""`any2vec estimate MODEL` and `any2vec plan MODEL`: what a run needs, before it starts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from any2vec import machine
from any2vec.cli.bar import Bar
from any2vec.cli.options import flags_of, with_flags
from any2vec.cli.output import columns, details, guarded, note, print_json, show
from any2vec.cli.run.flags import make_spec, model_flags, planning_flags
from any2vec.cli.run.group import AsJson, Config, Inputs, Out, Quiet, model_group
from any2vec.errors import InputError
from any2vec.options.planning import ItemShape
from any2vec.train.registry import models_of
from any2vec.train.spec import Hooks, RunSpec
from any2vec.train.task import Task, check_spread, check_validation, loaded, refuse_absent
from any2vec.units import duration, number, parts, size

_SHAPE, _MACHINE = "Without an INPUT", "Machines"


def models_for(command: str) -> dict[str, Task]:
    """Name -> task of the models that `any2vec estimate` or `plan` (command) is for."""
    return {name: task for name, task in models_of("train").items() if task.can(command, name)}


def asked_run(
    task: Task, model: str, inputs: Sequence[str] | None, out: Path | None, config: Path | None,
    values: dict[str, Any], shape: type, machines: type | None = None,
) -> tuple[RunSpec, Any, Any]:  # fmt: skip
    """(the run, its shape, its machines); values: flags that were given.

    Raises:
        InputError: neither data nor their shape are given, or both, or what goes with the other.
    """
    own, theirs = (
        {item.name: values.pop(item.name) for item in fields(kind) if item.name in values} if kind else {}
        for kind in (shape, machines)
    )
    has_rows = "rows" in own
    if not has_rows and not inputs and config is None:
        raise InputError("Give an INPUT, or --rows.")
    spec = make_spec(task, model, inputs, out, config, values, needs_input=not has_rows)
    if has_rows and inputs:
        raise InputError("Give an INPUT or --rows, not both.")
    if not has_rows:
        _refuse(own, "goes with --rows; an INPUT has its own")
    flags, kinds = model_flags(task.name, model), set(task.reading_of(model))
    if has_rows:
        reading = [name for name in values if flags[name].defaults.keys() <= kinds]
        _refuse(reading, "says how an INPUT is read; leave it out with --rows")
    return spec, shape(**own), machines and machines(**theirs)


def _refuse(names: Iterable[str], why: str) -> None:
    """Raise InputError for the first of these flags."""
    for name in names:
        raise InputError(f"--{name.replace('_', '-')} {why}.")


def estimate_command(task: Task, model: str) -> Any:
    """The function behind `any2vec estimate MODEL`."""
    own = task.options_of(model)
    of_hosts = {*own.get("hosts", ()), *own.get("sync", ())} - {"staleness_bound"}
    flags = {name: flag for name, flag in planning_flags(task.name, model).items() if name not in of_hosts}
    shape_flags = flags_of({"shape": ItemShape}, {"shape": _SHAPE})

    def estimate(
        inputs: Inputs = None, out: Out = None, config: Config = None, as_json: AsJson = False, quiet: Quiet = False,
        **values: Any,
    ) -> None:  # fmt: skip
        spec, shape, _ = asked_run(task, model, inputs, out, config, values, ItemShape)
        _check(task, spec)
        with Bar(quiet) as bar:
            found = task.estimate(spec, shape, Hooks(stage=bar.stage))
        result = found | {"model": model} | _room(spec)
        warnings = _warnings(result)
        if as_json:
            print_json(result | {"warnings": warnings})
            return
        _print(result, task.nouns(spec.model).items)
        for warning in warnings:
            note(warning)

    estimate.__doc__ = (
        f"Memory and disk of a run of {model}, before it starts, and of words and nodes its time.\n\n"
        f"any2vec estimate {model} INPUT\n\n"
        f"any2vec estimate {model} --rows 1M --items 1G"
    )
    return with_flags(guarded(estimate), shape_flags | flags)


estimate = model_group(
    "estimate",
    "Memory, disk and, of words and nodes, time of a run, before it starts.",
    estimate_command,
    lambda: models_for("estimate"),
)


def _check(task: Task, spec: RunSpec) -> None:
    """Raise InputError for what training would refuse, and for hosts that a TOML file asks for."""
    refuse_absent(task, spec)
    if (spec.hosts.trainers or 1) > 1:
        raise InputError("any2vec estimate is for one host: leave out hosts, or see any2vec plan.")
    check_spread(spec)
    _check_validation(task, spec)
    task.check(spec, Hooks())


def _check_validation(task: Task, spec: RunSpec) -> None:
    """Raise InputError or DataError for options of validation that cannot be."""
    check_validation(spec, "validate" in task.options_of(spec.model.name).get("run", ()))


def _room(spec: RunSpec) -> dict[str, Any]:
    """What the machine has."""
    where = spec.run.out or Path()
    cache = machine.cache_root(getattr(spec.run, "cache_dir", None))
    return {
        "available_memory_bytes": machine.available_bytes(),
        "free_disk_bytes": machine.free_disk_bytes(where.absolute()),
        "free_cache_bytes": machine.free_disk_bytes(cache.absolute()),
        "is_one_disk": machine.is_one_disk(where.absolute(), cache.absolute()),
    }


def _warnings(result: dict[str, Any]) -> list[str]:
    warnings = []
    if 0 < result["available_memory_bytes"] < result.get("anonymous_bytes", result["memory_bytes"]):
        less = "give --memory, and it trains from the disk" if result.get("order") else "train fewer or smaller vectors"
        warnings.append(f"This needs more memory than is free; {less}.")
    encoded = result["disk"].get("encoded input", 0)
    apart = 0 if result["is_one_disk"] else encoded
    if result["free_disk_bytes"] < result["disk_peak_bytes"] - apart:
        warnings.append("This needs more disk than is free where the result goes.")
    if result["free_cache_bytes"] < encoded:
        warnings.append("The encoded input needs more disk than is free in the cache; set ANY2VEC_CACHE elsewhere.")
    return warnings


def _print(result: dict[str, Any], unit: str) -> None:
    """What the result has of it."""
    pairs = [(name, f"{table['rows']:,} × {table['columns']:,}") for name, table in result["tables"].items()]
    pace = f", at {number(result['items_per_s'])} {unit}/s" if "items_per_s" in result else ""
    pairs += [
        ("epochs", f"{result['epochs']} × {number(result['items'])} {unit}{pace}"),
        ("memory", f"{size(result['memory_bytes'])} of {size(result['available_memory_bytes'])} free"),
        ("", parts(result["memory"], size)),
    ]
    if "seconds" in result:
        pairs += [("time", duration(result["seconds"])), ("", parts(result["time"], duration))]
    else:
        pairs.append(("time", "not estimated for this model"))
    tables = []
    if result.get("is_in_memory") is False:
        pairs += [
            ("table", f"{result['partitions']} partitions of {size(result['partition_bytes'])} on the disk, "
             f"{result['capacity']} in memory"),
            ("an epoch", f"reads {size(result['read_bytes_per_epoch'])}, writes "
             f"{size(result['written_bytes_per_epoch'])} in the order {result['order']}; a commit writes "
             f"{size(result['commit_bytes'])}"),
        ]  # fmt: skip
        both = 2 * result["partition_bytes"]
        rows = [[name, f"{loads:,}", size(loads * both)] for name, loads in result["loads_per_epoch"].items()]
        tables.append(columns("Orders", ["", "partitions read in an epoch", "read and written"], rows))
    elif result.get("order"):
        pairs.append(("table", "all rows in memory"))
    pairs += [
        ("disk", f"{size(result['disk_peak_bytes'])} of {size(result['free_disk_bytes'])} free"),
        ("", parts(result["disk"], size)),
    ]
    show(details("", pairs), *tables)


def plan_command(task: Task, model: str) -> Any:
    """The function behind `any2vec plan MODEL`."""
    shape, *rest = (loaded(where) for where in task.planning)
    machines = rest[0] if rest else None
    owners = {"shape": shape} | ({"machines": machines} if machines else {})
    own = flags_of(owners, {"shape": _SHAPE, "machines": _MACHINE})

    def plan(
        inputs: Inputs = None, config: Config = None, as_json: AsJson = False, quiet: Quiet = False, **values: Any
    ) -> None:
        spec, asked, on = asked_run(task, model, inputs, None, config, values, shape, machines)
        refuse_absent(task, spec)
        _check_validation(task, spec)
        with Bar(quiet) as bar:
            found = task.plan(spec, asked, on, bar.stage)
        if as_json:
            print_json({**found.result, "notes": found.notes})
            return
        show(details("", found.lines), *(columns(title, names, rows) for title, names, rows in found.tables))
        for text in found.notes:
            note(text, quiet)

    plan.__doc__ = (
        f"Memory, bytes and modeled time of a run of {model} over hosts, before it starts.\n\nany2vec plan "
        f"{model} INPUT --hosts 4 --threads 8 --link 10Gbit,50us\n\nReads the input, or takes a shape, and measures "
        "the speed of one thread (or takes --items-per-s); everything else is modeled. Accepts all options of train; "
        "those that change no plan are not listed."
    )
    return with_flags(guarded(plan), own | planning_flags(task.name, model))


plan = model_group(
    "plan", "Memory, bytes and modeled time of a run over hosts.", plan_command, lambda: models_for("plan")
)
