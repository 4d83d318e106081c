"""How well a model ranks the held-out items of users among all items: Recall, NDCG, hit rate.

As the field does it (Wang et al. 2019, NGCF; He et al. 2020, LightGCN): all items are ranked, those of training left
out, users without held-out items do not count, and each metric is a mean over users. Items and users that the model
lacks: an item can only be missed; a user is left out, and counted.

Letters: U users of the test, E pairs of the test, B users of a block, K items of a list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from any2vec.checks import check_whole
from any2vec.data.interactions.interactions import Interactions, read_interactions
from any2vec.data.interactions.options import InteractionOptions
from any2vec.errors import DataError, InputError


@dataclass(frozen=True)
class RecommendResult:
    """Means over users, in 0..1."""

    k: int
    recall: float
    """share of a user's held-out items that are among its first k"""
    ndcg: float
    """sum of 1 / log2(rank + 1) of those found, over that of the best list there is (Järvelin and Kekäläinen 2002)"""
    hit_rate: float
    """share of users with a held-out item among the first k"""
    num_users: int
    num_unknown_users: int = 0
    """users of the test that training lacks, left out"""
    num_unknown_items: int = 0
    """pairs of the test whose item training lacks, which count as missed"""

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"task": "recommend", **asdict(self)}


class Ranker(Protocol):
    """What is needed of `any2vec.Recommender`."""

    @property
    def users(self) -> Any: ...

    @property
    def items(self) -> Any: ...

    @property
    def options(self) -> InteractionOptions: ...

    def known(self, interactions: Any, options: InteractionOptions | None = None) -> Interactions | None: ...

    def best(
        self, row_B: np.ndarray, k: int, exclude: Interactions | None = None, threads: int = 0
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]: ...


def evaluate_recommend(
    recommender: Ranker, test: Any, exclude: Any = None, k: int = 20, options: InteractionOptions | None = None,
    threads: int = 0,
) -> RecommendResult:  # fmt: skip
    """Rank all items for each user of the test.

    Args:
        recommender: a `Recommender`.
        test: held-out interactions, in any form that `read_interactions` takes.
        exclude: interactions whose items are not ranked for their users, those of training; None: all are ranked.
        k: length of the lists, 1 or more.
        options: how both are read; None: as those of training, a table by the same columns where it has them.
        threads: 0: all usable cores.

    Raises:
        DataError: the data cannot be read, or the test has no user of training.
    """
    check_whole("k", k, 1, 2**31 - 1)
    if not hasattr(recommender, "best"):
        fix = "give its .scorer" if hasattr(recommender, "scorer") else "Recommender.load(path) opens a stored one"
        raise InputError(f"A Recommender is evaluated here, got {type(recommender).__name__}; {fix}.")
    data = read_interactions(test, options or recommender.options, is_of_training=options is None)
    user_U, item_I = recommender.users.rows(data.users), recommender.items.rows(data.items)
    has_U = np.diff(data.indptr) > 0
    asked = np.flatnonzero(has_U & (user_U >= 0))
    if not len(asked):
        raise DataError(
            "The test has no user of the training data; give interactions of the same users, folds in random order."
        )
    left_out = recommender.known(exclude, options)
    if left_out is not None and not len(left_out):
        raise DataError(
            "What is excluded has no pair of a user and an item of the training data, so that nothing would be left "
            "out; give interactions by the same names."
        )
    num_items = len(recommender.items)
    recall_U, ndcg_U, place = np.zeros(len(asked)), np.zeros(len(asked)), 0
    gain_K = 1.0 / np.log2(np.arange(min(k, max(num_items, len(item_I))) + 1) + 2)
    ideal_K = np.concatenate([[0.0], np.cumsum(gain_K)])
    for item_BK, _ in recommender.best(user_U[asked], k, left_out, threads):
        part = asked[place : place + len(item_BK)]
        indptr_B, item_E = data.of_users(part)
        count_B, item_E = np.diff(indptr_B), item_I[item_E]
        pair_E = (np.repeat(np.arange(len(part)), count_B) * num_items + item_E)[item_E >= 0]
        pair_BK = np.arange(len(part))[:, None] * num_items + item_BK
        is_hit_BK = np.isin(pair_BK, pair_E) & (item_BK >= 0)
        recall_U[place : place + len(part)] = is_hit_BK.sum(axis=1) / count_B
        best_B = ideal_K[np.minimum(count_B, k)]
        ndcg_U[place : place + len(part)] = (is_hit_BK * gain_K[: item_BK.shape[1]]).sum(axis=1) / best_B
        place += len(part)
    return RecommendResult(
        k, float(recall_U.mean()), float(ndcg_U.mean()), float((recall_U > 0).mean()), len(asked),
        int((has_U & (user_U < 0)).sum()), int((item_I[data.item_E] < 0).sum()),
    )  # fmt: skip
