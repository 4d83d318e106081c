"""One host of rounds of made-up batches: `python -m benchmarks.streams.rounds SHAPES`, started as torchrun would.

Rank 0 deals batches of Zipf words to the other ranks, which train them as trainers of a stream do, on tables of V rows,
one shape after the other. SHAPES is a JSON list of lists, the fields of `Shape`. A line of JSON for each tells the
seconds of its rounds, and bytes as counted and as the formula has them.

Legend: V rows of a table, T tokens.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from any2vec.cluster.counters import Counters
from any2vec.cluster.transport import Transport, text_of, text_part
from any2vec.cluster.work_queue import QueueWorker, WorkQueue
from any2vec.kernels.common.alias import build_alias
from any2vec.models.stream.config import StreamSkipGram
from any2vec.models.stream.skipgram import StreamedSkipGram
from any2vec.models.stream.token_batch import GAP, TokenBatch
from any2vec.plan.order.roles import StreamRoles
from any2vec.plan.sharding.sharding import contiguous_bounds
from any2vec.sync.drivers.dense_batches import DenseBatches
from any2vec.sync.drivers.served_batches import ServedBatches
from any2vec.sync.drivers.stream_tables import StreamTables
from any2vec.sync.rules.block import compile_merges
from any2vec.sync.rules.merges import Sum
from any2vec.tasks.stream.hosts.queue_batches import assigned_parts
from any2vec.tasks.stream.hosts.work_queue import QueueLearner
from any2vec.train.loop import run
from any2vec.types import Stats, Work
from benchmarks.streams.traffic_formula import dense_bytes, sparse_bytes
from benchmarks.table import RowError

WINDOW, NEGATIVES = 5, 10
"""of the system of 2018"""
LINE = 20
PATIENCE = 120.0
"""seconds of a round"""
TRAINING = ("pull", "push", "tick", "reduce", "broadcast")
"""phases of what the trainers' agreement sends; the batches themselves are apart"""


@dataclass(frozen=True)
class Shape:
    """What is measured."""

    rows: int
    dim: int
    tokens: int
    """of a batch"""
    rounds: int
    sync: str
    """sync or dense"""
    servers: int = 0


class Watched(ServedBatches):
    """Adds up what the formula says of its batches."""

    said: Counter[str]
    accessed = 0

    def after(self, work: Work[TokenBatch], stats: Stats) -> None:
        transport = self.tables.client.transport
        asked, changed = [], []
        for name, rows in self._rows.items():
            bounds = np.array(self.tables.bounds[name])  # of all tables alike
            is_changed = (self.here[name][rows] != self._start[name]).any(axis=1)
            asked.append(np.diff(np.searchsorted(self._places[name], bounds)).tolist())
            changed.append(np.diff(np.searchsorted(self._places[name][is_changed], bounds)).tolist())
            self.accessed += len(rows)
        sizes = np.diff(bounds).tolist()
        self.said.update(sparse_bytes(asked, changed, sizes, self.here[name].shape[1], transport.hosts, transport.rank))
        super().after(work, stats)


def batches(shape: Shape, number: int) -> list[TokenBatch]:
    """So many batches of words whose counts fall as 1 / rank; all words are born with the first."""
    rng = np.random.default_rng(1)
    share_V = 1.0 / np.arange(1, shape.rows + 1)
    noise = build_alias(share_V**0.75)
    keep_V = np.full(shape.rows, 2**32, np.uint64)
    found = []
    for index in range(number):
        tokens = rng.choice(shape.rows, shape.tokens, p=share_V / share_V.sum()).astype(np.int32)
        tokens[LINE - 1 :: LINE] = -1
        tokens.flags.writeable = False
        born = np.arange(shape.rows if index == 0 else 0)
        offset = index * (shape.tokens + GAP)
        found.append(TokenBatch(index, tokens, offset, born, *noise, keep_V, 1.0, int((tokens >= 0).sum())))
    return found


def host(shape: Shape, transport: Transport) -> dict[str, Any] | None:
    """The part of one rank; at rank 0 what was measured."""
    roles = StreamRoles.of(transport.hosts, shape.servers)
    config = StreamSkipGram(dim=shape.dim, window=WINDOW, num_negatives=NEGATIVES)
    own = StreamedSkipGram(config, max_rows=shape.rows, threads=1, seed=1)
    own.compile()
    compile_merges(shape.dim)
    start = {name: partial(own.start_values, name) for name in own.tables}
    tables = None
    if shape.sync != "dense":
        tables = StreamTables(transport, roles, start, dict.fromkeys(start, (shape.rows, shape.dim)), (), 0, Sum)
    driver: Watched | DenseBatches | None = None
    if transport.rank in roles.training:
        if tables is None:
            driver = DenseBatches(transport, list(roles.training), own.tables)
        else:
            driver = Watched(tables, own.tables, own.trace)
            driver.said = Counter()
    transport.barrier("ready")
    transport.counters = Counters()
    seconds: list[float] = []
    if driver is not None:
        run(*assigned_parts(QueueWorker(transport, 0), own, driver, False))
    elif transport.rank == 0:
        seconds = _assign(shape, transport, QueueLearner(own, WorkQueue(transport, roles.training, 1), tables, True))
    if tables is not None:
        tables.close()
    own_metrics = {
        "bytes": transport.counters.bytes_by_phase(), "said": getattr(driver, "said", {}),
        "touched": getattr(driver, "accessed", 0),
    }  # fmt: skip
    gathered = transport.gather([text_part(json.dumps(own_metrics))], "facts")
    reported = [json.loads(text_of(parts[0])) for parts in gathered.values()]
    transport.barrier("next")  # all servers have ended before another asks
    return _result(shape, roles, seconds, reported) if transport.rank == 0 else None


def _assign(shape: Shape, transport: Transport, learner: QueueLearner) -> list[float]:
    """Seconds of each round: the first is not counted, for kernels are compiled and memory is touched in it."""
    trainers = len(learner.work_queue.peers)
    made = batches(shape, trainers * (shape.rounds + 1))
    moments = []
    for at in range(0, len(made), trainers):
        for batch in made[at : at + trainers]:
            learner.run(batch.work)
        deadline = time.monotonic() + PATIENCE
        while learner.work_queue.under_way:
            time.sleep(0.0005)
            if time.monotonic() > deadline:
                raise RowError(f"a round was not over after {PATIENCE:g} s: a trainer has ended, or is stuck")
            learner.run(TokenBatch(0, np.zeros(0, np.int32), 0).work)
        moments.append(time.perf_counter())
    learner.work_queue.close()
    return [after - before for before, after in itertools.pairwise(moments)]


def _result(shape: Shape, roles: StreamRoles, seconds: list[float], reported: list[dict[str, Any]]) -> dict[str, Any]:
    count = roles.trainers * (shape.rounds + 1)
    counted: Counter[str] = Counter()
    said: Counter[str] = Counter()
    for one in reported:
        counted.update({phase: size for phase, size in one["bytes"].items() if phase in TRAINING})
        said.update(one["said"])
    if shape.sync == "dense":
        rounds = dense_bytes(shape.rows, shape.dim, roles.trainers)
        said.update({phase: (shape.rounds + 1) * size for phase, size in rounds.items()})
    block = np.diff(contiguous_bounds(shape.rows, max(1, len(roles.row_owners)))).tolist()
    return asdict(shape) | {
        "trainers": roles.trainers, "seconds": seconds, "counted": dict(counted), "said": dict(said),
        "bytes_per_batch": sum(counted.values()) / count,
        "rows_per_batch": sum(one["touched"] for one in reported) / count,
        "block_rows": block, "is_equal": +counted == +said,
    }  # fmt: skip


def main() -> None:
    from any2vec.cluster.launch.join import join, run_child

    def work() -> None:
        with join(sys.argv[1]) as transport:
            for numbers in json.loads(sys.argv[1]):
                found = host(Shape(*numbers), transport)
                if found is not None:
                    print(json.dumps(found), flush=True)

    run_child(work)


if __name__ == "__main__":
    main()
