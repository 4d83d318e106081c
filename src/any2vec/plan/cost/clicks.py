"""What a run of a model of clicks over trainers and servers will need, on paper. Modeled, never measured.

A worker's step is look-up, compute and push, one after the other; pushes are not waited for. Steps of a trainer's
workers overlap, so its pace is the least of what its workers can do, what its line carries, and its share of what the
busiest server can serve and its line can carry:

    compute  examples of a batch / pace of one worker
    handle   bytes that the trainer sends and receives x seconds each (copies, checksums), and messages
    serve    the busiest server's part of one step: bytes, messages, and the numbers of rows that it reads and changes
    link     bytes of the look-up over the trainer's line, there and back, and two latencies

Rows that a step needs come from measured columns (plan/cost/columns.py), bytes from the messages of
tables/server/clients/remote_rows.py, or of pulled_rows.py beside it, where servers add up no bags.

Legend: M servers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any

import numpy as np

from any2vec.checks import Number, Whole, check_choice, check_fields, check_number, check_whole
from any2vec.cluster.codec import ids_size
from any2vec.cluster.link import LinkModel
from any2vec.cluster.message import overhead
from any2vec.plan.choices import MOST_PLANNED
from any2vec.plan.cost.estimate import BASE_BYTES, LIBRARY_BYTES
from any2vec.plan.cost.hosts import Costs
from any2vec.plan.cost.size import TORCH_BYTES
from any2vec.plan.sharding.columns import Column, Placement
from any2vec.plan.sharding.placing import place_columns

_FLOAT, _ID, _VERSION = 4, 4, 8
_GATHERED = 3
"""copies of all rows at rank 0 while it gathers them: as they come, in placed order, in their own"""
REQUEST_BYTES, ANSWER_BYTES = 48, 16
"""control numbers of a request to a row server, and of its answer"""
KINDS = {
    "ids": "ids", "rows": "rows", "sums": "rows", "gradients of rows": "rows", "gradients of sums": "rows",
    "dense": "dense", "control": "control",
}  # fmt: skip
"""what travels -> the kind as which the transport counts it"""


@dataclass(frozen=True, kw_only=True)
class ClickShape:
    """A model of clicks and its batches."""

    columns: tuple[Column, ...]
    width: int
    """values of a row"""
    num_state: int = 1
    """numbers of optimizer state in a row"""
    dense_parameters: int = 0
    dense_state: int = 1
    """numbers of optimizer state of a dense parameter"""
    batch_size: int = 2048
    examples_per_s: float
    """of one worker whose rows are at hand"""

    @property
    def row_bytes(self) -> int:
        return _FLOAT * (self.width + self.num_state)


@dataclass(frozen=True, kw_only=True)
class ClickSpread:
    """Trainers, servers, and how often dense replicas agree."""

    trainers: Annotated[int, Whole(1, MOST_PLANNED)]
    servers: Annotated[int, Whole(0, MOST_PLANNED)] = 0
    """0: the trainers own the rows"""
    sync_servers: Annotated[int, Whole(0, MOST_PLANNED)] = 0
    """that hold the common dense copy; 0: whoever owns rows does"""
    workers: Annotated[int, Whole(1, 4096)] = 1
    """of each trainer"""
    link: LinkModel | None = None
    """None: the link costs no time"""
    server_bytes: int | None = None
    """that the rows of a server may take"""
    sync: str = "center"
    """center: a sync sends all dense parameters and gets them back; mean: they are averaged among trainers"""
    sync_gap: Annotated[float, Number(0, 1e9)] = 5.0
    """steps of a trainer from one sync to the next; 0: replicas never agree"""
    sums_bags: bool = True
    """of columns of several values sums travel; False: each distinct row, as where servers keep trainers' steps"""
    validates: bool = False
    """whether rank 0 keeps the rows of the best epoch"""

    def __post_init__(self) -> None:
        check_fields(self)
        check_choice("sync", self.sync, ("center", "mean"))

    @property
    def owners(self) -> int:
        """Hosts that own rows."""
        return self.servers or self.trainers


@dataclass(frozen=True, kw_only=True)
class ClickPlan:
    """A run before it starts. Bytes; seconds and rates, modeled."""

    trainers: int
    servers: int
    sync_servers: int
    workers: int
    batch_size: int
    placement: Placement
    server_memory: dict[str, int]
    """of the fullest owner of rows"""
    trainer_memory: dict[str, int]
    """of a trainer, beside rows that it owns"""
    rank_0_memory: dict[str, int]
    """of rank 0 besides: all rows, gathered for a checkpoint and for the result, and those of the best epoch"""
    bytes_per_step: dict[str, int]
    """that one trainer's batch makes travel, both ways, by what it is (KINDS)"""
    sent_per_step: int
    """of them the trainer sends so many"""
    messages_per_step: int
    step_seconds: dict[str, float]
    """compute, handle, serve, link of one worker's step"""
    limits: dict[str, float]
    """steps/s of one trainer that each could keep up with; inf: no limit"""
    bottleneck: str
    """the least of them"""
    steps_per_s: float
    """of one trainer"""
    examples_per_s: float
    """of all"""
    bytes_per_s: dict[str, int] = field(default_factory=dict)
    """over all lines, each byte counted once, as `bytes_per_step`"""
    busiest_server_bytes_per_s: int = 0
    """that it sends and receives"""
    speedup: float = 1.0
    """over one worker whose rows are at hand"""

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        found = asdict(self) | {"placement": self.placement.as_dict(), "is_modeled": True}
        return found | {"limits": {name: pace for name, pace in self.limits.items() if np.isfinite(pace)}}


@dataclass(frozen=True)
class Traffic:
    """What one batch asks of each server, float64 (M,)."""

    pulled_M: np.ndarray
    """distinct rows"""
    ids_M: np.ndarray
    """of bags that the server pools"""
    bags_M: np.ndarray
    """with ids of the server's own"""
    accessed_M: np.ndarray
    """rows read and changed"""
    rows_M: np.ndarray
    """that the server holds"""

    @classmethod
    def of(cls, placement: Placement, batch_size: int, sums_bags: bool = True) -> Traffic:
        """Expected, from measured columns. sums_bags: as `ClickSpread` has it."""
        share_MF = placement.shares
        pulled, ids, bags, accessed = (np.zeros(placement.owners) for _ in range(4))
        for column, share in zip(placement.columns, share_MF.T, strict=True):
            column = replace(column, is_pooled=column.is_pooled and sums_bags)
            accessed += share * column.cost * batch_size
            if not column.is_pooled:
                pulled += share * column.distinct * batch_size
                continue
            ids += share * column.lookups * batch_size
            # A bag of n ids has one of a server's own with the chance 1 - (1 - share)^n; bags may be empty, too.
            bags += batch_size * min(1.0, column.lookups) * (1 - (1 - share) ** max(1.0, column.lookups))
        rows = np.array([load.rows for load in placement.loads], np.float64)
        return cls(pulled, ids, bags, accessed, rows)

    def bytes_by_server(self, width: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], np.ndarray]:
        """(what the trainer sends, what it gets, each by KINDS (M,); messages both ways (M,))."""
        pulled, bags, row = np.rint(self.pulled_M), np.rint(self.bags_M), _FLOAT * width
        slots = np.array([ids_size(int(count), int(rows)) for count, rows in zip(pulled, self.rows_M, strict=True)])
        listed = _ID * (np.rint(self.ids_M) + bags)
        has_rows, has_bags = pulled > 0, bags > 0
        asked = has_rows * (overhead(2) + overhead(3)) + has_bags * (overhead(3) + overhead(4))
        request_bytes = (has_rows + 0.0 + has_bags) * (overhead(2) + overhead(1))
        requests = 2.0 * (has_rows + 0.0 + has_bags)
        sent = {
            "ids": 2.0 * (slots + listed), "gradients of rows": pulled * row, "gradients of sums": bags * row,
            "control": asked + requests * REQUEST_BYTES,
        }  # fmt: skip
        got = {"rows": pulled * row, "sums": bags * row, "control": request_bytes + requests * ANSWER_BYTES}
        return sent, got, 2 * requests


def click_plan(shape: ClickShape, spread: ClickSpread, costs: Costs | None = None) -> ClickPlan:
    """The plan of a run.

    Raises:
        InputError: an argument is not legal, or the rows do not fit into the servers' memory.
    """
    check_whole("width", shape.width, 1, 1 << 20)
    check_whole("batch_size", shape.batch_size, 1, 1 << 30)
    check_number("examples_per_s", shape.examples_per_s, 0, 1e15, open_low=True)
    costs = costs or Costs()
    placement = place_columns(shape.columns, spread.owners, shape.row_bytes, spread.server_bytes)
    traffic = Traffic.of(placement, shape.batch_size, spread.sums_bags)
    sent, got, messages_M = traffic.bytes_by_server(shape.width)
    sent_M, got_M = (np.sum(list(part.values()), axis=0) for part in (sent, got))
    # A trainer that owns rows reaches its own without a message: the one that has the fewest there sends the most.
    is_moved_M = np.ones(spread.owners)
    if not spread.servers:
        is_moved_M[int(np.argmin(sent_M + got_M))] = 0.0
    dense = _dense_bytes(shape, spread)
    up, down = float(sent_M @ is_moved_M) + dense, float(got_M @ is_moved_M) + dense
    messages = float(messages_M @ is_moved_M)
    kinds = {name: sum(float(part[name] @ is_moved_M) for part in (sent, got) if name in part) for name in KINDS}
    kinds["dense"] = 2 * dense
    serve_M = (
        (sent_M + got_M) * costs.byte_seconds + messages_M * costs.message_seconds
        + traffic.accessed_M * shape.width * costs.number_seconds
    )  # fmt: skip
    bandwidth = spread.link.bandwidth / 8 if spread.link is not None else np.inf
    latency = spread.link.latency if spread.link is not None and is_moved_M.any() else 0.0
    answer = float((got["rows"] + got["sums"]) @ is_moved_M)
    seconds = {
        "compute": shape.batch_size / shape.examples_per_s,
        "handle": (up + down) * costs.byte_seconds + messages * costs.message_seconds,
        "serve": float((serve_M * is_moved_M).max()),
        "link": 2 * latency + (float(sent["ids"] @ is_moved_M) / 2 + answer) / bandwidth,
    }
    # A row server is one thread, and serves all trainers but its own host.
    visitors = spread.trainers if spread.servers else spread.trainers - 1
    served_M = visitors * (sent_M + got_M)
    # The line of a trainer that owns rows carries both what it asks for and what it is asked for.
    own_line = 0.0 if spread.servers else max(up, down)
    line = float((visitors * np.maximum(sent_M, got_M)).max()) + own_line
    limits = {
        "workers": spread.workers / sum(seconds.values()),
        "trainer's line": _pace(max(up, down) / bandwidth),
        "busiest server": _pace(visitors * float(serve_M.max())),
        "busiest server's line": _pace(line / bandwidth),
        "sync servers' line": _pace(spread.trainers * dense / (spread.sync_servers or spread.owners) / bandwidth),
    }
    bottleneck = min(limits, key=lambda name: limits[name])
    pace = limits[bottleneck]
    return ClickPlan(
        trainers=spread.trainers, servers=spread.servers, sync_servers=spread.sync_servers, workers=spread.workers,
        batch_size=shape.batch_size, placement=placement,
        server_memory=_server_memory(shape, spread, placement, float((sent_M + got_M).max())),
        trainer_memory=_trainer_memory(shape, spread, up + down),
        rank_0_memory=_rank_0_memory(spread, placement.num_rows * shape.row_bytes),
        bytes_per_step={name: round(size) for name, size in kinds.items()}, sent_per_step=round(up),
        messages_per_step=round(messages), step_seconds=seconds, limits=limits, bottleneck=bottleneck,
        steps_per_s=pace, examples_per_s=pace * spread.trainers * shape.batch_size,
        bytes_per_s={name: round(size * pace * spread.trainers) for name, size in kinds.items()},
        busiest_server_bytes_per_s=round(float(served_M.max()) * pace),
        speedup=pace * spread.trainers * shape.batch_size / shape.examples_per_s,
    )  # fmt: skip


def _dense_bytes(shape: ClickShape, spread: ClickSpread) -> float:
    """That a trainer sends, and gets, for the agreement of replicas, in each of its steps on average."""
    if spread.trainers == 1 or not spread.sync_gap:
        return 0.0
    times = 1.0 if spread.sync == "center" else 2 * (spread.trainers - 1) / spread.trainers
    return times * shape.dense_parameters * _FLOAT / spread.sync_gap


def _server_memory(shape: ClickShape, spread: ClickSpread, placement: Placement, step_bytes: float) -> dict[str, int]:
    rows = max(load.rows for load in placement.loads)
    return {
        "values": rows * shape.width * _FLOAT,
        "state": rows * shape.num_state * _FLOAT,
        "versions": rows * _VERSION,
        "messages": round(step_bytes * spread.trainers * spread.workers),
        "interpreter": BASE_BYTES + LIBRARY_BYTES,
        "torch.distributed": TORCH_BYTES,
    }


def _trainer_memory(shape: ClickShape, spread: ClickSpread, step_bytes: float) -> dict[str, int]:
    copies = 1 + shape.dense_state + spread.workers + (2 if spread.trainers > 1 else 0)  # gradients; what is agreed
    return {
        "dense layers": copies * shape.dense_parameters * _FLOAT,
        "messages": round(2 * step_bytes * spread.workers),
        "interpreter": BASE_BYTES + LIBRARY_BYTES,
        "torch": TORCH_BYTES,
    }


def _rank_0_memory(spread: ClickSpread, table_bytes: int) -> dict[str, int]:
    found = {"rows gathered": _GATHERED * table_bytes} if spread.trainers + spread.servers > 1 else {}
    return found | ({"best epoch": table_bytes} if spread.validates else {})


def _pace(seconds: float) -> float:
    return 1 / seconds if seconds > 0 else np.inf
