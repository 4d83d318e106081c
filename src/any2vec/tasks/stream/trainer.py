"""What a host of a stream does that rank 0 deals batches to, or that holds rows of those that train."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np

from any2vec.cluster.transport import LONG_WORK, Transport
from any2vec.cluster.work_queue import QueueWorker
from any2vec.models.stream.learner import StreamLearner
from any2vec.models.stream.token_batch import TokenBatch
from any2vec.plan.order.roles import StreamRoles
from any2vec.sources.opening import crawl_services
from any2vec.sync.drivers.dense_batches import DenseBatches
from any2vec.sync.drivers.served_batches import ServedBatches
from any2vec.sync.drivers.served_gradients import ServedGradients
from any2vec.sync.drivers.stream_tables import StreamTables
from any2vec.sync.drivers.summed_gradients import SummedGradients
from any2vec.sync.options.streams import StreamAgreement
from any2vec.sync.rules.block import compile_merges
from any2vec.tasks.stream.hosts.dense_steps import agreed_steps, make_gradients
from any2vec.tasks.stream.hosts.queue_batches import TrainerDriver, assigned_parts
from any2vec.tasks.stream.hosts.work_queue import make_tables, sent_by_all
from any2vec.tasks.stream.models import budget, make_learner
from any2vec.tasks.stream.settings import memory_bytes
from any2vec.train.frame import Program
from any2vec.train.loop import LocalDriver, LoopParts
from any2vec.train.progress import Recorder
from any2vec.train.result import Result
from any2vec.train.spec import Request


class TrainerProgram(Program):
    """A rank other than 0."""

    learner: StreamLearner

    def __init__(self, request: Request, transport: Transport) -> None:
        super().__init__(request, transport)
        self.learner = make_learner(request, budget(request.spec.model, memory_bytes(request.spec)))
        is_apart = request.spec.run.readers == "processes"
        self._crawls = [] if is_apart else crawl_services(transport, request.spec.data)

    def compile(self) -> None:
        own, transport = self.learner, self.transport
        roles = StreamRoles.of(transport.hosts, self.request.agreement.servers)
        self._tables = make_tables(transport, roles, self.request.agreement, own)
        self._gradients = make_gradients(transport, roles, self.request.agreement, own)
        self._parts = LoopParts((), own, LocalDriver(), lambda work, stats: None)
        driver = None
        if transport.rank in roles.training:
            driver = _driver(transport, roles, self._tables, self._gradients, own, self.request.agreement)
            sends_state = self._tables is None and transport.rank == roles.training.start
            self._parts = assigned_parts(QueueWorker(transport, 0), own, driver, sends_state)
            _compile(own)
        transport.barrier("ready", timeout=LONG_WORK)
        for service in self._crawls:
            service.start()
        if self._gradients is not None:
            self._gradients.start()

    def on_stop(self, number: int, frame: FrameType | None) -> None:
        """Who asked for a stop asked rank 0, too: it ends what is under way, and says so."""

    @contextmanager
    def working(self, recorder: Recorder) -> Iterator[LoopParts]:
        yield self._parts
        if self._tables is not None:
            self._tables.close()  # a server serves until everyone has
        if self._gradients is not None:
            self._gradients.close()
        self.learner.close()
        sent_by_all(self.transport, {} if self._gradients is None else self._gradients.metrics())
        for service in self._crawls:
            service.close()

    def stored(self) -> Result:
        raise AssertionError("rank 0 has the result")


def _driver(
    transport: Transport, roles: StreamRoles, tables: StreamTables | None,
    gradients: SummedGradients | ServedGradients | None, own: Any, how: StreamAgreement,
) -> TrainerDriver:  # fmt: skip
    """How a trainer agrees with the others."""
    if tables is not None:
        return ServedBatches(tables, own.tables, own.trace)
    if gradients is None:
        return DenseBatches(transport, roles.training, own.tables)
    return agreed_steps(gradients, own, how, roles.trainers)


def _compile(own: Any) -> None:
    """Compile what a trainer needs, so that nobody waits for it later."""
    own.compile()
    if not hasattr(own, "trace"):
        return
    tokens = np.zeros(0, np.int32)
    tokens.flags.writeable = False
    noise = np.full(1, 2**32 - 1, np.uint32), np.zeros(1, np.int32)
    empty = TokenBatch(0, tokens, 0, np.zeros(0, np.int64), *noise, np.zeros(1, np.uint64))
    own.trace(empty, {name: np.zeros(1, np.uint8) for name in own.tables})
    compile_merges(next(iter(own.tables.values())).shape[1])
