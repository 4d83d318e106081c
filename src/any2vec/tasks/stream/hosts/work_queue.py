"""The learner of rank 0 where a stream is trained by others: it deals batches out and keeps the account.

The loop above it is that of a single process. What it holds of the tables itself are the rows that a checkpoint or a
snapshot wants, fetched where all trainers stand still.

Legend: V rows of the tables, D dim.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from any2vec.cluster.counters import summed
from any2vec.cluster.transport import LONG_WORK, Transport, control
from any2vec.cluster.work_queue import Done, WorkQueue
from any2vec.data.stream.vocabulary import StreamVocabulary
from any2vec.embeddings import Embeddings
from any2vec.errors import HostError
from any2vec.models.stream.learner import StreamLearner
from any2vec.models.stream.token_batch import Sentences, TokenBatch
from any2vec.plan.order.roles import StreamRoles
from any2vec.sync.drivers.stream_tables import StreamTables
from any2vec.sync.options.rules import rule_class
from any2vec.sync.options.streams import StreamAgreement
from any2vec.tables.server.request import ANY_TIME
from any2vec.tasks.stream.hosts.dense_steps import dense_in_rounds
from any2vec.tasks.stream.hosts.wire import Piece, Sender, put_parts, stats_of
from any2vec.train.in_memory.hosts import gather_numbers
from any2vec.types import State, Stats, Work


class QueueLearner:
    """A `StreamLearner` of rank 0.

    In rounds every trainer gets a batch, and the round is dealt when it is whole; otherwise a batch goes to whoever
    holds least.

    Args:
        own: makes vectors of rows, and knows their start values; its rows are those that were fetched last.
        tables: where the rows are; None: each trainer has the whole state, and the first one sends it.
    """

    def __init__(self, own: StreamLearner, work_queue: WorkQueue, tables: StreamTables | None, in_rounds: bool) -> None:
        self.own: Any = own
        self.work_queue = work_queue
        self.tables = tables
        self.in_rounds = in_rounds
        self.batches = 0
        """that trainers have ended"""
        self._senders = {peer: Sender() for peer in work_queue.peers}
        self._clock = dict.fromkeys(work_queue.peers, 0)
        """of each trainer's next batch"""
        self._round: list[TokenBatch] = []
        self._birth = 0
        self._received = Stats(0, 0.0, 0)
        self._replayed: dict[int, Sentences | None] = {}
        """pieces of lines that have been trained before: their loss is not that of new lines, but may decide what is
        replayed"""
        self._is_settled = True
        self.is_stale = False
        """whether trainers that have the whole state step by gradients of former parameters: servers count those"""
        self._num_rows = len(next(iter(getattr(own, "tables", {}).values()), ()))
        """V; 0: batches bring what their rows stand for, and nothing is kept by row"""

    @classmethod
    def of(cls, own: StreamLearner, agreement: StreamAgreement, transport: Transport) -> QueueLearner:
        """That of a run, once all hosts are ready."""
        roles = StreamRoles.of(transport.hosts, agreement.servers)
        tables = make_tables(transport, roles, agreement, own)
        transport.barrier("ready", timeout=LONG_WORK)
        is_dense = hasattr(own, "step")
        found = cls(
            own, WorkQueue(transport, roles.training, agreement.credits), tables,
            dense_in_rounds(agreement) if is_dense else agreement.in_rounds,
        )  # fmt: skip
        found.is_stale = is_dense and not agreement.in_rounds
        return found

    def compile(self) -> None:
        self.own.compile()

    def prepare(self, tokens: np.ndarray, vocabulary: StreamVocabulary) -> Any:
        return self.own.prepare(tokens, vocabulary)

    def run(self, work: Work[TokenBatch]) -> Stats:
        """Send a batch to a trainer that has credit; returns what trainers have reported since the last call.

        Raises:
            HostError: a host is lost, or a trainer sent nothing for too long.
        """
        if not work.payload.is_idle:
            self._is_settled = False
            self._round.append(work.payload)
            if not self.in_rounds or len(self._round) == len(self.work_queue.peers):
                self._assign_round()
        self._receive(self.work_queue.done())
        if work.payload.is_replayed:  # nobody counts what comes with it
            return Stats(0, 0.0, 0)
        received, self._received = self._received, Stats(0, 0.0, 0)
        return received

    def learning_rate(self, words: float) -> float:
        return self.own.learning_rate(words)

    def state_dict(self) -> State:
        """What a checkpoint keeps; everything that was dealt is in it."""
        self.settle()
        state: State = self.own.state_dict()
        if self.tables is None:
            return state
        for name, table in self.own.tables.items():
            rows = np.arange(len(state[name]))
            table[rows] = self.tables.read(name, rows)
        return self.own.state_dict() | self.tables.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Go on from the state of a checkpoint, here and where the rows are."""
        self.own.load_state_dict(state)
        known = {name: np.ascontiguousarray(array) for name, array in self.own.state_dict().items()}
        if self.tables is not None:
            for name in self.own.tables:
                self.tables.write(name, known[name])
            self.tables.load_state_dict(state)
        else:
            for peer in self.work_queue.peers:
                self.work_queue.assign(put_parts([array.copy() for array in known.values()]), peer)
            self.work_queue.quiesce([control(0)])

    def embeddings(self, vocabulary: StreamVocabulary) -> Embeddings:
        """The vectors of the words that have a row; everything that was dealt is in them."""
        self.settle()
        if self.tables is not None:
            for name, table in self.own.tables.items():
                rows = self.own.rows_of(name, vocabulary)
                table[rows] = self.tables.read(name, rows)
        return self.own.embeddings(vocabulary)

    def close(self) -> None:
        self.own.close()

    def settle(self) -> None:
        """Have everything trained that was dealt, and every trainer stand still.

        Raises:
            HostError: as `run`.
        """
        if self._is_settled:
            return
        if self._round:
            self._assign_round()
        last = max(self._clock.values())
        self._clock = dict.fromkeys(self._clock, last)
        done_pieces = self.work_queue.quiesce([control(last)])
        self._receive([done for done in done_pieces if done.number >= 0])
        resting = {done.peer: done.parts for done in done_pieces if done.number < 0}
        if self.tables is None:
            state = (part.array for part in resting[self.work_queue.peers[0]])
            self.own.load_state_dict(dict(zip(self.own.state_dict(), state, strict=True)))
        self._is_settled = True

    def end(self) -> None:
        """No batch follows: trainers end.

        Raises:
            HostError: a host is lost.
        """
        self.settle()
        self.work_queue.close()

    def before(self, work: Work[TokenBatch]) -> None:
        """Others train."""

    def after(self, work: Work[TokenBatch], stats: Stats) -> None:
        """They agree among themselves."""

    def is_settled(self, work: Work[TokenBatch]) -> bool:
        """Whether no round waits for more batches: where a state is kept anyway, it is assigned as it is."""
        return not self._round

    def metrics(self) -> dict[str, Any]:
        """Batches by rank, and what the owners of rows say (`StreamTables.metrics`).

        Raises:
            HostError: a host is lost.
        """
        assigned = {str(peer): count for peer, count in self.work_queue.assigned.items()}
        if self.tables is not None:
            return {"batches": assigned, **self.tables.metrics()}
        return {"batches": assigned, "dropped": 0, "staleness": {} if self.is_stale else {"0": self.batches}}

    def _assign_round(self) -> None:
        """Start what was born, then assign what has come together."""
        batches, self._round = self._round, []
        born = [batch.born for batch in batches if batch.born.size]
        rows = np.unique(np.concatenate(born)) if born else np.zeros(0, np.int64)
        clock = max(self._clock.values())
        if rows.size:
            self._birth += 1
            if self.tables is not None:
                self.own.start(rows)
                self.tables.begin(rows, self._birth, clock if self.in_rounds else ANY_TIME)
        if not self.in_rounds:
            self._assign(batches[0], self.work_queue.least_loaded(), np.zeros(0, np.int64))
            return
        if self._num_rows:
            batches = without_lost_rows(batches, self._num_rows)
        # A trainer that has no batch in the last round before a rest gets an empty one, and so keeps in step.
        batches += [replace(batches[-1], tokens=np.zeros(0, np.int32), words=0, prepared=None, sentences=None)] * (
            len(self._clock) - len(batches)
        )
        for peer, batch in zip(self.work_queue.peers, batches, strict=True):
            self._assign(batch, peer, rows if self.tables is None else np.zeros(0, np.int64))

    def _assign(self, batch: TokenBatch, peer: int, born: np.ndarray) -> None:
        if self._num_rows:
            self.own.note(batch)
        piece = Piece(replace(batch, born=born), self._clock[peer], self._birth)
        number = self.work_queue.assign(self._senders[peer].parts(piece), peer)
        if batch.is_replayed:
            self._replayed[number] = batch.sentences
        self._clock[peer] += 1

    def _receive(self, done_pieces: list[Done]) -> None:
        for done in done_pieces:
            is_replayed, sentences = done.number in self._replayed, self._replayed.pop(done.number, None)
            wanted = 1 if sentences is None else 2
            if len(done.parts) != wanted:
                raise HostError(f"Rank {done.peer} sent {len(done.parts)} parts about a batch, not {wanted}.")
            self.batches += 1
            if sentences is not None:
                sentences.loss_N[:] = done.parts[1].array
            if not is_replayed:
                self._received += stats_of(done.parts[0])


def make_tables(transport: Transport, roles: StreamRoles, agreement: StreamAgreement, own: Any) -> StreamTables | None:
    """This rank's way to the rows; None where every trainer has the whole state."""
    if agreement.sync == "dense" or hasattr(own, "step"):
        return None
    start = {name: partial(own.start_values, name) for name in own.tables}
    shapes = {name: table.shape for name, table in own.tables.items()}
    rule = None if agreement.rule is None else rule_class(agreement.rule)
    return StreamTables(transport, roles, start, shapes, own.fixed_tables, agreement.bound, rule)


def sent_by_all(transport: Transport, own: dict[str, Any] | None = None) -> dict[str, Any]:
    """Bytes that all hosts have sent, at rank 0; all call it together.

    own: what this host's agreement on dense parameters says; then the staleness of gradients in steps, too.
    """
    every = gather_numbers(transport, own or {}, LONG_WORK)
    found = {name: summed([one[name] for one in every]) for name in ("bytes_by_kind", "bytes_by_phase")}
    stale = [one["overtaken"] for one in every if "overtaken" in one]
    return found | ({"staleness": stale[0]} if stale else {})


def without_lost_rows(batches: list[TokenBatch], num_rows: int) -> list[TokenBatch]:
    """The batches of a round, in which rows that a later one has given to other words stand for no word.

    All births of a round take effect before any of its batches is trained.
    """
    lost_V1 = np.zeros(num_rows + 1, bool)
    kept: list[TokenBatch] = []
    for batch in reversed(batches):
        is_lost = lost_V1[np.clip(batch.tokens, 0, num_rows)] & (batch.tokens >= 0)
        if is_lost.any():
            tokens = np.where(is_lost, np.int32(num_rows), batch.tokens)
            batch = replace(batch, tokens=tokens)
        kept.append(batch)
        lost_V1[batch.born] = True
    return kept[::-1]
