"""What a node classifier reads, written to files: processes cannot read what is in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from any2vec.data.options import NodeOptions
from any2vec.embeddings import Embeddings


def stored_options(options: NodeOptions, folder: Path) -> NodeOptions:
    """The options, all that is in memory in files of a folder."""
    found: dict[str, Any] = {}
    if options.features is not None and not isinstance(options.features, str | Path):
        found["features"] = _store_features(options.features, folder)
    if options.labels is not None and not isinstance(options.labels, str | Path):
        labels = enumerate(np.asarray(options.labels).tolist())
        lines = [f"{_name(options.features, row)}\t{label}\n" for row, label in labels if label >= 0]
        found["labels"] = _store_lines(folder / "labels.tsv", lines)
    if isinstance(options.split, dict):
        lines = [f"{_name(options.features, row)}\t{part}\n" for part, rows in options.split.items() for row in rows]
        found["split"] = _store_lines(folder / "split.tsv", lines)
    return replace(options, **found)


def _name(features: Any, row: int) -> str:
    return str(features.keys[row]) if isinstance(features, Embeddings) else str(row)


def _store_features(features: Any, folder: Path) -> Path:
    if isinstance(features, Embeddings):
        features.save(folder / "features")
        return folder / "features"
    if sparse.issparse(features):
        sparse.save_npz(folder / "features.npz", sparse.csr_array(features))
        return folder / "features.npz"
    np.save(folder / "features.npy", np.asarray(features))
    return folder / "features.npy"


def _store_lines(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(lines), encoding="utf-8")
    return path
