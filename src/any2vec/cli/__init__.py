"""The command line: parse, call, print. One file per group of commands; each is imported when it is called."""

from __future__ import annotations

import os
import time

STARTED = time.perf_counter()
"""when the process entered the command line: `seconds` in the JSON of long commands counts from here"""


def main() -> None:
    """Entry point of the `any2vec` command; ends the process with 0, 2 (bad input), 130 (interrupted) or 1 (a bug)."""
    from any2vec.cli.app import run

    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:  # torchrun made this process
        from any2vec.cluster.launch import run_child

        run_child(run)
    run()
