"""`any2vec estimate` for models of triples."""

from __future__ import annotations

from typing import Any

from any2vec.cli.output import columns, facts, note, number, parts, print_json, show, size
from any2vec.cli.run.job import Job


def estimate_triples(
    job: Job, run: Any, rows: int | None, items: int | None, room: dict[str, int], stage: Any, as_json: bool
) -> None:
    """Print what a run of a model of triples will hold, move and put on the disk. rows: entities, without an input."""
    from any2vec.train.triples.sizing import size_of_shape, size_of_triples, told

    if rows is None:
        found = size_of_triples(job.model, job.data, run, job.table, job.triples, stage)
    else:
        found = size_of_shape(job.model, rows, items or 20 * rows, run, job.table)
    result = told(found, job.model, run) | {"model": job.name} | room
    if as_json:
        print_json(result)
        return
    _print(result)
    if 0 < result["available_memory_bytes"] < result["memory_bytes"]:
        note("This needs more memory than is free; give --memory, and it trains from the disk.")
    if result["free_disk_bytes"] < result["disk_peak_bytes"]:
        note("This needs more disk than is free where the result goes.")


def _print(result: dict[str, Any]) -> None:
    memory = {"rows": result["resident_bytes"], "everything else": result["fixed_bytes"]}
    pairs = [
        ("entities", f"{result['rows']:,} × {result['dim']}, a table of {size(result['table_bytes'])}"),
        ("epochs", f"{result['epochs']} × {number(result['items'])} triples"),
        ("memory", f"{size(result['memory_bytes'])} of {size(result['available_memory_bytes'])} free"),
        ("", parts(memory, size)),
    ]
    tables = []
    if result["is_in_memory"]:
        pairs.append(("table", "all rows in memory"))
    else:
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
    pairs += [
        ("disk", f"{size(result['disk_peak_bytes'])} of {size(result['free_disk_bytes'])} free"),
        ("", parts(result["disk"], size)),
    ]
    show(facts("", pairs), *tables)
