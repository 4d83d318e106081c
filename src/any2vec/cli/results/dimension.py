"""`any2vec dimension`."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from any2vec.cli.bar import Bar
from any2vec.cli.options import Flag, flags_of, with_flags
from any2vec.cli.output import AsJson, facts, guarded, note, print_json, show
from any2vec.cli.run.flags import check_input
from any2vec.data.io.storage import atomic_file, check_file_free
from any2vec.data.options import TextOptions
from any2vec.evaluate.words.target_options import DimensionOptions
from any2vec.units import fraction


@cache
def dimension_flags() -> dict[str, Flag]:
    """Flags of counting, of the choice, and of reading text."""
    owners = {"choice": DimensionOptions, "text": TextOptions}
    return flags_of(owners, {"choice": "Choice", "text": "Reading text"})


def _dimension(
    corpus: Annotated[list[str], typer.Argument(metavar="CORPUS...", help="Text, as for train.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Picture to write (PNG): spectrum, curve, choice.", show_default=False),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is at --out.")] = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    **values: Any,
) -> None:
    """How many numbers a vector should have, before anything is trained.

    any2vec dimension corpus.txt --out dimension.png

    Counts which words stand near each other; the spectrum of their shifted
    positive PMI is set against the noise between two halves of the text, for
    more dimensions keep more of both (Yin and Shen 2018).
    """
    options = DimensionOptions(**_those(DimensionOptions, values))
    text = TextOptions(**_those(TextOptions, values))
    for path in corpus:
        check_input(path)
    if out is not None:
        check_file_free(out, overwrite)
    from any2vec.evaluate.words.dimension import choose_dimension

    with Bar(quiet) as bar:
        found = choose_dimension(corpus[0] if len(corpus) == 1 else corpus, options=options, text=text, stage=bar.stage)
    if out is not None:
        _draw(found, out, overwrite)
    if as_json:
        print_json(found.as_dict() | {"picture": out})
        return
    is_open = found.dim_even_noise == len(found.spectrum) < found.words
    pairs = [
        ("dimensions", f"{found.dim}{' or more' if found.is_cut else ''}"),
        ("at most", f"{found.dim_even_noise}{' or more' if is_open else ''}, if the noise were alike in all cells"),
        ("expected loss", f"{fraction(found.expected)} of that of no vectors at all"),
        ("words", f"{found.words:,}, {found.pairs:,} pairs above chance"),
    ]
    show(facts("", pairs + ([("picture", str(out))] if out is not None else [])))
    if found.is_cut:
        note(f"The search ended at --max-dim {options.max_dim}; a larger one may find more.", quiet)
    if found.dim == 0:
        note("All is noise: there is too little text for these options.", quiet)


dimension = with_flags(guarded(_dimension), dimension_flags())


def _those(kind: type, values: dict[str, Any]) -> dict[str, Any]:
    """The values that are fields of a dataclass."""
    return {item.name: values[item.name] for item in fields(kind) if item.name in values}


def _draw(found: Any, out: Path, overwrite: bool) -> None:
    from any2vec.report.figures import Theme, draw_dimension

    picture = draw_dimension(found.spectrum, found.edge, found.curve, found.dim, found.dim_even_noise, Theme.light())
    with atomic_file(out, overwrite) as temporary:
        temporary.write_bytes(picture)
