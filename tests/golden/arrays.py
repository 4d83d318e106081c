"""Hashes of what a run leaves: every array of its result folder, and of what it returns. Knows file formats alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
from safetensors import safe_open


def hash_all(folder: Path | None, returned: dict[str, Any]) -> dict[str, str]:
    """Name -> hash of each array, or list of names, in a result folder and in memory."""
    found = {} if folder is None else {name: hash_one(content) for name, content in contents(folder)}
    return found | {f"returned:{name}": hash_one(content) for name, content in returned.items()}


def contents(folder: Path) -> Iterator[tuple[str, Any]]:
    """(name, content) of all that holds numbers or names in a folder's files."""
    for path in sorted(folder.iterdir()):
        if path.suffix == ".safetensors":
            with safe_open(path, "np") as file:
                for name in sorted(file.keys()):
                    yield f"{path.name}:{name}", file.get_tensor(name)
        elif path.suffix == ".npy":
            yield path.name, np.load(path, allow_pickle=False)
        elif path.suffix == ".tsv":
            yield path.name, path.read_bytes()
        elif path.suffix == ".parquet":
            table = pyarrow.parquet.read_table(path)
            yield from ((f"{path.name}:{name}", table[name].to_pylist()) for name in table.column_names)


def hash_one(content: Any) -> str:
    """Of an array: of its type, shape and bytes; of others: of their text."""
    digest = hashlib.sha256()
    if isinstance(content, np.ndarray):
        digest.update(f"{content.dtype.str} {content.shape} ".encode())
        digest.update(np.ascontiguousarray(content).reshape(-1).view(np.uint8).data)
    else:
        digest.update(content if isinstance(content, bytes) else repr(content).encode())
    return digest.hexdigest()[:32]
