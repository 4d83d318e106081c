"""The files that embeddings are kept in: which there are, how to tell one, and the one door to read and to write them.

Each format is a module with `read(path, mmap) -> Table` and `write(path, table, dtype)`; only the one asked for is
imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from any2vec.data.io.files import read_head
from any2vec.data.io.storage import atomic_file, atomic_folder, check_folder_free, storage_errors
from any2vec.errors import FormatError, InputError, StorageError
from any2vec.formats.native import FORMAT, is_native, read_native, write_native
from any2vec.formats.snapshots import has_snapshots, with_latest
from any2vec.formats.table import Table, check_contents
from any2vec.formats.vocabulary import beside, write_vocabulary

__all__ = ["FORMATS", "guess_format", "read", "write", "write_into"]


@dataclass(frozen=True, kw_only=True)
class Format:
    """One way to keep embeddings."""

    module: str
    """below any2vec.formats; has read and write, or read_<name> and write_<name> where it holds several formats"""
    suffixes: tuple[str, ...] = ()
    is_folder: bool = False
    has_half: bool = False
    """whether float16 can be written"""
    encoder: str | None = None
    """kind of subword encoder that it has a place for; "any": all"""
    has_vocabulary_beside: bool = False
    """whether keys stand in a file of their own (see `vocabulary.beside`)"""
    is_index: bool = False
    """whether it is for searching alone, and not read"""

    def keeps(self, kind: str) -> bool:
        """Whether it has a place for such a subword encoder."""
        return self.encoder in (kind, "any")


FORMATS: dict[str, Format] = {
    "folder": Format(module="native", is_folder=True, has_half=True, encoder="any"),
    "word2vec": Format(module="word2vec", suffixes=(".txt", ".vec", ".w2v")),
    "fasttext": Format(module="fasttext", suffixes=(".fasttext.bin",), encoder="ngram"),
    "word2vec-binary": Format(module="word2vec", suffixes=(".bin",)),
    "glove": Format(module="word2vec", suffixes=(".glove",)),
    "safetensors": Format(module="columns", suffixes=(".safetensors",), has_half=True, has_vocabulary_beside=True),
    "parquet": Format(module="columns", suffixes=(".parquet",), has_half=True),
    "arrow": Format(module="columns", suffixes=(".arrow", ".feather"), has_half=True),
    "npz": Format(module="columns", suffixes=(".npz",), has_half=True),
    "npy": Format(module="columns", suffixes=(".npy",), has_half=True, has_vocabulary_beside=True),
    "tensorboard": Format(module="tensorboard", is_folder=True),
    "kv": Format(module="keyed_vectors", suffixes=(".kv",)),
    "usearch": Format(
        module="indexes", suffixes=(".usearch",), has_half=True, has_vocabulary_beside=True, is_index=True
    ),
    "faiss": Format(module="indexes", suffixes=(".faiss",), has_vocabulary_beside=True, is_index=True),
}
"""name -> format; `format=` of Embeddings.save and load takes these names"""
_PACKED = (".gz", ".zst", ".zstd", ".xz")


def _checked(name: str) -> Format:
    if name not in FORMATS:
        raise InputError(f"format must be one of {', '.join(FORMATS)}, not {name!r}.")
    return FORMATS[name]


def _by_suffix(path: Path) -> str | None:
    name = path.name.lower()
    for packed in _PACKED:
        name = name.removesuffix(packed)
    return next((key for key, known in FORMATS.items() if known.suffixes and name.endswith(known.suffixes)), None)


def guess_format(path: Path) -> str:
    """The format of what stands at `path`, by its suffix and its first bytes. FormatError when it is none of ours."""
    if path.is_dir():
        if is_native(path) or not (path / "tensors.tsv").is_file():
            return "folder"
        return "tensorboard"
    head = read_head(str(path), 8)
    for magic, name in ((b"PAR1", "parquet"), (b"ARROW1", "arrow"), (b"PK\x03\x04", "npz"), (b"\x93NUMPY", "npy")):
        if head.startswith(magic):
            return name
    if head[:1] == b"\x80" and head[1:2] in (b"\2", b"\3", b"\4", b"\5"):  # a pickle, of protocol 2 to 5
        return "kv"
    name = _by_suffix(path) or "word2vec"
    if name in ("word2vec", "word2vec-binary", "glove"):
        from any2vec.formats.word2vec import sniff

        return sniff(path)
    return name


def _of(name: str, verb: str) -> Any:
    module = import_module(f"any2vec.formats.{FORMATS[name].module}")
    return getattr(module, f"{verb}_{name.replace('-', '_')}", None) or getattr(module, verb)


def read(path: Path, name: str | None = None, mmap: bool = True) -> Table:
    """Read what stands at `path`, checked: sizes agree, keys are distinct, numbers are finite.

    Raises FormatError for what is damaged or not known, InputError for an unknown name or a path where nothing is.
    """
    if name is not None:
        _checked(name)
    if has_snapshots(path) and not is_native(path):
        return with_latest(path, lambda latest: read(latest, name, mmap))
    if not path.exists():
        raise InputError(f"there is no {path}; give a folder or file of embeddings.")
    try:
        if name is None:
            name = guess_format(path)
            if name == "kv":
                raise FormatError(
                    f"{path.name} is a pickle, which can run code; if gensim saved it and you trust it, "
                    "say format kv, which unpickles it (--format kv, in Python format='kv'). A command without "
                    "--format takes what Embeddings.load(path, 'kv') saves."
                )
        if FORMATS[name].is_folder != path.is_dir():
            raise FormatError(f"{path.name}: format {name!r} is a {'folder' if FORMATS[name].is_folder else 'file'}.")
        if name == "folder":
            return read_native(path, mmap)
        table = _of(name, "read")(path, mmap)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise FormatError(f"{path.name} cannot be read: {error.strerror or error}.") from error
    check_contents(table, path.name, mapped=mmap and name == "safetensors")
    return table


def write(path: Path, table: Table, name: str | None, overwrite: bool, dtype: str) -> None:
    """Write `table` to `path`, atomically. `name` None: by suffix, a path without one is a native folder."""
    name = name or _by_suffix(path) or ("folder" if not path.suffix or path.is_dir() else "")
    if not name:
        raise InputError(
            f"suffix {path.suffix!r} names no format; give one by --format (in Python format=): {', '.join(FORMATS)}."
        )
    known = _checked(name)
    if dtype not in ("float32", "float16") or (dtype == "float16" and not known.has_half):
        allowed = "'float32' or 'float16'" if known.has_half else "'float32'"
        raise InputError(f"dtype of format {name!r} must be {allowed}, not {dtype!r}.")
    if path.suffix.lower() in _PACKED:
        raise InputError(f"packed files are read, not written; leave {path.suffix!r} off and pack the file afterwards.")
    if table.encoder is not None and not known.keeps(table.meta["maker"]["kind"]):
        about = {key: value for key, value in table.meta.items() if key != "maker"}
        table = table._replace(meta=about, encoder=None)
    if known.is_folder:
        _write_folder(path, table, name, overwrite, dtype)
        return
    keys_path = beside(path)
    for taken in (path, keys_path) if known.has_vocabulary_beside else (path,):
        if taken.exists() and not overwrite:
            raise StorageError(f"{taken} exists; choose another path or pass --overwrite (overwrite=True).")
    with atomic_file(path, overwrite) as temporary:
        _of(name, "write")(temporary, table, dtype)
        if known.has_vocabulary_beside:  # in here: a full disk leaves neither file
            with atomic_file(keys_path) as temporary_keys, temporary_keys.open("wb") as file:
                write_vocabulary(file, table.keys, table.counts)


def _write_folder(path: Path, table: Table, name: str, overwrite: bool, dtype: str) -> None:
    if name == "folder":
        if (path / "run.json").exists():
            raise StorageError(f"{path} is the folder of a run, with its log and report; choose another folder.")
        with atomic_folder(path, overwrite, FORMAT) as temporary:
            write_native(temporary, table, dtype)
        return
    if not overwrite:
        check_folder_free(path, overwrite, name)
    _of(name, "write")(path, table, dtype)


def write_into(folder: Path, table: Table, dtype: str) -> None:
    """Write the native files into a folder that exists and may hold other files."""
    if not folder.is_dir():
        raise StorageError(f"{folder} is not a folder that exists; create it first.")
    if dtype not in ("float32", "float16"):
        raise InputError(f"dtype must be 'float32' or 'float16', not {dtype!r}.")
    with storage_errors(folder):
        write_native(folder, table, dtype)
