"""Programs that tests start as processes: dense replicas that synchronize. `python -m shadow_programs SETTINGS`"""

from __future__ import annotations

import json
import sys

import numpy as np

from any2vec.cluster.launch import join as launch
from any2vec.cluster.transport import control
from any2vec.sync.base.group import ProcessGroup
from any2vec.sync.make import make_replicated
from any2vec.sync.options.names import Fixed, FixedEasgd, Shadow, ShadowEasgd, parse_click_sync
from any2vec.sync.rules.center import ServedCenter
from any2vec.tables.replica import Replica
from planted_replicas import PlantedSquares


def run(sync: str, trainers: int, batches: int) -> None:
    """Ranks from `trainers` on serve the center; rank 0 prints the excess loss and how often each trainer synced."""
    problem, how = PlantedSquares(), parse_click_sync(sync)
    assert isinstance(how, Shadow | Fixed)
    with launch.join("shadow") as transport:
        center = None
        if isinstance(how, ShadowEasgd | FixedEasgd):
            center = ServedCenter(transport, problem.size, range(trainers, transport.hosts), trainers, how.alpha)
            center.start()
        found, syncs = None, 0
        if transport.rank < trainers:
            replica = Replica(np.zeros(problem.size, np.float32), "sgd", 0.02)
            agreement = make_replicated(how, replica, ProcessGroup(transport, trainers), center)
            agreement.start()
            for index in range(batches * (1 + transport.rank)):
                step = agreement.begin(0, index)
                agreement.apply(0, step, problem.gradient(replica.value, transport.rank, index))
            agreement.close()
            found, syncs = agreement.gather_result(), agreement.metrics()["syncs"]
        if center is not None:
            center.close(timeout=60)
        reported = transport.gather([control(syncs)], "report")
        if transport.rank == 0:
            assert found is not None and isinstance(how, ShadowEasgd | FixedEasgd) == (center is not None)
            print(json.dumps([problem.excess(found), [int(parts[0].array[0]) for parts in reported.values()]]))


if __name__ == "__main__":
    settings = json.loads(sys.argv[1])
    launch.run_child(lambda: run(**settings))
