"""`python -m any2vec.train.stream.hosts.worker JOB`: one host of a run over a stream that a parent has started.

JOB is what `StreamJob.to_json` made, or a file that holds it. Rank 0 tells the parent how far it is, a line of JSON at
a time, and at the end the summary.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from any2vec._version import __version__
from any2vec.cluster.launch.join import run_child
from any2vec.errors import FormatError
from any2vec.train.stream.hosts.job import StreamJob


def main() -> None:
    """Do the part of this rank."""
    from any2vec.train.stream.hosts.spread import run_joined

    told = sys.argv[1]
    try:
        job = StreamJob.from_json(told if told.startswith("{") else Path(told).read_text(encoding="utf-8"))
        request = job.request(lambda record: _tell("record", record.as_dict()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"This is no job that any2vec {__version__} can carry out ({error}): {told[:80]}") from error
    made = run_joined(request, job.hosts)
    if made is not None:
        _tell("summary", made[1])


def _tell(name: str, value: Any) -> None:
    print(json.dumps({name: value}), flush=True)


if __name__ == "__main__":
    run_child(main)
