"""What every merge rule keeps to: a class to inherit, with a way to make the rule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import pytest

from any2vec.sync.base.curvature import Curvature, Curved
from any2vec.sync.rules.merge_rule import MergeRule

ROWS, DIM = 12, 5
OCCURRENCE_B = np.arange(1.0, ROWS + 1)


def curvature(step_B: np.ndarray, dim: int) -> Curvature:
    """One with flat and stiff directions, for rows whose rates times steps these are."""
    vector_DD, _ = np.linalg.qr(np.random.default_rng(dim).normal(0, 1, (dim, dim)))
    return Curvature(np.linspace(0, 3, dim) ** 3, vector_DD, step_B)


def ready(rule: MergeRule, step_B: np.ndarray, dim: int = DIM) -> MergeRule:
    """The rule, with a curvature if it asks for one."""
    if isinstance(rule, Curved):
        rule.prepare(curvature(step_B, dim))
    return rule


class MergeRuleTests(ABC):
    """A rule is a function of the start, the changes in rank order, and its own memory; rows are merged one by one."""

    keeps_agreement: ClassVar[bool] = True
    """the same change of all hosts, or of one host alone, stands as it is"""

    @abstractmethod
    def rule(self, occurrence_B: np.ndarray) -> MergeRule:
        """A new one for rows that occur so often."""

    def made(self, occurrence_B: np.ndarray) -> MergeRule:
        return ready(self.rule(occurrence_B), occurrence_B)

    def rounds(self, hosts: int, rounds: int = 3) -> list[tuple[np.ndarray, list[np.ndarray]]]:
        """(start, changes) of each round."""
        rng = np.random.default_rng(hosts)
        found = []
        for _ in range(rounds):
            start_BD = rng.normal(0, 1, (ROWS, DIM)).astype(np.float32)
            changes = [np.float64(0.1) * rng.normal(0, 1, (ROWS, DIM)) for _ in range(hosts)]
            changes[-1][::3] = 0
            found.append((start_BD, changes))
        return found

    def combined(self, rule: MergeRule, start_BD: np.ndarray, changes: list[np.ndarray]) -> np.ndarray:
        out_BD = np.full(start_BD.shape, np.nan, np.float32)
        rule.combine(start_BD, changes, out_BD)
        return out_BD

    @pytest.mark.parametrize("hosts", [1, 2, 4])
    def test_every_number_is_filled_and_nothing_else_changes(self, hosts: int) -> None:
        for start_BD, changes in self.rounds(hosts):
            kept, own = start_BD.copy(), [change.copy() for change in changes]
            found = self.combined(self.made(OCCURRENCE_B), start_BD, changes)
            assert np.isfinite(found).all() and np.array_equal(start_BD, kept)
            assert all(np.array_equal(one, other) for one, other in zip(changes, own, strict=True))

    @pytest.mark.parametrize("hosts", [2, 4])
    def test_blocks_may_be_cut_anywhere(self, hosts: int) -> None:
        """Who owns a row changes nothing: each row by itself gives the same bits as all of them."""
        whole = self.made(OCCURRENCE_B)
        rules = [self.made(OCCURRENCE_B[row : row + 1]) for row in range(ROWS)]
        for start_BD, changes in self.rounds(hosts):
            found = self.combined(whole, start_BD, changes)
            for row, rule in enumerate(rules):
                part = slice(row, row + 1)
                own = [np.ascontiguousarray(change[part]) for change in changes]
                assert np.array_equal(self.combined(rule, start_BD[part].copy(), own), found[part])

    @pytest.mark.parametrize("hosts", [2, 4])
    def test_its_memory_is_its_state(self, hosts: int) -> None:
        *before, (start_BD, changes) = self.rounds(hosts)
        rule, again = self.made(OCCURRENCE_B), self.made(OCCURRENCE_B)
        for one in before:
            self.combined(rule, *one)
        again.load_state_dict({name: array.copy() for name, array in rule.state_dict().items()})
        assert np.array_equal(self.combined(rule, start_BD, changes), self.combined(again, start_BD, changes))

    @pytest.mark.parametrize("hosts", [1, 2, 4])
    def test_rows_that_nobody_changed_stay(self, hosts: int) -> None:
        start_BD, changes = self.rounds(hosts)[0]
        none = [np.zeros_like(change) for change in changes]
        assert np.array_equal(self.combined(self.made(OCCURRENCE_B), start_BD, none), start_BD)

    def test_the_change_of_one_host_stands(self) -> None:
        if self.keeps_agreement:
            start_BD, changes = self.rounds(1)[0]
            found = self.combined(self.made(OCCURRENCE_B), start_BD, changes)
            np.testing.assert_allclose(found, start_BD + changes[0], rtol=1e-5, atol=1e-6)
