"""The result of every model: keys and their rows. Opens, saves, converts, and answers who is near."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from any2vec import formats, neighbors
from any2vec.checks import nearest_names
from any2vec.data.vocab.user_keys import INTEGERS, Key, UserKeys, key_meta, listed, shown, text_of, warn_missing
from any2vec.encoders.encoder import SubwordEncoder, make_possible, metadata_of, read_encoder
from any2vec.errors import FormatError, InputError, UnknownKeyError
from any2vec.formats import libraries
from any2vec.formats.indexes import build_index
from any2vec.formats.norms import row_norms, unit_rows
from any2vec.formats.table import Table, check_contents, check_sizes, check_writable, real_matrix, whole_counts

if TYPE_CHECKING:
    from gensim.models import KeyedVectors

Neighbors = list[tuple[Any, float]]
"""(key, cosine), best first"""
_SPELLING_KEYS = 30_000
_QUERY = "a query is a key, keys, or a vector of {} numbers"


class Embeddings:
    """N distinct keys (words, node ids) and a float32 row of D numbers for each.

    Asked as a dict is: `key in`, iteration, `len` and `dict(embeddings)` go by keys; `embeddings[key]`,
    `embeddings[keys]` are vectors, and `embeddings[start:stop]`, `embeddings[mask]` those of rows. Keys have the type
    of their source, strings or integers; 5 and "5" find the same row.

    Args:
        keys: N strings, or N integers of int64, in any ordered collection (a list, an array, a column of pandas, Polars
            or Arrow, `dict.keys()`); row r belongs to the r-th. A sequence of strings may decode them lazily: nothing
            walks them before the first look-up.
        vectors: (N, D), kept as given when float32 (a memory map stays one).
        output: (N, D), the context rows of the model, where it has them.
        counts: (N,) how often each key came, for "the most frequent" in evaluation and spelling help; whole numbers
            from 0 to below 10^18.
        meta: JSON-ready metadata to keep with the rows (model, options).
        encoder: makes vectors of words that have no row (`encoders`); None: such words are unknown.

    Raises:
        InputError: sizes that do not belong together, numbers that are none, or keys that are neither strings nor
            integers, or come twice.
    """

    def __init__(
        self,
        keys: Iterable[Any],
        vectors: np.ndarray,
        output: np.ndarray | None = None,
        counts: np.ndarray | None = None,
        meta: dict[str, Any] | None = None,
        encoder: SubwordEncoder | None = None,
    ) -> None:
        self.keys = keys if isinstance(keys, UserKeys) else UserKeys(keys)
        self.vectors = real_matrix(vectors, "vectors")
        self.output = None if output is None else real_matrix(output, "output")
        self.counts = None if counts is None else whole_counts(counts)
        self.meta = dict(meta or {})
        self.encoder = encoder
        self._norms: np.ndarray | None = None
        self._index: Any = None
        check_sizes(self._table(), "embeddings", InputError)
        names = self.keys.names
        is_given = self.keys is not keys and isinstance(names, list | tuple)  # keys of a file are walked later
        if is_given and (twice := formats.table.first_duplicate(names)) is not None:
            raise InputError(f"embeddings: key {twice!r} stands there twice; keys must be distinct.")

    def _table(self) -> Table:
        names, meta = self.keys.names, self.meta | key_meta(self.keys)
        if self.encoder is None:
            return Table(names, self.vectors, self.output, self.counts, meta)
        meta, arrays = meta | {"maker": metadata_of(self.encoder)}, self.encoder.arrays()
        return Table(names, self.vectors, self.output, self.counts, meta, arrays)

    @classmethod
    def _of(cls, table: Table) -> Embeddings:
        encoder = None
        if table.encoder is not None:
            encoder = read_encoder(table.meta.get("maker"), table.encoder, table.vectors.shape[1])
        meta = {name: value for name, value in table.meta.items() if name not in ("maker", INTEGERS)}
        keys = UserKeys(table.keys, are_integers=table.meta.get(INTEGERS) is True)
        return cls(keys, table.vectors, table.output, table.counts, meta, encoder)

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

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys)

    def __contains__(self, key: object) -> bool:
        return key in self.keys

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.vectors, dtype, copy=copy)

    def row(self, key: Key) -> int:
        """The row of a key.

        Raises:
            UnknownKeyError: it has none; with the nearest spellings among the frequent keys.
            InputError: it is neither a string nor an integer.
        """
        row = self.keys.find(key)
        if row is None:
            hint = self._hint(key) if isinstance(key, str) else ""
            raise UnknownKeyError(f"key {key!r} is not among the {len(self):,} keys{hint}.")
        return row

    def rows(self, keys: Iterable[Any]) -> np.ndarray:
        """Rows of many keys, int64 (len(keys),), -1 for those that are unknown. InputError: it is one key alone."""
        if text_of(keys) is not None:
            raise InputError(f"rows takes many keys, such as [{keys!r:.80}]; of one key row({keys!r:.80}) has it.")
        return self.keys.rows(keys)

    def __getitem__(self, key: Any) -> np.ndarray:
        """The vector (D,) of a key, the vectors (len, D) of many (a list, an array, a column, a table of one), or those
        of a slice of rows or of a mask of them all, float32.

        A key without a row gets a vector from its characters, if the embeddings have a subword encoder.

        Raises:
            UnknownKeyError: a key is unknown, and there is nothing to make its vector; of many, which are.
            InputError: what can be no key.
            FormatError: the encoder is damaged.
        """
        if isinstance(key, slice):
            if not all(bound is None or isinstance(bound, int | np.integer) for bound in (key.start, key.stop)):
                raise InputError(f"a slice counts rows, such as [:10]; got {key!r:.80}.")
            return self.vectors[key]
        if text_of(key) is None and np.iterable(key):
            keys = listed(key)
            return self._vectors_of(keys) if not keys or not isinstance(keys[0], bool) else self._masked(keys)
        return self._vectors_of([key])[0] if self._is_made(key) else self.vectors[self.row(key)]

    def _masked(self, mask: list[Any]) -> np.ndarray:
        if len(mask) != len(self) or not all(isinstance(one, bool) for one in mask):
            raise InputError(f"a mask has True or False for each of the {len(self):,} rows, got {len(mask):,} values.")
        return self.vectors[np.array(mask)]

    def _as_tuple(self, keys: list[Any]) -> str:
        """What is said where the keys asked for are the parts of one, such as a node of `nx.grid_2d_graph`."""
        name = str(tuple(keys))
        return f" Tuples are kept as their text: ask for {name!r}." if name in self.keys else ""

    def _vectors_of(self, keys: list[Any]) -> np.ndarray:
        made = [n for n, one in enumerate(keys) if self._is_made(one)]
        rows, is_made = self.rows(keys), np.zeros(len(keys), bool)
        is_made[made] = True
        unknown = np.flatnonzero((rows < 0) & ~is_made)
        if len(unknown) == 1:
            self.row(keys[unknown[0]])
        elif len(unknown):
            missing = shown([keys[n] for n in unknown.tolist()])
            raise UnknownKeyError(
                f"{len(unknown):,} of {len(keys):,} keys are not among the {len(self):,}: {missing}; rows(keys) has -1 "
                f"for such.{self._as_tuple(keys)}"
            )
        if not made:
            return self.vectors[rows]
        assert self.encoder is not None
        found = np.empty((len(keys), self.dim), np.float32)
        found[~is_made] = self.vectors[rows[~is_made]]
        found[is_made] = self.encoder.make([keys[n] for n in made])
        if not np.isfinite(found[is_made]).all():
            raise FormatError("The subword encoder makes NaN or infinity of a word; its arrays are damaged.")
        return found

    def _is_made(self, key: object) -> bool:
        """Whether a key has no row but a vector that is made."""
        return self.encoder is not None and isinstance(key, str) and key not in self

    def _are_there(self, keys: list[Any], so: str, stacklevel: int = 3) -> np.ndarray:
        """bool (len(keys),): which have a vector, maybe a made one. A warning names the others, and what becomes of
        them. UnknownKeyError where none has, InputError where none can be made."""
        is_there = self.rows(keys) >= 0
        if self.encoder is not None and not is_there.all():
            possible, _ = make_possible(self.encoder, dict.fromkeys(filter(self._is_made, keys)))
            is_there |= np.array([isinstance(key, str) and key in possible for key in keys])
        if not is_there.any():
            self._vectors_of(keys)  # says so
        elif not is_there.all():
            warn_missing("keys", keys, is_there, f"{len(self):,}", so, stacklevel)
        return is_there

    def frequent_rows(self, limit: int | None) -> np.ndarray:
        """Rows, int64 (K,), of the `limit` most frequent keys (all: None), by falling count, then by row."""
        order = np.arange(len(self)) if self.counts is None else np.argsort(-self.counts, kind="stable")
        return order if limit is None else order[:limit]

    def _hint(self, key: str) -> str:
        """What to ask for instead. Rows of clicks are `column=value`, or `column#bucket` where values are hashed."""
        known = self.keys.by_name()
        column, is_value, _ = key.partition("=")
        if is_value and any(one.startswith(f"{column}#") for one in known):  # a search may hold but those seen
            return (
                f': the values of {column} are hashed, and its rows are {column}#0 and so on; ids = "vocabulary" in '
                "the schema keeps the names"
            )
        near = list(itertools.islice((one for one in known if one.endswith(f"={key}")), 3)) or self._spellings(key)
        return f"; nearest spellings: {', '.join(near)}" if near else ""

    def _spellings(self, key: str) -> list[str]:
        known = self.keys.by_name()
        variants = [one for one in dict.fromkeys([key.lower(), key.capitalize(), key.upper()]) if one in known]
        near = (self.keys.names[int(row)] for row in self.frequent_rows(_SPELLING_KEYS))
        alike = nearest_names(key, (one for one in near if abs(len(one) - len(key)) <= 2), 3)
        return list(dict.fromkeys(variants + alike))[:3]

    # ---- neighbors

    @property
    def norms(self) -> np.ndarray:
        """Euclidean norms of the rows, float32 (N,), 1 for a zero row; computed once. FormatError for NaN rows."""
        if self._norms is None:
            self._norms = row_norms(self.vectors)
        return self._norms

    def nearest(self, query: Any, k: int = 10, approximate: bool = False) -> Any:
        """The k rows of highest cosine with a key (itself left out; its vector may be made) or with a vector.

        Args:
            query: a key or a vector (D,) of numbers; or many together: a list, an array, a column of keys, or a matrix
                (Q, D). Integers of one axis are keys. Memory O(block), never N x N.
            k: how many, 1 or more.
            approximate: through `index()`; about 99 % of the true neighbors, in microseconds instead of O(N D).

        Returns:
            [(key, cosine), ...], best first; of many, a list of such, empty for unknown keys, which a warning names.

        Raises:
            UnknownKeyError: the key is unknown; of many, all are.
            InputError: k < 1, or vectors of another length.
        """
        _check_k(k)
        vectors, banned, is_there, is_one = self._queries(query, "have no neighbors")
        if len(vectors) == 0:
            return []
        if approximate:
            named = self._named(*neighbors.search_index(self.index(), self.vectors, self.norms, vectors, k, banned))
        else:
            groups = [(unit_rows(vectors), 1)]
            named = self._named(*neighbors.top_rows(self.vectors, self.norms, groups, k, banned))
        answers = iter(named)
        return named[0] if is_one else [next(answers) if is_known else [] for is_known in is_there.tolist()]

    def _queries(self, query: Any, so: str) -> tuple[np.ndarray, list[list[int]], np.ndarray, bool]:
        """(vectors (K, D) of those that have one, rows by vector that are no answers, which have one bool (Q,), whether
        it was one). so: what becomes of the others, for the warning."""
        is_key = text_of(query) is not None
        if not is_key and not (isinstance(query, Sequence | Set) and all(text_of(key) is not None for key in query)):
            try:
                query = np.asarray(query.detach() if hasattr(query, "detach") else query)
            except ValueError:  # rows of several lengths
                raise InputError(f"{_QUERY.format(self.dim)}; got {query!r:.80}.") from None
            is_column = query.ndim == 2 and query.shape[1] == 1 != self.dim
            if query.dtype.kind == "f" or (query.ndim != 1 and not is_column):
                vectors = self._checked(query[None] if query.ndim == 1 else query)
                return vectors, [[]] * len(vectors), np.ones(len(vectors), bool), query.ndim == 1
        keys = [query] if is_key else listed(query)
        is_there = self._are_there(keys, so, stacklevel=4)
        keys = list(itertools.compress(keys, is_there))
        return self._vectors_of(keys), [[row] if row >= 0 else [] for row in self.rows(keys).tolist()], is_there, is_key

    def similarity(self, a: Any, b: Any) -> Any:
        """The cosine of two keys a and b, a float; or of each of many keys with each of others, float32 (A, B).

        Of many, unknown keys have NaN, and a warning names them. Raises UnknownKeyError for one key that is unknown,
        and where all of many are.
        """
        first, _, has_A, is_one = self._queries(a, "have similarity NaN")
        second, _, has_B, is_other = self._queries(b, "have similarity NaN")
        cosines = np.full((len(has_A), len(has_B)), np.nan, np.float32)
        cosines[np.ix_(has_A, has_B)] = unit_rows(first) @ unit_rows(second).T
        return float(cosines[0, 0]) if is_one and is_other else cosines

    def doesnt_match(self, keys: Iterable[Any]) -> Any:
        """The key whose vector lies farthest, by cosine, from the mean of all their directions, as gensim's does.

        Unknown keys are left out, with a warning. Raises UnknownKeyError where none is known.
        """
        if text_of(keys) is not None:
            raise InputError(f"doesnt_match takes several keys, such as ['tea', 'milk', 'tuple'], got {keys!r:.80}.")
        given = listed(keys)
        if not given:
            raise InputError("doesnt_match needs at least one key.")
        known = list(itertools.compress(given, self._are_there(given, "are left out")))
        units = unit_rows(self._vectors_of(known))
        return known[int(np.argmin(units @ units.mean(axis=0)))]

    def most_similar(
        self,
        positive: Key | Sequence[Any] = (),
        negative: Key | Sequence[Any] = (),
        k: int = 10,
        method: Literal["add", "mul"] = "add",
    ) -> Neighbors:
        """The k keys near `positive`, far from `negative`: a is to b as c is to them, positive [b, c], negative [a].

        method: "add", cosine with the sum of the unit vectors (3CosAdd, Mikolov et al. 2013); "mul", the product of
        the shifted cosines of the positive over that of the negative (3CosMul, Levy and Goldberg 2014, equation 4).
        The given keys are left out of the answer; unknown ones count for nothing, and a warning names them. Raises
        UnknownKeyError where none is known, InputError for another method, or no key.
        """
        if method not in ("add", "mul"):
            raise InputError(f"method must be 'add' or 'mul', not {method!r}.")
        _check_k(k)
        sides = [[side] if text_of(side) is not None else listed(side) for side in (positive, negative)]  # type: ignore[arg-type]
        keys = [*sides[0], *sides[1]]
        if not keys:
            raise InputError("most_similar needs at least one key, positive or negative.")
        is_there = self._are_there(keys, "are left out")
        signs = list(itertools.compress([1] * len(sides[0]) + [-1] * len(sides[1]), is_there))
        keys = list(itertools.compress(keys, is_there))
        units = unit_rows(self._vectors_of(keys))
        rows = [row for row in self.rows(keys).tolist() if row >= 0]
        if method == "add":
            total = np.asarray(signs, np.float32) @ units
            groups = [(unit_rows(total[None]), 1)]
        else:
            groups = [(units[i : i + 1], sign) for i, sign in enumerate(signs)]
        return self._named(*neighbors.top_rows(self.vectors, self.norms, groups, k, [rows]))[0]

    def index(self, threads: int = 0) -> Any:
        """The approximate index (usearch, HNSW by cosine, float16), built once: O(N log N) time, memory about one half
        of the vectors more. threads: 0: all usable cores."""
        if self._index is None:
            self._index = build_index(self.vectors, threads=threads)
        return self._index

    def _checked(self, vectors: np.ndarray) -> np.ndarray:
        if vectors.dtype.kind not in "fiu":
            raise InputError(f"{_QUERY.format(self.dim)}; got {vectors!r:.80}.")
        vectors = np.asarray(vectors, dtype=np.float32)
        if vectors.ndim != 2 or vectors.shape[1] != self.dim:
            raise InputError(f"a query vector must be {self.dim} finite numbers; got shape {vectors.shape[1:]}.")
        if not np.isfinite(vectors).all():
            raise InputError(f"a query vector must be {self.dim} finite numbers; got NaN or infinity among them.")
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
        other; the native folder is replaced as one. The folder keeps a subword encoder, fasttext one of n-grams, and
        no other format any. An index (usearch, faiss) is for searching in those libraries, and not read again.

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
        formats.write(_path_of(path), self._table(), format, overwrite, dtype)

    def save_into(self, folder: str | Path, dtype: str = "float32") -> None:
        """Write the native files into a folder that exists beside whatever else it holds (a run folder).

        dtype: as of `save`. meta.json goes away first and comes back last, so a cut leaves no readable mixture.
        """
        self._check_before_writing()
        formats.write_into(_path_of(folder), self._table(), dtype)

    def _check_before_writing(self) -> None:
        check_contents(self._table(), "embeddings", InputError)
        check_writable(self.keys.names)
        try:
            json.dumps(self.meta)
        except (TypeError, ValueError) as error:
            raise InputError(f"meta must be what JSON has a form for: {error}.") from None

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
        table = formats.read(_path_of(path), format, mmap)
        return cls._of(table)

    def to_numpy(self) -> tuple[list[Any], np.ndarray]:
        """(keys, float32 (N, D)); the matrix is the embeddings' own, not a copy."""
        return list(self.keys), self.vectors

    def to_arrow(self) -> Any:
        """A pyarrow Table: key, vector (the same memory), and output and count where there are.

        Libraries of frames take embeddings themselves, too: `polars.DataFrame(embeddings)`.
        """
        return libraries.to_arrow(self._table())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """A pandas DataFrame: keys are its index, dimensions its columns. InputError when pandas is not installed."""
        return libraries.to_pandas(self._table())

    def to_torch(self) -> Any:
        """A float32 tensor (N, D), a copy, row by row as `keys`. InputError when PyTorch is not installed."""
        return libraries.to_torch(self._table())

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
        return cls._of(table)


def _check_k(k: int) -> None:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InputError(f"k must be a whole number of at least 1, not {k!r}.")


def _path_of(path: str | Path) -> Path:
    try:
        found = Path(path)
    except TypeError:
        raise InputError(f"a path is a string or a Path, got {path!r:.80}.") from None
    if "\0" in str(found):
        raise InputError(f"no path holds a NUL, got {path!r:.80}.")
    return found
