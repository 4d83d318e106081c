"""Runs of a stream over logical hosts, batch by batch, for the tests of roles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.cluster.work_queue import QueueWorker, WorkQueue
from any2vec.kernels.common.alias import build_alias
from any2vec.models.stream.config import StreamSkipGram
from any2vec.models.stream.skipgram import StreamedSkipGram
from any2vec.models.stream.token_batch import GAP, TokenBatch
from any2vec.plan.order.roles import StreamRoles
from any2vec.sync.drivers.dense_batches import DenseBatches
from any2vec.sync.drivers.served_batches import ServedBatches
from any2vec.sync.drivers.stream_tables import StreamTables
from any2vec.sync.options.streams import StreamAgreement
from any2vec.sync.rules.merges import Sum
from any2vec.tasks.stream.hosts.dense_steps import agreed_steps, dense_in_rounds, make_gradients
from any2vec.tasks.stream.hosts.queue_batches import assigned_parts
from any2vec.tasks.stream.hosts.work_queue import QueueLearner
from any2vec.train.loop import run
from any2vec.types import Stats, Work

MAX_ROWS, DIM = 60, 12
IDLE = TokenBatch(0, np.zeros(0, np.int32), 0)
CONFIG = StreamSkipGram(dim=DIM, window=3, num_negatives=4, subsample=0.0)


def made_batches(number: int, size: int = 120, seed: int = 0, reborn: bool = True) -> list[TokenBatch]:
    """Batches of random words whose vocabulary grows by two words each; with `reborn`, now and then an old row goes to
    another word.
    """
    rng = np.random.default_rng(seed)
    found, offset, words, known = [], 0, 0, 0
    for index in range(number):
        born = np.arange(known, min(MAX_ROWS, known + (12 if index == 0 else 2)))
        known += len(born)
        if reborn and index % 3 == 2:
            born = np.unique(np.append(born, rng.integers(0, known)))
        tokens = rng.integers(0, known + 1, size).astype(np.int32)
        tokens[tokens == known] = MAX_ROWS
        tokens[9::10] = -1
        tokens.flags.writeable = False
        if index % 2 == 0:  # what the vocabulary says of all rows is made anew now and then
            counts_V = np.where(np.arange(MAX_ROWS) < known, rng.integers(1, 50, MAX_ROWS), 0)
            threshold_V, alias_V = build_alias(counts_V**0.75)
            keep_V = np.full(MAX_ROWS, np.uint64(2**32))
        words_here = int((tokens >= 0).sum())
        found.append(TokenBatch(index, tokens, offset, born, threshold_V, alias_V, keep_V, 1.0, words_here, words))
        offset, words = offset + size + GAP, words + words_here
    return found


def learner_of(threads: int = 1) -> StreamedSkipGram:
    return StreamedSkipGram(CONFIG, max_rows=MAX_ROWS, threads=threads, seed=1)


def alone(batches: Sequence[TokenBatch]) -> dict[str, np.ndarray]:
    """The tables of a single process."""
    learner = learner_of()
    for batch in batches:
        learner.run(batch.work)
    return {name: table.copy() for name, table in learner.state_dict().items()}


def over_hosts(
    batches: Sequence[TokenBatch], trainers: int, servers: int, sync: str,
    more: Callable[[QueueLearner, Stats], Any] = lambda learner, stats: None,
    before: Callable[[QueueLearner], Any] = lambda learner: None, watch: Any = None,
    make: Callable[[], Any] | None = None,
) -> tuple[dict[str, np.ndarray], Any, dict[str, int]]:  # fmt: skip
    """(the tables, what `more` gives of the learner and all that was told, bytes that all sent by phase).

    watch: a list to which each batch of a trainer adds (rank, rows asked for, rows changed), both by table and owner;
    the bytes are those until everything is trained.
    """
    patience = 60.0
    roles = StreamRoles(trainers, servers)
    name, _, own_bound = sync.partition(":")
    how = StreamAgreement(
        trainers=trainers, servers=servers, sync=name, staleness_bound=int(own_bound) if own_bound else None
    )
    bound = {"sync": 0, "async": None, "dense": 0}[sync] if not sync.startswith("bounded") else int(sync[8:])

    transports: list[Transport] = []

    def dense_host(transport: Transport, roles: StreamRoles, own: Any) -> Any:
        if transport.rank:
            gradients = make_gradients(transport, roles, how, own)
            assert gradients is not None
            gradients.start()
            if transport.rank in roles.training:
                driver = agreed_steps(gradients, own, how, trainers)
                run(*assigned_parts(QueueWorker(transport, 0), own, driver, transport.rank == 1))
            gradients.close()
            return gradients.metrics()
        learner = QueueLearner(own, WorkQueue(transport, roles.training), None, dense_in_rounds(how))
        before(learner)
        for batch in batches:
            learner.run(batch.work)
        state = {name: array.copy() for name, array in learner.state_dict().items()}
        learner.end()
        return state, None, {}

    def host(transport: Transport) -> Any:
        transports.append(transport)
        own = learner_of() if make is None else make()
        if make is not None:
            return dense_host(transport, roles, own)
        start = {name: (lambda rows, name=name: own.start_values(name, rows)) for name in own.tables}
        tables = (
            None
            if sync == "dense"
            else StreamTables(
                transport,
                roles,
                start,
                {name: table.shape for name, table in own.tables.items()},
                own.fixed_tables,
                bound,
                Sum if sync == "sync" else None,
                patience,
            )
        )
        if transport.rank in roles.training:
            driver = (
                DenseBatches(transport, roles.training, own.tables) if tables is None
                else Watched(tables, own.tables, own.trace)
            )  # fmt: skip
            if isinstance(driver, Watched):
                driver.seen = [] if watch is None else watch
            own.compile()
            run(*assigned_parts(QueueWorker(transport, 0), own, driver, tables is None and transport.rank == 1))
        elif transport.rank == 0:
            learner = QueueLearner(own, WorkQueue(transport, roles.training), tables, sync in ("sync", "dense"))
            learner.compile()
            before(learner)
            stats = Stats(0, 0.0, 0)
            for batch in batches:
                stats += learner.run(batch.work)
            learner.settle()
            ways = [other.counters.bytes_by_phase() for other in transports]
            state = {name: table.copy() for name, table in learner.state_dict().items()}
            found = more(learner, stats + learner.run(IDLE.work))
            learner.end()
            if tables is not None:
                tables.close()
            return state, found, dict(sum(map(Counter, ways), Counter()))
        if tables is not None:
            tables.close()
        return None

    return run_logical(roles.ranks, host, patience=patience)[0]


class Watched(ServedBatches):
    """Notes what rows a batch asks for and changes, by table and owner."""

    seen: list[Any]

    def after(self, work: Work[TokenBatch], stats: Stats) -> None:
        transport, asked, changed = self.tables.client.transport, [], []
        for name, rows in self._rows.items():
            bounds = np.unique(self.tables.bounds[name])
            is_changed = (self.here[name][rows] != self._start[name]).any(axis=1)
            asked.append(np.diff(np.searchsorted(self._places[name], bounds)).tolist())
            changed.append(np.diff(np.searchsorted(self._places[name][is_changed], bounds)).tolist())
        self.seen.append((transport.rank, asked, changed))
        super().after(work, stats)


def twin_in_step(batches: Sequence[TokenBatch], trainers: int) -> dict[str, np.ndarray]:
    """A plain twin of rounds: each trainer's batch on a copy of the rows, then in float64 the sum of what they made."""
    learner = learner_of()
    for at in range(0, len(batches), trainers):
        rounds = list(batches[at : at + trainers])
        learner.start(np.unique(np.concatenate([batch.born for batch in rounds])))
        start = {name: table.copy() for name, table in learner.tables.items()}
        made = []
        for place, batch in enumerate(rounds):
            later = {row for other in rounds[place + 1 :] for row in other.born.tolist()}
            tokens = np.array([MAX_ROWS if token in later else token for token in batch.tokens.tolist()], np.int32)
            tokens.flags.writeable = False
            for name, table in learner.tables.items():
                table[:] = start[name]
            learner.run(replace(batch, tokens=tokens, born=np.zeros(0, np.int64)).work)
            made.append({name: table.copy() for name, table in learner.tables.items()})
        for name, table in learner.tables.items():
            for row in range(MAX_ROWS):
                changed = [one[name][row] for one in made if (one[name][row] != start[name][row]).any()]
                if len(changed) == 1:
                    table[row] = changed[0]
                elif changed:
                    total = sum(one.astype(np.float64) - start[name][row].astype(np.float64) for one in changed)
                    table[row] = (start[name][row].astype(np.float64) + total).astype(np.float32)
                else:
                    table[row] = start[name][row]
    return {name: table.copy() for name, table in learner.state_dict().items()}
