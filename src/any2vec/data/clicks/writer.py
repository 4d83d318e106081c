"""Writes a folder of encoded clicks, block by block, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import numpy as np

from any2vec.data.clicks.encoder import ClickEncoder
from any2vec.data.clicks.encoding import Encoded
from any2vec.data.clicks.rows import FIRST, FoundRows, HashedRows
from any2vec.data.clicks.schema import ClickSchema
from any2vec.data.io.array_file import ArrayFile, map_array
from any2vec.data.io.storage import atomic_folder, write_json

FORMAT = "any2vec-clicks"
VERSION = 1
_BLOCK_ROWS = 1 << 16


def before_share(num_examples: int, share: float | None) -> int:
    """How many examples are left where the last share of them is held out."""
    return num_examples - round((share or 0.0) * num_examples)


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

    def finish(self, rows: Sequence[HashedRows | FoundRows], digest: str, held_out: float | None = None) -> None:
        """Rank the vocabularies, standardize, count; write schema, counts and meta.json. Leave the `with` after it.

        held_out: the last share of the examples, which teaches vocabularies, means and deviations nothing.
        """
        for file in (self._labels, self._dense, self._ids, *(file for bag in self._bags for file in bag)):
            file.close()
        num_taught = before_share(self._labels.length, held_out)
        counts, vocabularies, ranks = [], {}, {}
        for at, (column, found) in enumerate(zip(self.schema.columns, rows, strict=True)):
            if isinstance(found, FoundRows):
                taught_R = None if held_out is None else self._count(at, num_taught, FIRST + found.num_values)
                ranks[at], vocabularies[column.name], count = found.rank(column.min_count, taught_R)
                counts.append(count)
            else:
                counts.append(found.counts)
        self._remap(ranks)
        mean, std = self._moments(num_taught)
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
        for at, rank in ranks.items():
            for part in self._blocks_of(at, self._labels.length):
                part[:] = rank[part]

    def _count(self, at: int, num_examples: int, num_rows: int) -> np.ndarray:
        """int64 (num_rows,): how often the first examples hold each row of a column."""
        count_R = np.zeros(num_rows, np.int64)
        for part in self._blocks_of(at, num_examples):
            np.add.at(count_R, part, 1)
        return count_R

    def _blocks_of(self, at: int, num_examples: int) -> Iterator[np.ndarray]:
        """Rows of a column in the first examples, int32, block by block; they can be changed."""
        num_single = len(self.schema.categorical)
        if at < num_single:
            column = map_array(self._ids.path, np.int32, (self._ids.length, num_single), "r+")[:num_examples, at]
        else:
            values, offsets = self._bags[at - num_single]
            stop = map_array(offsets.path, np.int64, (offsets.length,))[num_examples]
            column = map_array(values.path, np.int32, (values.length,), "r+")[:stop]
        for start in range(0, len(column), _BLOCK_ROWS):
            yield column[start : start + _BLOCK_ROWS]

    def _raw(self) -> np.ndarray:
        return map_array(self._dense.path, np.float64, (self._dense.length, len(self.schema.dense)))

    def _moments(self, num_examples: int) -> tuple[np.ndarray, np.ndarray]:
        """(mean, standard deviation) of what is not missing in the first examples, float64 (X,); (0, 1) where a column
        is not standardized.

        In blocks of fixed size, so that they depend on no reader's blocks.
        """
        num_columns = len(self.schema.dense)
        mean, std = np.zeros(num_columns), np.ones(num_columns)
        if not self._standard:
            return mean, std
        raw, chosen = self._raw()[:num_examples], self._standard
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
