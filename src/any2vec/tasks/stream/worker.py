"""`python -m any2vec.tasks.stream.worker SPEC`: one host of a run over a stream that a parent has started.

SPEC is what `RunSpec.to_json` wrote, or a file that holds it. Rank 0 tells the parent how far it is, a line of JSON at
a time, and at the end the summary.
"""

from __future__ import annotations

import time

from any2vec.cluster.launch.join import run_child
from any2vec.train.spec import Hooks
from any2vec.train.worker import given_spec, send


def main() -> None:
    """Do the part of this rank."""
    from any2vec.tasks.stream.spread import run_joined

    hooks = Hooks(progress=lambda record: send("record", record.as_dict()))
    made = run_joined(given_spec(), hooks, time.perf_counter())
    if made is not None:
        send("summary", made[1])


if __name__ == "__main__":
    run_child(main)
