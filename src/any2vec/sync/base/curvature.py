"""The curvature that all rows of a table share in a round: what some merge rules ask for, and how hosts agree on it.

The steps of a pair move a row x along a row y of another table by rate * g'(x . y) * ((x* - x) . y): the rows of a
table see the mean of y y^T over their steps. Each host has the agreed rows that it owns; it sums y y^T over them, and
hosts add these D x D sums up: each adds a slice of all, in rank order in float64, and sends it to the others. That is
2 D (D + 1) bytes or less a table, host and direction in each of two steps, whatever the scheme, the rows or the hosts.
Where hosts pull and push rows they go along with these, and cost no message of their own.

Legend: B rows of a block, D dim, M numbers of all sums.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.errors import MessageError
from any2vec.kernels.rows.merge_along import merge_along
from any2vec.kernels.rows.spectral import add_moment, turns
from any2vec.plan.cost.volume import CURVATURE
from any2vec.plan.sharding.sharding import Striped, contiguous_bounds
from any2vec.sync.base.pool import ThreadPool

PIECE = 1024
"""rows whose moment a thread adds up by itself, at least"""
STRETCHES = 24
"""of a table's rows, at most"""


@dataclass(frozen=True)
class PairSteps:
    """A task's report of its steps, each of which moves a row along one of another table."""

    meets: Mapping[str, str]
    """table -> the one along whose rows its steps are"""
    weights: Mapping[str, np.ndarray]
    """table -> shares of its rows among those that the other table's steps are along, float64 (V',), sum 1"""
    updates: Mapping[str, np.ndarray]
    """table -> steps of each of its rows in a round, all hosts together, float64 (V',); rows beyond have none"""
    rate: Callable[[int], float]
    """learning rate in a round, by its number over all epochs"""


@dataclass(frozen=True)
class Curvature:
    """What the rows of a block see in a round: the mean of y y^T over the steps of their table."""

    value_D: np.ndarray
    """its eigenvalues, float64, ascending, none below 0"""
    vector_DD: np.ndarray
    """its eigenvectors, columns, float64"""
    step_B: np.ndarray
    """learning rate times steps of each row in the round, all hosts together, float64"""


class Curved(ABC):
    """A merge rule that asks for the curvature of a round (abstract): for tasks that tell of `PairSteps` alone."""

    @abstractmethod
    def prepare(self, curvature: Curvature) -> None:
        """Called in each round before rows are merged."""


class OwnedRows(Protocol):
    """The rows of a table that a host owns, float32 (B, D), and who merges them."""

    rows: np.ndarray

    @property
    def rule(self) -> object: ...


class Curvatures:
    """One host's side: gives the rules of its blocks the curvature, where they ask for it.

    It has two steps, `slices` and `agree`, whose arrays may go along with other messages; `prepare` sends them alone.
    bits: of a number of a row that comes to be merged.
    """

    def __init__(
        self, transport: Transport, steps: Callable[[], PairSteps] | None, blocks: Mapping[str, OwnedRows],
        shardings: Mapping[str, Striped], pool: ThreadPool, channel: str = "", bits: int = 32,
    ) -> None:  # fmt: skip
        self._transport = transport
        self._blocks = blocks
        self._pool = pool
        self._channel = channel
        self._meets: Mapping[str, str] = {}
        if steps is None or not any(isinstance(block.rule, Curved) for block in blocks.values()):
            return
        found = steps()
        self._meets, self._rate = found.meets, found.rate
        ids = {name: shardings[name].ids(transport.rank) for name in found.meets}
        self._weights = {name: _of_rows(found.weights[name], ids[name]) for name in ids}
        self._updates = {name: _of_rows(found.updates[name], ids[name]) for name in ids}
        self._names = sorted(set(found.meets.values()))
        self._dims = [blocks[name].rows.shape[1] for name in self._names]
        self._bounds = contiguous_bounds(sum(dim * (dim + 1) // 2 for dim in self._dims), transport.hosts)
        _compile(np.int16(0) if bits == 16 else np.int8(0))

    @property
    def are_asked_for(self) -> bool:
        """Whether a rule goes by them."""
        return bool(self._meets)

    def prepare(self, number: int) -> None:
        """Agree on the curvature of a round and tell the rules; collective, between the merges of two rounds."""
        if self.are_asked_for:
            agreed = self.sum(self._exchange(self.slices()))
            self.agree(number, self._exchange([agreed] * self._transport.hosts))

    def slices(self) -> list[Part]:
        """What this host's rows add to the slice of the sums that each host adds up, by rank."""
        pieces = [(name, start, stop) for name in self._names for start, stop in _stretches(len(self._weights[name]))]
        found = zip(pieces, self._pool.each(self._moment, pieces), strict=True)
        totals = {name: np.zeros((dim, dim)) for name, dim in zip(self._names, self._dims, strict=True)}
        for (name, *_), moment_DD in found:
            totals[name] += moment_DD
        own_M = np.concatenate([total_DD[np.tril_indices(len(total_DD))] for total_DD in totals.values()], dtype="f4")
        return [Part("dense", own_M[start:stop]) for start, stop in pairwise(self._bounds)]

    def sum(self, slices: Sequence[Part]) -> Part:
        """The sum of this host's slice over all hosts, from theirs by rank; the same bits whoever sends it."""
        parts = [self._checked(part, self._transport.rank) for part in slices]
        return Part("dense", np.asarray(np.sum(parts, axis=0, dtype=np.float64), np.float32))

    def agree(self, number: int, sums: Sequence[Part]) -> None:
        """Tell the rules of the curvature of a round; sums: of all slices, by rank."""
        whole_M = np.concatenate([self._checked(part, host) for host, part in enumerate(sums)])
        found = dict(zip(self._names, self._pool.each(_eigenvectors, self._triangles(whole_M)), strict=True))
        rate = self._rate(number)
        for name, other in self._meets.items():
            rule, (value_D, vector_DD) = self._blocks[name].rule, found[other]
            assert isinstance(rule, Curved)
            rule.prepare(Curvature(np.maximum(value_D, 0.0), vector_DD, rate * self._updates[name]))

    def _moment(self, piece: tuple[str, int, int]) -> np.ndarray:
        """The sum of w y y^T over a stretch of the own rows, float64 (D, D), its lower triangle."""
        name, start, stop = piece
        rows_BD = self._blocks[name].rows[start:stop]
        moment_DD = np.zeros((rows_BD.shape[1], rows_BD.shape[1]))
        add_moment(rows_BD, self._weights[name][start:stop], moment_DD)
        return moment_DD

    def _triangles(self, whole_M: np.ndarray) -> list[np.ndarray]:
        """The sums by table, float64 (D, D), their lower triangles."""
        sums, start = [], 0
        for dim in self._dims:
            sum_DD, corner = np.zeros((dim, dim)), np.tril_indices(dim)
            sum_DD[corner] = whole_M[start : start + len(corner[0])]
            sums.append(sum_DD)
            start += len(corner[0])
        return sums

    def _exchange(self, outgoing: list[Part]) -> list[Part]:
        """A part for each host, and one from each, by rank."""
        parts = {host: (part,) for host, part in enumerate(outgoing)}
        own = {self._transport.rank: parts.pop(self._transport.rank)}
        received = self._transport.exchange(parts, CURVATURE, self._channel) | own
        return [received[host][0] for host in range(self._transport.hosts)]

    def _checked(self, part: Part, host: int) -> np.ndarray:
        """The array of a part that has the slice of a host."""
        size = self._bounds[host + 1] - self._bounds[host]
        if part.array.shape != (size,) or part.array.dtype != np.float32:
            raise MessageError(
                f"A host sent {part.array.dtype} {part.array.shape} for {size} numbers of a curvature: the hosts do "
                "not run the same job."
            )
        return part.array


def _stretches(num_rows: int) -> list[tuple[int, int]]:
    """[start, stop) of at most `STRETCHES` stretches of whole pieces: their sums, a matrix each, are held at once. The
    same for any number of threads, for so is how sums are rounded."""
    size = PIECE * max(1, -(-num_rows // (PIECE * STRETCHES)))
    return [(start, min(start + size, num_rows)) for start in range(0, num_rows, size)]


def _compile(like: np.integer[Any]) -> None:
    """Compile the kernels of curvatures and of merges along them, or load them from the cache; like: a code."""
    one_1, one_11, rows_11, none_0 = np.zeros(1), np.zeros((1, 1)), np.zeros((1, 1), np.float32), np.zeros(0, np.uint64)
    add_moment(rows_11, one_1, one_11)
    merge_along(
        none_0, none_0, none_0, np.zeros(0, np.int64), like, 1, 0, 1, True, rows_11, one_1, one_1, *turns(one_11),
        np.zeros(1, bool),
    )  # fmt: skip


def _eigenvectors(lower_DD: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues (D,), ascending, and eigenvectors (D, D), columns, of a symmetric matrix."""
    value_D, vector_DD = np.linalg.eigh(lower_DD)
    return value_D, vector_DD


def _of_rows(value_V: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """The values of rows, float64; 0 of those behind the last."""
    found = np.zeros(len(ids))
    known = ids < len(value_V)
    found[known] = value_V[ids[known]]
    return found
