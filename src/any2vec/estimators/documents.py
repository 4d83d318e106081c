"""Vectors of documents from those of their words, by smooth inverse frequency (SIF).

Legend: N words, D dim, B documents of a block, C components.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from any2vec.checks import check_number, check_whole
from any2vec.data.io.storage import atomic_file
from any2vec.data.options import TextOptions
from any2vec.data.text.documents import Documents
from any2vec.embeddings import Embeddings
from any2vec.encoders.encoder import make_possible
from any2vec.errors import FormatError, InputError
from any2vec.estimators.base import Transformer, known_parameters
from any2vec.formats.safetensors_file import read_arrays, write_arrays

FORMAT, VERSION = "any2vec-sif", 1
_BATCH_DOCUMENTS, _BATCH_WORDS = 4096, 1 << 18


@known_parameters
class SIFEncoder(Transformer):
    """Document vectors: weighted means of word vectors, minus the common component of all documents.

    A word has weight a / (a + p), where p is its share of all words. From the means their first principal component,
    that of the texts of `fit`, is subtracted (Arora, Liang and Ma 2017, "A simple but tough-to-beat baseline for
    sentence embeddings", algorithm 1). A transformer of scikit-learn.

    Args:
        embeddings: of words; shares come from their counts, or, if they have none, from the texts of `fit`. With a
            subword encoder words that are not among them count, too, with weight 1.
        a: above 0; 1e-3 to 1e-4 are the paper's.
        components: how many of the first principal components are subtracted, 0 to the dim.
        text: how strings become words, and which column of a table is used.

    After `fit`: `components_`, float32 (C, D), `weights_`, float32 (N,), `n_features_out_`.
    """

    components_: np.ndarray
    weights_: np.ndarray
    n_features_out_: int

    def __init__(
        self, embeddings: Embeddings | None = None, a: float = 1e-3, components: int = 1,
        text: TextOptions | None = None,
    ) -> None:  # fmt: skip
        self.embeddings, self.a, self.components, self.text = embeddings, a, components, text

    def fit(self, X: Any, y: Any = None) -> SIFEncoder:
        """Find what the documents X have in common; `y` is ignored. Memory O(D² + block).

        X: strings, lists of words, or a table. It is read twice where the embeddings have no counts, an iterator into a
        list.
        """
        for _ in self.fit_blocks(X):
            pass
        return self

    def fit_blocks(self, X: Any) -> Iterator[np.ndarray]:
        """As `fit` of X, and gives the weighted means as they come, float32 (B, D) a block; fitted when all are taken.

        Raises InputError for illegal parameters, or where there are no documents.
        """
        embeddings = self._checked()
        X = list(X) if embeddings.counts is None and isinstance(X, Iterator) else X
        counts = embeddings.counts if embeddings.counts is not None else self._counted(X)
        self.weights_ = (self.a / (self.a + counts / max(counts.sum(), 1))).astype(np.float32)
        moment_DD, size = np.zeros((embeddings.dim, embeddings.dim)), 0
        for mean_BD in self.means(X):
            moment_DD += mean_BD.T.astype(np.float64) @ mean_BD
            size += len(mean_BD)
            yield mean_BD
        if not size:
            raise InputError("There are no documents; give at least one.")
        _, vector_DD = np.linalg.eigh(moment_DD)
        self.components_ = np.ascontiguousarray(vector_DD[:, ::-1][:, : self.components].T, np.float32)
        self.n_features_out_ = embeddings.dim

    def transform(self, X: Any) -> np.ndarray:
        """Vectors of documents, float32 (len(X), D); zeros for one without known words.

        Raises NotFittedError before `fit`.
        """
        check_is_fitted(self)
        blocks = [self.without_common(mean_BD) for mean_BD in self.means(X)]
        return np.concatenate([np.empty((0, self.dim), np.float32), *blocks])

    def without_common(self, mean_BD: np.ndarray) -> np.ndarray:
        """The weighted means mean_BD, float32 (B, D), less their part along the components."""
        return mean_BD - (mean_BD @ self.components_.T) @ self.components_

    @property
    def dim(self) -> int:
        """D."""
        return self._checked().dim

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of `transform`: object (D,), like `sifencoder0`; input_features are ignored."""
        return np.asarray([f"sifencoder{column}" for column in range(self.dim)], dtype=object)

    def save(self, path: Path | str, overwrite: bool = False) -> None:
        """Keep what `fit` found, as safetensors and without the embeddings.

        StorageError: `path` is taken, and not to overwrite.
        """
        check_is_fitted(self)
        arrays = {"components": self.components_, "weights": self.weights_}
        with atomic_file(path, overwrite) as temporary, temporary.open("wb") as file:
            write_arrays(file, arrays, {"format": FORMAT, "version": str(VERSION), "a": repr(float(self.a))})

    @classmethod
    def load(cls, path: Path | str, embeddings: Embeddings, text: TextOptions | None = None) -> SIFEncoder:
        """Open what `save` wrote to `path`, for the embeddings that it was made with.

        Raises FormatError for other files, InputError for embeddings of other sizes.
        """
        try:
            arrays, metadata = read_arrays(Path(path))
        except OSError as error:
            raise FormatError(f"{path} cannot be read: {error.strerror or error}.") from error
        if metadata.get("format") != FORMAT or metadata.get("version") != str(VERSION):
            raise FormatError(
                f"{path} is no encoder of documents, or one of a newer version; give what `any2vec embed --save` wrote."
            )
        try:
            components, weights, a = arrays["components"], arrays["weights"], float(metadata["a"])
        except (KeyError, ValueError) as error:
            raise FormatError(f"{path} is damaged: {type(error).__name__}: {error}; write it again.") from error
        if components.ndim != 2 or components.shape[1] != embeddings.dim or weights.shape != (len(embeddings),):
            raise InputError(
                f"{path} was made with {weights.size:,} words of other sizes than these {len(embeddings):,} of dim "
                f"{embeddings.dim}; give the embeddings that it was made with."
            )
        lengths = np.linalg.norm(components.astype(np.float64), axis=1)
        if not ((abs(lengths - 1) < 1e-3).all() and (weights >= 0).all() and (weights <= 1).all()):
            raise FormatError(
                f"{path} is damaged: components are of length 1, weights between 0 and 1; write it again."
            )
        made = cls(embeddings, a, len(components), text)
        made.components_, made.weights_, made.n_features_out_ = components, weights, embeddings.dim
        return made

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "components_")

    def _checked(self) -> Embeddings:
        if not isinstance(self.embeddings, Embeddings):
            raise InputError(f"embeddings must be Embeddings of words, got {self.embeddings!r:.80}.")
        check_number("a", self.a, 0, 1e6, open_low=True)
        check_whole("components", self.components, 0, self.embeddings.dim)
        return self.embeddings

    def _reading(self) -> TextOptions:
        return self.text or TextOptions()

    def _counted(self, X: Any) -> np.ndarray:
        """How often each word comes in documents, int64 (N,)."""
        embeddings, counts = self._checked(), np.zeros(len(self._checked()), np.int64)
        for words in _batches(X, self._reading()):
            rows = embeddings.rows([word for document in words for word in document])
            counts += np.bincount(rows[rows >= 0], minlength=len(counts))
        return counts

    def means(self, X: Any) -> Iterator[np.ndarray]:
        """The weighted mean of the known words of each document of X, float32 (B, D) a block."""
        embeddings = self._checked()
        for words in _batches(X, self._reading()):
            flat = [word for document in words for word in document]
            rows = embeddings.rows(flat)
            place_W = np.repeat(np.arange(len(words)), [len(document) for document in words])
            known = rows >= 0
            total_BD = _sums(self.weights_[rows[known]], place_W[known], rows[known], len(words), embeddings.vectors)
            count_B = np.bincount(place_W[known], minlength=len(words))
            if embeddings.encoder is not None and not known.all():
                unknown = np.flatnonzero(~known).tolist()
                row_of, vector_MD = make_possible(embeddings.encoder, dict.fromkeys(flat[n] for n in unknown))
                made = [n for n in unknown if flat[n] in row_of]
                made_rows = np.array([row_of[flat[n]] for n in made], np.int64)
                ones = np.ones(len(made), np.float32)
                total_BD += _sums(ones, place_W[made], made_rows, len(words), vector_MD)
                count_B += np.bincount(place_W[made], minlength=len(words))
            yield total_BD / np.maximum(count_B, 1)[:, None].astype(np.float32)


def _sums(weight_W: np.ndarray, place_W: np.ndarray, row_W: np.ndarray, size: int, vector_ND: np.ndarray) -> np.ndarray:
    """float32 (size, D): rows of vectors, weighed and added up by place, ascending."""
    ends = np.concatenate([[0], np.cumsum(np.bincount(place_W, minlength=size))])
    matrix = csr_array((weight_W, row_W, ends), shape=(size, len(vector_ND)))
    return np.asarray(matrix @ vector_ND, np.float32)


def _batches(X: Any, options: TextOptions) -> Iterator[list[list[str]]]:
    """The words of some documents at a time."""
    documents = X if isinstance(X, Documents) else Documents(X, options)
    batch: list[list[str]] = []
    size = 0
    for document in documents:
        batch.append(options.words(document))
        size += len(batch[-1])
        if size > _BATCH_WORDS or len(batch) == _BATCH_DOCUMENTS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
