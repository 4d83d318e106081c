"""Bytes on the wire of an agreement, exactly: by phase, by kind and by host, from how many rows each host deals with.

Given the true numbers of rows this equals what the transport counts, byte for byte; given expected ones
(plan/cost/occupancy.py) it is a forecast. The schemes are GraphAny2Vec's (Gill et al., IPDPS 2021, section 4); the
messages are those of sync/exchange/replicated.py and sync/exchange/pulled.py.

Legend: T tables, H hosts (owners of blocks), A askers: H, or 1 where every host is alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from any2vec.cluster.codec import ids_size, rows_parts, rows_size
from any2vec.cluster.counters import summed
from any2vec.cluster.message import KINDS, overhead
from any2vec.plan.sharding.sharding import contiguous_bounds

TABLES = ("input", "output")
CURVATURE = "curvature"
"""phase in which hosts agree on the curvature of a round, where it does not go along with rows"""
GATHERED = 1 << 26
"""bytes of rows that all hosts together send to rank 0 at a time, where it gathers them"""
CHANGE_BYTES, VERDICT_BYTES, RANGE_BYTES = 40, 24, 16
"""of a report: five numbers to rank 0, its answer of three, and each range of positions that a host has left"""

_ids_size = np.vectorize(ids_size, otypes=[np.int64])
_rows_parts = np.vectorize(rows_parts, otypes=[np.int64])


@dataclass(frozen=True)
class Flow:
    """The messages of one phase: between askers and the owners of blocks, one for each pair of two hosts."""

    phase: str
    to_owner: bool
    """whether askers send and owners receive; else the other way round"""
    kinds: dict[str, np.ndarray]
    """kind -> int64 (A, H), bytes between asker and owner; what a host would send itself is not counted"""

    def bytes_by_kind(self) -> dict[str, int]:
        return {kind: int(self._of_owners(size).sum()) for kind, size in self.kinds.items()}

    def sent(self) -> np.ndarray:
        """int64 (H,): bytes that each host sends."""
        return self._of_askers(self._all) if self.to_owner else self._of_owners(self._all)

    def received(self) -> np.ndarray:
        """int64 (H,): bytes that each host receives."""
        return self._of_owners(self._all) if self.to_owner else self._of_askers(self._all)

    def busiest(self) -> int:
        """Bytes that go over the busiest line, in its busier direction."""
        return int(max(self.sent().max(), self.received().max()))

    @cached_property
    def _all(self) -> np.ndarray:
        return np.asarray(sum(self.kinds.values()))

    @staticmethod
    def _of_askers(size: np.ndarray) -> np.ndarray:
        return size.sum(1) - (size[0] if len(size) == 1 else size.diagonal())

    @staticmethod
    def _of_owners(size: np.ndarray) -> np.ndarray:
        return size[0] * (size.shape[1] - 1) if len(size) == 1 else size.sum(0) - size.diagonal()


@dataclass(frozen=True)
class Volume:
    """What travels in one round."""

    hosts: int
    flows: tuple[Flow, ...]
    """phases, in their order; each ends before the next begins"""

    def bytes_by_phase(self) -> dict[str, int]:
        """Bytes that all hosts send, by phase."""
        return summed([{flow.phase: sum(flow.bytes_by_kind().values())} for flow in self.flows])

    def bytes_by_kind(self) -> dict[str, int]:
        """Bytes that all hosts send, by kind."""
        return summed([dict.fromkeys(KINDS, 0), *(flow.bytes_by_kind() for flow in self.flows)])

    def total(self) -> int:
        """Bytes that all hosts send."""
        return sum(self.bytes_by_kind().values())

    def busiest(self) -> int:
        """Bytes over the busiest line of each phase, added up: what a round has to wait for."""
        return sum(flow.busiest() for flow in self.flows)


@dataclass(frozen=True)
class RoundSets:
    """How many rows hosts deal with in one round, by table and by the owner's block.

    tracked: int64 (T, A, H), rows that a host asks for (PullModel) or has changed (RepModel-Opt); for PullModel-Base
    both tables have the same. merged: int64 (T, H), rows that any host has changed; only RepModel-Opt needs it.
    """

    tracked: np.ndarray
    merged: np.ndarray | None = None


def block_sizes(num_rows: int, hosts: int) -> np.ndarray:
    """int64 (H,): rows of each host's block of a table."""
    return np.diff(contiguous_bounds(num_rows, hosts))


def all_rows(num_rows: int, hosts: int) -> RoundSets:
    """The sets of RepModel-Base: every row, everywhere."""
    size_TH = np.tile(block_sizes(num_rows, hosts), (len(TABLES), 1))
    return RoundSets(size_TH[:, None, :], size_TH)


def no_rows(hosts: int) -> RoundSets:
    """What goes along with the last round of a run: no ids, for no round follows."""
    return RoundSets(np.zeros((0, 1, hosts), np.int64))


def round_volume(
    scheme: str, num_rows: int, hosts: int, dim: int, bits: int, sets: RoundSets | None = None,
    coming: RoundSets | None = None, is_curved: bool = False,
) -> Volume:  # fmt: skip
    """What one round sends.

    sets: may be left out for rep-base, which sends every row. coming: the next round's, whose ids go along where hosts
    pull; None: as many. is_curved: whether the rule asks for the curvature of each table.
    """
    size_H = block_sizes(num_rows, hosts)
    model, _, form = scheme.partition("-")
    if scheme == "rep-base" or sets is None:
        sets = all_rows(num_rows, hosts)
    if model == "rep":
        assert sets.merged is not None
        merged_TAH = sets.merged[:, None, :]
        num_told = len(TABLES) * (form == "opt")
        return Volume(hosts, (
            *(curvature_flows(hosts, dim) if is_curved else ()),
            _flow("reduce", True, size_H, dim, bits, sets.tracked, sets.tracked[:num_told], by_table=True),
            _flow("broadcast", False, size_H, dim, bits, merged_TAH, merged_TAH[:num_told], by_table=True),
        ))  # fmt: skip
    none, told = sets.tracked[:0], _told(scheme, coming or sets)
    flows = (
        _flow("pull", False, size_H, dim, bits, sets.tracked, none),
        _flow("reduce", True, size_H, dim, bits, sets.tracked, told),
    )
    return Volume(hosts, tuple(_with_slices(flow, dim) for flow in flows) if is_curved else flows)


def first_volume(scheme: str, num_rows: int, hosts: int, dim: int, sets: RoundSets | None) -> Volume:
    """What goes before the first round of a run: the ids of its rows, where hosts pull."""
    if sets is None or not scheme.startswith("pull"):
        return Volume(hosts, ())
    told = _told(scheme, sets)
    return Volume(hosts, (_flow("inspect", True, block_sizes(num_rows, hosts), dim, 32, told[:0], told),))


def _curvature_slices(hosts: int, dim: int) -> np.ndarray:
    """int64 (H,): bytes of each host's slice of the triangles of all tables: sync/base/curvature.py."""
    return np.diff(contiguous_bounds(len(TABLES) * dim * (dim + 1) // 2, hosts)) * 4


def curvature_flows(hosts: int, dim: int) -> tuple[Flow, ...]:
    """Messages of slices, and of their sums, that do not go along with rows."""
    kinds = {"dense": _curvature_slices(hosts, dim)[None], "control": np.full((1, hosts), overhead(1))}
    return Flow(CURVATURE, True, kinds), Flow(CURVATURE, False, kinds)


def _with_slices(flow: Flow, dim: int) -> Flow:
    """Messages that carry the slice of the asker, too: an owner's share of it, or its sum."""
    hosts = flow.kinds["control"].shape[1]
    slices = np.tile(_curvature_slices(hosts, dim)[:, None], (1, hosts))
    more = overhead(1) - overhead(0)
    return Flow(flow.phase, flow.to_owner, flow.kinds | {"dense": slices, "control": flow.kinds["control"] + more})


def _told(scheme: str, sets: RoundSets) -> np.ndarray:
    """Of what tables an owner is told the ids: Base tracks both together."""
    return sets.tracked[:1] if scheme == "pull-base" else sets.tracked


def report_bytes(hosts: int, unfinished: int) -> int:
    """Control bytes of the report after a round; unfinished: hosts but rank 0 with positions left of the epoch."""
    return (hosts - 1) * (overhead(2) + CHANGE_BYTES + overhead(1) + VERDICT_BYTES) + unfinished * RANGE_BYTES


def _flow(
    phase: str, to_owner: bool, size_H: np.ndarray, dim: int, bits: int, row_TAH: np.ndarray, id_TAH: np.ndarray,
    by_table: bool = False,
) -> Flow:  # fmt: skip
    """Messages that carry the values of so many rows of each table, and sets of so many ids; T may be 0.

    by_table: each table has a message of its own.
    """
    parts = len(id_TAH) + _rows_parts(row_TAH, bits).sum(0)
    ids = np.broadcast_to(_ids_size(id_TAH, size_H).sum(0), parts.shape)
    kinds = {"ids": ids, "rows": rows_size(row_TAH, dim, bits).sum(0)}  # type: ignore[arg-type, attr-defined]
    more = (len(row_TAH) - 1) * overhead(0) if by_table else 0
    return Flow(phase, to_owner, kinds | {"control": overhead(parts) + more})
