"""The native folder `any2vec-embeddings`, version 1: what a run leaves and what opens memory-mapped.

    meta.json             {"format", "version", "rows", "dim", "dtype", "has_output", "has_counts", …}
    vectors.safetensors   tensors "input" and, where the model has one, "output": (rows, dim)
    vocabulary.tsv        one `key<TAB>count` a line (formats/vocabulary.py)
    NAME.safetensors      where meta.json has a "maker": a subword encoder (any2vec/encoders)

meta.json is written last, so a folder without it is not a result.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.checks import parse_json
from any2vec.data.io.storage import RESULT_FORMAT, atomic_file, format_of_folder
from any2vec.errors import FormatError
from any2vec.formats.safetensors_file import read_arrays, read_safetensors, write_arrays, write_safetensors
from any2vec.formats.table import Table, check_contents
from any2vec.formats.vocabulary import read_vocabulary, write_vocabulary

FORMAT = RESULT_FORMAT
VERSION = 1
_OURS = ("format", "version", "rows", "dim", "dtype", "has_output", "has_counts")
_TRIES = 20
"""readings of a folder that is replaced meanwhile"""
_PAUSE = 0.005
"""seconds before the next one: what takes a folder's place does so in between"""


def tensors_of(table: Table) -> dict[str, Any]:
    return {"input": table.vectors} if table.output is None else {"input": table.vectors, "output": table.output}


def write_native(folder: Path, table: Table, dtype: str) -> None:
    """Write the three files into a folder that exists, each atomically, meta.json away first and back last.

    Other files of the folder are left alone. O(block) memory beside the matrices.
    """
    (folder / "meta.json").unlink(missing_ok=True)
    with atomic_file(folder / "vectors.safetensors") as temporary, temporary.open("wb") as file:
        write_safetensors(file, tensors_of(table), dtype, {"format": FORMAT, "version": str(VERSION)})
    with atomic_file(folder / "vocabulary.tsv") as temporary, temporary.open("wb") as file:
        write_vocabulary(file, table.keys, table.counts)
    if table.encoder is not None:
        with atomic_file(folder / table.meta["maker"]["file"]) as temporary, temporary.open("wb") as file:
            write_arrays(file, table.encoder, {"format": FORMAT, "version": str(VERSION)})
    meta = {key: value for key, value in table.meta.items() if key not in _OURS}
    rows, dim = table.vectors.shape
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "rows": rows,
        "dim": dim,
        "dtype": dtype,
        "has_output": table.output is not None,
        "has_counts": table.counts is not None,
        **meta,
    }
    with atomic_file(folder / "meta.json") as temporary:
        temporary.write_text(json.dumps(meta, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def is_native(folder: Path) -> bool:
    return (folder / "meta.json").is_file() and (folder / "vectors.safetensors").is_file()


def _read_meta(path: Path) -> dict[str, Any]:
    try:
        meta = parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        name = path.parent.absolute().name
        if format_of_folder(path.parent) == FORMAT:
            raise FormatError(
                f"{name} holds an unfinished run and no vectors yet; finish it with the `any2vec train` "
                "command that began it and --resume."
            ) from None
        if (path.parent / "stream.json").is_file():
            raise FormatError(f"{name} holds a stream that has published no vectors yet; wait for them.") from None
        raise FormatError(f"{name}: no meta.json there; not an embeddings folder, or not finished.") from None
    except ValueError:
        raise FormatError(f"{path.parent.name}: meta.json is not JSON; the folder is damaged.") from None
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise FormatError(f"{path.parent.name}: meta.json does not say format {FORMAT!r}; not an embeddings folder.")
    version = meta.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise FormatError(
            f"{path.parent.name}: format version {version!r}; this any2vec reads up to {VERSION}: install a newer one."
        )
    return meta


def read_native(folder: Path, mmap: bool) -> Table:
    """Open a native folder; again where it was replaced before all of its files were open.

    Raises FormatError when a file is missing, damaged, newer, or the sizes do not agree.
    """
    about, is_replaced = folder / "meta.json", False
    for left in reversed(range(_TRIES)):
        before = file_stamp(about)
        try:
            table = _read(folder, mmap)
        except (OSError, ValueError):  # parts of two writings seldom fit together
            after = file_stamp(about)
            is_replaced |= after != before
            if not is_replaced or after == before is not None or not left:
                raise
        else:
            if file_stamp(about) == before:
                return table
            is_replaced = True
        time.sleep(_PAUSE)
    raise FormatError(f"{folder.name} changes faster than it can be opened; open it when it has come to rest.")


def file_stamp(file: Path) -> tuple[int, int, int] | None:
    """What changes when a file is written anew, of a folder its meta.json, which comes last; None: it is not there."""
    try:
        about = file.stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns, about.st_size


def _read(folder: Path, mmap: bool) -> Table:
    meta = _read_meta(folder / "meta.json")
    for name in ("vectors.safetensors", "vocabulary.tsv"):
        if not (folder / name).is_file():
            raise FormatError(f"{folder.name}: {name} is missing; the folder is damaged.")
    tensors, _ = read_safetensors(folder / "vectors.safetensors", mmap)
    keys, counts = read_vocabulary(folder / "vocabulary.tsv")
    if "input" not in tensors or (meta.get("has_output") and "output" not in tensors):
        raise FormatError(f"{folder.name}: vectors.safetensors lacks a tensor that meta.json names; it is damaged.")
    own = {name: value for name, value in meta.items() if name not in _OURS}
    table = Table(keys, tensors["input"], tensors.get("output"), counts, own, _read_encoder(folder, meta.get("maker")))
    if table.vectors.shape != (meta.get("rows"), meta.get("dim")):
        raise FormatError(
            f"{folder.name}: vectors.safetensors holds {table.vectors.shape} numbers where meta.json says "
            f"({meta.get('rows')}, {meta.get('dim')}); the folder is damaged."
        )
    check_contents(table, folder.name, mapped=mmap)
    return table


def _read_encoder(folder: Path, about: Any) -> dict[str, np.ndarray] | None:
    """The arrays that make vectors of other words, memory-mapped, if the folder has such."""
    if about is None:
        return None
    file = about.get("file") if isinstance(about, dict) else None
    if not isinstance(file, str) or Path(file).name != file or not (folder / file).is_file():
        raise FormatError(f"{folder.name}: {file!r}, the encoder in meta.json, is missing; the folder is damaged.")
    return read_arrays(folder / file)[0]
