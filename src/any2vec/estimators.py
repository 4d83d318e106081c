"""scikit-learn style estimators: `fit`, `transform`, `get_params`, `set_params`, in pipelines and searches.

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

import any2vec
from any2vec.data.io.arrow import TableReader
from any2vec.data.io.files import is_table
from any2vec.data.options import GraphOptions
from any2vec.data.text.columns import Column
from any2vec.data.text.text import TextOptions
from any2vec.embeddings import Embeddings
from any2vec.errors import InputError
from any2vec.tasks.layers.prepare import answer_nodes

OWN = None
"""a parameter that is None takes the model's own default"""
_RUN = {"epochs": None, "threads": 0, "seed": 1}


def _with_parameters(models: dict[str, type], options: type, **more: Any) -> Callable[[type], type]:
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


class _Embedder(TransformerMixin, BaseEstimator):
    """What both estimators share: building the config, fitting, looking rows up."""

    _models: dict[str, type]
    _options: type
    _reads: str
    embeddings_: Embeddings
    summary_: dict[str, Any]

    def fit(self, X: Any, y: Any = None) -> Any:
        """Train on `X`; `y` is ignored. Sets `embeddings_`, `summary_` and `n_features_out_`; returns self."""
        values = self.get_params(deep=False)
        if values["model"] not in self._models:
            raise InputError(f"model must be one of {', '.join(self._models)}; got {values['model']!r}.")
        config = self._models[values["model"]]
        chosen = {item.name: values[item.name] for item in fields(config) if values[item.name] is not OWN}
        options = self._options(**{item.name: values[item.name] for item in fields(self._options)})
        run = {name: values[name] for name in _RUN}
        data = X if values.get("graph") is None else values["graph"]
        result = any2vec.fit(config(**chosen), data, **run, **{self._reads: options})
        self.embeddings_, self.summary_ = result.embeddings, result.summary
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
        embeddings = self._fitted()
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
