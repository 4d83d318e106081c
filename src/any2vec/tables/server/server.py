"""The row server: one host's blocks of named tables, served to all hosts by a thread of its own.

Any number of trainers pull rows, push changes and let rows be pooled. A request that cannot be served is answered by a
sentence, and the server lives on; it ends when every other host has left.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from any2vec.cluster.codec import pack_rows, unpack_ids, unpack_rows
from any2vec.cluster.message import Message, Part, check_parts
from any2vec.cluster.transport import LONG_WORK, Transport
from any2vec.errors import HostError, InputError, MessageError
from any2vec.tables.server.clocks import Clocks
from any2vec.tables.server.request import (
    ANY_TIME,
    UNKNOWN,
    Request,
    answer,
    answers_on,
    read_request,
    refusal,
)
from any2vec.tables.server.served_block import ServedBlock
from any2vec.tables.server.server_thread import ServerThread


class RowServer(ServerThread):
    """Serves blocks.

    Args:
        blocks: by name, in the same order on all hosts.
        name: of the channel; all hosts use the same.
        bound: staleness, in rounds: a pull of round c waits until the slowest trainer has done c - bound rounds; 0 is
            bulk-synchronous, None never waits.
        in_step: with bound 0: pushes of a round take effect together, in rank order; the blocks are made so, too.
        trainers: ranks that push; None: all hosts.
        patience: seconds that a pull may wait for the slowest trainer; None: the transport's.
    """

    def __init__(
        self, transport: Transport, blocks: Mapping[str, ServedBlock], *, name: str = "rows", bound: int | None = None,
        in_step: bool = False, trainers: Iterable[int] | None = None, patience: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(transport, name, "row server", patience)
        self.blocks = dict(blocks)
        self.clocks = Clocks(range(transport.hosts) if trainers is None else trainers, bound, in_step)
        self.served: Counter[str] = Counter()
        """requests of other hosts, and rows that they pulled, ids that they had pooled, rows that they pushed"""
        self._in_step = in_step
        self._waiting: list[tuple[float, Message, Request]] = []
        """requests of others that are too early, and when the patience with them ends"""
        self._present = set(range(transport.hosts)) - {transport.rank}

    def pull(self, table: str, slot_K: np.ndarray, clock: int) -> np.ndarray:
        """For this host itself: float32 (K, D); waits as others do.

        Raises:
            HostError: the slowest trainer did not come so far in time.
        """
        self._wait(clock)
        return self.blocks[table].read(slot_K)

    def pool(self, table: str, slot_M: np.ndarray, count_P: np.ndarray, clock: int) -> np.ndarray:
        """For this host itself: sums of bags, float32 (P, D), as `RowBlock.pool`."""
        self._wait(clock)
        return self.blocks[table].pool(slot_M, count_P)

    def push(self, table: str, slot_K: np.ndarray, value_KD: np.ndarray, clock: int, is_delta: bool) -> None:
        """For this host itself."""
        self.blocks[table].push(self.transport.rank, clock, slot_K, value_KD, is_delta)

    def call(self, table: str, operation: int, parts: Sequence[Part], clock: int) -> list[Part]:
        """For this host itself: a block's own operation."""
        self._wait(clock)
        return self.blocks[table].call(operation, self.transport.rank, parts)

    def tick(self, clock: int, trainer: int | None = None) -> None:
        """A trainer (None: this host's) has pushed all of its round; who waited for that is answered."""
        with self._changed:
            before = self.clocks.slowest
            self.clocks.tick(self.transport.rank if trainer is None else trainer, clock)
            self._apply(before)
        self._answer_ready()

    def leave(self, trainer: int) -> None:
        """A trainer ends; nobody waits for it any more."""
        with self._changed:
            before = self.clocks.slowest
            self.clocks.leave(trainer)
            self._apply(before)
        self._answer_ready()

    def metrics(self) -> dict[str, dict[str, int]]:
        """Histograms, number to count: "staleness" of reads in rounds, rounds of others that "overtook" a round."""
        with self._changed:
            found = {"staleness": self.clocks.staleness, "overtaken": self.clocks.overtaken}
            return {name: {str(key): counts[key] for key in sorted(counts)} for name, counts in found.items()}

    def _apply(self, before: int) -> None:
        """In step: let the rounds take effect that are whole now. Hold `_changed`."""
        if self._in_step:
            for clock in range(before, self.clocks.slowest):
                for block in self.blocks.values():
                    block.apply(clock)
        self._changed.notify_all()

    def _wait(self, clock: int) -> None:
        with self._changed:
            if clock == ANY_TIME:
                return
            if not self._changed.wait_for(lambda: self.clocks.may_read(clock) or self.error, self.patience):
                raise self._late(clock)
            self.check()
            self.clocks.read(self.transport.rank, clock)

    def _late(self, clock: int) -> HostError:
        slow, at = self.clocks.slowest_rank, self.clocks.slowest
        return HostError(
            f"Rank {slow} is in round {at}, and a trainer in round {clock} has waited {self.patience:g} s for it to "
            f"come within {self.clocks.bound}: it hangs, or is much slower than the others."
        )

    def _is_needed(self) -> bool:
        return bool(self._present)

    def _who_is_left(self) -> str:
        return f"rows that rank {min(self._present)} still asks for."

    def _serve_next(self) -> None:
        message = self._next()
        if message is not None:
            self._take(message)

    def _next(self) -> Message | None:
        """The next request; None when somebody's patience ended before one came."""
        with self._changed:
            until = min((deadline for deadline, _, _ in self._waiting), default=None)
        timeout = LONG_WORK if until is None else max(0.0, until - time.monotonic())
        try:
            return self.transport.recv(None, channel=self.name + "?", timeout=timeout)
        except HostError:
            if not self._refuse_late():  # so it was no time limit: a host is lost
                raise
            return None

    def _refuse_late(self) -> bool:
        """Answer those who have waited too long; whether there were any."""
        now = time.monotonic()
        with self._changed:
            late = [entry for entry in self._waiting if entry[0] <= now]
            self._waiting = [entry for entry in self._waiting if entry[0] > now]
            said = [(message, request, self._late(request.clock)) for _, message, request in late]
        for message, request, error in said:
            self._reply(message, request, refusal(request.number, error))
        return bool(late)

    def _take(self, message: Message) -> None:
        """Serve one request, or put it aside until it may be."""
        try:
            request = read_request(message.parts)
        except MessageError as error:
            self._reply(message, Request("pull", UNKNOWN), refusal(UNKNOWN, error))
            return
        try:
            if request.verb == "leave":
                self._present.discard(message.sender)
                self.leave(message.sender)
                return
            if request.verb == "tick":
                self.tick(request.clock, message.sender)
            elif request.verb in ("pull", "pool", "call") and request.clock != ANY_TIME:
                with self._changed:
                    if not self.clocks.may_read(request.clock):
                        self._waiting.append((time.monotonic() + self.patience, message, request))
                        return
                    self.clocks.read(message.sender, request.clock)
        except InputError as error:
            self._reply(message, request, refusal(request.number, error))
            return
        self._answer(message, request)

    def _answer_ready(self) -> None:
        """Answer those who need not wait any more."""
        with self._changed:
            ready = [entry for entry in self._waiting if self.clocks.may_read(entry[2].clock)]
            self._waiting = [entry for entry in self._waiting if not self.clocks.may_read(entry[2].clock)]
            for _, message, request in ready:
                self.clocks.read(message.sender, request.clock)
        for _, message, request in ready:
            self._answer(message, request)

    def _answer(self, message: Message, request: Request) -> None:
        try:
            parts = answer(request.number, self._do(message, request))
            check_parts(parts, request.verb)
        except Exception as error:  # whatever it is, it is the asker's to know, and others are still to be served
            parts = refusal(request.number, error)
        self._reply(message, request, parts)

    def _do(self, message: Message, request: Request) -> list[Part]:
        """What a request that may be served asks for."""
        if request.verb == "tick":
            return []
        names = list(self.blocks)
        if not 0 <= request.table < len(names):
            raise InputError(f"Table number {request.table} was asked for, of {len(names)} tables.")
        block, parts = self.blocks[names[request.table]], message.parts
        self.served["requests"] += 1
        if request.verb == "call":
            return block.call(request.option, message.sender, parts[1:])
        if request.verb == "pool":
            slot_M, count_P = (part.array for part in parts[1:3])
            if any(array.ndim != 1 or array.dtype.kind not in "iu" for array in (slot_M, count_P)):
                raise InputError(f"Bags of {slot_M.dtype} {slot_M.shape} and {count_P.dtype} {count_P.shape} are none.")
            self.served["ids_pooled"] += slot_M.size
            return pack_rows(block.pool(slot_M.astype(np.int64), count_P.astype(np.int64)))
        slot_K = unpack_ids(parts[1], block.num_rows)
        self.served["rows_pushed" if request.verb == "push" else "rows_pulled"] += len(slot_K)
        if request.verb == "push":
            block.push(message.sender, request.clock, slot_K, unpack_rows(parts[2:]), bool(request.option))
            return []
        return pack_rows(block.read(slot_K), request.option)

    def _reply(self, message: Message, request: Request, parts: Sequence[Part]) -> None:
        self.transport.send(message.sender, parts, request.verb, answers_on(self.name, request.worker))
