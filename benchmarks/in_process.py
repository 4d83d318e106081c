"""A command of any2vec run in this process: rows that only start need no interpreter of their own for each."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout

from benchmarks.source_code import ROOT

_OF_PROCESSES = {"--memory", "--hosts", "--ray", "demo", "serve"}
"""what goes by the memory of the process, or starts others"""


def fits(arguments: Sequence[str]) -> bool:
    """Whether a command does the same here as in a process of its own."""
    return not _OF_PROCESSES.intersection(arguments)


def run_here(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str, str, float]:
    """(exit code, standard output, standard error, seconds) of `any2vec ARGUMENTS` with these variables beside ours."""
    from any2vec.cli import main

    out, err, argv, before = io.StringIO(), io.StringIO(), sys.argv, dict(os.environ)
    started, code = time.perf_counter(), 0
    os.environ.update(environment)
    sys.argv = ["any2vec", *arguments]
    try:
        with redirect_stdout(out), redirect_stderr(err), chdir(ROOT):
            main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.argv = argv
        os.environ.clear()
        os.environ.update(before)
    return code, out.getvalue(), err.getvalue(), time.perf_counter() - started
