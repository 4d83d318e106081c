"""Classifiers of clicks and of nodes, in scikit-learn's manner."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

import any2vec
from any2vec.data.attributed.node_tables import by_position
from any2vec.data.attributed.predictions import class_shares
from any2vec.data.io.arrow import KINDS, columns_of, kind_of
from any2vec.data.io.files import is_table
from any2vec.data.options import GraphOptions
from any2vec.embeddings import Embeddings
from any2vec.errors import InputError
from any2vec.estimators.base import OWN, config_of, options_of, with_parameters
from any2vec.tasks.layers.prepare import answer_nodes, is_class, open_features

_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}")
"""how Python writes a whole number of 64 bits"""


@with_parameters(
    {
        "deepfm": any2vec.DeepFM, "dlrm": any2vec.DLRM, "fm": any2vec.FactorizationMachine,
        "logistic": any2vec.LogisticRegression,
    },
    None,
    schema=None,
)  # fmt: skip
class ClickClassifier(ClassifierMixin, BaseEstimator):
    """Predicts clicks (two classes) from columns of categories and numbers.

    Parameters: `model` ("deepfm", "dlrm", "fm", "logistic", or a config), the fields of their configs, `epochs`,
    `threads`, `seed`. None means the model's own default. `schema`: a `ClickSchema`, or a TOML file, whose label is
    left aside; by default columns of floats are numbers, standardized, lists are bags, and all others categories, each
    value with a row of its own.

    If all columns are numbers, a constant category column is added, because the models need one.

    X is a table (pandas, Polars, Arrow, a dict of columns) or an array (N, F) of numbers. After `fit`: `classes_`,
    `scorer_` (a `ClickScorer`), `embeddings_` (a row a value), `summary_` and `schema_`.
    """

    _models: dict[str, type]
    classes_: np.ndarray
    scorer_: any2vec.ClickScorer
    embeddings_: Embeddings
    summary_: dict[str, Any]
    schema_: any2vec.ClickSchema

    def fit(self, X: Any, y: Any) -> ClickClassifier:
        """Train on the rows of X, whose classes are y: (N,), of two different values. Returns self.

        Raises:
            InputError: the classes are not two, or not as many as rows. DataError: a column does not fit the schema.
        """
        columns = self._columns(X, is_first=True)
        check_classification_targets(y)
        self.classes_, label = np.unique(column_or_1d(y, warn=True), return_inverse=True)
        check_consistent_length(next(iter(columns.values())), label)
        if len(self.classes_) != 2:
            raise InputError(f"Only binary classification is supported: y has {len(self.classes_)} class(es), not 2.")
        given = None if self.schema is None else any2vec.ClickSchema.of(self.schema)
        self.schema_ = _schema(columns) if given is None else replace(given, label_from=None)  # y has the classes
        result = any2vec.fit(
            config_of(self), columns | {self.schema_.label: label}, schema=self.schema_, epochs=self.epochs,
            threads=self.threads, seed=self.seed,
        )  # fmt: skip
        self.scorer_, self.embeddings_, self.summary_ = result.scorer, result.embeddings, result.summary
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the two classes, float64 (N, 2). Raises NotFittedError before `fit`."""
        check_is_fitted(self)
        second = self.scorer_.probabilities(self._columns(X))
        return np.stack([1 - second, second], axis=1)

    def decision_function(self, X: Any) -> np.ndarray:
        """Log-odds of the second class, float64 (N,); above 0 it is predicted."""
        share = np.clip(self.predict_proba(X)[:, 1], 1e-15, 1 - 1e-15)
        return np.log(share) - np.log1p(-share)

    def predict(self, X: Any) -> np.ndarray:
        """The likelier class of each row, (N,)."""
        is_second = self.predict_proba(X)[:, 1] > 0.5
        return self.classes_[is_second.astype(int)]

    def _columns(self, X: Any, is_first: bool = False) -> dict[str, Any]:
        """Columns by name; those of an array are x0, x1, ..."""
        if is_table(X):
            columns = columns_of(X.reset_index(drop=True) if hasattr(X, "reset_index") else X)  # an index is no input
            num_rows = len(next(iter(columns.values()), ()))
            if not num_rows:
                raise InputError("There are no rows in the table; give at least one.")
        else:
            rows = validate_data(self, X, reset=is_first, dtype=np.float64)
            columns, num_rows = {f"x{at}": np.ascontiguousarray(rows[:, at]) for at in range(rows.shape[1])}, len(rows)
        if is_first:
            has_constant = self.schema is None and all(kind_of(column) == "dense" for column in columns.values())
        else:
            columns.pop(self.schema_.label, None)
            has_constant = self.schema is None and _ALL in self.schema_.categorical and _ALL not in columns
        if has_constant:
            columns[_ALL] = [_ALL] * num_rows
        return columns

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "scorer_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


_ALL = "all rows"


def _schema(columns: dict[str, Any]) -> any2vec.ClickSchema:
    """Floats are numbers, lists bags, the rest categories; the label's name is none of theirs."""
    kinds = {name: kind_of(column) for name, column in columns.items()}
    named: dict[str, Any] = {kind: tuple(name for name, one in kinds.items() if one == kind) for kind in KINDS}
    label = "label"
    while label in columns:
        label += "_"
    return any2vec.ClickSchema(label=label, ids="vocabulary", dense_transform="standard", **named)


@with_parameters({"ga-mlp": any2vec.GAMLP}, GraphOptions)
class GAMLPClassifier(ClassifierMixin, BaseEstimator):
    """Predicts classes of nodes from a graph and node features.

    Parameters: the fields of `GAMLP` (`psi` may also be a function, see `any2vec.data.graph.augment.UserPsi`),
    `epochs`, `seed`, and the fields of `GraphOptions`. None means the model's own default.

    After `fit`: `classes_`, `classifier_` (a `NodeClassifier`), `embeddings_` (vectors of the nodes) and `summary_`.
    """

    _models: dict[str, type]
    classes_: np.ndarray
    classifier_: any2vec.NodeClassifier
    embeddings_: Embeddings
    summary_: dict[str, Any]

    def fit(self, graph: Any, X: Any, y: Any, split: Any = None, hosts: Any = None) -> GAMLPClassifier:
        """Train on the nodes that have a class.

        Args:
            graph: what `any2vec.fit` takes for nodes; its ids are rows of X (of `Embeddings`: their keys).
            X: features (N, D): an array, a SciPy sparse one, `Embeddings`, or a path of such; of a table, a column node
                says of which node a row is. An index of pandas counts for nothing, nor one of y.
            y: (N,): whole numbers, -1 where a node has no class, or names, None where it has none; a dict of node ->
                class; or a path of `node class` lines.
            split: dict of train, val, test -> rows, or a path; None: all nodes with a class train.
            hosts: `HostOptions`, or a number of processes.
        """
        values = self.get_params(deep=False)
        own = values["psi"] if callable(values["psi"]) else None
        chosen = {item.name: values[item.name] for item in fields(any2vec.GAMLP) if values[item.name] is not OWN}
        if own is not None:
            del chosen["psi"]
        options = options_of(self, GraphOptions)
        nodes = any2vec.NodeOptions(features=_rows_of(X), labels=by_position(y), split=by_position(split), psi=own)
        result = any2vec.fit(
            any2vec.GAMLP(**chosen), graph, epochs=values["epochs"], threads=values["threads"], seed=values["seed"],
            graph=None if options == GraphOptions() else options, nodes=nodes, hosts=hosts,
        )  # fmt: skip
        self.classifier_, self.embeddings_, self.summary_ = result.scorer, result.embeddings, result.summary
        self.classes_ = classes_of(self.classifier_.classes, y)
        return self

    def decision_function(self, graph: Any, X: Any) -> np.ndarray:
        """Scores of the classes of all nodes of a graph, of training or another, with features X: float32 (N, C)."""
        if not hasattr(self, "classifier_"):
            raise NotFittedError("This GAMLPClassifier is not fitted yet; call fit first.")
        return answer_nodes(self.classifier_, graph, _rows_of(X))[2]

    def predict_proba(self, graph: Any, X: Any) -> np.ndarray:
        """Probabilities of the classes, float64 (N, C); X: as of `fit`."""
        return class_shares(self.decision_function(graph, X))

    def predict(self, graph: Any, X: Any) -> np.ndarray:
        """The likeliest class of each node, (N,); X: as of `fit`."""
        return self.classes_[self.decision_function(graph, X).argmax(axis=1)]

    def score(self, graph: Any, X: Any, y: Any) -> float:
        """Share of the nodes with a class (X, y as `fit` takes them, (N,)) for which it is predicted."""
        truth = np.asarray(y)
        known = np.array([is_class(one) for one in truth.tolist()])
        return float((self.predict(graph, X)[known] == truth[known]).mean())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classifier_")


def _rows_of(X: Any) -> Any:
    """Features whose rows y goes by, as is scikit-learn's way; those of a file as they are."""
    return X if isinstance(X, str | Path) else open_features(by_position(X))._replace(is_table=False)


def classes_of(names: Sequence[str], y: Any) -> np.ndarray:
    """The classes of these names as `fit` was given them: numbers stay numbers, and strings strings, (C,).

    Of a file and of a graph's own, and where a class has no node: whole numbers if all names are written as such ("01"
    is not).
    """
    found = {str(one): one for one in _given(y) if is_class(one)}
    values: list[Any] = [found.get(name) for name in names]
    if None in values:
        values = [int(name) for name in names] if all(_NUMBER.fullmatch(name) for name in names) else list(names)
    return np.array(values, None if len({type(one) for one in values}) == 1 else object)


def _given(y: Any) -> Iterator[Any]:
    """The classes of nodes in memory, one by one; nothing of a file, or of columns of 0 and 1."""
    if isinstance(y, Mapping):
        for one in y.values():
            yield from one if isinstance(one, list | tuple | Set | np.ndarray) else [one]
    elif y is not None and not isinstance(y, str | Path):
        rows = np.asarray(y)
        if rows.ndim == 1 or rows.shape[1:] == (1,):
            yield from rows.ravel().tolist()
