"""What people and programs read: results on standard output, everything else on standard error."""

from __future__ import annotations

import errno
import functools
import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from any2vec.errors import Any2VecError, InputError, Interrupted
from any2vec.standard_error import StandardError
from any2vec.units import fraction, size, visible

EXIT_BAD_INPUT = 2
EXIT_BUG = 1
EXIT_INTERRUPTED = 130
_ABBREVIATIONS = {"auc": "AUC", "mrr": "MRR", "f1": "F1", "ndcg": "NDCG"}

F = TypeVar("F", bound=Callable[..., Any])
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def stdout_console() -> Console:
    """A console on today's standard output (made anew, so that tests and notebooks may redirect it).

    Without emoji: "het:100:lru" is no picture. It is given its file, by whose encoding Rich chooses its lines.
    """
    return Console(file=sys.stdout, highlight=False, emoji=False)


def stderr_console() -> Console:
    """A console on today's standard error: progress, notes and errors, which nobody need read."""
    return Console(file=StandardError(), highlight=False, emoji=False)  # type: ignore[arg-type]


def can_rewrite(console: Console) -> bool:
    """Whether it is a terminal on which a line can be written anew."""
    return console.is_terminal and not console.is_dumb_terminal


def spell_all() -> None:
    """What standard output or error cannot spell, in ASCII say, is escaped from now on; it would end the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def guarded(function: F) -> F:
    """Turn errors into one sentence on standard error and an exit code; standard output stays empty.

    2: the user's mistake, or the disk's (any `Any2VecError`, any `OSError`, not enough memory); 130: interrupted;
    1: anything else, which is a bug. `ANY2VEC_DEBUG=1` lets the traceback through.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (Exception, KeyboardInterrupt) as error:
            if _is_clicks_own(error) or (
                os.environ.get("ANY2VEC_DEBUG") == "1" and not isinstance(error, KeyboardInterrupt)
            ):
                raise
            code, message = explain(error)
            if isinstance(error, OSError):
                _give_up_output()
            if message:
                complain(message)
            raise typer.Exit(code) from None

    return wrapper  # type: ignore[return-value]


def _is_clicks_own(error: BaseException) -> bool:
    """Exit, Abort and usage errors, of the click inside Typer or beside it."""
    return isinstance(error, (typer.Exit, typer.Abort)) or any(
        base.__name__ == "ClickException" for base in type(error).__mro__
    )


def _give_up_output() -> None:
    """Where standard output cannot be written, nothing of it waits for the interpreter's end, which would complain."""
    try:
        sys.stdout.flush()
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - it is open until the end


def explain(error: BaseException) -> tuple[int, str]:
    """The exit code of an error, and its sentence ("" where silence is right)."""
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, KeyboardInterrupt):
        error = error.__cause__  # Python's own words, where it came while a library made a class
    match error:
        case Interrupted():
            return EXIT_INTERRUPTED, str(error)
        case KeyboardInterrupt():
            return EXIT_INTERRUPTED, "Interrupted; nothing was left half-written."
        case Any2VecError():
            return EXIT_BAD_INPUT, str(error)
        case BrokenPipeError():
            return EXIT_BUG, ""
        case MemoryError():
            return EXIT_BAD_INPUT, (
                "Not enough memory; `any2vec estimate` shows what a run needs, and a smaller --dim or --max-vocab, "
                "or a larger --min-count, lowers it."
            )
        case OSError():
            return EXIT_BAD_INPUT, _explain_os(error)
        case ModuleNotFoundError(name="torch"):
            return EXIT_BAD_INPUT, _explain_torch(error)
        case _:
            return EXIT_BUG, (
                f"any2vec met an error of its own ({type(error).__name__}: {error}); please report it with the "
                "traceback that ANY2VEC_DEBUG=1 shows."
            )


def _explain_torch(error: ModuleNotFoundError) -> str:
    from any2vec.cluster.launch.join import check_torch

    try:
        check_torch("Runs of this kind")
    except InputError as missing:
        return str(missing)
    return f"PyTorch cannot be imported: {error}; install it again."


def _explain_os(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return f"The disk is full while writing {error.filename or 'the output'}; free some space and run again."
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}."


def complain(message: str) -> None:
    """Print an error sentence on standard error; the terminal wraps it, not we."""
    stderr_console().print(f"[bold red]Error:[/] {shown(message)}", soft_wrap=True)


def note(message: str, quiet: bool = False) -> None:
    """Print a remark on standard error."""
    if not quiet:
        stderr_console().print(f"[dim]{shown(message)}[/]", soft_wrap=True)


def shown(text: str) -> str:
    """Text of any origin for Rich: no markup, and nothing that would steer the terminal."""
    return escape(visible(text))


def line(text: str, style: str = "") -> Text:
    """The same as a renderable."""
    return Text(visible(text), style=style)


def print_json(result: Mapping[str, Any]) -> None:
    """Write `result` as the one JSON object of standard output; NaN and infinity become null."""
    spells_all = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    text = json.dumps(plain(result), ensure_ascii=not spells_all, indent=2)
    sys.stdout.write(visible(text, is_json=True) + "\n")
    sys.stdout.flush()


def plain(value: Any) -> Any:
    """`value` made of what JSON knows."""
    if hasattr(value, "as_dict"):
        value = value.as_dict()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int, bool)):
        return value
    return str(value) if isinstance(value, Path) else repr(value)


def details(title: str, pairs: Iterable[tuple[str, str]]) -> RenderableType:
    """A two-column table: what, how much."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(shown(name), shown(value))
    return _titled(title, table)


def columns(title: str, names: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> RenderableType:
    """A table with a header; the first `left` columns are text, the rest numbers, aligned right."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, name in enumerate(names):
        table.add_column(shown(name), justify="left" if index < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(shown, row))
    return _titled(title, table)


def _titled(title: str, table: Table) -> RenderableType:
    return Group(line(title, "bold"), table) if title else table


def render(result: Mapping[str, Any], title: str = "") -> list[RenderableType]:
    """Tables of any JSON-like result: plain values as facts, then one table per list or mapping of records."""
    result = plain(result)
    tables: list[RenderableType] = []
    simple = {name: value for name, value in result.items() if not _is_records(value)}
    if simple:
        tables.append(details(title, [(words(name), cell(value, name)) for name, value in simple.items()]))
    for name, value in result.items():
        if not _is_records(value):
            continue
        records = [{"": key} | record for key, record in value.items()] if isinstance(value, dict) else value
        names = list(dict.fromkeys(key for record in records for key in record))
        rows = [[cell(record.get(key), key) for key in names] for record in records]
        tables.append(columns(words(name), [words(key) for key in names], rows))
    return tables


def _is_records(value: Any) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return bool(items) and all(isinstance(item, dict) for item in items)


def words(name: str) -> str:
    """A name of a figure or a metric as a person writes it."""
    parts = name.removesuffix("_bytes").removeprefix("is_").split("_")
    return " ".join(_ABBREVIATIONS.get(part, part) for part in parts)


def cell(value: Any, name: str = "") -> str:
    """One value for a person: thousands apart, four digits of a fraction, bytes (by the name) in their unit."""
    if value is None or value == {} or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and name.endswith("_bytes"):
        return size(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        is_given = name in ("fraction", "test_share")  # an option, not a measurement
        return f"{value:g}" if is_given else fraction(value)
    if isinstance(value, list):
        return ", ".join(cell(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{words(key)} {cell(item, key)}" for key, item in value.items() if item is not None)
    return str(value)


def show(*renderables: Any) -> None:
    """Print tables on standard output."""
    console = stdout_console()
    for place, renderable in enumerate(renderables):
        if place:
            console.print()
        console.print(renderable)
