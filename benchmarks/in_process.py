"""A command or a script run in this process: rows that only start need no interpreter of their own for each."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

from benchmarks.source_code import ROOT

_OF_PROCESSES = {"--memory", "--hosts", "--ray", "demo", "serve"}
"""what goes by the memory of the process, or starts others"""


def fits(arguments: Sequence[str]) -> bool:
    """Whether a command does the same here as in a process of its own."""
    return not _OF_PROCESSES.intersection(arguments)


def fits_script(arguments: Sequence[str]) -> bool:
    """Whether a script does the same here. Most change any2vec itself, or go by their process: those that do not."""
    return Path(arguments[0]).name == "any2vec_clicks.py" and "--push-bound" not in arguments


def run_here(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str, str, float]:
    """(exit code, standard output, standard error, seconds) of `any2vec ARGUMENTS` with these variables beside ours."""
    from any2vec.cli import main

    return _ended(main, ["any2vec", *arguments], environment)


def run_script_here(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str, str, float]:
    """The same of `python ARGUMENTS`, whose first is the script's file."""
    import runpy

    folder = str(Path(arguments[0]).parent)

    def script() -> None:
        sys.path.insert(0, folder)
        try:
            runpy.run_path(arguments[0], run_name="__main__")
        finally:
            sys.path.remove(folder)

    return _ended(script, arguments, environment)


def _ended(
    call: Callable[[], object], argv: Sequence[str], environment: Mapping[str, str]
) -> tuple[int, str, str, float]:
    out, err, own_argv, before = io.StringIO(), io.StringIO(), sys.argv, dict(os.environ)
    started, code = time.perf_counter(), 0
    os.environ.update(environment)
    sys.argv = list(argv)
    try:
        with redirect_stdout(out), redirect_stderr(err), chdir(ROOT):
            call()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.argv = own_argv
        os.environ.clear()
        os.environ.update(before)
    return code, out.getvalue(), err.getvalue(), time.perf_counter() - started
