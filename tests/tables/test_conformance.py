"""Every merge rule, sharding, residency and freshness policy and table of rows keeps to what its seam promises."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from any2vec.plan.sharding.nodes import NodeSharding
from any2vec.plan.sharding.sharding import Contiguous, Sharding, Striped
from any2vec.sync.options.rules import RULES, rule_class
from any2vec.sync.rules.merge_rule import MergeRule, StateMean
from any2vec.tables.registry import FRESHNESS, RESIDENCIES
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.tables.row_table import MemoryRows, RowTable
from any2vec.testing.conformance.freshness import FreshnessTests
from any2vec.testing.conformance.residencies import ResidencyTests
from any2vec.testing.conformance.row_tables import RowTableTests
from any2vec.testing.conformance.rules import MergeRuleTests
from any2vec.testing.conformance.shardings import ShardingTests
from any2vec.types import Csr


@pytest.mark.parametrize("name", RULES.names())
class TestRules(MergeRuleTests):
    @pytest.fixture(autouse=True)
    def named(self, name: str) -> None:
        self.name = name

    def rule(self, occurrence_B: np.ndarray) -> MergeRule:
        return rule_class(self.name, has_curvature=True)(occurrence_B)


class TestStates(MergeRuleTests):
    def rule(self, occurrence_B: np.ndarray) -> MergeRule:
        return StateMean(occurrence_B)


class TestContiguous(ShardingTests):
    def sharding(self, num_rows: int, owners: int) -> Sharding:
        return Contiguous(num_rows, owners)


class TestStriped(ShardingTests):
    def sharding(self, num_rows: int, owners: int) -> Sharding:
        return Striped(num_rows, owners)


@pytest.mark.parametrize("policy", [name for name in RESIDENCIES.names() if name != "static"])
class TestResidencies(ResidencyTests):
    name: ClassVar[str] = ""

    @pytest.fixture(autouse=True)
    def named(self, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(type(self), "name", policy)


@pytest.mark.parametrize("policy", FRESHNESS.names())
class TestFreshness(FreshnessTests):
    name: ClassVar[str] = ""

    @pytest.fixture(autouse=True)
    def named(self, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(type(self), "name", policy)


class TestMemoryRows(RowTableTests):
    def table(self, row_VC: np.ndarray, optimizer: RowOptimizer) -> RowTable:
        return MemoryRows(row_VC, optimizer)


@pytest.mark.parametrize("method", ["contiguous", "hash", "any"])
class TestNodes(ShardingTests):
    @pytest.fixture(autouse=True)
    def named(self, method: str) -> None:
        self.method = method

    def sharding(self, num_rows: int, owners: int) -> Sharding:
        if self.method == "any":
            return NodeSharding.of(np.random.default_rng(num_rows).integers(0, owners, num_rows), owners)
        empty = Csr(np.zeros(num_rows + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))
        return NodeSharding.make(empty, owners, self.method)
