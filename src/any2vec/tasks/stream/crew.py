"""One rank of a run over a stream: rank 0 keeps the run and deals, then come trainers, then servers of rows."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np

from any2vec.cluster.dealer import Dealer, Hand
from any2vec.cluster.transport import LONG_WORK, Transport, text_of, text_part
from any2vec.embeddings import Embeddings
from any2vec.errors import InputError
from any2vec.models.stream.config import StreamModel
from any2vec.models.stream.learner import StreamLearner
from any2vec.models.stream.token_batch import TokenBatch
from any2vec.plan.order.roles import StreamRoles
from any2vec.signals import stops_go_to
from any2vec.sync.drivers.dense_batches import DenseBatches
from any2vec.sync.drivers.served_batches import ServedBatches
from any2vec.sync.drivers.stream_tables import StreamTables
from any2vec.sync.drivers.summed_batches import SummedBatches
from any2vec.sync.options.rules import rule_class
from any2vec.sync.options.streams import StreamAgreement
from any2vec.sync.rules.block import compile_merges
from any2vec.tasks.stream.hosts.dealer import DealtLearner
from any2vec.tasks.stream.hosts.trainer import TrainerDriver, train_dealt
from any2vec.tasks.stream.models import budget, learner_of, make_learner
from any2vec.tasks.stream.progress import StreamProgress
from any2vec.tasks.stream.run import StreamRun
from any2vec.tasks.stream.settings import memory_bytes
from any2vec.train.result import summed
from any2vec.train.spec import Request

_ROWS = ("tables", "start", "start_values", "touch")
"""what a learner has whose rows others may hold"""


def check_model(model: StreamModel, hosts: StreamAgreement) -> None:
    """InputError unless a model can be trained so by several hosts."""
    if model.is_dense:
        if hosts.sync != "sync" or hosts.servers:
            raise InputError(
                f"The trainers of {model.name} sum their gradients at every step and hold all parameters; give them "
                "--sync sync and no servers."
            )
    elif not all(hasattr(learner_of(model), part) for part in _ROWS):
        raise InputError(f"The model {model.name} is trained by one process; leave out --hosts and --logical-hosts.")


def run_rank(
    request: Request, hosts: StreamAgreement, transport: Transport
) -> tuple[Embeddings, dict[str, Any], list[StreamProgress]] | None:
    """The part of one rank; (vectors, summary, records) at rank 0, None elsewhere. All ranks call it together.

    Raises:
        HostError: another host is lost.
        Others, as `stream`.
    """
    roles = StreamRoles.of(transport.hosts, hosts.servers)
    if transport.rank == 0:
        leader = Leader(transport, roles, hosts)
        return StreamRun(request, leader).train()
    # Who asked for a stop asked rank 0, too: it ends what is under way, and says so.
    with stops_go_to(lambda number, frame: None):
        own = _made(request)
        tables = make_tables(transport, roles, hosts, own)
        if transport.rank in roles.training:
            driver = make_driver(transport, roles, tables, own)
            _compile(own)
            transport.barrier("ready", timeout=LONG_WORK)
            if isinstance(driver, SummedBatches):
                driver.start()
            train_dealt(Hand(transport, 0), own, driver, tables is None and transport.rank == roles.training.start)
        else:
            transport.barrier("ready", timeout=LONG_WORK)
        if tables is not None:
            tables.close()  # a server serves until everyone has
        own.close()
        _gather_facts(transport)
    return None


class Leader:
    """What rank 0 adds to a run: a learner that deals, and the end of those that it deals to."""

    def __init__(self, transport: Transport, roles: StreamRoles, hosts: StreamAgreement) -> None:
        self.transport = transport
        self.roles = roles
        self.hosts = hosts
        self.learner: DealtLearner | None = None

    @property
    def in_rounds(self) -> bool:
        """Whether sources are read in step."""
        return self.hosts.in_rounds

    def lead(self, own: StreamLearner) -> DealtLearner:
        """The learner of the run, once all hosts are ready."""
        tables = make_tables(self.transport, self.roles, self.hosts, own)
        self.transport.barrier("ready", timeout=LONG_WORK)
        dealer = Dealer(self.transport, self.roles.training, self.hosts.credits)
        self.learner = DealtLearner(own, dealer, tables, self.hosts.in_rounds)
        return self.learner

    def staleness(self) -> dict[str, int]:
        """Batches by how many of others took effect between their pull and their push."""
        return {} if self.learner is None else dict(self.learner.facts()["staleness"])

    def finish(self) -> dict[str, Any]:
        """End the trainers and servers in good order; what the summary says of them.

        Raises:
            HostError: a host is lost.
        """
        assert self.learner is not None
        facts = self.learner.facts()
        self.learner.end()
        if self.learner.tables is not None:
            self.learner.tables.close()
        told = _gather_facts(self.transport)
        return {
            "hosts": self.roles.trainers, "servers": self.roles.servers, "sync": self.hosts.sync,
            "batches_of_hosts": facts["batches"], "dropped_rows": facts["dropped"],
            "bytes_by_kind": summed([host["bytes_by_kind"] for host in told]),
            "bytes_by_phase": summed([host["bytes_by_phase"] for host in told]),
        }  # fmt: skip


def make_tables(transport: Transport, roles: StreamRoles, hosts: StreamAgreement, own: Any) -> StreamTables | None:
    """This rank's way to the rows; None where every trainer has the whole state."""
    if hosts.sync == "dense" or hasattr(own, "step"):
        return None
    start = {name: partial(own.start_values, name) for name in own.tables}
    shape = next(iter(own.tables.values())).shape
    rule = None if hosts.rule is None else rule_class(hosts.rule)
    return StreamTables(transport, roles, start, (shape[0], shape[1]), hosts.bound, rule)


def make_driver(transport: Transport, roles: StreamRoles, tables: StreamTables | None, own: Any) -> TrainerDriver:
    """How a trainer agrees with the others."""
    if tables is not None:
        return ServedBatches(tables, own.tables, own.touch)
    if hasattr(own, "step"):
        driver = SummedBatches(transport, roles.training, own.values(), own.step)
        own.agree, own.share = driver.agree, 1.0 / roles.trainers
        return driver
    return DenseBatches(transport, roles.training, own.tables)


def _made(request: Request) -> StreamLearner:
    room = budget(request.spec.model, memory_bytes(request.spec))
    return make_learner(request.spec.model, max_rows=room.max_rows, threads=request.threads, seed=request.spec.run.seed)


def _compile(own: Any) -> None:
    """Compile what a trainer needs, so that nobody waits for it later."""
    own.compile()
    if not hasattr(own, "touch"):
        return
    tokens = np.zeros(0, np.int32)
    tokens.flags.writeable = False
    noise = np.full(1, 2**32 - 1, np.uint32), np.zeros(1, np.int32)
    empty = TokenBatch(0, tokens, 0, np.zeros(0, np.int64), *noise, np.zeros(1, np.uint64))
    own.touch(empty, {name: np.zeros(1, np.uint8) for name in own.tables})
    compile_merges(next(iter(own.tables.values())).shape[1])


def _gather_facts(transport: Transport) -> list[dict[str, Any]]:
    """What each host has sent, at rank 0; [] elsewhere."""
    counters = transport.counters
    own = {"bytes_by_kind": counters.bytes_by_kind(), "bytes_by_phase": counters.bytes_by_phase()}
    found = transport.gather([text_part(json.dumps(own))], "facts", timeout=LONG_WORK)
    return [json.loads(text_of(parts[0])) for parts in found.values()]
