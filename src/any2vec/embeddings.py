"""The result of every model: keys and their rows. Opens, saves, converts, and answers who is near."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from any2vec import formats, neighbors
from any2vec.checks import nearest_names
from any2vec.encoders.encoder import SubwordEncoder, metadata_of, read_encoder
from any2vec.errors import FormatError, InputError
from any2vec.formats.table import Table, check_contents, check_sizes, check_writable

if TYPE_CHECKING:
    from gensim.models import KeyedVectors

Neighbors = list[tuple[str, float]]
"""(key, cosine), best first"""
_SPELLING_KEYS = 30_000


class Embeddings:
    """N keys (words, node ids: always str, distinct) and a float32 row of D numbers for each.

    Args:
        keys: N strings; row r belongs to keys[r]. May be decoded lazily: nothing walks it before the first look-up.
        vectors: (N, D), kept as given when float32 (a memory map stays one).
        output: (N, D), the context rows of the model, where it has them.
        counts: (N,) how often each key came, for "the most frequent" in evaluation and spelling help.
        meta: JSON-ready metadata to keep with the rows (model, options).
        encoder: makes vectors of words that have no row (`encoders`); None: such words are unknown.

    Raises:
        InputError: sizes that do not belong together, or keys that are not strings.
    """

    def __init__(
        self,
        keys: Sequence[str],
        vectors: np.ndarray,
        output: np.ndarray | None = None,
        counts: np.ndarray | None = None,
        meta: dict[str, Any] | None = None,
        encoder: SubwordEncoder | None = None,
    ) -> None:
        if isinstance(keys, list | tuple) and not all(isinstance(key, str) for key in keys):
            raise InputError("keys must be strings; write integer ids as str(id).")
        self.keys = keys
        self.vectors = np.asarray(vectors, dtype=np.float32)
        self.output = None if output is None else np.asarray(output, dtype=np.float32)
        self.counts = None if counts is None else np.asarray(counts, dtype=np.int64)
        self.meta = dict(meta or {})
        self.encoder = encoder
        self._rows: dict[str, int] | None = None
        self._norms: np.ndarray | None = None
        self._index: Any = None
        check_sizes(self._table(), "embeddings", InputError)

    def _table(self) -> Table:
        if self.encoder is None:
            return Table(self.keys, self.vectors, self.output, self.counts, self.meta)
        meta, arrays = self.meta | {"maker": metadata_of(self.encoder)}, self.encoder.arrays()
        return Table(self.keys, self.vectors, self.output, self.counts, meta, arrays)

    @classmethod
    def _of(cls, table: Table) -> Embeddings:
        encoder = None
        if table.encoder is not None:
            encoder = read_encoder(table.meta.get("maker"), table.encoder, table.vectors.shape[1])
        meta = {name: value for name, value in table.meta.items() if name != "maker"}
        return cls(table.keys, table.vectors, table.output, table.counts, meta, encoder)

    # ---- looking up

    @property
    def dim(self) -> int:
        return int(self.vectors.shape[1])

    def __len__(self) -> int:
        return len(self.vectors)

    def __repr__(self) -> str:
        beside = ", with output rows" if self.output is not None else ""
        beside += "" if self.encoder is None else f", and other words by {self.encoder.kind}"
        return f"Embeddings({len(self):,} rows, dim {self.dim}{beside})"

    def _row_of(self) -> dict[str, int]:
        if self._rows is None:
            rows = {key: row for row, key in enumerate(self.keys)}
            if len(rows) != len(self.keys):
                raise FormatError(f"{len(self.keys) - len(rows):,} keys come twice; keys must be distinct.")
            self._rows = rows
        return self._rows

    def __contains__(self, key: object) -> bool:
        return key in self._row_of()

    def row(self, key: str) -> int:
        """The row of a key. InputError for an unknown one, with the nearest spellings among the frequent keys."""
        row = self._row_of().get(key)
        if row is None:
            hint = self._hint(key) if isinstance(key, str) else ""
            raise InputError(f"key {key!r} is not among the {len(self):,} keys{hint}.")
        return row

    def rows(self, keys: Iterable[str]) -> np.ndarray:
        """Rows of many keys, int64 (len(keys),), -1 for those that are unknown."""
        known = self._row_of()
        return np.fromiter((known.get(key, -1) for key in keys), dtype=np.int64)

    def __getitem__(self, key: str | Sequence[str]) -> np.ndarray:
        """The vector (D,) of a key, or the vectors (len, D) of a list of keys, float32.

        A key without a row gets a vector from its characters, if the embeddings have a subword encoder.

        Raises:
            InputError: a key is unknown, and there is nothing to make its vector.
        """
        if isinstance(key, str):
            return self[[key]][0] if self._is_made(key) else self.vectors[self.row(key)]
        made = [n for n, one in enumerate(key) if self._is_made(one)]
        if not made:
            return self.vectors[[self.row(one) for one in key]]
        assert self.encoder is not None
        rows, is_made = self.rows(key), np.zeros(len(key), bool)
        is_made[made] = True
        found = np.empty((len(key), self.dim), np.float32)
        found[~is_made] = self.vectors[rows[~is_made]]
        found[is_made] = self.encoder.make([key[n] for n in made])
        return found

    def _is_made(self, key: object) -> bool:
        """Whether a key has no row but a vector that is made."""
        return self.encoder is not None and isinstance(key, str) and key not in self

    def frequent_rows(self, limit: int | None) -> np.ndarray:
        """Rows of the `limit` most frequent keys (all: None), by falling count, ties and missing counts by row."""
        order = np.arange(len(self)) if self.counts is None else np.argsort(-self.counts, kind="stable")
        return order if limit is None else order[:limit]

    def _hint(self, key: str) -> str:
        """What to ask for instead. Rows of clicks are `column=value`, or `column#bucket` where values are hashed."""
        known = self._row_of()
        column, is_value, _ = key.partition("=")
        if is_value and f"{column}#0" in known:
            return (
                f': the values of {column} are hashed, and its rows are {column}#0 and so on; ids = "vocabulary" in '
                "the schema keeps the names"
            )
        near = list(itertools.islice((one for one in known if one.endswith(f"={key}")), 3)) or self._spellings(key)
        return f"; nearest spellings: {', '.join(near)}" if near else ""

    def _spellings(self, key: str) -> list[str]:
        known = self._row_of()
        variants = [one for one in dict.fromkeys([key.lower(), key.capitalize(), key.upper()]) if one in known]
        near = (self.keys[int(row)] for row in self.frequent_rows(_SPELLING_KEYS))
        alike = nearest_names(key, (one for one in near if abs(len(one) - len(key)) <= 2), 3)
        return list(dict.fromkeys(variants + alike))[:3]

    # ---- neighbors

    @property
    def norms(self) -> np.ndarray:
        """Euclidean norms of the rows, float32 (N,), 1 for a zero row; computed once. FormatError for NaN rows."""
        if self._norms is None:
            self._norms = neighbors.row_norms(self.vectors)
        return self._norms

    def nearest(self, query: str | np.ndarray, k: int = 10, approximate: bool = False) -> Neighbors:
        """The k rows of highest cosine with a key (itself left out; its vector may be made) or with a vector (D,).

        approximate: through `index()`; about 99 % of the true neighbors, in microseconds instead of O(N D).
        Raises InputError for an unknown key, k < 1 or a vector of another length.
        """
        return self.nearest_batch([query] if isinstance(query, str) else np.asarray(query)[None], k, approximate)[0]

    def nearest_batch(
        self, queries: Sequence[str] | np.ndarray, k: int = 10, approximate: bool = False
    ) -> list[Neighbors]:
        """`nearest` for many keys, or for the rows of a matrix (Q, D), together. Memory O(block), never N x N."""
        if isinstance(queries, np.ndarray):
            vectors = self._checked(queries)
            banned: list[list[int]] = [[] for _ in queries]
        else:
            banned = [[] if self._is_made(key) else [self.row(key)] for key in queries]
            vectors = self[queries]
        _check_k(k)
        if len(vectors) == 0:
            return []
        if approximate:
            return self._named(*neighbors.search_index(self.index(), self.vectors, self.norms, vectors, k, banned))
        return self._named(
            *neighbors.top_rows(self.vectors, self.norms, [(neighbors.unit_rows(vectors), 1)], k, banned)
        )

    def analogy(
        self,
        positive: Sequence[str],
        negative: Sequence[str] = (),
        k: int = 10,
        method: Literal["add", "mul"] = "add",
    ) -> Neighbors:
        """Keys that are to `positive` what they are not to `negative`: b - a + c is positive [b, c], negative [a].

        method: "add", cosine with the sum of the unit vectors (3CosAdd, Mikolov et al. 2013); "mul", the product of
        the shifted cosines of the positive over that of the negative (3CosMul, Levy and Goldberg 2014, equation 4).
        The given keys are left out. Raises InputError for unknown keys, another method, or nothing positive.
        """
        if method not in ("add", "mul"):
            raise InputError(f"method must be 'add' or 'mul', not {method!r}.")
        if not positive or isinstance(positive, str) or isinstance(negative, str):
            raise InputError("positive must be a list of at least one key, negative a list of keys.")
        _check_k(k)
        signs = [1] * len(positive) + [-1] * len(negative)
        keys = [*positive, *negative]
        rows = [self.row(key) for key in keys if not self._is_made(key)]
        units = neighbors.unit_rows(self[keys])
        if method == "add":
            total = np.asarray(signs, np.float32) @ units
            groups = [(neighbors.unit_rows(total[None]), 1)]
        else:
            groups = [(units[i : i + 1], sign) for i, sign in enumerate(signs)]
        return self._named(*neighbors.top_rows(self.vectors, self.norms, groups, k, [rows]))[0]

    def index(self, threads: int = 0) -> Any:
        """The approximate index (usearch, HNSW by cosine, float16), built once: O(N log N) time, memory about one half
        of the vectors more."""
        if self._index is None:
            self._index = neighbors.build_index(self.vectors, threads)
        return self._index

    def _checked(self, vectors: np.ndarray) -> np.ndarray:
        vectors = np.asarray(vectors, dtype=np.float32)
        if vectors.ndim != 2 or vectors.shape[1] != self.dim or not np.isfinite(vectors).all():
            raise InputError(f"a query vector must be {self.dim} finite numbers; got shape {vectors.shape[1:]}.")
        return vectors

    def _named(self, scores: Iterable[np.ndarray], rows: Iterable[np.ndarray]) -> list[Neighbors]:
        return [
            [(self.keys[int(r)], float(s)) for s, r in zip(line_s, line_r, strict=True) if s != -np.inf]
            for line_s, line_r in zip(scores, rows, strict=True)
        ]

    # ---- files and other libraries

    def save(
        self, path: str | Path, format: str | None = None, overwrite: bool = False, dtype: str = "float32"
    ) -> None:
        """Write to `path`: a reader finds all of a file or folder, or nothing.

        A matrix with its keys in a second file (safetensors, npy) and TensorBoard's files are each whole, one after the
        other; the native folder is replaced as one. Only the folder keeps a subword encoder.

        Args:
            path: file or folder.
            format: one of `formats.FORMATS`; None reads it off the suffix (no suffix: the native folder).
            overwrite: whether what stands at `path` may be replaced.
            dtype: "float32", or "float16" where the format has it.

        Raises:
            InputError: format or dtype not legal, or keys or numbers that the format cannot hold.
            StorageError: the path is taken, or cannot be written.
        """
        self._check_before_writing()
        formats.write(Path(path), self._table(), format, overwrite, dtype)

    def save_into(self, folder: str | Path, dtype: str = "float32") -> None:
        """Write the native files into a folder that exists beside whatever else it holds (a run folder).

        meta.json goes away first and comes back last, so a cut leaves no readable mixture.
        """
        self._check_before_writing()
        formats.write_into(Path(folder), self._table(), dtype)

    def _check_before_writing(self) -> None:
        check_contents(self._table(), "embeddings", InputError)
        check_writable(self.keys)

    @classmethod
    def load(cls, path: str | Path, format: str | None = None, mmap: bool = True) -> Embeddings:
        """Open what `save`, word2vec, GloVe or gensim wrote.

        Args:
            path: file or folder.
            format: one of `formats.FORMATS`; None guesses from suffix and content.
            mmap: map the native folder and safetensors instead of reading them (rows are then read-only).

        Raises:
            FormatError: not a known format, damaged, cut short, NaN or infinite numbers, a key twice.
            InputError: no such path or format.
        """
        table = formats.read(Path(path), format, mmap)
        return cls._of(table)

    def to_numpy(self) -> tuple[list[str], np.ndarray]:
        """(keys, float32 (N, D)); the matrix is the embeddings' own, not a copy."""
        return list(self.keys), self.vectors

    def to_gensim(self) -> KeyedVectors:
        """A gensim KeyedVectors over a copy of the rows. InputError when gensim is not installed."""
        from any2vec.formats.keyed_vectors import to_keyed_vectors

        return to_keyed_vectors(self._table())

    @classmethod
    def from_gensim(cls, vectors: KeyedVectors) -> Embeddings:
        """From a KeyedVectors (or a model that has one as `.wv`), counts included. Raises InputError for others."""
        from any2vec.formats.keyed_vectors import from_keyed_vectors

        table = from_keyed_vectors(vectors)
        check_contents(table, "KeyedVectors", InputError)
        return cls(table.keys, table.vectors, table.output, table.counts, table.meta)


def _check_k(k: int) -> None:
    if not isinstance(k, int | np.integer) or k < 1:
        raise InputError(f"k must be a whole number of at least 1, not {k!r}.")
