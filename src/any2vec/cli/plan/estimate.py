"""`any2vec estimate MODEL`."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from any2vec import machine
from any2vec.cli.bar import Bar
from any2vec.cli.options import with_flags
from any2vec.cli.output import duration, facts, guarded, note, number, parts, print_json, show, size
from any2vec.cli.plan.estimate_triples import estimate_triples
from any2vec.cli.run.flags import make_spec, planning_flags
from any2vec.cli.run.group import AsJson, Config, Inputs, Quiet, model_group
from any2vec.errors import InputError
from any2vec.train.registry import models_of
from any2vec.train.spec import RunSpec
from any2vec.train.task import Task, refuse_absent

_SHAPE = "Without an INPUT"


def estimate_command(task: Task, model: str) -> Any:
    """The function behind `any2vec estimate MODEL`."""

    def estimate(
        inputs: Inputs = None,
        out: Annotated[
            Path | None,
            typer.Option("--out", "-o", help="folder of the result, whose disk is checked", show_default=False),
        ] = None,
        rows: Annotated[
            int | None,
            typer.Option("--rows", min=2, help="number of vectors, 2 or more", rich_help_panel=_SHAPE,
                         show_default=False),
        ] = None,
        items: Annotated[
            int | None,
            typer.Option("--items", min=1, help="words, steps or triples per epoch", rich_help_panel=_SHAPE,
                         show_default=False),
        ] = None,
        config: Config = None,
        as_json: AsJson = False,
        quiet: Quiet = False,
        **values: Any,
    ) -> None:  # fmt: skip
        spec = make_spec(task, model, inputs, out, config, values, needs_input=rows is None)
        if rows is not None and inputs:
            raise InputError("Give an INPUT, or --rows and --items, not both.")
        refuse_absent(task, spec)
        with Bar(quiet) as bar:
            ESTIMATES[task.name](spec, rows, items, _room(spec), bar.stage, as_json)

    estimate.__doc__ = (
        f"Memory, time and disk of a run of {model}, before it starts.\n\nany2vec estimate {model} INPUT --dim 300\n\n"
        f"any2vec estimate {model} --dim 300 --rows 1000000 --items 1000000000"
    )
    flags = {
        name: flag for name, flag in planning_flags(task.name, model).items() if not _is_of_hosts(task, model, name)
    }
    return with_flags(guarded(estimate), flags)


def _is_of_hosts(task: Task, model: str, name: str) -> bool:
    own = task.options_of(model)
    return name in own.get("hosts", ()) or (name in own.get("sync", ()) and name != "staleness_bound")


def estimate_sequences(
    spec: RunSpec, rows: int | None, items: int | None, room: dict[str, int], stage: Any, as_json: bool
) -> None:
    """Print what a run of a model of sequences will need. Trains for a second to see how fast this machine is."""
    from any2vec.tasks.words.sizing import RunSettings, size_of_input, size_of_plan

    model = spec.model
    if spec.storage.memory is not None:
        raise InputError(
            f"--memory is estimated for models of triples alone, not for {model.name}: leave it out; `any2vec train` "
            "says before it begins whether a budget is enough."
        )
    run = RunSettings(**{item.name: getattr(spec.run, item.name) for item in fields(RunSettings)})
    if rows is not None:
        found = size_of_plan(model, rows, items or 100 * rows, run)
    else:
        text, graph = spec.reading.get("text"), spec.reading.get("graph")
        found = size_of_input(model, spec.data, run, text=text, graph=graph, stage=stage)
    result = found.as_dict() | {"model": model.name} | room
    if as_json:
        print_json(result)
        return
    _print(result)
    for warning in _warnings(result):
        note(warning)


ESTIMATES = {"words": estimate_sequences, "triples": estimate_triples}
"""task -> what estimates its models"""
NOT_ESTIMATED = ("ngram",)


def _known() -> dict[str, Task]:
    return {
        name: task for name, task in models_of("train").items() if task.name in ESTIMATES and name not in NOT_ESTIMATED
    }


estimate = model_group("estimate", "Memory, time and disk of a run, before it starts.", estimate_command, _known)


def _room(spec: RunSpec) -> dict[str, int]:
    """What the machine has."""
    where = spec.run.out or Path()
    return {
        "available_memory_bytes": machine.available_bytes(),
        "free_disk_bytes": machine.free_disk_bytes(where.absolute()),
        "free_cache_bytes": machine.free_disk_bytes(machine.cache_root(spec.run.cache_dir).absolute()),
    }


def _warnings(result: dict[str, Any]) -> list[str]:
    warnings = []
    if 0 < result["available_memory_bytes"] < result["anonymous_bytes"]:
        warnings.append("This needs more memory than is free; lower --dim or --max-vocab, or raise --min-count.")
    encoded = result["disk"]["encoded input"]
    if result["free_disk_bytes"] < result["disk_peak_bytes"] - encoded:
        warnings.append("This needs more disk than is free where the result goes.")
    if result["free_cache_bytes"] < encoded:
        warnings.append("The encoded input needs more disk than is free in the cache; set ANY2VEC_CACHE elsewhere.")
    return warnings


def _print(result: dict[str, Any]) -> None:
    shape = result["shape"]
    unit = "steps" if shape["is_graph"] else "words"
    pairs = [
        ("vectors", f"{shape['rows']:,} × {shape['dim']}"),
        ("epochs", f"{shape['epochs']} × {number(shape['items'])} {unit}, at {number(result['items_per_s'])} {unit}/s"),
        ("memory", f"{size(result['memory_bytes'])} of {size(result['available_memory_bytes'])} free"),
        ("", parts(result["memory"], size)),
        ("time", duration(result["seconds"])),
        ("", parts(result["time"], duration)),
        ("disk", f"{size(result['disk_peak_bytes'])} of {size(result['free_disk_bytes'])} free"),
        ("", parts(result["disk"], size)),
    ]
    show(facts("", pairs))
