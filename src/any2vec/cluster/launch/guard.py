"""`python -m any2vec.cluster.launch.guard MODULE ARGUMENT` is `python -m MODULE ARGUMENT` that outlives nobody.

Whoever starts it holds the other end of its standard input, as the leader of a process group of its own. When that end
closes, because it was closed or because its holder died in whatever way, the whole group is killed at once: what a
host has to keep is in its checkpoint.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading


def main() -> None:
    """Run the module in this process, under watch."""
    module, *sys.argv[1:] = sys.argv[1:]
    threading.Thread(target=_watch, name="any2vec-guard", daemon=True).start()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _watch() -> None:
    while os.read(0, 4096):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
