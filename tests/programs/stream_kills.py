"""`python stream_kills.py FOLDER KILLS`: a stream that is killed so often, and goes on each time; then it may end.

Each run is a fork of this process, in which all kernels are compiled. It is killed with -9 a random moment after it has
written a checkpoint of its own. The source is so slow that it is not over before the last kill.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from any2vec.models.stream.config import StreamSkipGram
from any2vec.sources.base.options import SourceOptions
from any2vec.tasks.stream import monitor
from any2vec.tasks.stream.options import StreamOptions
from any2vec.tasks.stream.stream import stream
from any2vec.train.checkpoint import FILE

RATE = 250.0
"""lines a second while runs are killed"""
LONGEST = 0.15
"""seconds that a run is left alone behind its first checkpoint, at most"""
PATIENCE = 60.0


def train(text: Path, out: Path, rate: float | None) -> dict[str, Any]:
    options = StreamOptions(
        resume=out.exists(), threads=1, linger=0, batch_bytes=500, min_count=2, log_ids=True,
        checkpoint_seconds=0.001, snapshot_seconds=0.001, window_lines=500,
    )  # fmt: skip
    reading = SourceOptions(dedup="text", rate=rate)
    if rate is None:  # the same run, in less time: how often the state is kept changes nothing
        options = StreamOptions(**vars(options) | {"checkpoint_seconds": 1.0, "snapshot_seconds": 1.0})
    return stream(StreamSkipGram(dim=8), str(text), out=out, options=options, reading=reading, storage="20MB").summary


def kill_once(text: Path, out: Path, delay: float) -> bool:
    """Whether a run was killed before it was over."""
    before, until = changed(out), time.monotonic() + PATIENCE
    child = os.fork()
    if child == 0:
        train(text, out, RATE)
        os._exit(0)
    while changed(out) == before and time.monotonic() < until and os.waitpid(child, os.WNOHANG) == (0, 0):
        time.sleep(0.002)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def changed(out: Path) -> int:
    """When the checkpoint was written, ns."""
    try:
        return (out / FILE).stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def main() -> None:
    text, kills = Path(sys.argv[1]), int(sys.argv[2])
    whole = train(text, text.parent / "whole", None)
    out, draw = text.parent / "killed", random.Random(1)
    monitor.MOST_SHARE = 0
    done = sum(kill_once(text, out, draw.uniform(0, LONGEST)) for _ in range(kills))
    print(json.dumps({"kills": done, "whole": whole, "killed": train(text, out, None)}))


if __name__ == "__main__":
    main()
