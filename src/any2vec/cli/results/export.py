"""`any2vec export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from any2vec.cli.output import AsJson, facts, guarded, note, print_json, show
from any2vec.cli.results.search import Result, load
from any2vec.formats import FORMATS, guess_format
from any2vec.units import size


@guarded
def export(
    result: Result,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write (a folder for tensorboard).")],
    format: Annotated[
        str | None,
        typer.Option("--format", "-f", help=f"{', '.join(FORMATS)}; read off --out when not given", show_default=False),
    ] = None,
    dtype: Annotated[str, typer.Option("--dtype", help="float32 or float16")] = "float32",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace --out where it exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write vectors in the format of another tool."""
    embeddings = load(result)
    embeddings.save(out, format=format, overwrite=overwrite, dtype=dtype)
    num_bytes = sum(path.stat().st_size for path in (out.rglob("*") if out.is_dir() else [out]) if path.is_file())
    done = {
        "out": str(out),
        "format": format or guess_format(out),
        "dtype": dtype,
        "rows": len(embeddings),
        "dim": embeddings.dim,
    }
    if embeddings.maker is not None and done["format"] != "folder":
        note(f"{done['format']} keeps the vectors of the words of training; those of other words need the folder.")
    if as_json:
        print_json(done | {"bytes": num_bytes})
    else:
        pairs = [("written", str(out)), ("format", f"{done['format']}, {dtype}"), ("size", size(num_bytes))]
        show(facts("", [*pairs, ("vectors", f"{len(embeddings):,} × {embeddings.dim}")]))
