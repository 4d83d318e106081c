"""Who has a row in a step and who has it behind the step, and what must travel for that. Pure.

A row stands with the trainer that alone uses it, or, where several do, with all of them. Between two uses it goes to
those of the next one: a row of one trainer is stepped there, and then travels whole; of a row of all the gradients
travel, to whoever has it next, and the others forget it. What must travel follows from the batches, so no ids do.

Ours; in Bagpipe (Agarwal et al. 2023, SOSP, section 3.3) all trainers keep all cached rows equal.

Legend: N trainers; G distinct rows of a step, of all trainers; U those of this trainer's batch; K, J, M some of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from any2vec.kernels.common.grouping import cut_groups, sort_positions

SHARED = -1
"""instead of a trainer: all have the same copy of the row"""


@dataclass(frozen=True)
class Exchange:
    """Rows of a step of which something travels together, as one trainer sees it. All positions are ascending.

    To each other trainer go first its gradients, then whole rows, in the order of `give_TJ` and `send_TM`.
    """

    row_K: np.ndarray
    """int64, ascending: rows that this trainer steps by the sum of gradients"""
    slot_K: np.ndarray
    """int64: where they stand in the cache"""
    place_TJ: tuple[np.ndarray, ...]
    """by trainer, int64: which of the K rows it has gradients of; this trainer itself, too"""
    give_TJ: tuple[np.ndarray, ...]
    """by trainer, int64: of which of this trainer's U rows it is given the gradients"""
    send_TM: tuple[np.ndarray, ...]
    """by trainer, int64: which of this trainer's U rows it is sent, once they are stepped"""
    come_row_TM: tuple[np.ndarray, ...]
    """by trainer, int64, ascending: rows that it sends"""
    come_slot_TM: tuple[np.ndarray, ...]
    """by trainer, int64: where they shall stand"""

    def num_due(self, trainer: int) -> tuple[int, int]:
        """(gradients, rows) that come from a trainer."""
        return len(self.place_TJ[trainer]), len(self.come_row_TM[trainer])


@dataclass(frozen=True)
class Transfers:
    """What one trainer does with rows of its batch that it alone has, and what travels of all rows of a step."""

    hurried_J: np.ndarray
    """int64: which of its U rows this trainer alone has, and sends now: it steps them first, by its own gradient"""
    alone_J: np.ndarray
    """int64: the others that it alone has"""
    now: Exchange
    """the next step uses them: what travels of them does before it"""
    later: Exchange
    """all others of which something travels, while the next step runs"""
    num_classes: tuple[int, int, int]
    """of the G rows: those of which something travels now, or later, and those of which nothing does"""
    num_moved: int
    """of the G rows: those that travel whole"""


def transfers_of(
    trainer: int, row_G: np.ndarray, slot_G: np.ndarray, user_G: np.ndarray, to_G: np.ndarray, is_next_G: np.ndarray,
    place_T: Sequence[np.ndarray],
) -> Transfers:  # fmt: skip
    """What a step asks of `trainer`.

    Args:
        slot_G: int64: where rows stand, or shall stand, at this trainer; anything for those that it has no part in.
        user_G: int64: the trainer that alone uses the row, or SHARED; it has it, or all have.
        to_G: int64: the same of the row's next use; for a row that leaves, who has it until it is written back.
        is_next_G: bool: the next step uses it.
        place_T: by trainer, int64: which of the G rows it uses.
    """
    is_moved = (user_G != SHARED) & (to_G != user_G)
    is_sent = is_moved | (user_G == SHARED)
    is_now = is_sent & is_next_G
    is_later = is_sent & ~is_now
    own = place_T[trainer]
    is_alone_U, is_now_U = user_G[own] == trainer, is_now[own]
    now, later = (_exchange(trainer, row_G, slot_G, user_G, to_G, is_in, place_T) for is_in in (is_now, is_later))
    num_now, num_later = int(is_now.sum()), int(is_later.sum())
    return Transfers(
        np.flatnonzero(is_alone_U & is_now_U), np.flatnonzero(is_alone_U & ~is_now_U), now, later,
        (num_now, num_later, len(row_G) - num_now - num_later), int(is_moved.sum()),
    )  # fmt: skip


def _exchange(
    trainer: int, row_G: np.ndarray, slot_G: np.ndarray, user_G: np.ndarray, to_G: np.ndarray, is_in_G: np.ndarray,
    place_T: Sequence[np.ndarray],
) -> Exchange:  # fmt: skip
    """Of the rows is_in_G, bool, none of which one trainer has and keeps."""
    is_shared = is_in_G & (user_G == SHARED)
    is_mine = is_shared & reaches(to_G, trainer)
    number_G = np.cumsum(is_mine) - 1
    own = place_T[trainer]
    shared_U, moving_U, to_U = is_shared[own], is_in_G[own] & (user_G[own] == trainer), to_G[own]
    come_T = [np.empty(0, np.int64)] * len(place_T)
    come = np.flatnonzero(is_in_G & (user_G != SHARED) & (user_G != trainer) & reaches(to_G, trainer))
    for peer in set(range(len(place_T))) - {trainer}:
        come_T[peer] = come[user_G[come] == peer]
    return Exchange(
        row_G[is_mine], slot_G[is_mine],
        tuple(number_G[place[is_mine[place]]] for place in place_T),
        tuple(np.flatnonzero(shared_U & reaches(to_U, peer)) for peer in range(len(place_T))),
        tuple(np.flatnonzero(moving_U & reaches(to_U, peer) & (peer != trainer)) for peer in range(len(place_T))),
        tuple(row_G[come] for come in come_T), tuple(slot_G[come] for come in come_T),
    )  # fmt: skip


def reaches(user_K: np.ndarray, trainer: int) -> np.ndarray:
    """bool (K,): `trainer` has a row that stands with user_K, a trainer or SHARED."""
    return (user_K == trainer) | (user_K == SHARED)


def count_copies(user_K: np.ndarray, trainers: int) -> np.ndarray:
    """int64 (N,): slots that rows take at each trainer; user_K: a trainer or SHARED."""
    count = np.bincount(user_K + 1, minlength=trainers + 1)
    return count[1:] + count[0]


def count_moves(user_K: np.ndarray, to_K: np.ndarray, trainers: int) -> tuple[np.ndarray, np.ndarray]:
    """(slots that are taken, slots that are left) at each trainer when rows go from user_K to to_K; int64 (N,)."""
    is_kept = (to_K == user_K) | (to_K == SHARED) | (user_K == SHARED)
    kept_T = count_copies(np.where(to_K == SHARED, user_K, to_K)[is_kept], trainers)
    return count_copies(to_K, trainers) - kept_T, count_copies(user_K, trainers) - kept_T


def unite(batches: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """(rows of all batches int64 (G,) ascending, int64 (G,) the one batch that has the row or SHARED, by batch int64
    where its rows are among the G)."""
    if len(batches) == 1:
        size = len(batches[0])
        return batches[0], np.zeros(size, np.int64), [np.arange(size)]
    row_M = np.concatenate(batches)
    cut_B = np.cumsum([len(batch) for batch in batches])
    size = len(row_M)
    member_M, place_M = np.empty(size, np.int32), np.empty(size, np.int32)
    row_G, first_G1 = np.empty(size, np.int64), np.empty(size + 1, np.int64)
    sort_positions(row_M, int(row_M.max()) if size else 0, member_M, place_M)
    count = cut_groups(row_M, member_M, row_G, first_G1, place_M)
    is_sole = np.diff(first_G1[: count + 1]) == 1
    owner_G = np.searchsorted(cut_B, member_M[first_G1[:count]], side="right")
    return row_G[:count], np.where(is_sole, owner_G, SHARED), np.split(place_M.astype(np.int64), cut_B[:-1])
