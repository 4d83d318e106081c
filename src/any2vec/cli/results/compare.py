"""`any2vec compare`: runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from any2vec.cli.options import out_option
from any2vec.cli.output import AsJson, cell, columns, guarded, note, print_json, show


@guarded
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders that `any2vec train --out` wrote.")],
    out: Annotated[Path | None, out_option("Write a page with curves, too.", "file", show_default=False)] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what is at --out, though it is no page of any2vec.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Runs side by side: settings that differ, figures, scores of validation and evaluation; curves on a page."""
    from any2vec.report.compare import compare_runs, spell_score, write_comparison
    from any2vec.report.tables import spell_name

    found = compare_runs(runs)
    page = None if out is None else write_comparison(found, out, overwrite)
    if as_json:
        print_json(found.as_dict() | ({} if page is None else {"page": page}))
        return
    for heading, rows in found.tables().items():
        is_scores = rows is found.scores
        spelled = _setting if rows is found.settings else _score if is_scores else cell
        spell = spell_score if is_scores else spell_name
        cells = [[spell(name), *(spelled(value, name) for value in row)] for name, row in rows.items()]
        show(columns(heading, ["", *found.runs], cells))
    if page is not None:
        note(f"The page is {page}")


def _setting(value: Any, name: str) -> str:
    """A setting as it was given: 1e-05 is not 0.0000."""
    return f"{value:g}" if isinstance(value, float) else cell(value, name)


def _score(value: Any, name: str) -> str:
    """A score, whatever its data's name: `bytes.tsv` makes no size of it."""
    return cell(value)
