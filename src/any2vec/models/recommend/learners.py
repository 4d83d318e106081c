"""What learns from interactions: by pairs (BPR), by rows (ALS), by sets of items (item2vec).

Legend: U users, I items, D numbers of a row, E pairs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from any2vec.data.interactions.interactions import Interactions, read_interactions
from any2vec.data.vocab.vocabulary import keep_probabilities
from any2vec.kernels.common.rng import PURPOSE_INIT, PURPOSE_NEGATIVE, PURPOSE_ORDER, stream_key
from any2vec.kernels.recommend.als import solve_rows
from any2vec.kernels.recommend.bpr import RUN, mark_items, num_runs, train_bpr
from any2vec.kernels.rows.row_start import start_rows
from any2vec.kernels.rows.rows import fill_uniform
from any2vec.models.recommend.config import ALS, BPR, Item2Vec
from any2vec.models.recommend.item_sets import ItemSets
from any2vec.models.threads import TrainingThreads
from any2vec.models.words.learner import SequenceLearner, block_positions
from any2vec.models.words.rates import linear_rate
from any2vec.plan.order.epochs import piece_positions
from any2vec.types import ProgressLine, Round, Span, Stats, Work

Tables = dict[str, np.ndarray]
_SIDES = ("users", "items")
_PIECES = 32
"""of an epoch of ALS at least, so that threads share it evenly"""
_LEAST_THRESHOLD = 0.37
"""of subsampling, in mean shares of an item: of 3,700 items, about as many as ml-1m has, the default 1e-4"""


def fresh_rows(side: str, rows: int, model: BPR | ALS, seed: int) -> np.ndarray:
    """float32 (rows, dim), uniform within the model's spread."""
    row_VD = np.empty((rows, model.dim), np.float32)
    key = stream_key(seed, PURPOSE_INIT, _SIDES.index(side))
    start_rows(row_VD, np.arange(rows), model.dim, key, model.start_spread)
    return row_VD


class BPRLearner:
    """Positions are pairs in an order of the epoch; threads are Hogwild (Recht et al. 2011)."""

    def __init__(self, model: BPR, data: Interactions, threads: int, seed: int, tables: Tables | None = None) -> None:
        self.model, self.seed = model, seed
        self.tables = tables or {
            "users": fresh_rows("users", len(data.users), model, seed),
            "items": fresh_rows("items", len(data.items), model, seed),
            "bias": np.zeros(len(data.items), np.float32),
        }
        self._pairs = data.indptr, data.users_of_pairs(), data.item_E, mark_items(data.indptr, data.item_E)
        self.num_positions = num_runs(len(data)) * RUN
        self.unit, self.piece = RUN, piece_positions(RUN, model.dim * (2 + model.num_negatives))
        self._threads = TrainingThreads(threads)

    def run(self, work: Work[Span]) -> Stats:
        """Deterministic with one thread."""
        span, model = work.payload, self.model
        line = span.line
        first, last = self.learning_rate(line.progress_from), self.learning_rate(line.progress_to)
        step = (last - first) / (line.stop - line.start)
        keys = (stream_key(self.seed, purpose, work.epoch) for purpose in (PURPOSE_ORDER, PURPOSE_NEGATIVE))
        shared = *keys, model.num_negatives, int(model.popularity_share * 2**32)
        rates = first - step * line.start, step, model.l2, model.l2_bias

        def train(number: int, at: int) -> Stats:
            piece = at, min(at + self.piece, span.stop)
            pairs, loss, measured = train_bpr(*self._pairs, *piece, *shared, *self.tables.values(), *rates)
            return Stats(int(pairs), float(loss), int(measured))

        return self._threads.train(range(span.start, span.stop, self.piece), train)

    def learning_rate(self, progress: float) -> float:
        return linear_rate(self.model, progress)

    def close(self) -> None:
        self._threads.close()


class ALSLearner:
    """Positions are rows, of users and then of items; the other side's Gram matrix is made where a side begins."""

    def __init__(self, model: ALS, data: Interactions, threads: int, seed: int, tables: Tables | None = None) -> None:
        self.model = model
        self.tables = tables or {
            side: fresh_rows(side, len(keys), model, seed)
            for side, keys in (("users", data.users), ("items", data.items))
        }
        self._pairs = {"users": (data.indptr, data.item_E, data.weight_E), "items": data.turned()}
        self._num_users = len(data.users)
        self.num_positions = len(data.users) + len(data.items)
        pairs_of_row = 1 + 2 * len(data) // self.num_positions
        cost = model.dim * (model.dim + pairs_of_row) * (2 + model.cg_steps)
        self.unit, self.piece = 1, min(piece_positions(1, cost), 1 + self.num_positions // _PIECES)
        self._gram: tuple[tuple[int, str], np.ndarray] | None = None
        self._threads = TrainingThreads(threads)

    def run(self, work: Work[Span]) -> Stats:
        """The same bits with any number of threads: rows of a side do not read each other."""
        span, cut = work.payload, self._num_users
        found = Stats(0, 0.0, 0)
        for side, start, stop in (("users", span.start, min(span.stop, cut)),
                                  ("items", max(span.start, cut) - cut, span.stop - cut)):  # fmt: skip
            if start < stop:
                found += self._solve(work.epoch, side, start, stop)
        return found

    def learning_rate(self, progress: float) -> float:
        """There is none."""
        return 0.0

    def close(self) -> None:
        self._threads.close()

    def _solve(self, epoch: int, side: str, start: int, stop: int) -> Stats:
        own_VD, other_WD = self.tables[side], self.tables[_SIDES[side == "users"]]
        if self._gram is None or self._gram[0] != (epoch, side):
            gram_DD = other_WD.T @ other_WD
            gram_DD[np.diag_indices_from(gram_DD)] += np.float32(self.model.l2)
            self._gram = (epoch, side), gram_DD
        shared = own_VD, other_WD, self._gram[1], self.model.alpha, self.model.cg_steps

        def solve(number: int, at: int) -> Stats:
            pairs, loss = solve_rows(*self._pairs[side], at, min(at + self.piece, stop), *shared)
            return Stats(int(pairs), float(loss), int(pairs))

        return self._threads.train(range(start, stop, self.piece), solve)


def make_learner(model: Any, data: Interactions, threads: int, seed: int, tables: Tables | None = None) -> Any:
    """The learner of a model: `tables`, `num_positions`, `unit`, `piece`, `run`, `learning_rate`, `close`."""
    if isinstance(model, Item2Vec):
        return _item2vec(model, data, threads, seed, tables)
    kind = BPRLearner if isinstance(model, BPR) else ALSLearner
    return kind(model, data, threads, seed, tables)


def _item2vec(model: Item2Vec, data: Interactions, threads: int, seed: int, tables: Tables | None) -> SequenceLearner:
    """That of words, over sets of items."""
    source, count_I = ItemSets(data, seed), data.counts()
    if tables is None:
        tables = {name: np.zeros((len(data.items), model.dim), np.float32) for name in ("input", "output")}
        fill_uniform(tables["input"], np.arange(len(data.items)), stream_key(seed, PURPOSE_INIT), model.start_spread)
    # Where there are few items each has a large share, and a threshold made for many would leave next to nothing.
    threshold = max(model.subsample, _LEAST_THRESHOLD / len(data.items)) if model.subsample else 0.0
    keep_I = keep_probabilities(count_I, min(threshold, 1.0))
    kept = float((keep_I * count_I).sum() / max(1, count_I.sum()))
    block = block_positions(model, kept)
    source.unit = block
    learner: Any = SequenceLearner(
        model, count_I, keep_I, source, tables, block=block, piece=piece_positions(block, model.cost), threads=threads,
        seed=seed,
    )  # fmt: skip
    learner.num_positions, learner.unit = source.num_positions, block
    return learner


def warm_up(model: Any) -> None:
    """Compile the kernels of a run by some made-up users."""
    data = read_interactions([("a", "x"), ("a", "y"), ("b", "y"), ("c", "z")])
    learner = make_learner(replace(model, dim=min(model.dim, 16)), data, 1, 1)
    size = learner.num_positions
    learner.run(Work(Span(0, size, ProgressLine(0, size, 0.0, 1.0)), 0, Round(0), 1.0))
    learner.close()
