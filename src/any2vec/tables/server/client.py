"""Rows that live on row servers, this host's own among them: pull, push and pool by global id.

Legend: K ids of a request, M ids of all bags, P bags, D dim, V rows of the table.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import numpy as np

from any2vec.cluster.codec import pack_ids, pack_rows, unpack_rows
from any2vec.cluster.message import Part
from any2vec.errors import HostError, InputError
from any2vec.plan.sharding.sharding import Contiguous
from any2vec.tables.server.owned_bags import PUSH_BAGS, OwnedBags
from any2vec.tables.server.request import ANY_TIME, UNKNOWN, Request, answers_on, read_answer
from any2vec.tables.server.server import RowServer
from any2vec.types import Service

IN_FLIGHT = 64
"""pushes that may be under way at once, unanswered"""
_LONGER = 1.5
"""an asker waits so many times longer than a server lets it wait: then the server's own sentence comes first"""


class RowClient(Service):
    """One host's way to the servers of a channel; its own block is reached without a message. Threads take turns.

    The error of a push that a server refuses is raised by a later call, at the latest by `flush`.

    Args:
        server: this host's own, of the same channel.
        bounds: rank h owns the rows [bounds[h], bounds[h + 1]) of every table; h owns none where they are equal.
        bounds_of: those of tables of another size, by name.
        worker: 0, and other numbers for other threads of this host that are not to take turns with this one: each
            has a client of its own. That of worker 0 ticks and closes, for all.
    """

    def __init__(
        self, server: RowServer, bounds: Sequence[int], in_flight: int = IN_FLIGHT, worker: int = 0,
        bounds_of: Mapping[str, Sequence[int]] | None = None,
    ) -> None:  # fmt: skip
        self.server = server
        self.transport = server.transport
        self.bounds = np.asarray(bounds, np.int64)
        self._shardings = {name: Contiguous.of((bounds_of or {}).get(name, bounds)) for name in server.blocks}
        self.in_flight = in_flight
        self.worker = worker
        self._names = list(server.blocks)
        self._number = 0
        self._under_way: dict[int, int] = {}
        """number of a push or tick that is not answered yet -> whom it was sent to, oldest first"""
        self._answers: dict[int, tuple[Part, ...]] = {}
        """what came while another answer was waited for"""
        self._lock = threading.RLock()

    def pull(self, wanted: Mapping[str, np.ndarray], clock: int = ANY_TIME, bits: int = 32) -> dict[str, np.ndarray]:
        """Rows of several tables at once: name -> float32 (K, D).

        Args:
            wanted: name -> ids, int64 (K,) ascending, none twice.
            clock: the round that reads, which may have to wait for the slowest trainer; ANY_TIME never waits.
            bits: of a number that travels: 32, 16 or 8; the own block's rows are exact.

        Raises:
            InputError: an id is not of the table.
            HostError: a server is lost, or a trainer is too far behind for too long.
        """
        with self._lock:
            cuts = {name: self._split(name, ids) for name, ids in wanted.items()}
            asked = {name: self._ask_rows(name, ids, cuts[name], clock, bits) for name, ids in wanted.items()}
            return {name: self._take_rows(name, ids, cuts[name], asked[name], clock) for name, ids in wanted.items()}

    def push(
        self, name: str, ids: np.ndarray, value_KD: np.ndarray, clock: int, is_delta: bool = True, bits: int = 32
    ) -> None:
        """Send changes of rows (or values, to servers in step), and do not wait, unless `in_flight` are under way.

        Args:
            ids: int64 (K,) ascending, none twice.
            bits: as `pull`; value_KD should be what `unpack_rows` makes of it, so that the own block gets the same.
        """
        with self._lock:
            for host, part in enumerate(self._split(name, ids)):
                sharding = self._shardings[name]
                slots, values = ids[part] - sharding.bounds[host], value_KD[part]
                if host == self.transport.rank:
                    if len(slots):
                        self.server.push(name, slots, values, clock, is_delta)
                elif len(slots):
                    parts = [pack_ids(slots, sharding.size(host)), *pack_rows(values, bits)]
                    self._ask(host, parts, "push", name, clock, int(is_delta))

    def look_up(
        self, name: str, ids: np.ndarray, bags: OwnedBags | None, clock: int = ANY_TIME
    ) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
        """Rows and sums over bags in one round trip: every owner is asked for both before anyone is waited for.

        Args:
            ids: as `pull`.
            bags: what each owner is to add up.

        Returns:
            The rows, float32 (K, D), and by owner which bags (Q,) it has added up and their sums, float32 (Q, D).

        Raises:
            InputError, HostError: as `pull`.
        """
        with self._lock:
            cuts = self._split(name, ids)
            shares = [bags.of(host) for host in range(self.transport.hosts)] if bags is not None else []
            asked = self._ask_rows(name, ids, cuts, clock, 32)
            pooled = {
                host: self._ask(host, [_narrow(slots), _narrow(counts)], "pool", name, clock)
                for host, (slots, counts, _) in enumerate(shares)
                if host != self.transport.rank and len(slots)
            }
            rows, sums = self._take_rows(name, ids, cuts, asked, clock), []
            for host, (slots, counts, bag_Q) in enumerate(shares):
                if host in pooled:
                    found = unpack_rows(self._wait(host, pooled[host]))
                    sums.append((bag_Q, self._checked(host, name, found, len(bag_Q))))
                elif len(slots):
                    sums.append((bag_Q, self.server.pool(name, slots, counts, clock)))
            return rows, sums

    def push_bags(self, name: str, bags: OwnedBags, gradient_PD: np.ndarray, clock: int = 0) -> None:
        """Send the gradients of bags' sums, float32 (P, D), to the owners of their rows; waits as little as `push`.

        Each owner gets its own ids of a bag, and the bag's gradient. The block is one that trains its rows.
        """
        with self._lock:
            for host in range(self.transport.hosts):
                slots, counts, bag_Q = bags.of(host)
                if not len(slots):
                    continue
                parts = [_narrow(slots), _narrow(counts), *pack_rows(gradient_PD[bag_Q])]
                if host == self.transport.rank:
                    self.server.call(name, PUSH_BAGS, parts, ANY_TIME)
                else:
                    self._ask(host, parts, "call", name, ANY_TIME, PUSH_BAGS, is_awaited=False)

    def call(
        self, name: str, operation: int, outgoing: Mapping[int, Sequence[Part]], clock: int = ANY_TIME
    ) -> dict[int, tuple[Part, ...]]:
        """Have each host of `outgoing` carry out an operation of its block with these parts; what each gives, by rank.

        Everyone is asked before anyone is waited for.

        Raises:
            InputError: a block knows no such operation, or finds the parts at fault.
            HostError: as `pull`.
        """
        return dict(zip(outgoing, self.call_each(name, operation, list(outgoing.items()), clock), strict=True))

    def call_each(
        self, name: str, operation: int, outgoing: Sequence[tuple[int, Sequence[Part]]], clock: int = ANY_TIME
    ) -> list[tuple[Part, ...]]:
        """As `call`, of (host, parts) one after the other: a host may be asked several times at once.

        Raises:
            InputError, HostError: as `call`.
        """
        with self._lock:
            asked = {
                place: self._ask(host, parts, "call", name, clock, operation)
                for place, (host, parts) in enumerate(outgoing)
                if host != self.transport.rank
            }
            return [
                self._wait(host, asked[place]) if place in asked
                else tuple(self.server.call(name, operation, parts, clock))
                for place, (host, parts) in enumerate(outgoing)
            ]  # fmt: skip

    def tick(self, clock: int) -> None:
        """Tell all servers that everything of round `clock` has been pushed."""
        with self._lock:
            for host in range(self.transport.hosts):
                if host != self.transport.rank:
                    self._ask(host, [], "tick", None, clock)
            self.server.tick(clock)

    def flush(self) -> None:
        """Wait until every push has arrived and been answered.

        Raises:
            InputError, HostError: what a server found wrong with one of them; or a server is lost.
        """
        with self._lock:
            while self._under_way:
                self._receive(next(iter(self._under_way.values())))

    def close(self, error: BaseException | None = None, *, timeout: float | None = None) -> None:
        """Flush, tell all servers that this host asks for nothing more, and see the own server end.

        timeout: seconds that others may go on asking; None: the server's patience.

        Raises:
            HostError: another host goes on asking, or is lost.
        """
        if error is not None:
            return
        with self._lock:
            self.flush()
            for host in range(self.transport.hosts):
                if host != self.transport.rank:
                    self._ask(host, [], "leave", None, ANY_TIME)
            self.server.leave(self.transport.rank)
        self.server.close(timeout=timeout)

    def _ask_rows(self, name: str, ids: np.ndarray, cuts: list[slice], clock: int, bits: int) -> dict[int, int]:
        """Ask the other owners for rows; rank -> number of the request."""
        sharding = self._shardings[name]
        return {
            host: self._ask(
                host, [pack_ids(ids[cut] - sharding.bounds[host], sharding.size(host))], "pull", name, clock, bits
            )
            for host, cut in enumerate(cuts)
            if host != self.transport.rank and cut.stop > cut.start
        }

    def _take_rows(
        self, name: str, ids: np.ndarray, cuts: list[slice], asked: Mapping[int, int], clock: int
    ) -> np.ndarray:
        """The rows that were asked for, and those of the own block, float32 (K, D)."""
        found = [np.empty((0, self.server.blocks[name].dim), np.float32)]
        for host, cut in enumerate(cuts):
            if host in asked:
                rows = unpack_rows(self._wait(host, asked[host]))
                found.append(self._checked(host, name, rows, cut.stop - cut.start))
            elif cut.stop > cut.start:
                found.append(self.server.pull(name, ids[cut] - self._shardings[name].bounds[host], clock))
        return found[1] if len(found) == 2 else np.concatenate(found)

    def _checked(self, host: int, name: str, found: np.ndarray, count: int) -> np.ndarray:
        """What another host gave, once it is known to be what kernels may read by address."""
        expected = count, self.server.blocks[name].dim
        if found.shape != expected or found.dtype != np.float32:
            raise HostError(
                f"Rank {host} gave {found.dtype} rows of shape {found.shape} of table {name!r} where float32 of "
                f"{expected} were asked for: the hosts do not run the same job."
            )
        return found

    def _split(self, name: str, ids: np.ndarray) -> list[slice]:
        """Which of ascending ids each host owns."""
        sharding = self._shardings[name]
        if ids.size and (ids[0] < 0 or ids[-1] >= sharding.bounds[-1] or (np.diff(ids) <= 0).any()):
            raise _not_there(name, ids, sharding.bounds[-1])
        return sharding.cuts(ids)

    def _ask(
        self, host: int, parts: Sequence[Part], verb: str, name: str | None, clock: int, option: int = 0,
        is_awaited: bool = True,
    ) -> int:  # fmt: skip
        """Send a request, and give its number; one that is not waited for has its place among those under way first."""
        self._number += 1
        table = 0 if name is None else self._names.index(name)
        request = Request(verb, self._number, table, clock, option, self.worker)
        if verb in ("push", "tick") or not is_awaited:
            while len(self._under_way) >= self.in_flight:
                self._receive(next(iter(self._under_way.values())))
            self._under_way[request.number] = host
        self.transport.send(host, [request.part(), *parts], verb, self.server.name + "?")
        return request.number

    def _wait(self, host: int, number: int) -> tuple[Part, ...]:
        """The answer to one request."""
        while number not in self._answers:
            self._receive(host)
        return self._answers.pop(number)

    def _receive(self, host: int) -> None:
        """Take the next answer of a server, whichever it is."""
        self.server.check()
        channel = answers_on(self.server.name, self.worker)
        message = self.transport.recv(host, channel=channel, timeout=_LONGER * self.server.patience)
        number, parts, error = read_answer(host, message.parts)
        is_push = self._under_way.pop(number, None) is not None
        if error is not None:
            raise error
        if not is_push and number != UNKNOWN:
            self._answers[number] = parts


def _narrow(numbers: np.ndarray) -> Part:
    return Part("ids", numbers.astype(np.uint32))


def _not_there(name: str, ids: np.ndarray, num_rows: int) -> InputError:
    return InputError(
        f"Rows of table {name!r} are asked for by ids from 0 to {num_rows - 1}, ascending and none twice; got ids from "
        f"{ids.min()} to {ids.max()}."
    )
