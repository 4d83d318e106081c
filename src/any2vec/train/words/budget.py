"""How a run of skip-gram is laid out within a budget: all rows in memory, or partitions of them, and sweeps.

A sweep is a part of an epoch's stream, whose pairs are sorted into buckets and trained by all states of the buffer.
Within a sweep a row meets the items of one partition after another; the more sweeps, the more this is as in memory,
where neighbours come mixed, and the more often the table comes and goes.
"""

from __future__ import annotations

from any2vec.data.triples.buckets import BLOCK
from any2vec.models.words.config import SequenceModel
from any2vec.plan.order.bucket_orders import beta_swaps
from any2vec.plan.order.buffer import BufferPlan
from any2vec.sampling.triple_windows import window_bytes
from any2vec.train.host import FitRequest
from any2vec.train.out_of_core.table_budget import known_plan, plan_table, process_bytes
from any2vec.train.words.prepare import Prepared
from any2vec.train.words.swept_pairs import piece_positions

WINDOW = 1 << 19
"""pairs that are shuffled together, and between two moments at which a run can stop"""
FEWEST_SWEEPS = 8
"""of a run: fewer cost points of quality (docs/log.md)"""
MOST_SWEEPS = 16
"""of an epoch: each moves the table once more"""
_BYTES_PER_PAIR = 0.8
"""bytes of the table that may move for each pair and number of a vector: a disk of some 1 GB/s brings them while two
cores train"""
_SORTING = 60
"""bytes of a pair of a block while they are sorted into buckets"""
_ITEM = 40
"""bytes of an item beside its row: its place, its noise, how likely it is kept"""


def known_words(request: FitRequest, prepared: Prepared) -> BufferPlan | None:
    """`known_plan` of skip-gram."""
    return known_plan(request, len(prepared.keys), row_bytes(request.model), fixed_bytes(request, prepared))


def plan_words(request: FitRequest, prepared: Prepared) -> BufferPlan | None:
    """`plan_table` of skip-gram."""
    fixed = fixed_bytes(request, prepared)
    return plan_table(request, len(prepared.keys), row_bytes(request.model), fixed, -_pair_bytes(request, prepared))


def row_bytes(model: SequenceModel) -> int:
    """Of an item's two vectors."""
    return 2 * 4 * model.dim


def fixed_bytes(request: FitRequest, prepared: Prepared) -> int:
    """What the process needs beside the rows: what it has now, and what pairs take."""
    return process_bytes() + _pair_bytes(request, prepared)


def sweeps_of(model: SequenceModel, prepared: Prepared, plan: BufferPlan, epochs: int) -> int:
    """Sweeps of an epoch: as many as the disk keeps up with, from what a run needs up to what is of use."""
    pairs = float((prepared.keep * prepared.counts).sum()) * (model.window + 1)
    moved = 2 * plan.partition_bytes * max(1, beta_swaps(plan.partitions, plan.capacity))
    cheap = int(_BYTES_PER_PAIR * model.dim * pairs / moved)
    return max(-(-FEWEST_SWEEPS // epochs), min(cheap, MOST_SWEEPS))


def _pair_bytes(request: FitRequest, prepared: Prepared) -> int:
    """Windows of pairs, pairs that are made and sorted, items."""
    step = piece_positions(prepared.source.unit, request.model.window)
    made = 8 * 2 * request.model.window * step + 4 * step
    return window_bytes(WINDOW) * 8 // 12 + made + _SORTING * BLOCK + _ITEM * len(prepared.keys)
