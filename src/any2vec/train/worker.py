"""`python -m any2vec.train.worker SPEC`: one host of a run that a parent has spread over processes.

SPEC is what `RunSpec.to_json` wrote, or a file that holds it. Rank 0 sends its progress to the parent, a line of
JSON at a time.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from any2vec._version import __version__
from any2vec.cluster.launch.join import run_child
from any2vec.errors import FormatError
from any2vec.train.spec import Hooks, RunSpec


def given_spec() -> RunSpec:
    """The spec that the command line names or holds.

    Raises:
        FormatError: it is none that this version can carry out.
    """
    given = sys.argv[1]
    try:
        return RunSpec.from_json(given if given.startswith("{") else Path(given).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"This is no run that any2vec {__version__} can carry out ({error}): {given[:80]}") from error


def send(name: str, value: Any) -> None:
    """One line to the parent."""
    print(json.dumps({name: value}), flush=True)


def main() -> None:
    """Train as the spec says."""
    from any2vec.train.fit import train

    hooks = Hooks(progress=lambda record: send("record", record.as_dict()), stage=lambda *stage: send("stage", stage))
    train(given_spec(), hooks, time.perf_counter(), is_worker=True)


if __name__ == "__main__":
    run_child(main)
