"""`any2vec embed`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from any2vec.cli.bar import Bar
from any2vec.cli.options import Flag, flags_of, out_option, unset_option, with_flags
from any2vec.cli.output import AsJson, details, guarded, print_json, show
from any2vec.cli.results.search import Result
from any2vec.cli.run.flags import check_input
from any2vec.data.io.array_file import ArrayFile, map_array
from any2vec.data.io.storage import check_file_free, storage_errors
from any2vec.data.options import TextOptions
from any2vec.errors import DataError, InputError

if TYPE_CHECKING:
    from any2vec.estimators.documents import SIFEncoder

_BLOCK_ROWS = 8192


@cache
def text_flags() -> dict[str, Flag]:
    """Flags of reading text."""
    return flags_of({"text": TextOptions}, {"text": "Reading text"})


def _embed(
    result: Result,
    text: Annotated[list[str], typer.Argument(metavar="TEXT...", help="A line, or a row of a table, is a document.")],
    out: Annotated[Path, out_option("Vectors to write, in the format of its suffix; a folder without one.", "file")],
    a: Annotated[
        float | None,
        unset_option("--a", help="A word of share p weighs a / (a + p)", default="0.001"),
    ] = None,
    components: Annotated[
        int | None,
        unset_option(
            "--components", min=0, help="First principal components of the documents to take away", default="1"
        ),
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", help="Keep weights and components, for later texts.", show_default=False)
    ] = None,
    encoder: Annotated[
        Path | None, typer.Option("--encoder", help="Those that --save kept: none are sought.", show_default=False)
    ] = None,
    format: Annotated[
        str | None, typer.Option("--format", "-f", help="Format of --out; read off it when not given.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace --out and --save.")] = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    **values: Any,
) -> None:
    """Vectors of documents, from those of their words (SIF; Arora et al. 2017).

    any2vec embed runs/words notes.txt --out notes.npy --save notes.sif

    any2vec embed runs/words later.txt --out later.npy --encoder notes.sif

    The key of a document is its number, from 0. Empty lines are documents, too: zeros.
    """
    from any2vec.data.text.documents import Documents
    from any2vec.embeddings import Embeddings
    from any2vec.estimators.documents import SIFEncoder

    if encoder is not None and save is not None:
        raise InputError("--save is of finding components; leave it out where --encoder gives them.")
    if encoder is not None and (a is not None or components is not None):
        raise InputError("--a and --components are those of the --encoder; leave them out, or it.")
    a, components = 1e-3 if a is None else a, 1 if components is None else components
    for path in text:
        check_input(path)
    for place in (out, save):
        if place is not None and not (overwrite and place.is_dir()):
            check_file_free(place, overwrite)
    words, reading = Embeddings.load(result), TextOptions(**values)
    if words.counts is None and "-" in text and encoder is None:
        raise InputError("These vectors have no counts, so the text is read twice; give a file, not standard input.")
    sif = SIFEncoder(words, a, components, reading) if encoder is None else SIFEncoder.load(encoder, words, reading)
    with Bar(quiet) as bar:
        documents = Documents.of_files(text, reading)
        blocks = sif.fit_blocks(documents) if encoder is None else sif.means(documents)
        size, num_empty = _write(sif, blocks, out, format, overwrite, bar)
    if save is not None:
        sif.save(save, overwrite)
    if as_json:
        found = {"out": str(out), "documents": size, "without_known_words": num_empty, "dim": words.dim, "saved": save}
        print_json(found)
    else:
        zeros = [("without known words", f"{num_empty:,}, zeros")] if num_empty else []
        pairs = [("documents", f"{size:,} × {words.dim}"), *zeros, ("written", str(out))]
        show(details("", pairs))


def _write(
    sif: SIFEncoder, blocks: Iterable[np.ndarray], out: Path, format: str | None, overwrite: bool, bar: Bar
) -> tuple[int, int]:
    """Write vectors of documents, which wait in a file until what they have in common is known; returns how many, and
    how many of them have no known word."""
    from any2vec.embeddings import Embeddings

    num_empty = 0
    with tempfile.TemporaryDirectory(prefix="any2vec.") as folder:
        with storage_errors(folder), closing(ArrayFile(Path(folder) / "v.npy", np.float32, (sif.dim,))) as file:
            for block in blocks:
                file.append(block)
                num_empty += int((~block.any(axis=1)).sum())
                bar.stage("embedding documents", file.length, None)
        if file.length == 0:
            raise DataError("There are no documents; give text with a line at least.")
        if num_empty == file.length:
            raise DataError(
                "No word of these documents has a vector; give vectors of such words, and read the text as in their "
                "training (--lowercase, --token-pattern)."
            )
        vectors = map_array(file.path, np.float32, (file.length, sif.dim), "r+")
        for first in range(0, len(vectors), _BLOCK_ROWS):
            vectors[first : first + _BLOCK_ROWS] = sif.without_common(vectors[first : first + _BLOCK_ROWS])
        Embeddings(np.arange(len(vectors)), vectors).save(out, format, overwrite)
    return file.length, num_empty


embed = with_flags(guarded(_embed), text_flags())
