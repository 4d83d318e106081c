"""What a classifier says of every node it was trained around, beside what is known: a file of a run folder.

Legend: N nodes, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from any2vec.errors import FormatError

PREDICTIONS = "predictions.parquet"
_BATCH = 1 << 16
"""nodes that are written at once"""
_LIKELY = 0.5
_MOST = 1e300
"""a score that stands for an infinite one"""


def class_shares(score_NC: np.ndarray) -> np.ndarray:
    """float64 (N, C): shares of 1 over the classes, by softmax of the scores; scores that are infinite share alike."""
    from scipy.special import softmax

    limited_NC = np.nan_to_num(score_NC.astype(np.float64), nan=np.nan, posinf=_MOST, neginf=-_MOST)
    return np.asarray(softmax(limited_NC, axis=1))


def classes_said(share_NC: np.ndarray, is_multi_label: bool) -> np.ndarray:
    """bool (N, C): of each node the likeliest class and, where it may have several, those above one half."""
    is_said_NC = share_NC > _LIKELY if is_multi_label else np.zeros(share_NC.shape, np.bool_)
    is_said_NC[np.arange(len(share_NC)), share_NC.argmax(axis=1)] = True
    return is_said_NC


class NodePredictions:
    """A row a node, in the order of the vectors: `node`, `split` (train, val, test, or nothing), `label`, `predicted`,
    `probability` of what is predicted. Where a node may have several classes, the last three are lists.

    Args:
        score_NC: float32. share: shares or probabilities of scores, (K, C) -> (K, C).
        label_N: int (N,), -1 where none is known; or 0 and 1, (N, C). rows: of each part of the split.
    """

    def __init__(
        self, keys: Sequence[Any], classes: Sequence[str], score_NC: np.ndarray,
        share: Callable[[np.ndarray], np.ndarray], label_N: np.ndarray, rows: Mapping[str, np.ndarray],
    ) -> None:  # fmt: skip
        self._keys, self._classes, self._label_N = keys, np.array([*classes, None], object), label_N
        self._score_NC, self._share = score_NC, share
        self._parts = np.array([*rows, None], object)
        self._part_N = np.full(len(score_NC), -1, np.int8)
        for at, members in enumerate(rows.values()):
            self._part_N[members] = at

    def write(self, path: Path) -> None:
        """Write it to a file, some nodes at a time."""
        from any2vec.data.io.arrow import pa, parquet

        writer = None
        try:
            for start in range(0, len(self._score_NC), _BATCH):
                table = pa.table(self._columns(slice(start, start + _BATCH), pa))
                writer = writer or parquet().ParquetWriter(path, table.schema)
                writer.write_table(table)
        finally:
            if writer is not None:
                writer.close()

    def _columns(self, rows: slice, pa: Any) -> dict[str, Any]:
        label, share_KC = self._label_N[rows], self._share(self._score_NC[rows])
        names = pa.string()
        if label.ndim == 1:
            best_K = share_KC.argmax(axis=1)
            about = {
                "label": pa.array(self._classes[label], names),
                "predicted": pa.array(self._classes[best_K], names),
                "probability": pa.array(share_KC.max(axis=1), pa.float32()),
            }
        else:
            is_said = classes_said(share_KC, True)
            lists = {"label": label > 0, "predicted": is_said}
            about = {
                name: pa.array([self._classes[:-1][one].tolist() for one in held], pa.list_(names))
                for name, held in lists.items()
            }
            shares = [share[said].tolist() for share, said in zip(share_KC, is_said, strict=True)]
            about["probability"] = pa.array(shares, pa.list_(pa.float32()))
        keys = pa.array(list(self._keys[rows]))
        return {"node": keys, "split": pa.array(self._parts[self._part_N[rows]], names)} | about


class Predicted(NamedTuple):
    """Predictions as they were kept, columns as lists."""

    node: list[Any]
    split: list[str | None]
    label: list[Any]
    predicted: list[Any]

    @classmethod
    def read(cls, folder: Path) -> Predicted | None:
        """Those of a run folder; None where it has none.

        Raises:
            FormatError: the file is damaged.
        """
        columns = _read(folder, cls._fields)
        return None if columns is None else cls(*(column.to_pylist() for column in columns))


class PredictedClasses(NamedTuple):
    """What was predicted of each node, by row of the vectors; Arrow's columns."""

    predicted: Any
    probability: Any

    @classmethod
    def read(cls, folder: Path) -> PredictedClasses | None:
        """Those of a run folder; None where it has none. Raises as `Predicted.read`."""
        columns = _read(folder, cls._fields)
        return None if columns is None else cls(*columns)

    def of(self, row: int) -> list[tuple[str, float]]:
        """Classes of a node and their probabilities, the likeliest first."""
        said, shares = self.predicted[row].as_py(), self.probability[row].as_py()
        found = zip(said, shares, strict=True) if isinstance(said, list) else [(said, shares)]
        return sorted(found, key=lambda one: -one[1])


def num_trained(folder: Path) -> int:
    """Nodes by whose classes the run in a folder was trained; 0: it has no predictions. Raises as `Predicted.read`."""
    columns = _read(folder, ("split",))
    return 0 if columns is None else columns[0].to_pylist().count("train")


def _read(folder: Path, names: Sequence[str]) -> list[Any] | None:
    from any2vec.data.io.arrow import arrow_errors, parquet

    file = folder / PREDICTIONS
    if not file.is_file():
        return None
    with arrow_errors(f"{file} is damaged", FormatError, "train the run again."):
        table = parquet().read_table(file, columns=list(names))
        return [table[name].combine_chunks() for name in names]
