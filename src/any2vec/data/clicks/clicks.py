"""Clicks of any file become arrays on disk, kept in a cache by content and schema and found there the next time.

    meta.json      {"format": "any2vec-clicks", "version": 1, "digest", "num_examples", "num_clicks", "num_ids",
                   "num_rows"}
    schema.json    the schema and what standardizes the dense columns
    values.parquet the vocabularies, if there are any
    labels.npy     uint8 (N,)
    dense.npy      float32 (N, X)
    ids.npy        int32 (N, F1): rows of each single-valued column alone
    values0.npy    int32 (num_ids,): rows of the first multi-valued column, one bag after another (values1.npy ...)
    offsets0.npy   int64 (N + 1,): where its bags begin
    counts.npy     int64 (V,): how often each row of the table occurs

Letters: N examples, X dense columns, F columns of categories (F1 of one value, then the multi-valued ones), V rows.
"""

from __future__ import annotations

import hashlib
from contextlib import closing
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.clicks.encoder import ClickEncoder
from any2vec.data.clicks.encoding import batch_of, encode_block
from any2vec.data.clicks.reader import BLOCK_BYTES, BLOCK_ROWS, read_rows
from any2vec.data.clicks.rows import ClickBatch, FoundRows, HashedRows
from any2vec.data.clicks.schema import ClickSchema
from any2vec.data.clicks.writer import FORMAT, VERSION, ClicksWriter
from any2vec.data.io.array_file import map_array
from any2vec.data.io.cache import Cache, Sources
from any2vec.data.io.files import expand_inputs, is_regular, is_table, table_form
from any2vec.data.io.storage import format_of_folder, read_meta, storage_errors
from any2vec.data.text.encoding import Meter, ProgressCall
from any2vec.data.vocab.vocabulary import Keys
from any2vec.errors import FormatError, InputError

READER_VERSION = 1
"""counts up when the same bytes would give other arrays, so that caches are not trusted"""
_COUNTED = 4096
"""examples at once"""


class Clicks:
    """Opened encoded clicks; every process that opens them shares the same pages."""

    def __init__(self, path: Path, meta: dict[str, Any], encoder: ClickEncoder) -> None:
        """Maps the arrays. ValueError, OSError: a file is missing or has the wrong size."""
        self.path, self.encoder = path, encoder
        schema, size = encoder.schema, int(meta["num_examples"])
        self.digest = str(meta["digest"])
        """a hash of the files' contents and the schema"""
        self.num_clicks = int(meta["num_clicks"])
        """examples whose label is 1"""
        self.num_rows_F = encoder.num_rows_F
        """int64 (F,): rows of each column"""
        self.offset_F = encoder.offset_F
        """int64 (F + 1,): column f owns the rows [offset_F[f], offset_F[f + 1]) of the table"""
        self.is_mean_F = np.array([column.is_multi_valued and column.pooling == "mean" for column in schema.columns])
        """bool (F,): whether a column's bags are to be averaged"""
        self.labels = map_array(path / "labels.npy", np.uint8, (size,))
        self.dense = map_array(path / "dense.npy", np.float32, (size, len(schema.dense)))
        self.ids = map_array(path / "ids.npy", np.int32, (size, len(schema.categorical)))
        self.bags = [
            (
                map_array(path / f"values{at}.npy", np.int32, (number,)),
                map_array(path / f"offsets{at}.npy", np.int64, (size + 1,)),
            )
            for at, number in enumerate(meta["num_ids"])
        ]
        if len(self.bags) != len(schema.multi_valued) or meta["num_rows"] != self.num_rows:
            raise ValueError("meta.json and the schema do not fit together")
        self.counts_V = map_array(path / "counts.npy", np.int64, (self.num_rows,))
        """int64 (V,): how often each row of the table occurs"""

    @property
    def schema(self) -> ClickSchema:
        return self.encoder.schema

    @property
    def num_examples(self) -> int:
        return len(self.labels)

    def __len__(self) -> int:
        return self.num_examples

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the F columns of categories."""
        return tuple(column.name for column in self.schema.columns)

    @property
    def dense_names(self) -> tuple[str, ...]:
        return self.schema.dense

    @property
    def num_rows(self) -> int:
        """V, the rows of the table."""
        return int(self.offset_F[-1])

    def __repr__(self) -> str:
        return (
            f"Clicks({str(self.path)!r}, {self.num_examples:,} examples, {len(self.columns)} columns, "
            f"{self.num_rows:,} rows)"
        )

    def batch(self, start: int, stop: int) -> ClickBatch:
        """The examples [start, stop), 0 <= start <= stop <= num_examples, as arrays of their own.

        Raises:
            InputError: the range is another. FormatError: the files are damaged.
        """
        if not 0 <= start <= stop <= self.num_examples:
            raise InputError(f"A batch needs 0 <= start <= stop <= {self.num_examples:,}, got {start:,} and {stop:,}.")
        part = slice(start, stop)
        bags = [
            (values[offsets[start] : offsets[stop]], np.diff(offsets[start : stop + 1]))
            for values, offsets in self.bags
        ]
        dense_BX = self.dense[part].copy()
        self._check(self.labels[part], dense_BX, self.ids[part], bags)
        return batch_of(self.labels[part].astype(np.float32), dense_BX, self.ids[part], bags, self.offset_F)

    def _check(
        self, label_B: np.ndarray, dense_BX: np.ndarray, id_BF: np.ndarray, bags: list[tuple[np.ndarray, np.ndarray]]
    ) -> None:
        """FormatError for what no reader of ours has written: kernels would take foreign memory for rows, say."""
        most_F = id_BF.view(np.uint32).max(axis=0, initial=0).tolist()
        most_F += [int(values.view(np.uint32).max(initial=0)) for values, _ in bags]
        is_cut = all(int(lengths.min(initial=0)) >= 0 and lengths.sum() == len(values) for values, lengths in bags)
        beyond = [name for name, most, rows in zip(self.columns, most_F, self.num_rows_F, strict=True) if most >= rows]
        where = ""
        if beyond:
            where = f"column {beyond[0]!r} has an id beyond its rows"
        elif not is_cut:
            where = "bags do not fit their ids"
        elif label_B.max(initial=0) > 1:
            where = f"a label is {label_B.max()}, not 0 or 1"
        elif not (is_finite_BX := np.isfinite(dense_BX)).all():
            name = self.dense_names[int(np.argmin(is_finite_BX.all(axis=0)))]
            where = f"column {name!r} holds a number that is not finite"
        if where:
            raise FormatError(f"{self.path} is damaged: {where}; remove that folder, and read the clicks again.")

    def counted_to(self, stop: int) -> Clicks:
        """The same with `counts_V` of the examples [0, stop) alone; O(the others), a copy of what changes."""
        found = copy(self)
        found.counts_V = map_array(self.path / "counts.npy", np.int64, (self.num_rows,), "c")
        for start in range(stop, self.num_examples, _COUNTED):
            np.subtract.at(found.counts_V, self.batch(start, min(start + _COUNTED, self.num_examples)).id_M, 1)
        return found

    def key_of_rows(self) -> Keys:
        """What each row of the table stands for: `column=value`, `column=<missing>`, `column=<rare>`; `column#bucket`
        of a hashed column. Memory O(V).
        """
        return self.encoder.keys()

    @classmethod
    def open(cls, path: Path | str) -> Clicks:
        """Open the folder of clicks `path`, memory-mapped; sizes are checked, values are not.

        Raises:
            FormatError: the folder holds no clicks, is newer than this version reads, or is damaged.
        """
        path = Path(path)
        meta = read_meta(path, FORMAT, VERSION, "a folder of any2vec clicks")
        try:
            return cls(path, meta, ClickEncoder.open(path))
        except FormatError:
            raise
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FormatError(f"{path} is damaged: {error}; write it again.") from error


# ---- reading --------------------------------------------------------------------------------------------------------


def read_clicks(
    data: Any,
    schema: ClickSchema | str | Path | None = None,
    *,
    cache_dir: Path | str | None = None,
    progress: ProgressCall | None = None,
    block_bytes: int = BLOCK_BYTES,
    block_rows: int = BLOCK_ROWS,
    held_out: float | None = None,
) -> Clicks:
    """Encode `data` and open the result; found in the cache when the same content was encoded so before.

    data: a path, folder, glob, `-` (standard input) or a list of those: TSV, CSV or JSON Lines (or packed), Parquet,
    Arrow, Feather; a table in memory (pandas, Polars, Arrow); or encoded clicks (`Clicks`, or their folder): `schema`
    may then be left out, else it must agree.
    schema: a `ClickSchema`, `criteo`, `avazu`, or the path of a TOML file. One pass; memory O(block + rows of the
    table). cache_dir: the cache's root, by default `$ANY2VEC_CACHE` or `~/.cache/any2vec`; clicks lie below `clicks/`.
    progress: called with (bytes read, bytes in all or None). block_bytes, block_rows: of a block of text, of a table.
    held_out: the last share of the examples, 0..1, which teaches vocabularies (and so who is rare), means and standard
    deviations nothing, and is encoded as new files are; encoded clicks stay as they are.

    Raises:
        DataError: the input is missing, empty, damaged, or a column, label or number is not as the schema says.
        InputError: the schema is missing or not legal.
        StorageError: the cache cannot be written.
    """
    wanted = None if schema is None else ClickSchema.of(schema)
    if is_clicks(data):
        clicks = data if isinstance(data, Clicks) else Clicks.open(data)
        if wanted is not None and wanted != clicks.schema:
            raise InputError(
                f"{clicks.path} was encoded with another schema; leave the schema out, or encode it again."
            )
        return clicks
    if wanted is None:
        raise InputError(
            "A schema is needed to read clicks; give criteo, avazu, or a TOML file; in Python also a ClickSchema or a "
            "dict of its fields (label, dense, categorical)."
        )
    names = [] if is_table(data) else expand_inputs(data)
    apart = [f"held out {held_out!r}"] if held_out is not None and _learns(wanted) else []
    cache = Cache("clicks", Clicks.open, cache_dir)
    cache.prepare()

    def encode(path: Path, meter: Meter, key: str | None, sources: Sources | None) -> str:
        """Encode into `path`; returns the digest (of what passed, where key is None)."""
        rows = [FoundRows() if one.ids == "vocabulary" else HashedRows(one.hash_rows) for one in wanted.columns]
        with storage_errors(path), ClicksWriter(path, wanted) as writer:
            blocks = read_rows(names or data, wanted, meter=meter, block_bytes=block_bytes, block_rows=block_rows)
            with closing(blocks):  # type: ignore[type-var]
                for block in blocks:
                    writer.append(encode_block(block, wanted, rows, needs_label=True))
            if sources is not None:
                sources.check_unchanged()
            digest = key or _place(cache, wanted, ["stream", meter.digest.hexdigest(), *apart]).name
            writer.finish(rows, digest, held_out)
        return digest

    if not (names and all(map(is_regular, names))):
        meter = Meter(progress, None)
        meter.digest = hashlib.blake2b(digest_size=16)
        return cache.get_stream(lambda unnamed: cache.folder / encode(unnamed, meter, None, None))
    sources = Sources(names)

    def make(path: Path) -> Clicks:
        encode(path, Meter(progress, sources.num_bytes), path.name, sources)
        return Clicks.open(path)

    place = _place(cache, wanted, [*map(table_form, names), *sources.hashes(cache), *apart])
    return cache.get(place, make, sources.num_bytes, progress)


def is_clicks(data: Any) -> bool:
    """Whether `data` is `Clicks`, or the path of a folder of them (of any version)."""
    return isinstance(data, Clicks) or (isinstance(data, (str, Path)) and format_of_folder(Path(data)) == FORMAT)


def _learns(schema: ClickSchema) -> bool:
    """Whether what rows become hangs on other rows."""
    is_standard = any(schema.transform(name) == "standard" for name in schema.dense)
    return is_standard or any(column.ids == "vocabulary" for column in schema.columns)


def _place(cache: Cache[Clicks], schema: ClickSchema, parts: list[str]) -> Path:
    return cache.place(FORMAT, VERSION, READER_VERSION, schema.to_dict(), parts)
