"""Trainers that cache the rows they train, and know ahead which they will need: synchronous training, bit by bit.

Agarwal et al. 2023, "Bagpipe: accelerating deep recommendation model training" (SOSP). A step reads the cache, which a
thread has filled before. A row that one trainer uses is stepped there, and moves to those that use it next; of a row
that several use each sends its gradients to those that have it next (`plan.lookahead.moves`). What the next step uses
is sent at once, and rows step on a thread while the trainer agrees about the dense layers; all else travels behind the
next step. What has left the cache is written back, and is fetched again only when every trainer's servers have said
that they have it.

Legend: P bags, U distinct rows of a batch, K rows of an exchange or slots of the cache, J and M rows of which a trainer
sends gradients or that it sends whole, W values of a row, C columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from any2vec.checks import check_whole
from any2vec.cluster.message import Part
from any2vec.errors import HostError, InputError
from any2vec.kernels.rows.bags import pool_bags
from any2vec.kernels.rows.rank_sums import sum_in_turn
from any2vec.kernels.rows.rows import gather_rows, scatter_rows
from any2vec.plan.lookahead.exact import CLEAN_SHARE, StepPlan, plan_steps
from any2vec.plan.lookahead.moves import Exchange
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.cache.lookahead_threads import ACK, Fetcher, StepThread, WriteBackThread
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.tables.row_table import Lease, RowTable
from any2vec.tables.server.client import RowClient

NOW, LATER = "now", "later"
"""phases and channels of the two exchanges"""
LOOK_AHEAD, AHEAD = 200, 8
LEAVE = 2.0
"""seconds for a thread to end: one that waits for a lost trainer takes longer, and nobody waits for it"""
_CACHE_BYTES = 1 << 30
"""of a cache whose size is not given; memory is taken as rows come to stand in it"""


class LookaheadRows(RowTable):
    """One trainer's access, for one worker, to rows of `StoredBlock`s on row servers.

    It counts its steps itself: the agreement about the dense layers may count otherwise.

    Every trainer plans for itself: plans are pure, cost no bytes, and tell which rows every message holds.

    Args:
        client: of this host; two more workers' numbers of its server are used, `workers`.
        name: of the table.
        batch_ids: (trainer, step) -> int64 (U,), the distinct rows of that batch, ascending; empty behind the
            trainer's last. Asked, step after step, by a thread of its own, `look_ahead` + `ahead` steps before the
            trainer comes to them.
        num_steps: of the trainer that has most.
        trainers: N; they are the ranks 0..N - 1.
        look_ahead: L, steps.
        capacity: rows of the cache, the same for all trainers; None: as many as can ever be asked for (twice the table,
            for a row that leaves and one that is fetched count at once), up to 1 GiB.
        clean_share: rows are written back every ceil(clean_share * L) steps.
        ahead: steps whose rows may stand fetched in the cache.
        first_step: where training goes on after a checkpoint.
    """

    def __init__(
        self, client: RowClient, name: str, optimizer: RowOptimizer, batch_ids: Callable[[int, int], np.ndarray],
        num_steps: int, *, trainers: int, look_ahead: int = LOOK_AHEAD, capacity: int | None = None,
        clean_share: float = CLEAN_SHARE, ahead: int = AHEAD, first_step: int = 0, workers: tuple[int, int] = (1, 2),
    ) -> None:  # fmt: skip
        check_whole("ahead", ahead, 1, 1_000_000)
        if capacity is None:
            capacity = max(1, min(2 * int(client.bounds[-1]), _CACHE_BYTES // (4 * optimizer.num_columns)))
        self.transport = client.transport
        self.optimizer = optimizer
        self.width = optimizer.width
        self.trainers = trainers
        self.first_step = first_step
        self.num_steps = num_steps
        self.cache = np.empty((capacity, optimizer.num_columns), np.float32)
        self._mark = np.zeros(capacity, np.int64)
        """1 + the row that stands in a slot and has changed since it was fetched or written; 0 where none has"""
        self._is_own = np.zeros(capacity, bool)
        """that row is this trainer's alone"""
        self._num_slots = 0
        fetching, writing = (
            RowClient(client.server, client.bounds.tolist(), client.in_flight, worker) for worker in workers
        )
        self._write_back = WriteBackThread(writing, name, self.cache, self._mark, trainers)
        plans = plan_steps(
            lambda trainer, step: batch_ids(trainer, first_step + step), num_steps - first_step, trainers,
            self.transport.rank, look_ahead, capacity, clean_share, self._write_back.writers,
        )  # fmt: skip
        self._fetcher = Fetcher(fetching, name, self.cache, plans, self._write_back, ahead)
        self._step_thread = StepThread(self.transport.rank, self.transport.patience)
        self._plan: StepPlan | None = None
        """of the step between reading and changing"""
        self._later: tuple[Exchange, np.ndarray] | None = None
        """what is being exchanged behind the step, and this trainer's part, float32"""
        self._unsent: dict[int, list[Part]] = {}
        """by trainer: its message of that, until the next step begins: what trainers wait for, rows and dense layers,
        goes first"""
        self._done = 0
        """steps of this run; plans count them, too"""
        self._is_started = False
        self._counts: Counter[str] = Counter()
        self._most_held = 0

    def gather(self, id_U: np.ndarray, step: int) -> Lease:
        """Rows as all trainers have made them.

        Raises:
            InputError: the batch is not the one that `batch_ids` gave, or the cache is too small.
            HostError: a server or a trainer is lost.
        """
        row_UC = np.empty((len(id_U), self.optimizer.num_columns), np.float32)
        gather_rows(self.cache, self._planned(id_U).slot_U, row_UC)
        return Lease(id_U, row_UC)

    def apply(self, lease: Lease, gradient_UW: np.ndarray, step: int) -> None:
        """Begin to change the rows by all trainers' gradients; the next `gather` waits for those that it reads.

        Raises:
            HostError: a trainer is lost.
        """
        if self._plan is None:
            raise InputError("Gradients of a step are pushed, and its rows have not been read just before.")
        self._change(self._plan, gradient_UW)

    def pool(self, bags: BatchRows, step: int) -> np.ndarray:
        sum_PW = np.empty((bags.num_bags, self.width), np.float32)
        pool_bags(self.cache, self._planned(bags.row_U).slot_U[bags.place_M], bags.start_P1, sum_PW)
        return sum_PW

    def _planned(self, id_U: np.ndarray) -> StepPlan:
        self._plan = plan = self._next_plan()
        if not np.array_equal(plan.row_U, id_U):
            raise InputError(
                f"The batch has not the {len(plan.row_U)} rows that were planned for step "
                f"{self.first_step + plan.step}: the batches that are trained must be those that were planned."
            )
        return plan

    def flush(self) -> None:
        """Write all changed rows back; they stay in the cache. All trainers come here between the same two steps.

        Raises:
            HostError: a server or a trainer is lost.
        """
        self._begin()
        self._rejoin()
        self._finish_later()
        slots = np.flatnonzero(self._mark[: self._num_slots])
        row_K = self._mark[slots] - 1
        is_mine = self._is_own[slots] | (self._write_back.writers(row_K) == self.transport.rank)
        order = np.argsort(row_K[is_mine])
        self._write_back.write(row_K[is_mine][order], slots[is_mine][order])
        self._mark[slots] = 0
        for peer in self._peers():
            self.transport.send(peer, (), ACK, "flushed")
        for peer in self._peers():
            self.transport.recv(peer, ACK, "flushed")

    def close(self, error: BaseException | None = None) -> None:
        """Take part, without rows, in the steps that others still have; flush; end the threads.

        error: the threads end at once, whatever is not written back.

        Raises:
            InputError: this trainer has batches left.
            HostError: a server or a trainer is lost.
        """
        if error is None:
            self._finish_steps()
        workers = self._fetcher, self._step_thread, self._write_back
        for worker in workers:  # all of them first: one may wait for another
            worker.stop()
        for worker in workers:
            worker.close(patience=LEAVE)

    def _finish_steps(self) -> None:
        """The steps that others still have, and all that is to be written."""
        while self.first_step + self._done < self.num_steps:
            plan = self._next_plan()
            if len(plan.row_U):
                raise InputError(
                    f"The training ends before step {self.first_step + plan.step}, of which rank {self.transport.rank} "
                    "has a batch."
                )
            self._change(plan, np.empty((0, self.optimizer.width), np.float32))
        self.flush()
        self._write_back.on_work()

    def metrics(self) -> dict[str, Any]:
        """Counts and shares for the summary; shares are of all distinct rows of all steps: those of which something
        travels now, later or never make 1, and moved rows are among the first two."""
        total = max(1, self._counts["rows"])
        shares = {f"{name}_share": self._counts[name] / total for name in ("fetched", NOW, LATER, "never", "moved")}
        return {
            "steps": self._done, **shares,
            "fetched_rows": self._fetcher.fetched, "written_rows": self._write_back.written,
            "most_rows_held": self._most_held, "cache_bytes": self._num_slots * self.cache.strides[0],
            "look_ahead_mean": self._counts["horizon"] / max(1, self._done),
            "waited_for_fetch_seconds": self._fetcher.waited, "waited_for_trainers_seconds": self._step_thread.waited,
        }  # fmt: skip

    def _begin(self) -> None:
        if not self._is_started:
            self._is_started = True
            self._write_back.start()
            self._fetcher.start()
            self._step_thread.start()

    def _next_plan(self) -> StepPlan:
        self._begin()
        self._rejoin()
        self._write_back.check()
        self._write_back.go_on()
        self._fetcher.fetch_on()
        return self._fetcher.next()

    def _change(self, plan: StepPlan, gradient_UW: np.ndarray) -> None:
        """Send what the next step of others waits for, and leave all else that changes rows to the thread."""
        self._step_alone(plan, plan.hurried_J, gradient_UW)
        for peer in self._peers():  # also where there is nothing: no trainer may be two steps before another
            self.transport.send(peer, self._parts(plan, plan.now, peer, gradient_UW), NOW, NOW)
        self._step_thread.begin(lambda: self._step_rows(plan, gradient_UW))
        self._fetcher.plan_on()
        self._plan = None
        self._done += 1
        self._num_slots = plan.num_slots
        self._count(plan)

    def _parts(self, plan: StepPlan, exchange: Exchange, peer: int, gradient_UW: np.ndarray) -> list[Part]:
        """What a trainer is sent: gradients float32 (J, W), and rows with their optimizer's state float32 (M, C)."""
        slot_M = plan.slot_U[exchange.send_TM[peer]]
        row_MC = np.empty((len(slot_M), self.optimizer.num_columns), np.float32)
        gather_rows(self.cache, slot_M, row_MC)
        return [Part("rows", gradient_UW[exchange.give_TJ[peer]]), Part("rows", row_MC)]

    def _rejoin(self) -> None:
        """The rows of the last step have changed, and what may come late is on its way."""
        self._step_thread.wait()
        unsent, self._unsent = self._unsent, {}
        for peer, parts in unsent.items():
            self.transport.send(peer, parts, LATER, LATER)

    def _step_rows(self, plan: StepPlan, gradient_UW: np.ndarray) -> None:
        """All that a step does to rows, but to those that are sent now."""
        self._step_alone(plan, plan.alone_J, gradient_UW)
        # Before anything comes: it may stand in slots of what goes.
        self._unsent = {
            peer: self._parts(plan, plan.later, peer, gradient_UW)
            for peer in self._peers()
            if len(plan.later.give_TJ[peer]) + len(plan.later.send_TM[peer])
        }
        self._mark[plan.lost_slot_K] = 0
        self._is_own[plan.own_slot_K], self._is_own[plan.common_slot_K] = True, False
        rank = self.transport.rank
        self._finish_later()
        self._step(plan.now, gradient_UW[plan.now.give_TJ[rank]], NOW, self._peers())
        self._later = plan.later, gradient_UW[plan.later.give_TJ[rank]]
        if plan.clean is not None:
            self._write_back.clean(plan.clean)

    def _step_alone(self, plan: StepPlan, which_J: np.ndarray, gradient_UW: np.ndarray) -> None:
        """Step rows that this trainer alone has."""
        self._apply(plan.row_U[which_J], plan.slot_U[which_J], gradient_UW[which_J])

    def _finish_later(self) -> None:
        """Take in what has traveled behind the last step."""
        if self._later is not None:
            exchange, own_JW = self._later
            self._later = None
            self._step(exchange, own_JW, LATER, [peer for peer in self._peers() if any(exchange.num_due(peer))])

    def _step(self, exchange: Exchange, own_JW: np.ndarray, phase: str, peers: list[int]) -> None:
        """Take in the rows that have moved here, sum gradients in rank order, and step each row of those once."""
        part_T = {self.transport.rank: own_JW}
        for peer in peers:
            part_T[peer], row_MC = self._receive(peer, phase, *exchange.num_due(peer))
            self._put(exchange.come_row_TM[peer], exchange.come_slot_TM[peer], row_MC)
        parts = ((part_T[rank], exchange.place_TJ[rank]) for rank in sorted(part_T))
        sum_KW = sum_in_turn(parts, len(exchange.row_K), self.optimizer.width)
        self._apply(exchange.row_K, exchange.slot_K, sum_KW)

    def _receive(self, peer: int, phase: str, num_gradients: int, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
        """(a trainer's gradients, float32 (J, W), rows that it sends, float32 (M, C))."""
        found = [part.array for part in self.transport.recv(peer, phase, phase).parts]
        due = [(num_gradients, self.optimizer.width), (num_rows, self.optimizer.num_columns)]
        shapes = [array.shape for array in found]
        if shapes != due or any(array.dtype != np.float32 for array in found):
            raise HostError(
                f"Rank {peer} sent gradients and rows of shapes {shapes} where {due} were due: the trainers do not see "
                "the same batches."
            )
        return found[0], found[1]

    def _put(self, row_M: np.ndarray, slot_M: np.ndarray, row_MC: np.ndarray) -> None:
        """Rows that another trainer has changed stand here from now on."""
        scatter_rows(row_MC, slot_M, self.cache)
        self._mark[slot_M] = row_M + 1

    def _apply(self, row_K: np.ndarray, slot_K: np.ndarray, gradient_KW: np.ndarray) -> None:
        self.optimizer.step(self.cache, slot_K, gradient_KW)
        self._mark[slot_K] = row_K + 1

    def _peers(self) -> list[int]:
        """The other trainers; each starts behind itself, so that nobody is everybody's first."""
        rank = self.transport.rank
        return [(rank + step) % self.trainers for step in range(1, self.trainers)]

    def _count(self, plan: StepPlan) -> None:
        now, later, never = plan.num_classes
        self._counts.update(
            rows=plan.num_rows, now=now, later=later, never=never, fetched=plan.num_fetched, moved=plan.num_moved
        )
        self._counts["horizon"] += plan.horizon - plan.step
        self._most_held = max(self._most_held, plan.num_held)
