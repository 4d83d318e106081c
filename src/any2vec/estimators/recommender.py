"""A recommender in scikit-learn's manner: `fit`, `predict`, `score`, in searches of parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

import any2vec
from any2vec.data.interactions.interactions import Interactions, read_interactions
from any2vec.data.interactions.options import InteractionOptions
from any2vec.data.vocab.user_keys import listed
from any2vec.embeddings import Neighbors
from any2vec.estimators.base import config_of, with_parameters
from any2vec.evaluate.recommend import evaluate_recommend


@with_parameters({"bpr": any2vec.BPR, "als": any2vec.ALS, "item2vec": any2vec.Item2Vec}, None, k=10, options=None)
class ItemRecommender(BaseEstimator):
    """Recommends items from implicit feedback (user-item pairs).

    Args:
        model: "bpr", "als" or "item2vec", or a config: `BPR(dim=128)`.
        dim and the other fields of `BPR`, `ALS` and `Item2Vec`: of the model that is named; None: its own default.
        k: items of a list, 1 or more.
        epochs: None: the model's own default. threads: 0: all usable cores. seed: of every random draw.
        options: how files are read.

    In a search give the interactions as rows, and fold them in random order (`cv=KFold(5, shuffle=True)`): where rows
    come by user, other folds hold no user that was trained, and nothing can be scored.

    After `fit`: `recommender_` (a `Recommender`), `embeddings_` (vectors of items), `summary_`, `interactions_`.
    """

    k: int
    epochs: int | None
    threads: int
    seed: int
    options: InteractionOptions | None
    recommender_: any2vec.Recommender
    interactions_: Interactions

    def fit(self, X: Any, y: Any = None) -> ItemRecommender:
        """Train on X, interactions in any form that `read_interactions` takes; `y` is ignored."""
        self.interactions_ = read_interactions(X, self.options)
        found = any2vec.fit(
            config_of(self), self.interactions_, interactions=self.options, epochs=self.epochs, threads=self.threads,
            seed=self.seed,
        )  # fmt: skip
        self.recommender_, self.embeddings_, self.summary_ = found.scorer, found.embeddings, found.summary
        return self

    def recommend(self, users: Any, exclude_seen: bool = True) -> Neighbors | list[Neighbors]:
        """The k best items of a user, as (item, score), or of many users; without those of training (exclude_seen)."""
        return self._fitted().recommend(users, self.k, self.interactions_ if exclude_seen else None)

    def predict(self, X: Iterable[Any]) -> np.ndarray:
        """The k best items of each user, best first, without those of training: object (len(X), k); None: none left, or
        the user is unknown, which a warning says. X: a list, an array, a column, a table of one column."""
        answers = self.recommend(listed(X))
        found = np.full((len(answers), self.k), None, dtype=object)
        for row, answer in enumerate(answers):
            found[row, : len(answer)] = [item for item, _ in answer]  # type: ignore[misc]
        return found

    def score(self, X: Any, y: Any = None) -> float:
        """NDCG@k on held-out interactions X, those of training left out; higher is better. `y` is ignored."""
        return evaluate_recommend(self._fitted(), X, self.interactions_, self.k, self.options, self.threads).ndcg

    def _fitted(self) -> any2vec.Recommender:
        if not hasattr(self, "recommender_"):
            raise NotFittedError("This ItemRecommender is not fitted yet; call fit first.")
        return self.recommender_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "recommender_")
