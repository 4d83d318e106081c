"""What every sharding keeps to: a class to inherit, with a way to make it."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import pytest

from any2vec.plan.sharding.sharding import Blocks, Sharding


class ShardingTests(ABC):
    """Each row has one owner and one slot."""

    @abstractmethod
    def sharding(self, num_rows: int, owners: int) -> Sharding:
        """A new one; the same at every call."""

    @pytest.mark.parametrize("owners", [1, 2, 5, 40])
    @pytest.mark.parametrize("num_rows", [1, 7, 64])
    def test_each_row_has_one_owner_and_one_slot(self, num_rows: int, owners: int) -> None:
        sharding, id_V = self.sharding(num_rows, owners), np.arange(num_rows)
        assert (sharding.num_rows, sharding.owners) == (num_rows, owners)
        owner_V, slot_V = sharding.owner(id_V), sharding.slot(id_V)
        held = [sharding.ids(owner) for owner in range(owners)]
        assert sorted(np.concatenate(held).tolist()) == id_V.tolist()
        for row in range(num_rows):
            assert held[owner_V[row]][slot_V[row]] == row

    @pytest.mark.parametrize("owners", [1, 2, 5])
    def test_rows_may_be_asked_for_in_any_order(self, owners: int) -> None:
        sharding, id_N = self.sharding(30, owners), np.random.default_rng(1).integers(0, 30, 100)
        every = np.arange(30)
        for asked in (sharding.owner, sharding.slot):
            assert np.array_equal(asked(id_N), asked(every)[id_N])
            assert len(asked(id_N[:0])) == 0

    @pytest.mark.parametrize("owners", [1, 2, 5])
    def test_places_ascend_from_owner_to_owner(self, owners: int) -> None:
        sharding = self.sharding(30, owners)
        if isinstance(sharding, Blocks):
            place_V = sharding.place(np.arange(30))
            assert np.array_equal(sharding.rows(place_V), np.arange(30))
            flag_V = np.random.default_rng(2).random(30) < 0.5
            marked = sharding.marked(flag_V)
            assert (np.diff(marked) > 0).all() and flag_V[sharding.rows(marked)].all() and len(marked) == flag_V.sum()
            for owner, part in enumerate(sharding.cuts(marked)):
                assert (sharding.owner(sharding.rows(marked[part])) == owner).all()
