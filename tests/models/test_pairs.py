"""Skip-gram by pairs: the kernels beside their twins, what a negative counts, and the pairs of a sweep on disk."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec
from any2vec.data.partitions import buckets as triple_buckets
from any2vec.data.partitions.buckets import TripleBuckets, chunk_buffer
from any2vec.data.partitions.row_partitions import RowPartitions
from any2vec.errors import DataError, Interrupted
from any2vec.kernels.common.alias import build_alias
from any2vec.kernels.common.rng import PURPOSE_NEGATIVE, PURPOSE_TOKEN, stream_key
from any2vec.kernels.rows import bucketing
from any2vec.kernels.skipgram import pairs
from any2vec.models.words.source import StoredTokens
from any2vec.plan.order.bucket_orders import ORDERS, make_order
from any2vec.plan.order.buffer import block_rows
from any2vec.plan.order.buffer_walk import BufferWalk
from any2vec.plan.order.shares import noise_there, noise_weights, resident_counts
from any2vec.tables.disk.partition_store import PartitionStore
from any2vec.tasks.words import swept_pairs
from any2vec.tasks.words.pair_batches import PairLearner
from any2vec.tasks.words.swept_pairs import SweptPairs
from any2vec.tasks.words.table import start_words
from any2vec.testing import toy_table
from any2vec.train.out_of_core.run import OutOfCoreOptions, OutOfCoreRun
from naive.skipgram import pairs as naive

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="stores of partitions need Linux"),
    # Without the compiler, wrapping uint64 arithmetic makes NumPy warn; it is meant to wrap.
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),
]
WORDS, DIM, WINDOW, SEED = 60, 12, 3, 5
MODEL = any2vec.SkipGram(dim=DIM, window=WINDOW, min_count=1, learning_rate=0.1)
KEEP_V = np.linspace(0.3, 1.2, WORDS)


def stream(size: int = 3000) -> np.ndarray:
    """Sentences, and items that are out of the vocabulary."""
    return np.random.default_rng(1).integers(-3, WORDS + 2, size).clip(-1).astype(np.int32)


def counts() -> np.ndarray:
    tokens = stream()
    return np.bincount(tokens[(tokens >= 0) & (tokens < WORDS)], minlength=WORDS)


def all_pairs(epoch: int) -> list[tuple[int, int]]:
    """Those of an epoch, in order, by the twin."""
    keep_V = np.minimum(KEEP_V * 2.0**32, 2.0**32).astype(np.uint64)
    return naive.list_pairs(stream(), 0, 3000, 0, keep_V, stream_key(SEED, PURPOSE_TOKEN, epoch), WINDOW)


# ---- kernels


@pytest.mark.parametrize(("start", "stop", "offset"), [(0, 3000, 0), (17, 2950, 100), (400, 400, 0)])
def test_pairs_are_those_of_the_windows(start: int, stop: int, offset: int) -> None:
    keep_V = np.minimum(KEEP_V * 2.0**32, 2.0**32).astype(np.uint64)
    where = (stream(), start, stop, offset, keep_V, stream_key(1, PURPOSE_TOKEN), WINDOW)
    row_V = np.random.default_rng(2).permutation(WORDS).astype(np.int32)
    found = np.empty((2 * WINDOW * (stop - start), 2), np.int32)
    size = pairs.list_pairs(*where, row_V, found)
    expected = [(row_V[context], row_V[center]) for context, center in naive.list_pairs(*where)]
    assert [tuple(pair) for pair in found[:size].tolist()] == expected


def noise(weight_HH: np.ndarray, rng: np.random.Generator) -> pairs.Noise:
    """Of partitions of 10, 11 and 9 rows, of which the last and the first are in blocks 2 and 0 of 16 slots."""
    threshold_V, alias_V = np.empty(30, np.uint32), np.empty(30, np.int32)
    for first, stop in ((0, 10), (10, 21), (21, 30)):
        threshold_V[first:stop], alias_V[first:stop] = build_alias(rng.uniform(0, 1, stop - first) ** 3)
    threshold_H, alias_H = build_alias(np.array([3.0, 1.0]))
    return pairs.Noise(
        threshold_V, alias_V, threshold_H, alias_H, np.array([21, 0]), np.array([9, 10]), np.array([32, 0]),
        np.array([1, 0, 0], np.int32), 16, weight_HH,
    )  # fmt: skip


@pytest.mark.parametrize(("dim", "num_shared", "scale"), [(5, 4, 0.5), (12, 12, 0.5), (40, 24, 3.0)])
def test_training_is_that_of_the_twin(dim: int, num_shared: int, scale: float) -> None:
    """Few rows, so that pairs repeat rows and negatives meet centers; long ones, so that steps are cut."""
    rng = np.random.default_rng(dim)
    there = noise(rng.uniform(0, 2, (2, 2)).astype(np.float32), rng)
    slot_M2 = rng.choice(np.concatenate([np.arange(10), np.arange(32, 41)]), (203, 2)).astype(np.int32)
    table = rng.normal(0, scale, (48, 2, dim)).astype(np.float32)
    slow = table.astype(np.float64)
    arguments = (slot_M2, 3, 200, 77, stream_key(1, PURPOSE_NEGATIVE), there)
    rates = (5, 0.08, -1e-4, 2, num_shared)
    loss, examples = pairs.train_pairs(*arguments, table.reshape(-1, dim), *rates)
    slow_loss, slow_examples = naive.train_pairs(*arguments, slow, *rates)
    assert examples == slow_examples > 0
    np.testing.assert_allclose(loss, slow_loss, rtol=2e-5)
    np.testing.assert_allclose(table, slow, rtol=1e-4, atol=3e-5 * scale)


def test_triples_are_grouped_by_bucket() -> None:
    rng = np.random.default_rng(1)
    for columns, partitions in ((2, 1), (3, 4), (2, 9)):
        parts = RowPartitions(50, partitions)
        row_MC = rng.integers(0, 50, (300, columns)).astype(np.int32)
        bucket_M = np.empty(300, np.int32)
        bucketing.find_buckets(row_MC, 50, partitions, bucket_M)
        ends = (np.searchsorted(parts.bounds, row_MC[:, column], side="right") - 1 for column in (0, -1))
        head_M, tail_M = ends
        assert np.array_equal(bucket_M, head_M * partitions + tail_M)
        assert np.array_equal(parts.part_of(row_MC[:, 0]), head_M)
        first_B1, grouped_MC = np.empty(partitions**2 + 1, np.int64), np.empty_like(row_MC)
        bucketing.group_buckets(row_MC, bucket_M, first_B1, grouped_MC)
        assert np.array_equal(grouped_MC, row_MC[np.argsort(bucket_M, kind="stable")])
        assert np.array_equal(np.diff(first_B1), np.bincount(bucket_M, minlength=partitions**2))


# ---- what a negative counts


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("partitions", "capacity"), [(1, 1), (4, 2), (6, 3), (9, 5)])
def test_every_item_gets_its_share_of_negatives(order: str, partitions: int, capacity: int) -> None:
    """Summed over the states of a sweep, as often as with all rows in memory, for inputs of each partition."""
    rng = np.random.default_rng(partitions)
    count_PP = rng.integers(1, 1000, (partitions, partitions))
    mass_P = rng.uniform(1, 3, partitions)
    states = make_order(order, partitions, capacity, seed=3).states
    joint_PP = resident_counts(states, count_PP)
    found_PP = np.zeros((partitions, partitions))
    for state in states:
        there = noise_there(state.held, mass_P)
        weight_HH = there * noise_weights(state.held, count_PP.sum(axis=1), joint_PP)
        for (i, j), (place, q) in product(state.buckets, enumerate(state.held)):
            restricted = mass_P[q] / mass_P[list(state.held)].sum()
            found_PP[i, q] += count_PP[i, j] * restricted * weight_HH[state.held.index(i), place]
    expected_PP = count_PP.sum(axis=1)[:, None] * mass_P / mass_P.sum()
    np.testing.assert_allclose(found_PP, expected_PP, rtol=1e-5)
    if capacity == partitions:
        assert np.allclose(weight_HH, 1)


def made(folder: Path, partitions: int, sweeps: int = 2, **more: Any) -> SweptPairs:
    parts = RowPartitions(WORDS, partitions, SEED)
    return SweptPairs(folder, StoredTokens(stream(), 7), KEEP_V, WINDOW, parts, "stream", sweeps, **more)


def chance(threshold_R: np.ndarray, alias_R: np.ndarray) -> np.ndarray:
    """Of each outcome of an alias table."""
    own_R = np.where(alias_R == np.arange(len(alias_R)), 1.0, threshold_R / 2.0**32)
    found_R = own_R / len(own_R)
    np.add.at(found_R, alias_R, (1 - own_R) / len(own_R))
    return found_R


def test_rows_there_are_drawn_by_their_noise(tmp_path: Path) -> None:
    """What the learner hands to the kernel, for each state: counts to the power 3/4, made 1 over the rows there."""
    walk = BufferWalk(order="beta", partitions=5, capacity=3, epochs=2)
    swept = made(tmp_path / "pairs", 5)
    learner = PairLearner(MODEL, counts(), swept.parts, walk, 2, SEED)
    learner.buckets = swept
    noise_V = counts() ** 0.75
    rows = block_rows(12, 8 * DIM)
    for turn in walk:
        there = learner._noise(turn)
        chance_H = chance(there.threshold_H, there.alias_H)
        held = np.concatenate([swept.parts.entities(np.arange(12 * part, 12 * part + 12)) for part, _ in turn.held])
        for place, (part, block) in enumerate(turn.held):
            own = slice(12 * part, 12 * part + 12)
            assert (there.first_row_H[place], there.size_H[place]) == (own.start, 12)
            assert there.first_slot_H[place] == block * rows and there.held_B[block] == place
            expected_R = noise_V[swept.parts.entities(np.arange(own.start, own.stop))] / noise_V[held].sum()
            found_R = chance_H[place] * chance(there.threshold_V[own], there.alias_V[own])
            np.testing.assert_allclose(found_R, expected_R, rtol=1e-6)


# ---- pairs on disk


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triple_buckets, "CHUNK", 1024)
    monkeypatch.setattr(triple_buckets, "BLOCK", 700)
    monkeypatch.setattr(swept_pairs, "BLOCK", 700)


def content(buckets: TripleBuckets) -> Counter[tuple[int, ...]]:
    """The pairs on disk, of items; each in its own bucket."""
    found: Counter[tuple[int, ...]] = Counter()
    parts, buffer = buckets.parts, chunk_buffer()
    for chunk in buckets.chunks(product(range(parts.partitions), repeat=2)):
        row_M2 = buckets.read(chunk, buffer).astype(np.int64)
        assert (parts.part_of(row_M2[:, 0]) == chunk.head_part).all()
        assert (parts.part_of(row_M2[:, 1]) == chunk.tail_part).all()
        found.update(map(tuple, parts.entities(row_M2.ravel()).reshape(-1, 2).tolist()))
    return found


@pytest.mark.parametrize(("partitions", "sweeps"), [(1, 1), (3, 1), (5, 4), (2, 40)])
def test_sweeps_have_each_pair_of_an_epoch_once(partitions: int, sweeps: int, tmp_path: Path) -> None:
    swept = made(tmp_path / "pairs", partitions, sweeps)
    for epoch in range(2):
        found = sum((content(swept.of(epoch * sweeps + sweep)) for sweep in range(sweeps)), Counter())
        assert found == Counter(all_pairs(epoch))
    assert Counter(all_pairs(0)) != Counter(all_pairs(1))
    assert swept.bytes_read > 8 * len(all_pairs(0)) and not list(swept.of(2 * sweeps - 1).check())


def test_a_sweep_is_made_again_only_where_it_is_not_there(tmp_path: Path) -> None:
    reported: list[tuple[int, int]] = []

    def tick(done: int, total: int) -> None:
        reported.append((done, total))

    first = made(tmp_path / "pairs", 3, tick=tick)
    before = content(first.of(1))
    size = len(reported)
    assert size > 4 and reported[0][0] == 0 and all(done <= total for done, total in reported) and first.moves > size
    again = made(tmp_path / "pairs", 3, tick=tick)
    assert content(again.of(1)) == before and len(reported) == size
    assert content(again.of(2)) != before and len(reported) > size
    assert content(made(tmp_path / "pairs", 3).of(1)) == before

    def stop(done: int, total: int) -> None:
        if done > 500:
            raise Interrupted("Stopped.")

    with pytest.raises(Interrupted):
        made(tmp_path / "pairs", 3, tick=stop).of(0)
    assert [path.name for path in tmp_path.iterdir()] == []  # the others went first, and nothing is half there
    assert content(made(tmp_path / "pairs", 3).of(1)) == before


def test_rows_must_be_rows(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Rows are numbered from 0 to 59, got 60"):
        TripleBuckets.create(
            tmp_path / "b", RowPartitions(WORDS, 2), 0, lambda: [np.array([[3, 60]], np.int32)], are_rows=True
        )


# ---- training


@pytest.mark.parametrize("order", ["beta", "comet", "random"])
@pytest.mark.parametrize(("partitions", "capacity"), [(1, 1), (5, 5), (5, 3), (4, 2)])
def test_out_of_core_is_bit_for_bit_a_plain_loop(partitions: int, capacity: int, order: str, tmp_path: Path) -> None:
    """Over the same pairs in the same order, all rows in memory, in blocks that never move."""
    walk = BufferWalk(order=order, partitions=partitions, capacity=capacity, epochs=4, seed=SEED)
    swept = made(tmp_path / "triples", partitions)
    parts, options = swept.parts, OutOfCoreOptions(window=1500, seed=SEED, commit_seconds=1e9)

    def fill(number: int, row_RC: np.ndarray) -> None:
        start_words(MODEL, parts.entities(np.arange(*parts.bounds[number : number + 2])), row_RC, SEED)
        row_RC[:, DIM:] = 0.1 * row_RC[:, :DIM]

    store = PartitionStore.create(tmp_path / "table", parts.bounds.tolist(), 2 * DIM, fill)
    rows = block_rows(store.largest(), 8 * DIM)
    plain_VC = toy_table_of(tmp_path, store)
    table_SC = np.zeros((partitions * rows, 2 * DIM), np.float32)
    for part in range(partitions):
        low, high = parts.bounds[part : part + 2]
        table_SC[part * rows : part * rows + high - low] = plain_VC[low:high]
    learner = PairLearner(MODEL, counts(), parts, walk, 2, SEED)
    learner.buckets = swept
    store = PartitionStore.open(tmp_path / "table")
    OutOfCoreRun(store, swept, walk, learner.step, options, arrange=learner.arrange).run()
    store.close()
    assert learner.items == 2 * counts().sum()
    found_VC = toy_table.table(tmp_path)

    plain = PairLearner(MODEL, counts(), parts, walk, 2, SEED)
    plain.buckets = made(tmp_path / "again", partitions)
    train_plainly(plain, table_SC, rows, options)
    for part in range(partitions):
        low, high = parts.bounds[part : part + 2]
        assert np.array_equal(found_VC[low:high], table_SC[part * rows : part * rows + high - low])
    assert not np.array_equal(found_VC, plain_VC)


def toy_table_of(folder: Path, store: PartitionStore) -> np.ndarray:
    store.close()
    return toy_table.table(folder)


def train_plainly(learner: PairLearner, table_SC: np.ndarray, rows: int, options: OutOfCoreOptions) -> None:
    """Window after window, as the buffer's blocks have them, moved to the blocks of their partitions."""
    from any2vec.sampling.triple_windows import TripleWindows

    assert learner.buckets is not None
    epochs = learner.walk.epochs
    for work in TripleWindows(learner.buckets, learner.walk, rows, options.seed, options.window):
        window = work.payload
        part_of = {block: part for part, block in window.turn.held}
        block_M2, offset_M2 = np.divmod(window.slot_M3, rows)
        slot_M2 = (np.vectorize(part_of.get, otypes=[np.int32])(block_M2) if len(block_M2) else block_M2) * rows
        there = learner._noise(window.turn)
        held_B = np.zeros(learner.parts.partitions, np.int32)
        held_B[[part for part, _ in window.turn.held]] = np.arange(len(window.turn.held))
        moved = there._replace(
            first_slot_H=np.array([part * rows for part, _ in window.turn.held]), held_B=held_B
        )  # fmt: skip
        first, last = (learner.learning_rate((window.turn.epoch + ends) / epochs) for ends in (0, 1))
        pairs.train_pairs(
            (slot_M2 + offset_M2).astype(np.int32), 0, len(slot_M2), window.before,
            stream_key(SEED, PURPOSE_NEGATIVE, window.turn.epoch), moved, table_SC.reshape(-1, DIM), 5, first,
            (last - first) / max(1, window.total), 256, 12,
        )  # fmt: skip
