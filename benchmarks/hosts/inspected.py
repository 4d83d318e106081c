"""The true sets of rows of a round, found by the inspection pass on real or planted tokens: no row is trained."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from any2vec.plan.cost.volume import RoundSets


@dataclass(frozen=True)
class Inspected:
    """What the hosts read of one round."""

    by_label: RoundSets
    """rows of each label apart: for RepModel-Opt (as if all that is read changed) and PullModel-Opt"""
    by_word: RoundSets
    """rows that are read under either label: for PullModel-Base"""
    items: int
    """in-vocabulary words of the round, all hosts"""
    seconds: float
    """of inspection, one thread, all hosts one after the other"""

    def of(self, scheme: str) -> RoundSets:
        return self.by_word if scheme == "pull-base" else self.by_label


@dataclass(frozen=True)
class Setting:
    """A model and the tokens that it reads, with an epoch's counts."""

    model: Any
    tokens: np.ndarray
    """int32; -1 ends a sentence"""
    counts: np.ndarray
    """int64 (V,), of a whole epoch"""
    positions: int
    """of a whole epoch, ends of sentences included"""
    seed: int = 1


def inspect_round(setting: Setting, parts: list[tuple[int, int]]) -> Inspected:
    """The rows that each host reads where host h works on the tokens [start, stop) = parts[h]."""
    from any2vec.plan.cost.volume import RoundSets
    from any2vec.plan.sharding.sharding import Striped, contiguous_bounds

    learner = _learner(setting)
    cuts, hosts = contiguous_bounds(len(setting.counts), len(parts))[:-1], len(parts)
    order = Striped(len(setting.counts), hosts).rows(np.arange(len(setting.counts)))
    label, word = np.zeros((2, hosts, hosts), np.int64), np.zeros((1, hosts, hosts), np.int64)
    any_host = np.zeros((2, len(setting.counts)), bool)
    seconds = 0.0
    learner.inspect(0, 0, 0, dict.fromkeys(("input", "output"), np.zeros(len(setting.counts), np.uint8)))
    for host, (found, took) in enumerate(_marks(learner, parts, len(setting.counts))):
        marks = found[:, order]
        seconds += took
        label[:, host] = np.add.reduceat(marks, cuts, axis=1, dtype=np.int64)
        word[0, host] = np.add.reduceat(marks.any(0), cuts, dtype=np.int64)
        any_host |= marks > 0
    merged = np.add.reduceat(any_host, cuts, axis=1, dtype=np.int64)
    items = sum(int((setting.tokens[start:stop] >= 0).sum()) for start, stop in parts)
    return Inspected(RoundSets(label, merged), RoundSets(np.repeat(word, 2, axis=0), merged), items, seconds)


def parts_of_round(setting: Setting, boundary: Any, hosts: int, rounds: int, number: int) -> list[tuple[int, int]]:
    """Where each host works in round `number` of an epoch over all tokens: a part of its own chunk."""
    from any2vec.plan.order.epochs import EpochSchedule
    from any2vec.plan.order.shares import chunk_bounds

    unit = block_of(setting)
    found = chunk_bounds(setting.positions, hosts, boundary)
    parts = []
    for rank in range(hosts):
        schedule = EpochSchedule(bounds=found, rank=rank, epochs=1, unit=unit, piece=unit, rounds=rounds)
        rounds_ = [round_ for _, round_ in schedule.rounds_ahead()]
        span = rounds_[number].spans[0]
        parts.append((span.start, span.stop))
    return parts


def planted_setting(
    model: Any, rows: int, epoch_tokens: int, tokens: int, sentence: int = 10_000, seed: int = 1
) -> Setting:
    """`tokens` words in random order by Zipf's law (rank r as often as 1 / r), a -1 after each `sentence` of them.

    The counts, and what follows from them, are those of an epoch of `epoch_tokens` words.
    """
    law = 1 / np.arange(1, rows + 1)
    law /= law.sum()
    random, steps = np.random.default_rng(seed), np.cumsum(law)
    stream = np.empty(tokens + tokens // sentence, np.int32)
    step = sentence + 1
    for at in range(0, len(stream), 64 * step):  # piece by piece: the float64 draws would take twice the memory
        piece = stream[at : at + 64 * step]
        piece[:] = np.minimum(np.searchsorted(steps, random.random(len(piece))), rows - 1)
        piece[sentence::step] = -1
    counts = np.maximum(1, np.rint(epoch_tokens * law)).astype(np.int64)
    return Setting(model, stream, counts, epoch_tokens + epoch_tokens // sentence, seed)


def block_of(setting: Setting) -> int:
    """Positions of a block, as training has them."""
    from any2vec.models.words.learner import block_positions

    kept = float((_keep(setting) * setting.counts).sum())
    return block_positions(setting.model, kept / setting.positions)


def _keep(setting: Setting) -> np.ndarray:
    from any2vec.data.vocab.vocabulary import keep_probabilities

    return keep_probabilities(setting.counts, setting.model.subsample)


def _learner(setting: Setting) -> Any:
    from any2vec.models.words.learner import SequenceLearner
    from any2vec.models.words.source import StoredTokens
    from any2vec.plan.order.epochs import piece_positions

    block = block_of(setting)
    return SequenceLearner(
        setting.model, setting.counts, _keep(setting), StoredTokens(setting.tokens, block), {},
        block=block, piece=piece_positions(block, setting.model.cost), threads=1, seed=setting.seed,
    )  # fmt: skip


def _marks(learner: Any, parts: list[tuple[int, int]], num_rows: int) -> Iterator[tuple[np.ndarray, float]]:
    """(marks uint8 (2, V), seconds) of each host; one array serves all."""
    marks = np.empty((2, num_rows), np.uint8)
    for start, stop in parts:
        marks[:] = 0
        began = time.perf_counter()
        learner.inspect(0, start, stop, {"input": marks[0], "output": marks[1]})
        yield marks, time.perf_counter() - began
