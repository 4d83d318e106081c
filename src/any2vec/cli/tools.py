"""`any2vec report`, `check`, `doctor` and `demo`."""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from any2vec.checks import MAX_SEED, MAX_THREADS
from any2vec.cli.bar import Bar
from any2vec.cli.options import out_option
from any2vec.cli.output import EXIT_BAD_INPUT, AsJson, columns, details, guarded, line, note, print_json, render, show
from any2vec.units import size

if TYPE_CHECKING:
    from any2vec.tables.disk.checking import FolderCheck


@guarded
def report(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `any2vec train --out` wrote.")],
    out: Annotated[
        Path | None, out_option("The page; DIR/report.html when not given.", "file", show_default=False)
    ] = None,
    item: Annotated[
        list[str] | None, typer.Option("--item", help="Show the neighbors of this key; repeat for more.")
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="Heading of the page.", show_default=False)] = None,
    map_items: Annotated[
        int, typer.Option("--map-items", min=3, max=10_000, help="Items on the map; thousands take minutes.")
    ] = 600,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of the map's layout.")] = 1,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what is at --out, though it is no report.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write one HTML page (and PNGs) of a run: loss, speed, map, neighbors, scores, machine."""
    from any2vec.report import write_report
    from any2vec.report.run import pictures_of

    page = write_report(run, out, items=item or (), title=title, map_items=map_items, seed=seed, overwrite=overwrite)
    pictures = sorted(pictures_of(page))
    if as_json:
        print_json({"page": page, "pictures": pictures})
    else:
        show(details("", [("page", str(page)), ("pictures", ", ".join(picture.name for picture in pictures))]))


@guarded
def check(
    folder: Annotated[Path, typer.Argument(metavar="STORE", help="A table in partitions, or the folder of its run.")],
    as_json: AsJson = False,
) -> None:
    """Read every file of a table larger than memory, and say what is wrong with it; exit code 2 if anything is."""
    from any2vec.tables.disk.checking import check_folders

    found = check_folders(folder)
    problems = [problem for one in found for problem in one.problems]
    if as_json:
        print_json({"is_sound": not problems, "problems": problems, "folders": found})
    else:
        show(*(_files(one) for one in found))
        note(_verdict(len(problems)))
    if problems:
        raise typer.Exit(EXIT_BAD_INPUT)


def _verdict(damaged: int) -> str:
    if not damaged:
        return "All is as it was written."
    are = "file is" if damaged == 1 else "files are"
    return f"{damaged:,} {are} damaged: bring them back from a copy, or start the run again with --overwrite."


def _files(found: FolderCheck) -> RenderableType:
    """A table of a folder's files: what is damaged by name, the rest added up."""
    rows = [(file.file, size(file.num_bytes), file.problem) for file in found.files if file.problem]
    sound = [file.num_bytes for file in found.files if file.is_counted and not file.problem]
    left = [file.num_bytes for file in found.files if not file.is_counted]
    for sizes, said in ((sound, "sound"), (left, "never committed: it goes when the run goes on")):
        if sizes:
            rows.append((f"{len(sizes):,} file{'s' * (len(sizes) > 1)}", size(sum(sizes)), said))
    return columns(str(found.folder), ["file", "size", "found"], rows, left=3)


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


@guarded
def demo(
    out: Annotated[Path, out_option("Folder for inputs, runs and reports.")] = Path("runs/demo"),
    threads: Annotated[
        int, typer.Option("--threads", min=0, max=MAX_THREADS, help="Training threads; 0 = all usable cores.")
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", min=0, max=MAX_SEED, help="Seed of every random draw.")] = 1,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Train on real data that ships with Python, show neighbors, write reports with pictures."""
    from any2vec.cli.demo import PARTS

    results = {}
    for name, train in PARTS.items():
        with Bar(quiet) as bar:
            results[name] = part = train(out, threads=threads, seed=seed, callback=bar.record, stage=bar.stage)
        if not as_json:
            rows = [(item, ", ".join(key for key, _ in near)) for item, near in part.neighbors.items()]
            show(Text(), columns(part.title, ["item", "nearest"], rows, left=2), line(f"Report: {part.page}"))
    if as_json:
        print_json({name: asdict(part) for name, part in results.items()})
    else:
        note(f"Next: {_own_name()} nearest {shlex.quote(str(out / 'words'))} tuple", quiet)


def _own_name() -> str:
    """What a shell calls this program by: its path where the environment is not active, as after `start.py demo`."""
    program = Path(sys.executable).with_name("any2vec")
    if shutil.which("any2vec") is not None or not program.is_file():
        return "any2vec"
    is_below = program.is_relative_to(Path.cwd())
    return shlex.quote(str(program.relative_to(Path.cwd()) if is_below else program))
