"""The row of a run that no machine here can hold: a billion rows on a hundred servers, planned."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.bench import Bench
from benchmarks.table import Measure, Reading, Row, number

ROWS_IN_ALL, DIM, TRAINERS, SERVERS, WORKERS = 1_000_000_000, 64, 100, 100, 16
COLUMNS, ZIPF, BATCH = 26, 1.1, 2048
SAMPLE, FRESH = 16, 128
"""batches that the plan is made from, and on which it is checked"""
BAGS = 2
SIZE_DECAY = 1.5
"""the k-th largest column has k**-1.5 times as many rows"""
LINK = "25Gbit,20us"
NET = {"bottom": "512-256-64", "top": "512-256"}
EXAMPLES_PER_S = 20_000.0
"""of one worker whose rows are at hand: assumed"""
SYNC_GAP = 5.0


def scale(bench: Bench, pooled: int) -> list[Reading]:
    """The plan, in words, and how even the servers' loads are: as planned, and on unseen batches."""
    found = _planned(bench, pooled)
    rows = f"{ROWS_IN_ALL:.0e} rows × {DIM}, {TRAINERS} trainers, {SERVERS} servers, {LINK}, modeled"
    why = ": ranges of rows are even, single hot rows, which servers look up for each id, are not" if pooled else ""
    return [
        Reading(value=found["planned"], text=f"{found['planned']:.4f}; {rows}: {found['text']}"),
        Reading(value=found["fresh"], text=f"{found['fresh']:.3f}{why}"),
    ]


def _planned(bench: Bench, pooled: int) -> dict[str, Any]:
    """A plan where so many columns, the largest, have bags."""
    from any2vec.cluster.link import parse_link
    from any2vec.plan.cost.clicks import ClickShape, ClickSpread, click_plan

    stream = Sizes(pooled)
    columns = stream.measured(SAMPLE // 8 if bench.quick else SAMPLE)
    shape = ClickShape(
        columns=tuple(columns), width=DIM, dense_parameters=dense_parameters(), batch_size=BATCH,
        examples_per_s=EXAMPLES_PER_S,
    )  # fmt: skip
    spread = ClickSpread(trainers=TRAINERS, servers=SERVERS, workers=WORKERS, link=parse_link(LINK), sync_gap=SYNC_GAP)
    plan = click_plan(shape, spread)
    found = plan.as_dict()
    balance = found["placement"]["balance"]
    fresh = stream.balance(plan.placement, FRESH // 8 if bench.quick else FRESH)
    bench.runs[f"bags in {pooled} columns"] = {
        name: value for name, value in found.items() if name != "placement"
    } | {"balance": balance, "balance on fresh batches": fresh, "shards": len(plan.placement.shards)}  # fmt: skip
    return {"planned": max(balance["cost"], balance["rows"]), "fresh": fresh, "text": _warned(found, plan)}


class Sizes:
    """26 columns whose sizes follow a power law; batches of Zipf ids, rows in no order of popularity.

    Args:
        pooled: the largest columns that have bags of 0 to 20 ids; the others have one id in an example.
    """

    def __init__(self, pooled: int) -> None:
        self.pooled = pooled
        share = np.arange(1, COLUMNS + 1) ** -SIZE_DECAY
        self.size_F = np.maximum(1, share / share.sum() * ROWS_IN_ALL).astype(np.int64)
        self.size_F[0] += ROWS_IN_ALL - self.size_F.sum()
        self.offset_F1 = np.concatenate([[0], np.cumsum(self.size_F)])

    def measured(self, batches: int) -> list[Any]:
        """The columns, as a run measures them on so many batches."""
        from any2vec.plan.cost.columns import measure_columns

        rng = np.random.default_rng(1)
        names = [f"C{number + 1}" for number in range(COLUMNS)]
        return measure_columns(names, self.offset_F1, (self.batch(rng) for _ in range(batches)))

    def balance(self, placement: Any, batches: int) -> float:
        """Largest over mean of what servers read and change, counted on batches of another seed."""
        rng, bounds = np.random.default_rng(2), np.array(placement.on_ranks(SERVERS))
        is_pooled_F = np.array([column.is_pooled for column in placement.columns])
        load_M = np.zeros(SERVERS)
        for _ in range(batches):
            id_M, _ = self.batch(rng)
            row_U = np.unique(id_M)
            is_bag_M, is_bag_U = (
                is_pooled_F[np.searchsorted(self.offset_F1, of, side="right") - 1] for of in (id_M, row_U)
            )
            for rows in (id_M[is_bag_M], row_U[~is_bag_U], row_U):  # looked up, each id or each row; changed once
                owner = np.searchsorted(bounds, placement.place(rows), side="right") - 1
                load_M += np.bincount(owner, minlength=SERVERS)
        return float(load_M.max() / load_M.mean())

    def batch(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(id_M, start_P1)."""
        count_BF = np.ones((BATCH, COLUMNS), np.int64)
        count_BF[:, : self.pooled] = rng.integers(0, 21, (BATCH, self.pooled))
        start_P1 = np.concatenate([[0], np.cumsum(count_BF.reshape(-1))])
        column_M = np.repeat(np.tile(np.arange(COLUMNS), BATCH), count_BF.reshape(-1))
        size_M = self.size_F[column_M]
        # The rank of a continuous Zipf law, by its inverse; then a step that no size is a multiple of, and a turn.
        tail_M = size_M.astype(np.float64) ** (1 - ZIPF)
        rank_M = (1 - rng.random(len(column_M)) * (1 - tail_M)) ** (1 / (1 - ZIPF))
        row_M = (np.minimum(rank_M.astype(np.int64), size_M - 1) * 1_000_003 + 7 * column_M) % size_M
        return self.offset_F1[column_M] + row_M, start_P1


def dense_parameters() -> int:
    """Of the DLRM of the table's first row at this dim, over 13 numbers."""
    from any2vec.models.clicks.config import DLRM
    from any2vec.models.clicks.nets import make_net

    net = make_net(DLRM(dim=DIM, **NET), 13, COLUMNS)
    return sum(parameter.numel() for parameter in net.parameters())


def _warned(found: dict[str, Any], plan: Any) -> str:
    """Memory, bytes and balance of a plan in one line."""
    server, trainer = sum(found["server_memory"].values()), sum(found["trainer_memory"].values())
    balance = found["placement"]["balance"]
    step = sum(found["bytes_per_step"].values())
    return (
        f"fullest server {server / 1e9:.2f} GB ({found['server_memory']['values'] / 1e9:.2f} GB values), trainer "
        f"{trainer / 1e9:.2f} GB; {step / 1e6:.1f} MB a step; "
        f"balance cost {balance['cost']:.3f}, rows {balance['rows']:.3f}, {len(plan.placement.shards)} shards; "
        f"{number(found['examples_per_s'])} examples/s, limited by {found['bottleneck']}"
    )


CASES = {
    "scale": (BAGS, "bags of up to 20 ids in the two largest columns"),
    "scale-one-id": (0, "one id in each column"),
}
"""row -> columns with bags, and what that is"""
ROWS = tuple(
    Row(
        name=name,
        measures=(
            Measure(
                name=f"plan for 1e9 rows × 64, 26 columns, 100 trainers, 100 servers, {what}: largest load over the "
                "mean, of cost and of rows",
                relation="<=", target=1.05, unit="x",
            ),
            Measure(name="the same of the cost, counted on batches unseen", relation="<=", target=1.05, unit="x"),
        ),
        run=partial(scale, pooled=pooled),
        minutes=2,
    )
    for name, (pooled, what) in CASES.items()
)  # fmt: skip
