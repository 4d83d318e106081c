"""Which part of the data each host trains: contiguous chunks that end where sentences or walks do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from any2vec.errors import InputError

Range = tuple[int, int]


def chunk_bounds(num_positions: int, hosts: int, boundary: Callable[[int], int]) -> list[int]:
    """Host h trains positions [bounds[h], bounds[h + 1]), as equal as sentence ends allow.

    boundary: position -> the first legal cut at or behind it.

    Raises:
        InputError: a host would have nothing to train.
    """
    bounds = [0, *(boundary(num_positions * host // hosts) for host in range(1, hosts)), num_positions]
    empty = [host for host in range(hosts) if bounds[host] == bounds[host + 1]]
    if empty:
        raise InputError(
            f"The data are too few for {hosts} hosts: rank {empty[0]} would have no whole sentence, walk or batch to "
            "train; use fewer hosts."
        )
    return bounds


def share_rest(rest: Sequence[Range], hosts: int, boundary: Callable[[int], int]) -> list[tuple[Range, ...]]:
    """What each of `hosts` trains of the ranges that another number of hosts has left of an epoch, nearly equal."""
    total = sum(stop - start for start, stop in rest)
    shares: list[tuple[Range, ...]] = []
    for host in range(hosts):
        low, high, before, share = total * host // hosts, total * (host + 1) // hosts, 0, []
        for start, stop in rest:
            begin, end = (_place(start, stop, at - before, boundary) for at in (low, high))
            if begin < end:
                share.append((begin, end))
            before += stop - start
        shares.append(tuple(share))
    return shares


def keep_rest(rest: Sequence[Sequence[Range]], bounds: Sequence[int]) -> list[tuple[Range, ...]]:
    """What each host trains of what is left of an epoch, by rank, where none can read beyond its own bounds.

    Raises:
        InputError: other hosts, or hosts with other bounds, have left it.
    """
    own = list(pairwise(bounds))
    fits = len(rest) == len(own) and all(
        low <= start and stop <= high for (low, high), left in zip(own, rest, strict=True) for start, stop in left
    )
    if not fits:
        raise InputError(
            f"The checkpoint lies in the middle of an epoch of {len(rest)} hosts, and {len(own)} hosts that read their "
            f"own parts cannot share out what is left; resume with {len(rest)} hosts, or with read whole."
        )
    return [tuple(left) for left in rest]


def _place(start: int, stop: int, at: int, boundary: Callable[[int], int]) -> int:
    """The legal cut at or behind start + at, within [start, stop]."""
    if at <= 0 or start + at >= stop:
        return start if at <= 0 else stop
    return min(stop, boundary(start + at))
