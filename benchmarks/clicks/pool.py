"""Planted clicks in files, made once, in the form in which any2vec keeps encoded clicks: no host loses time on them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.clicks.encoding import batch_of
from any2vec.data.clicks.rows import ClickBatch

_CHUNK = 1 << 14


class Pool:
    """What a host of a run asks of its data (`any2vec.tasks.clicks.rows.ClickData`), mapped from a folder.

    Letters: N examples, X dense columns, F columns of categories.
    """

    def __init__(self, folder: Path) -> None:
        options = json.loads((folder / "options.json").read_text())
        self.labels = np.load(folder / "labels.npy", mmap_mode="r")
        """uint8 (N,)"""
        self.dense = np.load(folder / "dense.npy", mmap_mode="r")
        """float32 (N, X)"""
        self.ids = np.load(folder / "ids.npy", mmap_mode="r")
        """int32 (N, F), from 0 in each column"""
        num_columns = self.ids.shape[1]
        self.num_rows_F = np.full(num_columns, options["num_rows"], np.int64)
        self.offset_F = np.concatenate([[0], np.cumsum(self.num_rows_F)]).astype(np.int64)
        self.is_mean_F = np.zeros(num_columns, bool)
        self.columns = tuple(f"C{number}" for number in range(1, num_columns + 1))
        self.dense_names = tuple(f"I{number}" for number in range(1, self.dense.shape[1] + 1))

    @property
    def num_examples(self) -> int:
        return len(self.labels)

    @property
    def num_rows(self) -> int:
        """Rows of the one table of all columns."""
        return int(self.offset_F[-1])

    def batch(self, start: int, stop: int) -> ClickBatch:
        """The examples [start, stop)."""
        part = slice(start, stop)
        label_B = self.labels[part].astype(np.float32)
        return batch_of(label_B, np.array(self.dense[part]), np.array(self.ids[part]), [], self.offset_F)


def write_pool(folder: Path, num_examples: int, options: Mapping[str, Any]) -> None:
    """The first examples of the planted stream with these options, into a new folder."""
    from any2vec.testing.planted_clicks import PlantedClicks

    clicks = PlantedClicks(num_examples, **options)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    num_columns = len(clicks.columns)
    labels = np.lib.format.open_memmap(folder / "labels.npy", "w+", np.uint8, (num_examples,))
    dense = np.lib.format.open_memmap(
        folder / "dense.npy", "w+", np.float32, (num_examples, len(clicks.dense_names))
    )  # fmt: skip
    ids = np.lib.format.open_memmap(folder / "ids.npy", "w+", np.int32, (num_examples, num_columns))
    for start in range(0, num_examples, _CHUNK):
        part = slice(start, min(start + _CHUNK, num_examples))
        batch = clicks.batch(part.start, part.stop)
        labels[part], dense[part] = batch.label_B, batch.dense_BX
        ids[part] = batch.id_M.reshape(-1, num_columns) - clicks.offset_F[:-1]
    (folder / "options.json").write_text(json.dumps({**options, "num_rows": int(clicks.num_rows_F[0])}))
