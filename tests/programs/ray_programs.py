"""Programs that tests/cluster/test_cluster_ray.py runs as hosts: `python -m ray_programs SETTINGS`. Light.

SETTINGS is JSON: `program` names a function below, the other settings are its arguments.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

RANK = int(os.environ["RANK"])
NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def places(folder: str) -> None:
    """Every host notes what its environment says, and where it runs."""
    here = {name: os.environ.get(name) for name in NAMES}
    secrets = [name for name in os.environ if name.startswith("RAY_")]
    Path(folder, f"{RANK}.json").write_text(json.dumps([here, str(Path.cwd()), sys.argv[0], secrets]))


def count(lines: int, width: int) -> None:
    """Rank 0 writes as fast as it can, and a last line without an end; nobody reads rank 1."""
    for number in range(lines):
        print(f"{RANK} {number} {'ä' * width}")
    print(f"{RANK} end", end="")


def fail() -> None:
    """Rank 1 fails; rank 0 blames it, and would be seen first."""
    if RANK == 0:
        print("Rank 1 was lost.", file=sys.stderr)
    else:
        time.sleep(0.5)
        print("some warning\nThe corpus is empty; give another one.", file=sys.stderr)
    sys.exit(2)


def work(pids: str) -> None:
    """Every host notes its process and Ray's worker above it, and stays until it is told to stop."""

    def stop(*_: object) -> None:
        print(f"Rank {RANK} stopped in good order.", file=sys.stderr)
        sys.exit(130)

    signal.signal(signal.SIGTERM, stop)
    Path(pids, f"{RANK}.json").write_text(json.dumps([os.getppid(), os.getpid()]))
    while len(list(Path(pids).glob("*.json"))) < int(os.environ["WORLD_SIZE"]):
        time.sleep(0.02)
    print("at work", flush=True)
    time.sleep(600)


def again(tries: str) -> None:
    """Rank 1 fails at the first try, when rank 0 has told two lines and begun a third."""
    path = Path(tries, f"{RANK}")
    number = int(path.read_text()) if path.exists() else 0
    path.write_text(str(number + 1))
    print("round 0\nround 0\nroun", end="", flush=True)
    if number == 0:
        time.sleep(600 if RANK == 0 else 1)
        os._exit(3)
    print("d 1\nround 0")


if __name__ == "__main__":
    settings = json.loads(sys.argv[1])
    globals()[settings.pop("program")](**settings)
