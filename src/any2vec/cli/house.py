"""`any2vec report`, `doctor` and `demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from any2vec.cli.output import facts, guarded, note, print_json, render, show
from any2vec.cli.search import AsJson


@guarded
def report(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `any2vec train --out` wrote.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The page; DIR/report.html when not given.", show_default=False)
    ] = None,
    item: Annotated[
        list[str] | None, typer.Option("--item", help="Show the neighbours of this key; repeat for more.")
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="Heading of the page.", show_default=False)] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the map's layout.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Write one HTML page (and PNGs) of a run: loss, speed, map, neighbours, scores, machine."""
    from any2vec.report import write_report

    page = write_report(run, out, items=item or (), title=title, seed=seed)
    pictures = sorted(page.parent.glob(f"{page.stem}-*.png"))
    if as_json:
        print_json({"page": page, "pictures": pictures})
    else:
        show(facts("", [("page", str(page)), ("pictures", ", ".join(picture.name for picture in pictures))]))


@guarded
def doctor(as_json: AsJson = False) -> None:
    """Versions, cores, memory, caches, extras, and what to do about what is missing."""
    from any2vec.doctor import diagnose

    found = diagnose()
    if as_json:
        print_json(found)
        return
    warnings = found.pop("warnings")
    show(*render(found))
    for warning in warnings:
        note(warning)
