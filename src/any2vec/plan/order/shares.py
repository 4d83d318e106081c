"""Which part of the data each host trains: contiguous chunks that end where sentences or walks do.

What a negative counts where negatives come only from those partitions that are in memory.

With all rows in memory each of the n examples whose given row is u (of skip-gram: pairs whose input it is) has k
negatives of the noise P: row v is expected n k P(v) times. With some partitions there, v can only come while its
partition is: always, where that is u's own, in few states else. So negatives are weighted: let N(i) be the examples of
an epoch whose given row is of partition i, and A(i, q) those of them that are trained while q is there. A negative of q
counts, to such an example,

    w(i, q) = N(i) / A(i, q)

where all rows that are there are negatives, each once; and P(there) times as much where k are drawn of the noise
restricted to what is there, P made 1 again over it. Over the epoch each row v of q is then expected

    sum over states of N(i, state) k P(v) / P(there) P(there) w(i, q) = k P(v) N(i) / A(i, q) A(i, q) = N(i) k P(v)

times, as in memory, for each partition of given rows exactly; all weights are 1 where all partitions are there.

Source: ours; the restricted noise itself is what PyTorch-BigGraph (Lerer et al., MLSys 2019, section 3.1) and Marius
(Mohoney et al., OSDI 2021, section 5.1) draw from, unweighted.

Legend: P partitions, H those that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np

from any2vec.errors import InputError
from any2vec.plan.order.bucket_orders import State

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


def resident_counts(states: Iterable[State], count_PP: np.ndarray) -> np.ndarray:
    """A: float64 (P, P), examples with their given row in partition i that are trained while partition q is there.

    Args:
        states: all of an epoch, those of every host.
        count_PP: examples of each bucket (the given row's partition, the answer's).
    """
    found_PP = np.zeros(count_PP.shape)
    for state in states:
        held = list(state.held)
        for i, j in state.buckets:
            found_PP[i, held] += count_PP[i, j]
    return found_PP


def noise_weights(held: Sequence[int], asked_P: np.ndarray, joint_PP: np.ndarray) -> np.ndarray:
    """w of the partitions that are there, float32 (H, H): given row's partition, negative's.

    asked_P: N. A partition that the examples of another never meet has no weight for them.
    """
    asked_H, joint_HH = asked_P[list(held)].astype(np.float64), joint_PP[np.ix_(held, held)]
    return np.divide(asked_H[:, None], joint_HH, out=np.zeros_like(joint_HH), where=joint_HH > 0).astype(np.float32)


def noise_there(held: Sequence[int], mass_P: np.ndarray) -> float:
    """P(there); mass_P: noise of each partition, of any sum."""
    return float(mass_P[list(held)].sum() / mass_P.sum())
