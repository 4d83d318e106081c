"""Words, nodes and their classes: `fit`, `transform`, `get_params`, `set_params`, in pipelines and searches.

Their parameters are the fields of the model configs (one list: `any2vec.models`) and the options of a run. scikit-learn
is imported with this module, which `import any2vec` does not load.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, fields
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

import any2vec
from any2vec.checks import check_choice
from any2vec.data.io.arrow import KINDS, TableReader, columns_of, kind_of
from any2vec.data.io.files import is_table
from any2vec.data.options import GraphOptions, TripleOptions
from any2vec.data.text.columns import Column
from any2vec.data.text.text import TextOptions
from any2vec.embeddings import Embeddings
from any2vec.errors import InputError
from any2vec.evaluate.triples import evaluate_triple_file
from any2vec.tasks.layers.prepare import answer_nodes

OWN = None
"""a parameter that is None takes the model's own default"""
_RUN = {"epochs": None, "threads": 0, "seed": 1}


def _with_parameters(models: dict[str, type], options: type | None, **more: Any) -> Callable[[type], type]:
    """Give a class an `__init__` with one keyword per field of `models` and `options`, as scikit-learn reads it.

    A field that the models set differently has the default None: the chosen model's own. more: further parameters and
    their defaults.
    """
    defaults: dict[str, Any] = {"model": next(iter(models))}
    for config in models.values():
        for item in fields(config):
            value = item.default if item.default is not MISSING else None
            defaults[item.name] = value if defaults.get(item.name, value) == value else OWN
    defaults |= _RUN | more
    if options is not None:
        defaults |= {item.name: item.default for item in fields(options) if item.default is not MISSING}

    def decorate(cls: type) -> type:
        def __init__(self: Any, **parameters: Any) -> None:  # noqa: N807
            unknown = [name for name in parameters if name not in defaults]
            if unknown:
                raise TypeError(f"{cls.__name__} has no parameter {unknown[0]!r}")
            for name, value in (defaults | parameters).items():
                setattr(self, name, value)

        keyword = inspect.Parameter.KEYWORD_ONLY
        own = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        own += [inspect.Parameter(name, keyword, default=value) for name, value in defaults.items()]
        __init__.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
        cls.__init__ = __init__  # type: ignore[misc]
        cls._models, cls._options = models, options  # type: ignore[attr-defined]
        return cls

    return decorate


def _config_of(estimator: Any) -> Any:
    """The model that the parameters ask for: its name and fields, or a config as it stands.

    Raises:
        InputError: there is no such model; or a field stands beside a config.
    """
    values, models = estimator.get_params(deep=False), estimator._models
    model = values["model"]
    if not isinstance(model, str):
        is_known = isinstance(model, tuple(models.values()))
        if not is_known:
            known = ", ".join(config.__name__ for config in models.values())
            raise InputError(f"model must be the name of a model, or one of {known}; got {model!r}.")
        defaults = inspect.signature(type(estimator)).parameters
        beside = [item.name for item in fields(model) if values[item.name] != defaults[item.name].default]
        if beside:
            raise InputError(f"{beside[0]} stands in the config; set it there, or give the model by its name.")
        return model
    if model not in models:
        raise InputError(f"model must be one of {', '.join(models)}; got {model!r}.")
    chosen = {item.name: values[item.name] for item in fields(models[model]) if values[item.name] is not OWN}
    return models[model](**chosen)


class _Embedder(TransformerMixin, BaseEstimator):
    """What embedders share: building the config, fitting, looking rows up."""

    _models: dict[str, type]
    _options: type
    _reads: str
    embeddings_: Embeddings
    summary_: dict[str, Any]

    def fit(self, X: Any, y: Any = None) -> Any:
        """Train on `X`; `y` is ignored. Sets `embeddings_`, `summary_` and `n_features_out_`; returns self."""
        values = self.get_params(deep=False)
        options = self._options(**{item.name: values[item.name] for item in fields(self._options)})
        run = {name: values[name] for name in _RUN}
        data = X if values.get("graph") is None else values["graph"]
        result = any2vec.fit(_config_of(self), data, **run, **{self._reads: options})
        self.embeddings_, self.summary_ = result.embeddings, result.summary
        if result.scorer is not None:
            self.scorer_ = result.scorer
        self.n_features_out_ = self.embeddings_.dim
        return self

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of `transform`: object (dim,), like `wordembedder0`."""
        prefix = type(self).__name__.lower()
        return np.asarray([f"{prefix}{column}" for column in range(self._fitted().dim)], dtype=object)

    def _fitted(self) -> Embeddings:
        if not hasattr(self, "embeddings_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit first.")
        return self.embeddings_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "embeddings_")


@_with_parameters({"skipgram": any2vec.SkipGram, "cbow": any2vec.CBOW}, TextOptions)
class WordEmbedder(_Embedder):
    """Word vectors as a transformer of documents.

    Parameters: `model` ("skipgram" or "cbow"), the fields of `SkipGram` and `CBOW`, `epochs`, `threads`, `seed`, and
    the fields of `TextOptions`. None means the model's own default.

    `fit(X)` takes what `any2vec.fit` takes for words: sentences (strings, or lists of words), a table, or a path.
    `transform(X)` takes documents (strings, or lists of words; of a table those of `column`, or of its only column of
    text) and returns float32 (len(X), dim): the mean vector of each document's known words, zeros where none is known.
    A document of one word gives that word's vector.
    """

    _reads = "text"

    def transform(self, X: Iterable[str | Sequence[Any]]) -> np.ndarray:
        """Mean vectors of documents: float32 (len(X), dim). Raises NotFittedError before `fit`."""
        embeddings, vectors = self._fitted(), []
        options = TextOptions(**{item.name: getattr(self, item.name) for item in fields(TextOptions)})
        for document in Column(X, None, options.column).values() if is_table(X) else X:
            rows = embeddings.rows(options.words(document))
            rows = rows[rows >= 0]
            mean = embeddings.vectors[rows].mean(axis=0) if len(rows) else np.zeros(embeddings.dim)
            vectors.append(mean.astype(np.float32))
        return np.asarray(vectors, dtype=np.float32).reshape(-1, embeddings.dim)


@_with_parameters({"deepwalk": any2vec.DeepWalk, "node2vec": any2vec.Node2Vec}, GraphOptions, graph=None)
class NodeEmbedder(_Embedder):
    """Node vectors as a transformer of node ids.

    Parameters: `model` ("deepwalk" or "node2vec"), the fields of `DeepWalk` and `Node2Vec`, `epochs`, `threads`,
    `seed`, and the fields of `GraphOptions`. None means the model's own default. `graph`: what `any2vec.fit` takes for
    nodes (a path, a Graph, a table, a SciPy sparse matrix, a NetworkX graph, edges).

    `fit(X)` trains on `graph`, whatever X is, so that a pipeline takes node ids: `make_pipeline(NodeEmbedder(graph=G),
    LogisticRegression()).fit(ids, classes)`. Without `graph` X is the graph.
    `transform(X)` takes node ids (a list, an array, a column) and returns their vectors, float32 (len(X), dim); zeros
    for ids that were not seen.
    """

    _reads = "graph"

    def transform(self, X: Iterable[Any]) -> np.ndarray:
        """Vectors of node ids: float32 (len(X), dim). Raises NotFittedError before `fit`."""
        return _vectors_of(self._fitted(), X)


def _vectors_of(embeddings: Embeddings, X: Iterable[Any]) -> np.ndarray:
    """float32 (len(X), dim) of keys: a list, an array, a column; zeros for those that were not seen."""
    rows = embeddings.rows(_column(X))
    vectors = np.asarray(embeddings.vectors[rows], dtype=np.float32)
    vectors[rows < 0] = 0
    return vectors


def _column(X: Any) -> Any:
    """Node ids of a list, an array (N,) or (N, 1), or a table of one column.

    Raises:
        InputError: there are several columns.
    """
    table = TableReader(X, None) if is_table(X) else None
    width = len(table.names) if table else X.shape[1] if getattr(X, "ndim", 1) == 2 else 1
    if width != 1:
        raise InputError(f"node ids are one column, got {width}; give that of the ids.")
    if table is None:
        return np.asarray(X).ravel() if getattr(X, "ndim", 1) == 2 else X
    (name,) = table.names
    ids = (key for batch in table.batches([name], 8192) for key in batch[name].to_pylist())
    return (key.decode() if isinstance(key, bytes) else key for key in ids)


@_with_parameters(
    {
        "complex": any2vec.ComplEx, "distmult": any2vec.DistMult, "transe": any2vec.TransE, "rotate": any2vec.RotatE,
        "dot": any2vec.DotProduct,
    },
    TripleOptions,
)  # fmt: skip
class KGEmbedder(_Embedder):
    """Vectors of the entities of a knowledge graph, and answers to its queries.

    Parameters: `model` ("complex", "distmult", "transe", "rotate", "dot", or a config), the fields of their configs,
    `epochs`, `threads`, `seed`, and the fields of `TripleOptions`. None means the model's own default.

    `fit(X)` takes what `any2vec.fit` takes for triples; `transform(X)` gives the vectors of entities, float32 (len(X),
    dim), zeros for unknown ones. After `fit`: `embeddings_`, `scorer_` (a `TripleScorer`) and `summary_`.
    """

    _reads = "triples"
    scorer_: any2vec.TripleScorer

    def transform(self, X: Iterable[Any]) -> np.ndarray:
        """Vectors of entities: float32 (len(X), dim). Raises NotFittedError before `fit`."""
        return _vectors_of(self._fitted(), X)

    def predict(self, X: Iterable[tuple[Any, Any]], side: str = "tail") -> np.ndarray:
        """The likeliest answer to each query, object (len(X),); those that training has seen are among them.

        Args:
            X: (head, relation) of each query for a tail; (relation, tail) of each for a head.
            side: tail or head.

        Raises:
            UnknownKeyError: training had no such name. InputError: there is no such side.
        """
        self._fitted()
        check_choice("side", side, ("tail", "head"))
        ask = self.scorer_.tails if side == "tail" else self.scorer_.heads
        return np.array([ask(first, second, k=1)[0][0] for first, second in X], dtype=object)

    def score(self, X: Any, y: Any = None) -> float:
        """Filtered MRR of held-out triples, whatever `fit` takes, both sides, 0..1; `y` is ignored.

        Names that training did not have rank in the middle. Raises NotFittedError before `fit`; DataError where the
        triples cannot be read.
        """
        self._fitted()
        scorer: Any = self.scorer_
        return evaluate_triple_file(scorer, X).mrr


@_with_parameters(
    {
        "deepfm": any2vec.DeepFM, "dlrm": any2vec.DLRM, "fm": any2vec.FactorizationMachine,
        "logistic": any2vec.LogisticRegression,
    },
    None,
    schema=None,
)  # fmt: skip
class ClickClassifier(ClassifierMixin, BaseEstimator):
    """Two classes (a click or none) from columns of categories and numbers.

    Parameters: `model` ("deepfm", "dlrm", "fm", "logistic", or a config), the fields of their configs, `epochs`,
    `threads`, `seed`. None means the model's own default. `schema`: a `ClickSchema`, or a TOML file, whose label is
    left aside; by default columns of floats are numbers, standardized, lists are bags, and all others categories, each
    value with a row of its own.

    Numbers alone get a constant column beside them, for the models need one of categories.

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
        self.schema_ = _schema(columns) if self.schema is None else any2vec.ClickSchema.of(self.schema)
        result = any2vec.fit(
            _config_of(self), columns | {self.schema_.label: label}, schema=self.schema_, epochs=self.epochs,
            threads=self.threads, seed=self.seed,
        )  # fmt: skip
        self.scorer_, self.embeddings_, self.summary_ = result.scorer, result.embeddings, result.summary
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the two classes, float64 (N, 2). Raises NotFittedError before `fit`."""
        check_is_fitted(self)
        found = [probability for probability, _ in self.scorer_.score(self._columns(X))]
        second = np.concatenate(found)
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
            columns = columns_of(X)
        else:
            rows = validate_data(self, X, reset=is_first, dtype=np.float64)
            columns = {f"x{place}": np.ascontiguousarray(rows[:, place]) for place in range(rows.shape[1])}
        if self.schema is None and all(kind_of(column) == "dense" for column in columns.values()):
            columns[_ALL] = [_ALL] * len(next(iter(columns.values())))
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


@_with_parameters({"ga-mlp": any2vec.GAMLP}, GraphOptions)
class GAMLPClassifier(ClassifierMixin, BaseEstimator):
    """Classes of nodes from a graph and their features.

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
            X: features (N, D): an array, a SciPy sparse one, `Embeddings`, or a path of such.
            y: int (N,), -1 where a node has no class; or a path of `node class` lines.
            split: dict of train, val, test -> rows, or a path; None: all nodes with a class train.
            hosts: `HostOptions`, or a number of processes.
        """
        values = self.get_params(deep=False)
        own = values["psi"] if callable(values["psi"]) else None
        chosen = {item.name: values[item.name] for item in fields(any2vec.GAMLP) if values[item.name] is not OWN}
        if own is not None:
            del chosen["psi"]
        options = GraphOptions(**{item.name: values[item.name] for item in fields(GraphOptions)})
        nodes = any2vec.NodeOptions(features=X, labels=y, split=split, psi=own)
        result = any2vec.fit(
            any2vec.GAMLP(**chosen), graph, epochs=values["epochs"], threads=values["threads"], seed=values["seed"],
            graph=None if options == GraphOptions() else options, nodes=nodes, hosts=hosts,
        )  # fmt: skip
        self.classifier_, self.embeddings_, self.summary_ = result.scorer, result.embeddings, result.summary
        self.classes_ = np.asarray([_class(name) for name in self.classifier_.classes])
        return self

    def decision_function(self, graph: Any, X: Any) -> np.ndarray:
        """Scores of the classes of all nodes of a graph, that of the training or another: float32 (N, C)."""
        if not hasattr(self, "classifier_"):
            raise NotFittedError("This GAMLPClassifier is not fitted yet; call fit first.")
        return answer_nodes(self.classifier_, graph, X)[2]

    def predict_proba(self, graph: Any, X: Any) -> np.ndarray:
        """Probabilities of the classes, float64 (N, C)."""
        return softmax(self.decision_function(graph, X).astype(np.float64), axis=1)

    def predict(self, graph: Any, X: Any) -> np.ndarray:
        """The likeliest class of each node, (N,)."""
        return self.classes_[self.decision_function(graph, X).argmax(axis=1)]

    def score(self, graph: Any, X: Any, y: Any) -> float:
        """Share of the nodes with a class (y >= 0, int (N,)) for which it is predicted."""
        truth = np.asarray(y)
        known = truth >= 0
        return float((self.predict(graph, X)[known] == truth[known]).mean())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classifier_")


def _class(name: str) -> int | str:
    return int(name) if name.lstrip("-").isdecimal() else name
