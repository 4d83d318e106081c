"""HET's worker side: rows come from a cache whose changes reach their owners late, within bounds.

Legend: U rows of a batch, N pushes, A requests, C columns, W values, P bags.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from any2vec.cluster.message import Part
from any2vec.errors import InputError
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.cache.versioned_cache import BatchExchange, VersionedCache
from any2vec.tables.row_table import NOT_READ, ChangedTable, Lease
from any2vec.tables.server.blocks.versioned_block import EXCHANGE
from any2vec.tables.server.client import RowClient
from any2vec.tables.server.versioned_message import RowQuery, bytes_of, pack_query, unpack_answer

FLUSHED_AT_ONCE = 1 << 16
"""rows whose changes go into one message of a flush"""


class VersionedRows(ChangedTable):
    """One worker's way to rows through the trainer's cache: one message a step and owner.

    The message before a batch is read carries what the batches before have left to push, and the requests of this one.
    The row optimizer steps at once, on the rows as they were read, and its changes are what is added up. With bound 0
    the result is that of no cache (capacity 0), to the last bit, for whatever order in which messages come; against
    training in the table itself each change of a number is rounded once more, by half a unit in the last place of the
    largest of the change, the number before and the number after.

    Args:
        cache: one for all workers of this host.
        client: this worker's own; ids are in the order in which its owners have them.
        name: of the table; its blocks are `VersionedBlock`s.
    """

    def __init__(self, cache: VersionedCache, client: RowClient, name: str) -> None:
        self.cache = cache
        self.client = client
        self.name = name
        self.width = cache.optimizer.width
        self._has_finished = False
        cache.join()
        self._exchange: BatchExchange | None = None
        """of the batch that was read and is not pushed yet"""

    def gather(self, id_U: np.ndarray, step: int) -> Lease:
        """As the cache has them; of Adagrad's squares also those that other trainers have probably added.

        Raises:
            InputError: an id is not of the table.
            HostError: an owner is lost, or another worker could not reach one.
        """
        self._let_go()
        if id_U.size and (id_U[0] < 0 or id_U[-1] >= self.client.bounds[-1]):
            raise InputError(
                f"Rows of table {self.name!r} have ids from 0 to {self.client.bounds[-1] - 1}; got ids from "
                f"{id_U[0]} to {id_U[-1]}."
            )
        self._exchange = self.cache.begin(id_U)
        row_UC = self._carry_out(self._exchange)
        if self.cache.optimizer.kind == "adagrad" and self.cache.others:
            row_UC[:, self.width] += self.cache.unheard(self._exchange)
        return Lease(id_U, row_UC)

    def pool(self, bags: BatchRows, step: int) -> np.ndarray:
        sum_PW = super().pool(bags, step)
        if self._exchange is not None and self.cache.freshness.counts_occurrences:
            self._exchange.made_U = np.bincount(bags.place_M, minlength=len(bags.row_U))
        return sum_PW

    def apply(self, lease: Lease, gradient_UW: np.ndarray, step: int) -> None:
        if len(gradient_UW) != len(lease.row_UC):
            raise InputError(NOT_READ)
        changed_UC = lease.row_UC.copy()
        self.cache.optimizer.step(changed_UC, np.arange(len(changed_UC)), gradient_UW)
        changed_UC -= lease.row_UC
        self.add(lease, changed_UC, step)

    def add(self, lease: Lease, change_UC: np.ndarray, step: int) -> None:
        """To the batch that was read last.

        Raises:
            InputError: it is another one.
        """
        exchange = self._exchange
        if exchange is None or len(lease.id_U) != len(exchange.slot_U):
            raise InputError(NOT_READ)
        self.cache.change(exchange, change_UC)
        self._exchange = None

    def flush(self) -> None:
        """Bring the changes of this host to the rows' owners; returns when they are there.

        What is pushed later, and how it is rounded, depends on when that was: after a checkpoint the last bits of a run
        may be others.

        What other workers have in hand at this moment stays with them, so a checkpoint is taken while they rest.
        """
        self._let_go()
        for first in range(0, max(1, self.cache.capacity), FLUSHED_AT_ONCE):
            self._carry_out(self.cache.begin_flush(first, first + FLUSHED_AT_ONCE))

    def close(self, error: BaseException | None = None) -> None:
        """No batch follows. The last worker of the host to say so brings all that is left to the owners."""
        if error is not None:
            return
        self._let_go()
        if not self._has_finished:
            self._has_finished = True
            if self.cache.leave():
                self.flush()

    def metrics(self) -> dict[str, int]:
        """Of the whole cache, all workers.

        Rows that batches read, by what became of them: "hits", "refreshes" (too old), "misses" (cached from now on) and
        "passed" (not cached), of these two "fresh" (made here), and "shared" (another worker had asked, or they were
        young). Rows sent: "pushes", "updates" in them. "evictions", "dirty_evictions" of these. Bytes, heads of
        messages not counted: "rows_up", "rows_down", "metadata_up", "metadata_down"; "own" of all these stayed on this
        host.
        """
        return dict(sorted(self.cache.counts.items()))

    def _carry_out(self, exchange: BatchExchange) -> np.ndarray:
        """Ask the owners; the batch's rows, float32 (U, C)."""
        try:
            outgoing, asked = self._queries(exchange)
            found = self.client.call(self.name, EXCHANGE, outgoing)
            columns = self.cache.optimizer.num_columns
            answers = [unpack_answer(found[host], asked[host], columns) for host in outgoing]
            for host in outgoing:
                self._count(host, outgoing[host], found[host])
            empty = np.empty(0, bool), np.empty(0, np.int64), np.empty((0, columns), np.float32)
            pieces = [empty, *answers]
            return self.cache.end(exchange, *(np.concatenate([piece[at] for piece in pieces]) for at in range(3)))
        except Exception as error:
            self.cache.fail(error)  # or other workers would wait for these rows
            raise

    def _queries(self, exchange: BatchExchange) -> tuple[dict[int, list[Part]], dict[int, int]]:
        """What to send to each owner, and how many rows each is asked about."""
        bounds = self.client.bounds
        push_cut, ask_cut = np.searchsorted(exchange.push_N, bounds), np.searchsorted(exchange.ask_A, bounds)
        outgoing, asked = {}, {}
        for host in range(len(bounds) - 1):
            push, ask = slice(*push_cut[host : host + 2]), slice(*ask_cut[host : host + 2])
            if push.start < push.stop or ask.start < ask.stop:
                query = RowQuery(
                    self.cache.freshness.pull_bound, exchange.push_N[push] - bounds[host], exchange.updates_N[push],
                    exchange.change_NC[push], exchange.ask_A[ask] - bounds[host], exchange.known_A[ask],
                    self.cache.fresh_rows is not None, self.cache.freshness.spares_young,
                )  # fmt: skip
                outgoing[host] = pack_query(query)
                asked[host] = int(ask.stop - ask.start)
        return outgoing, asked

    def _count(self, host: int, query: list[Part], answer: Sequence[Part]) -> None:
        (rows_up, metadata_up), (rows_down, metadata_down) = bytes_of(query), bytes_of(answer)
        is_own = host == self.client.transport.rank
        total = rows_up + metadata_up + rows_down + metadata_down
        self.cache.count(
            rows_up=rows_up, metadata_up=metadata_up, rows_down=rows_down, metadata_down=metadata_down,
            own=total if is_own else 0,
        )  # fmt: skip

    def _let_go(self) -> None:
        """A batch that was read and never pushed changes nothing."""
        if self._exchange is not None:
            self.cache.let_go(self._exchange)
            self._exchange = None
