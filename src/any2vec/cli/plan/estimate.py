"""`any2vec estimate`."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from any2vec import machine
from any2vec.cli.bar import Bar
from any2vec.cli.options import with_flags
from any2vec.cli.output import AsJson, duration, facts, guarded, note, number, parts, print_json, show, size
from any2vec.cli.plan.estimate_triples import estimate_triples
from any2vec.cli.run.job import ESTIMATED_MODELS, Job, lone_flags, make_job
from any2vec.errors import InputError


def _estimate(
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="INPUT...", help="As for train.", show_default=False)
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help=f"{', '.join(ESTIMATED_MODELS)}.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where it would go: its disk is looked at.", show_default=False)
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option("--rows", min=2, help="Plan without an input: so many vectors (entities) ...", show_default=False),
    ] = None,
    items: Annotated[
        int | None,
        typer.Option("--items", min=1, help="... and words (steps, triples) in an epoch.", show_default=False),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="TOML file with the same names as the flags.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    **values: Any,
) -> None:
    """Memory, time and disk of a run, before anything is allocated.

    any2vec estimate corpus.txt --model skipgram --dim 300 --epochs 5

    any2vec estimate --model skipgram --dim 300 --rows 1000000 --items 1000000000

    any2vec estimate --model complex --dim 128 --rows 80000000 --items 300000000 --memory 8GB

    Takes the flags of train. Reads the input (a graph stays in the cache for train), and trains for a second to see how
    fast this machine is; makes no result. For models of triples it says memory and disk, not time: with --memory, into
    how many partitions the table is cut, and what an epoch reads and writes.
    """
    from any2vec.train.sizing import RunSettings, size_of_input, size_of_plan

    job = make_job(inputs, model, out, config, values, needs_input=rows is None, models=ESTIMATED_MODELS)
    if rows is not None and inputs:
        raise InputError("Give an INPUT, or --rows and --items, not both.")
    run = RunSettings(**{item.name: getattr(job.run, item.name) for item in fields(RunSettings)})
    if job.is_triples:
        with Bar(quiet) as bar:
            estimate_triples(job, run, rows, items, _room(job), bar.stage, as_json)
        return
    if job.table is not None and job.table.memory is not None:
        raise InputError(
            f"--memory is estimated for models of triples alone, not for {job.name}: leave it out; `any2vec train` "
            "says before it begins whether a budget is enough."
        )
    with Bar(quiet) as bar:
        if rows is not None:
            found = size_of_plan(job.model, rows, items or 100 * rows, run)
        else:
            found = size_of_input(job.model, job.data, run, text=job.text, graph=job.graph, stage=bar.stage)
    result = found.as_dict() | {"model": job.name} | _room(job)
    if as_json:
        print_json(result)
        return
    _print(result)
    for warning in _warnings(result):
        note(warning)


estimate = with_flags(guarded(_estimate), lone_flags())


def _room(job: Job) -> dict[str, int]:
    """What the machine has."""
    where = job.out or Path()
    return {
        "available_memory_bytes": machine.available_bytes(),
        "free_disk_bytes": machine.free_disk_bytes(where.absolute()),
        "free_cache_bytes": machine.free_disk_bytes(machine.cache_root(job.run.cache_dir).absolute()),
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
