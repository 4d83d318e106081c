"""Runs a table of benchmarks: `python benchmarks/run.py words-and-graphs [--row NAME] [--json] [--quick]`.

Prints row, measure, target, figure and verdict. Full runs are added to the history in `benchmarks/results/` and merged
into the table there, those that failed, too; a row that this machine cannot measure leaves its figures as they are.
A full run needs a tree without changes, for results name a commit. `--quick` is a smoke run that writes nothing,
`--tiny` one on planted stand-ins for all data, which only tells whether rows start. Exit code 0 when every printed line
passed (or is only reported, or a quick one), else 1.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import results
from benchmarks.bench import Bench
from benchmarks.source_code import Code
from benchmarks.table import (
    NOT_MEASURED,
    Figure,
    NotMeasuredError,
    Reading,
    Row,
    RowError,
    Table,
    exit_code,
    failed,
    figures,
    missing,
    plain,
)  # fmt: skip

TABLES = {
    "words-and-graphs": "benchmarks.words.table",
    "many-hosts": "benchmarks.hosts.table",
    "clicks": "benchmarks.clicks.table",
    "larger-than-memory": "benchmarks.disk.table",
    "admm": "benchmarks.layers.table",
    "streams": "benchmarks.streams.table",
    "graph-networks": "benchmarks.graphs.table",
    "recommend": "benchmarks.recommend.table",
    "versions": "benchmarks.versions.table",
}
"""name of a table -> the module that has it as TABLE; every issue that promises figures adds its own"""
_LACKS = re.compile("pip install|No module named '(?:torch|pymetis|gensim)'")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(_listed([options.table] if options.table else sorted(TABLES))))
        return 0
    if options.table is None:
        parser.error(f"which table? {', '.join(sorted(TABLES))}; --list shows their rows")
    table: Table = importlib.import_module(TABLES[options.table]).TABLE
    stored = results.load(table.name)
    if options.show:
        lines = results.latest(table, stored)
        print("\n".join([plain(lines), *results.provenance(table, stored)]))
        return exit_code(lines)
    try:
        rows = [table.row(name) for name in options.row] if options.row else list(table.rows)
    except KeyError as error:
        print(f"There is no row {error}; known are {', '.join(row.name for row in table.rows)}.", file=sys.stderr)
        return 2
    if not (options.quick or options.tiny) and results.commit().endswith(results.CHANGED):
        print(
            "Files under src/ or benchmarks/ differ from the commit that results would name; commit them, or run "
            "with --quick.",
            file=sys.stderr,
        )
        return 2
    lines = []
    with _bench(options) as bench:
        for row in rows:
            found, entry = measure(row, bench)
            lines += found
            # A failure displaces old figures, a machine that lacks something does not.
            counts = not any(line.verdict.startswith(NOT_MEASURED) for line in found)
            if not bench.quick and (counts or row.name not in stored["rows"]):
                stored = results.merged(results.load(table.name), {row.name: entry})
                results.save(table.name, stored)  # after each row, so that an interrupted table keeps what it has
    if options.json:
        print(json.dumps({"table": table.name, "quick": bench.quick, "figures": [line.as_dict() for line in lines]}))
    else:
        print(f"{table.title}\n\n{plain(lines)}")
    return exit_code(lines)


@contextmanager
def _bench(options: argparse.Namespace) -> Iterator[Bench]:
    """That of a full or quick run, or one in a new folder that is removed behind the run."""
    if not options.tiny:
        yield Bench(quick=options.quick, jobs=options.jobs, keep=None if options.quick else results.RESULTS / "kept")
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Bench.for_start(Path(folder) / "bench")


def measure(row: Row, bench: Bench) -> tuple[list[Figure], dict[str, object]]:
    """The printed lines of a row, and its entry for the history. A row that fails says why; the others go on."""
    load = os.getloadavg()[0]
    if load > 0.7 and not bench.quick:
        print(f"benchmarks: the machine is busy (load {load:.1f}); figures of {row.name} may suffer", file=sys.stderr)
    print(f"benchmarks: {row.name} ...", file=sys.stderr)
    started = time.perf_counter()
    try:
        bench.noted = {} if bench.quick else functions_of(row, bench.folder)
        with bench.row():
            lines = figures(row, readings(row, bench), quick=bench.quick)
    except NotMeasuredError as error:
        lines = missing(row, str(error))
    except RowError as error:
        lines = failed(row, str(error))
    except Exception as error:
        traceback.print_exc()
        lines = failed(row, f"{type(error).__name__}: {error}")
    seconds = time.perf_counter() - started
    print(f"benchmarks: {row.name} took {seconds:.0f} s", file=sys.stderr)
    for line in lines:
        print(f"    {line.measure}: {line.figure} [{line.verdict}]", file=sys.stderr)
    return lines, results.entry(
        lines, bench.runs, seconds, load, bench.commits, bench.code, bench.processors, bench.confirmed
    )


def functions_of(row: Row, folder: Path) -> Code:
    """What a quick run of the row calls: to note it would slow down what is measured. Nothing where that fails."""
    quick = Bench(quick=True, functions=True, folder=folder, keep=folder / "noted")  # others' calls nobody noted
    try:
        with quick.row():
            readings(row, quick)
    except Exception as error:
        print(f"benchmarks: nobody noted what {row.name} calls ({error}); its files count whole", file=sys.stderr)
        return {}
    return quick.code


def readings(row: Row, bench: Bench) -> Sequence[Reading]:
    """What a row reads.

    Raises NotMeasuredError also where any2vec lacks an optional package: its words then say how to install it.
    """
    try:
        return row.run(bench)
    except NotMeasuredError:
        raise
    except Exception as error:
        if _LACKS.search(str(error)):
            raise NotMeasuredError(str(error)) from error
        raise


def _listed(names: Sequence[str]) -> Iterator[str]:
    """Lines of the rows of tables, with the table's name where there are several."""
    for name in names:
        start = f"{name:20}" if len(names) > 1 else ""
        for row in importlib.import_module(TABLES[name]).TABLE.rows:
            yield f"{start}{row.name:24}{row.minutes:4.0f} min  {row.measures[0].name}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=sorted(TABLES), nargs="?", help="needed, but for --list")
    parser.add_argument("--row", action="append", metavar="NAME", help="measure only this row; repeat for more")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N",
        help="kept runs, judged by quality and bytes alone, that go at the same time [1]",
    )  # fmt: skip
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="smoke run on little data, nothing judged or written")
    size.add_argument("--tiny", action="store_true", help="see whether rows start; nothing judged or written")
    parser.add_argument(
        "--list", action="store_true", help="list the rows, of all tables if none is named, and their rough times"
    )
    parser.add_argument("--show", action="store_true", help="print the committed table; measure nothing")
    return parser


if __name__ == "__main__":
    if {"--list", "--show"} & set(sys.argv) and hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `--list | head` ends in silence
    raise SystemExit(main())
