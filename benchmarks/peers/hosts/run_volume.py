"""Bytes of a whole run of an agreement, exactly, from its rounds: to hold what the transport counted against."""

from __future__ import annotations

from collections.abc import Sequence

from any2vec.cluster.codec import rows_size
from any2vec.cluster.counters import summed
from any2vec.cluster.message import overhead
from any2vec.plan.cost.volume import (
    GATHERED,
    TABLES,
    RoundSets,
    Volume,
    block_sizes,
    curvature_flows,
    first_volume,
    no_rows,
    report_bytes,
    round_volume,
)  # fmt: skip


def gather_bytes(scheme: str, num_rows: int, hosts: int, dim: int, bits: int) -> dict[str, int]:
    """Bytes by kind of bringing the agreed rows to rank 0: at the end, and for each checkpoint."""
    if scheme.startswith("rep") and bits == 32:
        return {}  # rank 0 has them
    rows = int(block_sizes(num_rows, hosts)[1:].sum())
    turns = max(1, -(-len(TABLES) * rows_size(num_rows, dim) // GATHERED))
    heads = turns * overhead(len(TABLES)) + (turns - 1) * overhead(0)  # rank 0 asks for each turn but the first
    return {"rows": len(TABLES) * rows_size(rows, dim), "control": (hosts - 1) * heads}


def run_volumes(
    scheme: str,
    num_rows: int,
    hosts: int,
    dim: int,
    bits: int,
    sets: Sequence[RoundSets | None],
    ahead: int = 1,
    is_curved: bool = False,
) -> list[Volume]:
    """What goes before the first rounds of a run, `ahead` of them, and then with each of its rounds.

    ahead: how many rounds later that one is whose ids go along: 1, with overlap 2. is_curved: whether the rule asks for
    the curvature of a round, which goes along with rows that are pulled, with overlap but for the last round.
    """
    coming = [*sets[ahead:], *[no_rows(hosts)] * ahead]
    rounds = [
        round_volume(scheme, num_rows, hosts, dim, bits, *pair, is_curved) for pair in zip(sets, coming, strict=True)
    ]
    if is_curved and ahead > 1:
        _, reduce = round_volume(scheme, num_rows, hosts, dim, bits, sets[-1], coming[-1]).flows
        rounds[-1] = Volume(hosts, (rounds[-1].flows[0], *curvature_flows(hosts, dim), reduce))
    return [first_volume(scheme, num_rows, hosts, dim, one) for one in sets[:ahead]] + rounds


def run_bytes(
    rounds: Sequence[Volume], unfinished: Sequence[int], gathered: Sequence[dict[str, int]]
) -> tuple[dict[str, int], dict[str, int]]:
    """(bytes by phase, bytes by kind) that all hosts send in a run.

    rounds: as `run_volumes` has them; unfinished: of each round, as `report_bytes` has it; gathered: what came to rank
    0, as `gather_bytes` says, once for each time.
    """
    hosts = rounds[0].hosts
    reports = sum(report_bytes(hosts, left) for left in unfinished)
    gather = summed(gathered)
    phases = summed(
        [*(volume.bytes_by_phase() for volume in rounds), {"report": reports, "gather": sum(gather.values())}]
    )
    kinds = summed([*(volume.bytes_by_kind() for volume in rounds), {"control": reports}, gather])
    return phases, kinds
