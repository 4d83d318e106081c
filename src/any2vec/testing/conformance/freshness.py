"""What every freshness policy keeps to: a class to inherit, with the policy's name."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

import numpy as np
import pytest

from any2vec.tables.cache.versioned_cache import BatchExchange, VersionedCache
from any2vec.tables.registry import FRESHNESS
from any2vec.tables.row_optimizer import RowOptimizer

SLOTS, WIDTH, BATCHES = 12, 2, 60
BOUNDS = [0, 1, 5]


class FreshnessTests(ABC):
    """Of the slots alone, and within a cache whose rows one trainer changes while others do, too."""

    name: ClassVar[str]
    """as it is registered"""

    @pytest.mark.parametrize("bound", BOUNDS)
    def test_answers_are_by_slot_and_do_not_change_what_is_asked(self, bound: int) -> None:
        policy = FRESHNESS.named(self.name)(bound, bound, SLOTS)
        rng = np.random.default_rng(bound)
        assert policy.pull_bound >= 0
        for _ in range(BATCHES):
            slot_N = rng.choice(SLOTS, int(rng.integers(0, SLOTS)), replace=False)
            updates_N, version_N = rng.integers(0, 9, (2, len(slot_N)))
            given = slot_N.copy(), updates_N.copy(), version_N.copy()
            is_stale_N = policy.stale(slot_N)
            is_due_N = policy.must_push(slot_N, updates_N, version_N)
            for found in (is_stale_N, is_due_N):
                assert found.dtype == bool and found.shape == slot_N.shape
            assert np.array_equal(is_stale_N, policy.stale(slot_N)), "a call of stale changes the result of the next"
            one_by_one = [policy.stale(slot_N[at : at + 1])[0] for at in range(len(slot_N))]
            assert is_stale_N.tolist() == one_by_one, "a slot's answer hangs on the others"
            assert not is_due_N[updates_N == 0].any(), "nothing is pushed of a row without changes"
            assert all(
                np.array_equal(now, before) for now, before in zip((slot_N, updates_N, version_N), given, strict=True)
            )
            policy.asked(slot_N[is_stale_N])

    def test_with_bound_0_every_read_asks_and_every_change_is_due(self) -> None:
        policy = FRESHNESS.named(self.name)(0, 0, SLOTS)
        slot_K = np.arange(SLOTS)
        for version in (0, 1, 1000):
            policy.asked(slot_K)
            assert policy.stale(slot_K).all()
            assert policy.must_push(slot_K, np.ones(SLOTS, np.int64), np.full(SLOTS, version)).all()

    @pytest.mark.parametrize("bound", BOUNDS)
    def test_every_change_reaches_the_owner(self, bound: int) -> None:
        """A cache under the policy against the sum of all changes, by this trainer and by others; owners in plain
        arrays."""
        owner_VC, version_V = np.zeros((SLOTS, WIDTH), np.float32), np.zeros(SLOTS, np.int64)
        wanted_VC = np.zeros_like(owner_VC)
        cache = VersionedCache(SLOTS // 2, RowOptimizer(WIDTH, "sgd"), bound, policy="lru", freshness=self.name)
        rng = np.random.default_rng(7)

        def carry_out(exchange: BatchExchange) -> np.ndarray:
            np.add.at(owner_VC, exchange.push_N, exchange.change_NC)
            np.add.at(version_V, exchange.push_N, exchange.updates_N)
            ask_A, known_A = exchange.ask_A, exchange.known_A
            is_sent_A = (known_A < 0) | (version_V[ask_A] - known_A > cache.freshness.pull_bound)
            return cache.end(exchange, is_sent_A, version_V[ask_A[is_sent_A]], owner_VC[ask_A[is_sent_A]])

        for _ in range(BATCHES):
            id_U = np.sort(rng.choice(SLOTS, 4, replace=False))
            exchange = cache.begin(id_U)
            row_UC = carry_out(exchange)
            if bound == 0:
                assert np.array_equal(row_UC, wanted_VC[id_U]), "with bound 0 a read sees every write"
            change_UC = rng.integers(-3, 4, (len(id_U), WIDTH)).astype(np.float32)
            cache.change(exchange, change_UC)
            wanted_VC[id_U] += change_UC
            others = rng.choice(SLOTS, 2, replace=False)
            owner_VC[others] += 1
            version_V[others] += 1
            wanted_VC[others] += 1
        carry_out(cache.begin_flush(0, cache.capacity))
        assert np.array_equal(owner_VC, wanted_VC)
