"""How several hosts lay out one table within a budget each, and what a run of theirs moves: on disks, on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from any2vec.cluster.message import overhead
from any2vec.errors import InputError
from any2vec.plan.order.buffer import AHEAD, MOST_PARTITIONS, PAGE, BufferPlan, too_small
from any2vec.plan.order.buffer import block_rows as rows_of_block
from any2vec.plan.order.shared_walk import SharedWalk

SPARE = 2
"""blocks beside the buffer's: a partition that is being given, one that has come and is not yet in its place"""


@dataclass(frozen=True)
class HostMoves:
    """What one host moves."""

    loads: int
    """partitions that enter its memory, from its disk or from another host"""
    stores: int
    """partitions that leave its memory for its disk"""
    taken: int
    """of the loads, those that come from another host"""
    given: int
    """partitions that another host takes"""
    bytes_read: int
    """from its disk, what it gives included"""
    bytes_written: int
    bytes_sent: int
    """of partitions, with the heads of their messages, requests and answers"""

    def as_dict(self) -> dict[str, int]:
        """JSON-ready."""
        return asdict(self)


def plan_shared(num_rows: int, row_bytes: int, budget_bytes: int, fixed_bytes: int, hosts: int) -> BufferPlan:
    """The plan of the fewest bytes from and to a host's disk within each host's budget; of equal ones of the fewest
    partitions. A multiple of twice the hosts gives all the same work. `swaps`: loads of a host in an epoch.

    Raises:
        InputError: the budget is too small, with the smallest one that works; there are too many hosts.
    """
    step, found = 2 * hosts, []
    if step > min(MOST_PARTITIONS, num_rows):
        raise InputError(
            f"{hosts} hosts need {step} partitions at least, two for each; a table of {num_rows:,} rows has "
            f"{min(MOST_PARTITIONS, num_rows)} at most; take fewer hosts."
        )
    for partitions in range(step, min(MOST_PARTITIONS, num_rows) + 1, step):
        block = _block_bytes(num_rows, row_bytes, partitions)
        capacity = min((budget_bytes - fixed_bytes) // block - AHEAD - SPARE, partitions // hosts)
        if capacity >= 2:
            turns = SharedWalk(hosts=hosts, rank=0, partitions=partitions, capacity=capacity, epochs=2)
            loads = sum(len(turn.entering) for turn in turns if turn.epoch == 1)
            found.append(BufferPlan(num_rows, row_bytes, partitions, capacity, fixed_bytes, loads))
    if not found:
        most = min(MOST_PARTITIONS, num_rows) // step * step
        smallest = fixed_bytes + (2 + AHEAD + SPARE) * _block_bytes(num_rows, row_bytes, most)
        table = f"A table of {num_rows:,} rows of {row_bytes:,} bytes, shared by {hosts} hosts,"
        raise too_small(table, smallest, fixed_bytes, budget_bytes)
    return min(found, key=lambda plan: (plan.epoch_bytes, plan.partitions))


def host_moves(walk: SharedWalk, bounds: Sequence[int], columns: int) -> HostMoves:
    """What a host moves on its way, commits left out.

    Args:
        bounds: partition q has the rows [bounds[q], bounds[q + 1]).
        columns: float32 numbers of a row, its optimizer's state included.
    """
    rounds, rank = walk.rounds, walk.rank
    first = walk.round_after.get(walk.start, 0)
    numbers = range(first, rounds.number)
    taken = [part for number in numbers for part in rounds.taken(number, rank)]
    given = [part for number in numbers for part in rounds.given(number, rank)]
    entered = [part for turn in walk for part, _ in turn.entering]
    left = [part for turn in walk for part, _ in turn.leaving]

    def num_bytes(parts: Sequence[int]) -> int:
        return sum(4 * columns * (bounds[part + 1] - bounds[part]) for part in parts)

    def on_disk(parts: Sequence[int]) -> int:
        return sum(-(-4 * columns * (bounds[part + 1] - bounds[part]) // PAGE) * PAGE for part in parts)

    return HostMoves(
        loads=len(entered), stores=len(left), taken=len(taken), given=len(given),
        bytes_read=on_disk(entered) - on_disk(taken) + on_disk(given), bytes_written=on_disk(left),
        bytes_sent=num_bytes(given) + len(given) * overhead(1) + len(taken) * (overhead(1) + 16 + overhead(0)),
    )  # fmt: skip


def round_bytes(shapes: Sequence[tuple[int, int]], hosts: int, numbers: int, answers: int) -> int:
    """Bytes that all hosts together send to agree on float32 arrays of these shapes after a round.

    numbers, answers: float64 that each host sends to rank 0, and that rank 0 sends back.
    """
    dense = sum(4 * rows * columns for rows, columns in shapes)
    heads = 2 * overhead(1 + len(shapes))
    return (hosts - 1) * (2 * dense + heads + 8 * (numbers + answers))


def _block_bytes(num_rows: int, row_bytes: int, partitions: int) -> int:
    return rows_of_block(-(-num_rows // partitions), row_bytes) * row_bytes
