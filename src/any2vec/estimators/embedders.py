"""scikit-learn style estimators: `fit`, `transform`, `get_params`, `set_params`, in pipelines and searches.

Their parameters are the fields of the model configs (one list: `any2vec.models`) and the options of a run. scikit-learn
is imported with this module, which `import any2vec` does not load.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

import any2vec
from any2vec.checks import check_choice
from any2vec.data.io.files import is_table
from any2vec.data.options import GraphOptions, TripleOptions, usual_columns
from any2vec.data.text.documents import Documents
from any2vec.data.text.text import TextOptions
from any2vec.data.triples.text import HEADS, RELATIONS, TAILS
from any2vec.data.vocab.user_keys import text_of
from any2vec.errors import InputError
from any2vec.estimators.base import Embedder, options_of, vectors_of, with_parameters
from any2vec.evaluate.triples import evaluate_triple_file
from any2vec.models.triples.prediction import name_of


@with_parameters({"skipgram": any2vec.SkipGram, "cbow": any2vec.CBOW}, TextOptions)
class WordEmbedder(Embedder):
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
        options = options_of(self, TextOptions)
        for document in Documents(X, options):
            rows = embeddings.rows(options.words(document))
            rows = rows[rows >= 0]
            mean = embeddings.vectors[rows].mean(axis=0) if len(rows) else np.zeros(embeddings.dim)
            vectors.append(mean.astype(np.float32))
        return np.asarray(vectors, dtype=np.float32).reshape(-1, embeddings.dim)


@with_parameters({"deepwalk": any2vec.DeepWalk, "node2vec": any2vec.Node2Vec}, GraphOptions, graph=None)
class NodeEmbedder(Embedder):
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
        return vectors_of(self._fitted(), X)


@with_parameters(
    {
        "complex": any2vec.ComplEx, "distmult": any2vec.DistMult, "transe": any2vec.TransE, "rotate": any2vec.RotatE,
        "dot": any2vec.DotProduct,
    },
    TripleOptions,
)  # fmt: skip
class KGEmbedder(Embedder):
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
        return vectors_of(self._fitted(), X)

    def predict(self, X: Any, side: str = "tail") -> np.ndarray:
        """The likeliest answer to each query, object (len(X),); those that training has seen are among them.

        Args:
            X: (head, relation) of each query for a tail; (relation, tail) of each for a head. Of a table the columns
                that bear such names, else its two.
            side: tail or head.

        Raises:
            UnknownKeyError: training had no such name. InputError: there is no such side; a query is not two names.
        """
        self._fitted()
        check_choice("side", side, ("tail", "head"))
        ask = self.scorer_.tails if side == "tail" else self.scorer_.heads
        return np.array([ask(first, second, k=1)[0][0] for first, second in _pairs(X, side)], dtype=object)

    def score(self, X: Any, y: Any = None) -> float:
        """Filtered MRR of held-out triples, whatever `fit` takes, both sides, 0..1; `y` is ignored.

        Names that training did not have rank in the middle. Raises NotFittedError before `fit`; DataError where the
        triples cannot be read.
        """
        self._fitted()
        scorer: Any = self.scorer_
        return evaluate_triple_file(scorer, X).mrr


def _pairs(X: Any, side: str) -> Iterator[tuple[Any, Any]]:
    """Two names of each query. InputError: which one has not got them."""
    for number, row in enumerate(_table_pairs(X, side) if is_table(X) else X, 1):
        pair = () if isinstance(row, str | bytes) or not hasattr(row, "__len__") else tuple(row)
        if len(pair) != 2 or any(text_of(name) is None for name in pair):
            wanted = "(head, relation)" if side == "tail" else "(relation, tail)"
            raise InputError(f"Query {number:,} is {row!r:.80}; a query for a {side} is two names, {wanted}.")
        yield pair


def _table_pairs(table: Any, side: str) -> Iterator[tuple[Any, ...]]:
    from any2vec.data.io.arrow import TableReader

    reader = TableReader(table, None, InputError)
    usual = usual_columns(reader.names, *((HEADS, RELATIONS) if side == "tail" else (RELATIONS, TAILS)))
    names = usual if all(usual) else reader.names
    if len(names) != 2:
        raise InputError(f"{reader.name} has {len(names)} columns; queries for a {side} have two.")
    for batch in reader.batches(names, 1 << 16):
        columns = [map(name_of, batch[name].to_pylist()) for name in names]
        yield from zip(*columns, strict=True)
