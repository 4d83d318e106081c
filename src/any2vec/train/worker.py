"""`python -m any2vec.train.worker JOB`: one host of a run that a parent has spread over processes.

JOB is what `TrainJob.to_json` made, or a file that holds it. Rank 0 tells the parent how far it is, a line of JSON at
a time.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from any2vec._version import __version__
from any2vec.cluster.launch.join import run_child
from any2vec.errors import FormatError
from any2vec.train.job import TrainJob


def main() -> None:
    """Train as the job says."""
    from any2vec.train.fit import fit

    told = sys.argv[1]
    try:
        job = TrainJob.from_json(told if told.startswith("{") else Path(told).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"This is no job that any2vec {__version__} can carry out ({error}): {told[:80]}") from error
    data: Any = job.data[0] if len(job.data) == 1 else job.data
    fit(
        job.model, data, **job.arguments, text=job.text, graph=job.graph, schema=job.schema, triples=job.triples,
        nodes=job.nodes, hosts=job.hosts, callback=lambda record: _tell("record", record.as_dict()),
        stage=lambda *stage: _tell("stage", stage),
    )  # fmt: skip


def _tell(name: str, value: Any) -> None:
    print(json.dumps({name: value}), flush=True)


if __name__ == "__main__":
    run_child(main)
