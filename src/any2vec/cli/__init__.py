"""The command line: parse, call, print. One file per group of commands; each is imported when it is called."""

from __future__ import annotations

import os
import sys
import time

STARTED = time.perf_counter()
"""when the process entered the command line: `seconds` in the JSON of long commands counts from here"""


def main() -> None:
    """Entry point of the `any2vec` command; ends the process with 0, 2 (bad input), 130 (interrupted) or 1 (a bug)."""
    try:
        from any2vec.cli.app import run
    except KeyboardInterrupt:  # nobody who would say so is there yet
        sys.stderr.write("Error: Interrupted; nothing was left half-written.\n")
        raise SystemExit(130) from None

    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:  # torchrun made this process
        from any2vec.cluster.launch.join import run_child

        run_child(run)
    run()
