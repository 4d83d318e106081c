"""A program that reads sources, keeps checkpoints, and is killed again and again: what it has taken must be whole.

Run as: python source_kills.py FOLDER KILLS SEED ADDRESS=COUNT... It goes on until so many distinct lines of each were
taken, and writes their ids to FOLDER/taken: one line `SOURCE ID` each, cut to the checkpoint's length after a kill.

The parent imports everything and starts no thread; each life is a fork of it, so that a life costs no import.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
from pathlib import Path

import numpy as np

from any2vec.sources.base.inflow import Inflow
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.base.records import SeenLines
from any2vec.sources.opening import open_source, open_sources

OPTIONS = SourceOptions(follow=True, patience=10.0, retries=1000, poll=0.1, rate=2000.0)
_WINDOW = 100_000
_LIFE = 1.5
"""seconds after which a life ends though it has not got as far as was drawn"""


def live(folder: Path, wanted: dict[str, int], reported: int) -> None:
    """One life: from the checkpoint on until everything was taken. Writes a byte to `reported` at each step."""
    taken = (folder / "taken").open("ab")
    checkpoint, seen = folder / "checkpoint.json", SeenLines(_WINDOW)
    kept = json.loads(checkpoint.read_text()) if checkpoint.exists() else {"positions": {}, "length": 0, "seen": []}
    taken.truncate(kept["length"])
    seen.load_state_dict({"keys": np.array(kept["seen"], np.uint64)})
    counts = dict.fromkeys(wanted, 0)
    for line in (folder / "taken").read_text().splitlines():
        counts[list(wanted)[int(line.split()[0])]] += 1
    with Inflow(open_sources(list(wanted), OPTIONS), kept["positions"], most_bytes=1 << 16) as inflow:
        reported_at = time.monotonic()
        batches, parent = 0, os.getppid()
        while counts != wanted and os.getppid() == parent:
            batch = inflow.take(0.1)
            if batch is None:
                if time.monotonic() > reported_at + 20:
                    print(counts, inflow.metrics(), file=sys.stderr, flush=True)
                    reported_at = time.monotonic()
                continue
            fresh = np.flatnonzero(seen.fresh(batch.key_N)).tolist()
            os.write(reported, b".")
            taken.write("".join(f"{batch.source} {batch.id_of(line)}\n" for line in fresh).encode())
            taken.flush()
            counts[list(wanted)[batch.source]] += len(fresh)
            os.write(reported, b".")
            batches += 1
            if batches % 3 == 0 or counts == wanted:
                state = {
                    "positions": inflow.positions(),
                    "length": taken.tell(),
                    "seen": seen.state_dict()["keys"].tolist(),
                }
                part = folder / "checkpoint.part"
                part.write_text(json.dumps(state))
                os.write(reported, b".")
                part.rename(checkpoint)
                os.write(reported, b".")


def warm_up() -> None:
    """Import and compile in the parent what every life needs."""
    import confluent_kafka  # noqa: F401
    import feedparser  # noqa: F401
    import httpx  # noqa: F401
    import protego  # noqa: F401
    import redis  # noqa: F401
    import resiliparse.extract.html2text  # noqa: F401

    for path in (__file__, ["a text"]):
        for batch in open_source(path, 0, SourceOptions(follow=False)).batches(None):
            SeenLines(1).fresh(batch.key_N)  # type: ignore[union-attr]


def main(folder: Path, kills: int, seed: int, wanted: dict[str, int]) -> None:
    warm_up()
    draw = random.Random(seed)
    for life in range(kills + 1):
        receives, announces = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(receives)
            live(folder, wanted, announces)
            os._exit(0)
        os.close(announces)
        if life < kills:
            steps = draw.randrange(1, 10)
            while steps > 0 and select.select([receives], [], [], _LIFE)[0]:
                received = len(os.read(receives, steps))
                steps -= received
                if received == 0:
                    break
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.close(receives)
        print(f"{time.monotonic():.1f} life {life}: {os.waitstatus_to_exitcode(status)}", flush=True)


if __name__ == "__main__":
    pairs = (argument.rpartition("=") for argument in sys.argv[4:])
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), {address: int(count) for address, _, count in pairs})
