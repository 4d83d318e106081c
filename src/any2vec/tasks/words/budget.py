"""What a run of skip-gram needs, and how often partitions of its rows come and go where they lie on disk.

A sweep is a part of an epoch's stream, whose pairs are sorted into buckets and trained by all states of the buffer.
Within a sweep a row meets the items of one partition after another; the more sweeps, the more this is as in memory,
where neighbors come mixed, and the more often the table comes and goes.
"""

from __future__ import annotations

from any2vec.data.partitions.buckets import BLOCK
from any2vec.models.words.config import SequenceModel
from any2vec.plan.cost.size import Size, TableSize
from any2vec.plan.order.bucket_orders import beta_swaps
from any2vec.plan.order.buffer import BufferPlan
from any2vec.sampling.triple_windows import window_bytes
from any2vec.tasks.words.swept_pairs import piece_positions

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
_GRAMS = 30
"""n-grams of a word, about"""
_NAME = 16
"""bytes of a word and of its count"""


def size_of_words(model: SequenceModel, rows: int, kept: float, items: int, grams: int | None = None) -> Size:
    """Of skip-gram's table, a row of which has an item's input and output vector; n-grams have rows of their own.

    items: of an epoch; kept: of them subsampling keeps so many; grams: rows of n-grams, where words are known.
    """
    buckets = getattr(model, "buckets", 0)
    grams = min(buckets, _GRAMS * rows) if grams is None else grams
    step = piece_positions(1, model.window)
    made = 8 * 2 * model.window * step + 4 * step
    pairs = 0 if grams else window_bytes(WINDOW) * 8 // 12 + made + _SORTING * BLOCK + _ITEM * rows
    tables = [TableSize(name="input and output", rows=rows, columns=2 * model.dim)]
    if grams:
        tables.append(TableSize(name="n-grams", rows=grams, columns=model.dim))
    return Size(
        tables=tuple(tables), resident={"pairs": pairs, "n-grams of words": 4 * buckets if grams else 0},
        whole_bytes=-pairs, items=items, items_bytes=round(8 * kept * (model.window + 1)),
        result_bytes=(2 * 4 * model.dim + _NAME) * rows + 4 * model.dim * grams,
    )  # fmt: skip


def sweeps_of(model: SequenceModel, kept: float, plan: BufferPlan, epochs: int) -> int:
    """Sweeps of an epoch: as many as the disk keeps up with, from what a run needs up to what is of use."""
    moved = 2 * plan.partition_bytes * max(1, beta_swaps(plan.partitions, plan.capacity))
    cheap = int(_BYTES_PER_PAIR * model.dim * kept * (model.window + 1) / moved)
    return max(-(-FEWEST_SWEEPS // epochs), min(cheap, MOST_SWEEPS))
