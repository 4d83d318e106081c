"""What a run over many hosts will need: memory, bytes, rounds, time and what holds it up. Modeled, never measured.

A round is inspection, compute and agreement, one after the other, and as slow as its slowest host:

    compute  items of a host / min(threads x pace x efficiency, memory bandwidth / bytes that an item touches)
    inspect  items of a host / pace of inspection                                       (PullModel)
    merge    numbers that the busiest owner merges, and that a host compares or gathers x seconds each
    curvature  of the rows that a host owns, and its eigenvectors                       (spectral)
    handle   bytes that the busiest host sends and receives x seconds each (copies, checksums), and messages
    link     for each phase its busiest line's bytes / bandwidth + latency

With one host this is `estimate_run`. Rows that a round needs come from plan/cost/occupancy.py, bytes from
plan/cost/volume.py.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any

from any2vec.checks import Whole, check_choice, check_fields, check_number
from any2vec.cluster.link import LinkModel
from any2vec.errors import InputError
from any2vec.plan.choices import BITS, MOST_PLANNED, SCHEMES
from any2vec.plan.cost.estimate import TEXT, TOKEN_BYTES, HostPart, Rates, RunEstimate, RunShape, estimate_run
from any2vec.plan.cost.occupancy import Frequencies, Reading, expected_sets
from any2vec.plan.cost.size import TORCH_BYTES, with_former
from any2vec.plan.cost.volume import (
    CURVATURE,
    GATHERED,
    TABLES,
    RoundSets,
    Volume,
    block_sizes,
    report_bytes,
    round_volume,
)  # fmt: skip

_FLOAT, _ID, _PLACE = 4, 8, 4


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How fast one host trains, from the pace of one thread."""

    thread_items_per_s: float
    efficiency: float = 0.92
    """of each thread beside others, 0..1: two threads over one, measured, and taken to hold for more"""
    memory_bandwidth: float = 0.0
    """bytes/s of a host's memory; 0: no limit"""
    bytes_per_item: float = 0.0
    """that training an item reads and writes where no row is found in a cache; see `accessed_bytes`"""

    def items_per_s(self, threads: int) -> float:
        """Of one host."""
        pace = self.thread_items_per_s * threads * (self.efficiency if threads > 1 else 1.0)
        has_limit = self.memory_bandwidth > 0 and self.bytes_per_item > 0
        return min(pace, self.memory_bandwidth / self.bytes_per_item) if has_limit else pace


def accessed_bytes(dim: int, keep_rate: float, draws: float) -> float:
    """Bytes that training an item moves: for each kept token an input row, an output row and its share of the shared
    negatives, each read and written once."""
    return keep_rate * (2 + draws) * dim * _FLOAT * 2


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What agreeing costs a host beside the link, with one thread; measured by the benchmark `plan-check`."""

    inspect_items_per_s: float = 8e6
    number_seconds: float = 1.5e-9
    """merging, comparing or gathering one number of a row"""
    byte_seconds: float = 7e-10
    """copying and checking one byte that is sent or received"""
    message_seconds: float = 1e-4
    curve_seconds: float = 9e-11
    """of each number of a row that its owner holds, times the dimension: second moments, and a turn to eigenvectors"""
    eigen_seconds: float = 3.5e-10
    """of the eigenvectors of a table's curvature, times the dimension cubed; a thread each"""
    threads: int = 1
    """that share this work"""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How a run is spread over hosts."""

    hosts: Annotated[int, Whole(1, MOST_PLANNED)]
    rounds_per_epoch: Annotated[int, Whole(1, 1_000_000)]
    scheme: str = "pull-opt"
    bits: int = 32
    link: LinkModel | None = None
    """None: the link costs no time"""
    is_overlapped: bool = False
    """whether agreement goes on beside the next round's compute (pull-opt): a round then takes the longer of the two"""
    is_curved: bool = False
    """whether the merge rule goes by the curvature of a round, as spectral does"""

    def __post_init__(self) -> None:
        check_fields(self)
        check_choice("scheme", self.scheme, SCHEMES)
        if self.bits not in BITS:
            raise InputError(f"bits must be 32, 16 or 8, got {self.bits!r}.")


@dataclass(frozen=True, kw_only=True)
class SchemePlan:
    """One scheme of a run over several hosts. Bytes; seconds, modeled."""

    bytes_per_round: int
    """that all hosts send"""
    bytes_per_host: int
    """that a host sends in a round, on average"""
    busiest_bytes: int
    """over the busiest line of each phase of a round, in its busier direction, added up"""
    bytes_per_epoch: int
    """that all hosts send, reports of progress included"""
    bytes_by_kind: dict[str, int]
    """of a round"""
    bytes_by_phase: dict[str, int]
    memory: dict[str, int]
    """of one host: the rows that it trains, and what the agreement holds beside them and the input"""
    round_seconds: dict[str, float]
    """compute, inspect, merge, curvature, handle, link of the slowest host"""
    bottleneck: str
    """the longest of them"""
    epoch_seconds: float
    items_per_s: float
    """all hosts together"""
    speedup: float
    """over one such host that agrees with nobody"""


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """A run over hosts before it starts. Every time in it is modeled."""

    hosts: int
    threads: int
    scheme: str
    bits: int
    rounds_per_epoch: int
    rounds: int
    host: RunEstimate
    """memory, time and disk of the host with the most of each (rank 0), by the scheme that was asked for. Where hosts
    hold parts, memory counts the part, and time leaves out that walkers travel"""
    host_items_per_s: float
    """of one host alone"""
    items_per_s: float
    speedup: float
    bottleneck: str
    schemes: dict[str, SchemePlan] = field(default_factory=dict)
    """all four; {} for one host"""
    part: HostPart | None = None
    """what the fullest host holds of the input; None: every host holds all of it, or there is one"""

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self) | {"is_modeled": True}


def plan_run(
    shape: RunShape,
    rates: Rates,
    spread: Spread | None = None,
    found: Frequencies | None = None,
    reading: Reading | None = None,
    costs: Costs | None = None,
    part: HostPart | None = None,
) -> RunPlan:
    """The plan of one run; without `spread`, or with one host, the estimate of a run that agrees with nobody.

    rates: of one host; found, reading: how often rows occur, and what the kernel reads, needed for several hosts; part:
    what a host holds of the input, None: all of it.
    """
    alone = estimate_run(shape, rates)
    if spread is None or spread.hosts == 1:
        rounds = 1 if spread is None else spread.rounds_per_epoch
        return RunPlan(
            hosts=1, threads=shape.threads, scheme="pull-opt" if spread is None else spread.scheme,
            bits=32 if spread is None else spread.bits, rounds_per_epoch=rounds, rounds=rounds * shape.epochs,
            host=alone, host_items_per_s=rates.items_per_s, items_per_s=rates.items_per_s, speedup=1.0,
            bottleneck=max(alone.time, key=lambda part: alone.time[part]),
        )  # fmt: skip
    if found is None or reading is None:
        raise InputError("A plan for several hosts needs to know how often rows occur.")
    schemes = {
        scheme: plan_scheme(
            shape, rates,
            replace(spread, scheme=scheme, is_overlapped=spread.is_overlapped and scheme == "pull-opt"),
            costs or Costs(),
            expected_sets(found, reading, spread.hosts, spread.rounds_per_epoch, scheme),
        )
        for scheme in SCHEMES
    }  # fmt: skip
    chosen = schemes[spread.scheme]
    return RunPlan(
        hosts=spread.hosts, threads=shape.threads, scheme=spread.scheme, bits=spread.bits,
        rounds_per_epoch=spread.rounds_per_epoch, rounds=spread.rounds_per_epoch * shape.epochs,
        host=_host(shape, rates, alone, spread, chosen, part), host_items_per_s=rates.items_per_s,
        items_per_s=chosen.items_per_s, speedup=chosen.speedup, bottleneck=chosen.bottleneck, schemes=schemes,
        part=part,
    )  # fmt: skip


def plan_scheme(shape: RunShape, rates: Rates, spread: Spread, costs: Costs, sets: RoundSets) -> SchemePlan:
    """One scheme, from the rows that a round needs, expected or counted."""
    hosts, rounds = spread.hosts, spread.rounds_per_epoch
    volume = round_volume(spread.scheme, shape.rows, hosts, shape.dim, spread.bits, sets, is_curved=spread.is_curved)
    items = shape.items / (hosts * rounds)
    seconds = {"compute": items / rates.items_per_s} | agree_seconds(shape, spread, costs, sets, volume, items)
    agreement = sum(seconds.values()) - seconds["compute"]
    epoch = rounds * (max(seconds["compute"], agreement) if spread.is_overlapped else seconds["compute"] + agreement)
    return SchemePlan(
        bytes_per_round=volume.total(),
        bytes_per_host=volume.total() // hosts,
        busiest_bytes=volume.busiest(),
        bytes_per_epoch=rounds * (volume.total() + report_bytes(hosts, hosts - 1)),
        bytes_by_kind=volume.bytes_by_kind(),
        bytes_by_phase=volume.bytes_by_phase(),
        memory=agree_memory(shape, spread, sets, volume),
        round_seconds=seconds,
        bottleneck=max(seconds, key=lambda part: seconds[part]),
        epoch_seconds=epoch,
        items_per_s=shape.items / epoch,
        speedup=shape.items / rates.items_per_s / epoch,
    )


def agree_seconds(
    shape: RunShape, spread: Spread, costs: Costs, sets: RoundSets, volume: Volume, items: float
) -> dict[str, float]:
    """What one round's agreement takes on the slowest host, by part; items: of one host in the round."""
    is_pull = spread.scheme.startswith("pull")
    handled = sum(int((flow.sent() + flow.received()).max()) for flow in volume.flows)
    by_phase = 1 if is_pull else len(TABLES)
    exchanges = sum(1 if flow.phase == CURVATURE else by_phase for flow in volume.flows)
    messages = 2 * (spread.hosts - 1) * (exchanges + 1)  # out and in, and a report
    curve = len(TABLES) * shape.dim**2 * block_sizes(shape.rows, spread.hosts).max() * costs.curve_seconds
    eigen = -(-len(TABLES) // costs.threads) * shape.dim**3 * costs.eigen_seconds
    return {
        "inspect": items / costs.inspect_items_per_s / costs.threads if is_pull else 0.0,
        "merge": agree_numbers(shape, spread, sets) * costs.number_seconds / costs.threads,
        "curvature": float(curve / costs.threads + eigen) if spread.is_curved else 0.0,
        "handle": handled * costs.byte_seconds / costs.threads + messages * costs.message_seconds,
        "link": link_seconds(spread.link, volume),
    }


def agree_numbers(shape: RunShape, spread: Spread, sets: RoundSets) -> int:
    """Numbers of rows that the busiest owner merges and gives out, and that a host compares, gathers and puts back."""
    tracked, hosts = sets.tracked, spread.hosts
    owned = int(tracked.sum((0, 1)).max()) * (hosts if tracked.shape[1] == 1 else 1)
    own = int(tracked.sum((0, 2)).max())
    if spread.scheme.startswith("pull"):
        return (2 * owned + 2 * own) * shape.dim
    compared = len(TABLES) * shape.rows if spread.scheme == "rep-opt" or spread.bits < 32 else 0
    assert sets.merged is not None
    return (owned + own + compared + int(sets.merged.sum())) * shape.dim


def link_seconds(link: LinkModel | None, volume: Volume) -> float:
    """Modeled time of a round's phases on the busiest line. Between sites a host's share of their line counts."""
    if link is None or volume.hosts == 1:
        return 0.0
    seconds = 0.0
    for flow in volume.flows:
        inner = 8 * flow.busiest() / link.bandwidth + link.latency
        if link.num_sites > 1:  # of what a host says, as large a share leaves its site as there are hosts elsewhere
            away = 1 - (volume.hosts // link.num_sites - 1) / (volume.hosts - 1)
            inner *= 1 - away
            inner += 8 * away * flow.busiest() / link.site_bandwidth + link.site_latency
        seconds += inner
    return seconds


def agree_memory(shape: RunShape, spread: Spread, sets: RoundSets, volume: Volume) -> dict[str, int]:
    """Bytes of the rows that the largest host trains (those of a round, where it pulls) and of its agreement."""
    is_pull, row = spread.scheme.startswith("pull"), shape.dim * _FLOAT
    tables = len(TABLES) * shape.rows * row
    masters = len(TABLES) * int(block_sizes(shape.rows, spread.hosts).max())
    own = int(sets.tracked.sum((0, 2)).max())
    starts = tables if spread.scheme == "rep-opt" or spread.bits < 32 else 0
    if is_pull:  # of the rows at hand alone; with overlap of the next round's, too
        packed = own * shape.dim * spread.bits // 8  # as they came, rounded
        starts = 2 * own * row if spread.is_overlapped else packed if spread.bits < 32 else 0
    return {
        "rows": own * row if is_pull else tables,
        "masters": masters * row,
        "start copies": starts,
        "residuals": tables if spread.bits < 32 else 0,
        "sets of rows": own * _ID + (len(TABLES) * shape.rows * (1 + _PLACE) if is_pull else 0),
        # arrays to send and their encoded copies, and what comes in
        "messages": max(int((2 * flow.sent() + flow.received()).max()) for flow in volume.flows),
    }


def _host(
    shape: RunShape, rates: Rates, alone: RunEstimate, spread: Spread, chosen: SchemePlan, part: HostPart | None
) -> RunEstimate:
    """The estimate of rank 0: its share of the input, the agreement, and all the rows that it collects in the end."""
    hosts = spread.hosts
    own = estimate_run(_share(shape, hosts, part), rates, chosen.memory["rows"])
    is_pull, whole = spread.scheme.startswith("pull"), len(TABLES) * shape.rows * shape.dim * _FLOAT
    collected = whole + 2 * min(whole, GATHERED) if is_pull or spread.bits < 32 else 0
    extra = chosen.memory | ({} if part is None else part.memory)
    released = extra.pop("rows") * (is_pull and not spread.is_overlapped)
    if collected > extra["messages"] + released:  # not at the same time
        extra |= {"messages": 0, "rows collected in the end": collected - released}
    extra["torch.distributed"] = TORCH_BYTES
    added = sum(extra.values())
    agreement = {part: second for part, second in chosen.round_seconds.items() if part != "compute"}
    rounds = spread.rounds_per_epoch * shape.epochs
    time = own.time | {"train": rounds * chosen.round_seconds["compute"]}
    if part is None or part.cut != TEXT:
        time["read"] = alone.time["read"]
    if part is None:  # each host counts all visits by itself; where walkers travel, they count together
        time["count visits"] = alone.time["count visits"]
    total = chosen.epoch_seconds * shape.epochs
    if spread.is_overlapped:
        time["agreement, not hidden"] = total - time["train"]
    else:
        time |= {part: rounds * second for part, second in agreement.items()}
    disk = alone.disk | {"checkpoint": alone.disk["checkpoint"] + chosen.memory["residuals"] * hosts}
    if part is not None and part.cut == TEXT:  # as it was read, and by rows of the whole vocabulary
        disk["encoded input"] = own.disk["encoded input"] + TOKEN_BYTES * part.tokens
    disk = with_former(disk)
    return RunEstimate(
        memory_bytes=own.memory_bytes + added, anonymous_bytes=own.anonymous_bytes + added,
        seconds=sum(time.values()), disk_bytes=disk["result"] + disk["encoded input"],
        disk_peak_bytes=sum(disk.values()),
        memory=own.memory | {name: size for name, size in extra.items() if size}, time=time, disk=disk,
    )  # fmt: skip


def _share(shape: RunShape, hosts: int, part: HostPart | None) -> RunShape:
    """What one host has of the input. Where hosts read it whole, they map the pages of their own tokens alone."""
    share = replace(shape, items=max(1, shape.items // hosts), tokens=shape.tokens // hosts)
    if part is None:
        return share
    if part.cut == TEXT:
        return replace(share, tokens=part.tokens, source_bytes=-(-shape.source_bytes // hosts))
    return replace(share, edges=0)  # its part is counted apart


def check_pace(pace: Pace) -> None:
    """Raise InputError unless these are legal rates."""
    check_number("items_per_s", pace.thread_items_per_s, 0, 1e15, open_low=True)
    check_number("efficiency", pace.efficiency, 0, 1, open_low=True)
    check_number("memory_bandwidth", pace.memory_bandwidth, 0, 1e18)
