"""Writes a folder of encoded clicks, block by block, whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import numpy as np

from any2vec.data.clicks.encoder import ClickEncoder
from any2vec.data.clicks.encoding import Encoded
from any2vec.data.clicks.rows import FoundRows, HashedRows
from any2vec.data.clicks.schema import ClickSchema
from any2vec.data.io.array_file import ArrayFile, map_array
from any2vec.data.io.storage import atomic_folder, write_json

FORMAT = "any2vec-clicks"
VERSION = 1
_BLOCK_ROWS = 1 << 16


class ClicksWriter:
    """`append` encoded blocks, then `finish`; use it in a `with` statement, which removes what was not finished."""

    def __init__(self, path: Path, schema: ClickSchema) -> None:
        self.path, self.schema = path, schema
        self._stack = ExitStack()
        self._num_clicks = 0
        self._standard = [at for at, name in enumerate(schema.dense) if schema.transform(name) == "standard"]

    def __enter__(self) -> ClicksWriter:
        self.folder = self._stack.enter_context(atomic_folder(self.path, False, FORMAT))
        schema, folder = self.schema, self.folder
        self._labels = self._open("labels", np.uint8)
        name, kind = ("raw", np.float64) if self._standard else ("dense", np.float32)
        self._dense = self._open(name, kind, (len(schema.dense),))
        self._ids = self._open("ids", np.int32, (len(schema.categorical),))
        self._bags = [
            (self._open(f"values{at}", np.int32), self._open(f"offsets{at}", np.int64))
            for at in range(len(schema.multi_valued))
        ]
        for _, offsets in self._bags:
            offsets.append(np.zeros(1, np.int64))
        assert folder.is_dir()
        return self

    def _open(self, name: str, dtype: type, row: tuple[int, ...] = ()) -> ArrayFile:
        file = ArrayFile(self.folder / f"{name}.npy", dtype, row)
        self._stack.callback(file.close)
        return file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def append(self, block: Encoded) -> None:
        """Write one block. StorageError: it cannot be written."""
        self._num_clicks += int(block.label_N.sum())
        self._labels.append(block.label_N)
        self._dense.append(block.dense_NX if self._standard else np.nan_to_num(block.dense_NX, nan=0.0))
        self._ids.append(block.single_NF)
        for (values, offsets), (rows, lengths) in zip(self._bags, block.bags, strict=True):
            offsets.append(values.length + np.cumsum(lengths))
            values.append(rows)

    def finish(self, rows: Sequence[HashedRows | FoundRows], digest: str) -> None:
        """Rank the vocabularies, standardize, count; write schema, counts and meta.json. Leave the `with` after it."""
        for file in (self._labels, self._dense, self._ids, *(file for bag in self._bags for file in bag)):
            file.close()
        counts, vocabularies, ranks = [], {}, {}
        for at, (column, found) in enumerate(zip(self.schema.columns, rows, strict=True)):
            if isinstance(found, FoundRows):
                ranks[at], vocabularies[column.name], count = found.rank(column.min_count)
                counts.append(count)
            else:
                counts.append(found.counts)
        self._remap(ranks)
        mean, std = self._moments()
        encoder = ClickEncoder(self.schema, vocabularies, mean, std)
        if self._standard:
            self._standardize(encoder)
        encoder.save(self.folder)
        counts_V = ArrayFile(self.folder / "counts.npy", np.int64)
        counts_V.append(np.concatenate(counts))
        counts_V.close()
        write_json(
            self.folder / "meta.json",
            {
                "format": FORMAT,
                "version": VERSION,
                "digest": digest,
                "num_examples": self._labels.length,
                "num_clicks": self._num_clicks,
                "num_ids": [values.length for values, _ in self._bags],
                "num_rows": counts_V.length,
            },
        )

    def _remap(self, ranks: dict[int, np.ndarray]) -> None:
        """Provisional rows become final ones, on the encoded integers: the file is not read again."""
        if not ranks:
            return
        num_single = len(self.schema.categorical)
        ids = map_array(self._ids.path, np.int32, (self._ids.length, num_single), "r+")
        values = [map_array(file.path, np.int32, (file.length,), "r+") for file, _ in self._bags]
        for at, rank in ranks.items():
            column = ids[:, at] if at < num_single else values[at - num_single]
            for start in range(0, len(column), _BLOCK_ROWS):
                part = column[start : start + _BLOCK_ROWS]
                part[:] = rank[part]

    def _raw(self) -> np.ndarray:
        return map_array(self._dense.path, np.float64, (self._dense.length, len(self.schema.dense)))

    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """(mean, standard deviation) float64 (X,) of what is not missing; (0, 1) where a column is not standardized.

        In blocks of fixed size, so that they depend on no reader's blocks.
        """
        num_columns = len(self.schema.dense)
        mean, std = np.zeros(num_columns), np.ones(num_columns)
        if not self._standard:
            return mean, std
        raw, chosen = self._raw(), self._standard
        starts = range(0, len(raw), _BLOCK_ROWS)
        blocks = [slice(start, start + _BLOCK_ROWS) for start in starts]
        number = np.maximum(sum(np.count_nonzero(~np.isnan(raw[block][:, chosen]), axis=0) for block in blocks), 1)
        mean[chosen] = sum(np.nansum(raw[block][:, chosen], axis=0) for block in blocks) / number
        squares = sum(np.nansum((raw[block][:, chosen] - mean[chosen]) ** 2, axis=0) for block in blocks)
        spread = np.sqrt(squares / number)
        std[chosen] = np.where(spread > 0, spread, 1.0)
        return mean, std

    def _standardize(self, encoder: ClickEncoder) -> None:
        raw = self._raw()
        file = ArrayFile(self.folder / "dense.npy", np.float32, (len(self.schema.dense),))
        for start in range(0, len(raw), _BLOCK_ROWS):
            file.append(encoder.dense(raw[start : start + _BLOCK_ROWS]))
        file.close()
        del raw
        self._dense.path.unlink()
