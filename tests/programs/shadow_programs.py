"""Programs that tests start as processes: dense replicas that synchronise. `python -m shadow_programs SETTINGS`"""

from __future__ import annotations

import json
import sys

import numpy as np

from any2vec.cluster.launch import join as launch
from any2vec.cluster.transport import control
from any2vec.sync.base.circle import Circle
from any2vec.sync.options.replica_names import Fixed, FixedEasgd, Shadow, ShadowEasgd, parse_click_sync
from any2vec.sync.replica_make import make_replicated, needs_centre
from any2vec.sync.rules.centre import ServedCentre
from any2vec.tables.replica import Replica
from planted_replicas import PlantedSquares


def run(sync: str, trainers: int, batches: int) -> None:
    """Ranks from `trainers` on serve the centre; rank 0 prints the excess loss and how often each trainer synced."""
    problem, how = PlantedSquares(), parse_click_sync(sync)
    assert isinstance(how, Shadow | Fixed)
    with launch.join("shadow") as transport:
        centre = None
        if isinstance(how, ShadowEasgd | FixedEasgd):
            centre = ServedCentre(transport, problem.size, range(trainers, transport.hosts), trainers, how.alpha)
            centre.start()
        found, syncs = None, 0
        if transport.rank < trainers:
            replica = Replica(np.zeros(problem.size, np.float32), "sgd", 0.02)
            agreement = make_replicated(how, replica, Circle(transport, trainers), centre)
            agreement.start()
            for index in range(batches * (1 + transport.rank)):
                step = agreement.begin(0, index)
                agreement.apply(0, step, problem.gradient(replica.value, transport.rank, index))
            agreement.close()
            found, syncs = agreement.gather_result(), agreement.facts()["syncs"]
        if centre is not None:
            centre.close(timeout=60)
        told = transport.gather([control(syncs)], "report")
        if transport.rank == 0:
            assert found is not None and needs_centre(how) == (centre is not None)
            print(json.dumps([problem.excess(found), [int(parts[0].array[0]) for parts in told.values()]]))


if __name__ == "__main__":
    settings = json.loads(sys.argv[1])
    launch.run_child(lambda: run(**settings))
