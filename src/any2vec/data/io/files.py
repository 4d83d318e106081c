"""Inputs: which files are meant, and their bytes (plain, gz, zst, xz, standard input) as a stream of blocks."""

from __future__ import annotations

import codecs
import glob
import hashlib
import lzma
import queue
import re
import stat
import sys
import threading
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from any2vec.errors import Any2VecError, DataError, InputError

if TYPE_CHECKING:
    import numpy as np

BLOCK_BYTES = 1 << 20
"""bytes in a block of unpacked input"""
STDIN = "-"
NAMELESS = "'' names no file; write . for the current folder."
PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc", ".arrows")
"""suffixes of files of columns"""
RECORDS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
"""suffix of a text of records -> its form"""
TABLES = ("parquet", "arrow", "jsonl")
"""forms of files that `arrow.TableReader` reads"""
_RAW_BYTES = 1 << 18
_T = TypeVar("_T")


# ---- naming inputs ----------------------------------------------------------------------------------------------


def expand_inputs(source: str | Path | Iterable[str | Path]) -> list[str]:
    """The files that `source` names: a path, a folder (its files at any depth), a glob, `-`, or a list of those.

    Files of a folder or glob come in sorted order, hidden ones left out; a list keeps its order.

    Raises:
        DataError: a name matches no file, or a folder holds none.
    """
    if not isinstance(source, (str, Path)):
        return [name for item in source for name in expand_inputs(item)]
    name = str(source)
    if name == STDIN:
        return [name]
    if not name:  # which the system takes for the current folder
        raise DataError(NAMELESS)
    with _reading(name if len(name) < 200 else name[:80] + "..."):
        return _expand(name)


def _expand(name: str) -> list[str]:
    path = Path(name)
    if (path / "dataset_dict.json").is_file():
        splits = ", ".join(sorted(one.name for one in path.iterdir() if one.is_dir()))
        raise DataError(f"{name} holds the splits {splits} of a dataset; give one of them, {name}/SPLIT.")
    if (path / "dataset_info.json").is_file() and (path / "state.json").is_file():  # beside them, what a library wrote
        files = list(path.glob("*.arrow"))
    elif path.is_dir():
        files = [item for item in path.rglob("*") if not _is_hidden(item.relative_to(path)) and item.is_file()]
    if path.is_dir():
        if not files:
            raise DataError(f"The folder {name} holds no files; give a folder with text files in it.")
        return [str(item) for item in sorted(files)]
    if path.exists() or not glob.has_magic(name):
        if not path.exists():
            raise DataError(f"There is no file {name}; check the path.")
        return [name]
    found = [item for item in sorted(glob.glob(name, recursive=True)) if Path(item).is_file()]  # noqa: PTH207
    if not found:
        raise DataError(f"No file matches {name}; check the pattern.")
    return found


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def is_regular(path: str) -> bool:
    """Whether `path` is a regular file, which can be read twice (unlike a pipe or standard input)."""
    return path != STDIN and stat.S_ISREG(Path(path).stat().st_mode)


def form_of(name: str) -> str:
    """parquet, arrow, array (.npy, .npz) or text, by the file's suffix or first bytes."""
    if name == STDIN or not is_regular(name):
        return "text"
    head, suffix = read_head(name), Path(name).suffix.lower()
    if suffix in PARQUET or (head.startswith(b"PAR1") and suffix not in (".txt", ".text")):
        return "parquet"
    if suffix in ARROW or head.startswith(b"ARROW1\0\0"):
        return "arrow"
    return "array" if suffix in (".npy", ".npz") or head.startswith(b"\x93NUMPY") else "text"


def text_form(name: str) -> str:
    """As `form_of`, of what words are read from: text of records is csv, tsv or jsonl, by its suffix, packed or not."""
    form = form_of(name)
    return form if form != "text" or name == STDIN else _records_by_suffix(name) or form


def _records_by_suffix(name: str) -> str | None:
    """csv, tsv, jsonl or none, packed or not."""
    path = Path(name)
    return RECORDS.get((path.with_suffix("") if path.suffix.lower() in _SUFFIX else path).suffix.lower())


def table_form(name: str) -> str:
    """As `form_of`, of what edges, triples, interactions and clicks are read from: JSON Lines are jsonl, by the suffix
    of a regular file."""
    form = text_form(name)
    return "text" if form in ("csv", "tsv") or (form == "jsonl" and not is_regular(name)) else form


def check_no_objects(line: bytes, name: str) -> None:
    """DataError where the first line of a text that is read by delimiters begins a JSON object."""
    if re.match(rb'\s*\[?\s*\{\s*"', line):
        is_named = _records_by_suffix(name) == "jsonl"
        raise DataError(
            f"{display(name)} holds JSON objects, which no delimiter splits; write them as CSV or Parquet"
            + ("." if is_named else ", or one on each line of a file named .jsonl, whose columns are read by name.")
        )


def is_table(source: Any) -> bool:
    """Whether it is a table in memory: of any library that offers the Arrow PyCapsule interface, a Dataset of Hugging
    Face, a dict of columns, or a list of dicts, its rows. InputError for a LazyFrame, which has no rows yet."""
    if isinstance(source, Mapping) and not hasattr(source, "tocoo"):  # which a sparse matrix by keys has
        sized = (hasattr(column, "__len__") and not isinstance(column, str) for column in source.values())
        return bool(source) and all(isinstance(key, str) for key in source) and all(sized)
    if isinstance(source, list):
        return bool(source) and all(isinstance(row, Mapping) for row in source)
    if all(hasattr(source, name) for name in ("with_format", "column_names", "iter")):
        return True
    if hasattr(source, "collect") and hasattr(source, "collect_schema"):
        raise InputError(f"A {type(source).__name__} has no rows before it is collected; give its .collect().")
    is_column = any(hasattr(source, name) for name in ("tolist", "to_list", "to_pylist"))
    if is_column and not any(hasattr(source, name) for name in ("columns", "column_names", "schema")):
        return False  # a Series, an Array: they offer the interface, too
    return hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")


def content_hash(path: str | Path, start: int = 0, stop: int | None = None) -> str:
    """BLAKE2b (128 bits, hex) of the file's bytes [start, stop) as they lie on the disk; None: to its end.

    Raises:
        DataError: the file cannot be read.
    """
    digest = hashlib.blake2b(digest_size=16)
    for chunk in _raw_chunks(str(path), start, stop):
        digest.update(chunk)
    return digest.hexdigest()


def fingerprint(*arrays: np.ndarray) -> str:
    """BLAKE2b (128 bits, hex) of the bytes of arrays, one after the other."""
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(array.reshape(-1).data)
    return digest.hexdigest()


# ---- reading ----------------------------------------------------------------------------------------------------


def read_head(path: str, size: int = 16) -> bytes:
    """The first bytes of a regular file, unpacked or not: as they lie on the disk."""
    with _reading(path), Path(path).open("rb") as file:
        return file.read(size)


def read_blocks(
    path: str | Path,
    *,
    block_bytes: int = BLOCK_BYTES,
    on_read: Callable[[bytes], None] | None = None,
    allow_empty: bool = False,
    span: tuple[int, int] | None = None,
) -> Iterator[bytes]:
    """Yield the unpacked bytes of `path` (`-`: standard input) in blocks of `block_bytes`, the last one shorter.

    gz, zst (window log up to 31) and xz are recognized by their first bytes, members and frames may follow one another.
    `on_read` gets every chunk of packed bytes (progress, hashing). Memory O(block) + the decompressor's window.
    span: only the bytes [start, stop) of the file, which are taken as they are.

    Raises:
        DataError: the file is missing, unreadable, truncated, damaged, or (unless `allow_empty`) empty.
    """
    name = str(path)
    buffer = bytearray()
    is_empty = True
    for chunk in _unpacked_chunks(name, on_read, span):
        buffer += chunk
        if len(buffer) >= block_bytes:
            start = 0
            while len(buffer) - start >= block_bytes:
                yield bytes(memoryview(buffer)[start : start + block_bytes])
                start += block_bytes
            is_empty = False
            del buffer[:start]
    if buffer:
        yield bytes(buffer)
    elif is_empty and not allow_empty:
        raise DataError(f"{display(name)} is empty; give a file with content.")


def whole_lines(
    name: str, blocks: Iterable[bytes], *, most: int = 1 << 26, error: type[Any2VecError] = DataError
) -> Iterator[bytes]:
    """Bytes in pieces that end with a line feed, the last one perhaps not; a byte-order mark is dropped.

    most: bytes of a line at most, beyond which an `error` is raised.
    """
    left, mark = bytearray(), codecs.BOM_UTF8
    for block in blocks:
        end = block.rfind(b"\n") + 1
        if end:
            yield (bytes(left) + block[:end]).removeprefix(mark)
            left, mark = bytearray(), b""
        left += block[end:]
        if len(left) > most:
            raise error(f"{name} has a line longer than {most:,} bytes; it is no text of rows.")
    if last := bytes(left).removeprefix(mark):
        yield last


def without_comments(text: bytes, marks: str) -> tuple[bytes, int]:
    """(text whose lines that begin with one of `marks`, behind spaces and tabs, are blank; how many those are)."""
    if not any(mark in text for mark in map(str.encode, marks)):
        return text, 0
    return re.subn(rb"(?m)^[ \t]*[%b][^\n]*" % re.escape(marks.encode()), b"", text)


def display(source: Any) -> str:
    """The name of an input, a file or a table in memory, in messages."""
    if is_table(source):
        return f"The {type(source).__name__}"
    return "Standard input" if source == STDIN else str(source)


@contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"There is no file {name}; check the path.") from error
    except IsADirectoryError as error:
        raise DataError(f"{name} is a folder; give a file.") from error
    except PermissionError as error:
        raise DataError(f"Cannot read {name}: permission denied.") from error
    except OSError as error:
        raise DataError(f"Cannot read {display(name)}: {error.strerror or error}.") from error


def _open_raw(name: str) -> BinaryIO:
    if name != STDIN:
        return Path(name).open("rb", buffering=0)
    if sys.stdin is None:
        raise DataError("Standard input is closed; give a file.")
    return sys.stdin.buffer


def _raw_chunks(name: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
    with _reading(name):
        file = _open_raw(name)
        if start:
            file.seek(start)
    left = None if stop is None else stop - start
    try:
        while left is None or left > 0:
            with _reading(name):
                chunk = file.read(_RAW_BYTES if left is None else min(_RAW_BYTES, left))
            if not chunk:
                return
            left = None if left is None else left - len(chunk)
            yield chunk
    finally:
        if name != STDIN:
            file.close()


def _unpacked_chunks(
    name: str, on_read: Callable[[bytes], None] | None, span: tuple[int, int] | None
) -> Iterator[bytes]:
    chunks = _raw_chunks(name, *(span or (0, None)))
    if on_read is not None:
        chunks = _announce(chunks, on_read)
    if span is not None:
        return chunks
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= 6:
            break
    packing = packing_of(name, head)
    first = iter([head] if head else [])
    stream = (chunk for part in (first, chunks) for chunk in part)
    if packing is None:
        return stream
    return unpack(display(name), packing, stream)


def _announce(chunks: Iterator[bytes], on_read: Callable[[bytes], None]) -> Iterator[bytes]:
    for chunk in chunks:
        on_read(chunk)
        yield chunk


def prefetch(items: Iterable[_T], depth: int = 4) -> Iterator[_T]:
    """Yield `items` in order while a thread computes up to `depth` of them ahead; its exceptions come out here."""
    ready: queue.Queue[tuple[bool, Any]] = queue.Queue(maxsize=depth)
    stop = threading.Event()

    def put(entry: tuple[bool, Any]) -> bool:
        while not stop.is_set():
            with suppress(queue.Full):
                ready.put(entry, timeout=0.1)
                return True
        return False

    def work() -> None:
        try:
            for item in items:
                if not put((True, item)):
                    return
            put((False, None))
        except BaseException as error:
            put((False, error))

    thread = threading.Thread(target=work, name="any2vec-reader", daemon=True)
    thread.start()
    try:
        while True:
            is_item, value = ready.get()
            if is_item:
                yield value
            elif value is None:
                return
            else:
                raise value
    finally:
        stop.set()
        thread.join(timeout=1.0)


_PIECE_BYTES = 1 << 20
_ZSTD_SLICE = 1 << 11  # a zstd block of 4 bytes may unpack to 128 KiB: at most 64 MiB come out of one slice
_XZ_MEMORY = 1 << 30
_MAGIC = {b"\x1f\x8b": "gz", b"\x28\xb5\x2f\xfd": "zst", b"\xfd7zXZ\x00": "xz"}
_SUFFIX = {".gz": "gz", ".zst": "zst", ".zstd": "zst", ".xz": "xz"}


def packing_of(name: str, head: bytes) -> str | None:
    """gz, zst or xz by the first bytes of a file, else None.

    Raises:
        DataError: the file's suffix promises one of them and its first bytes do not keep it.
    """
    packing = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)
    named = _SUFFIX.get(Path(name).suffix.lower())
    if named and head and packing != named:
        raise DataError(f"{name} is not a {named} file (by its first bytes); it may be damaged or misnamed.")
    return packing


def unpack(name: str, packing: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Unpack concatenated gz members, zst frames or xz streams in pieces of bounded size.

    Zeros after the last gz member or xz stream are padding. `name` is for messages.

    Raises:
        DataError: the data is damaged or ends too early.
    """
    damage: tuple[type[BaseException], ...] = (zlib.error, lzma.LZMAError, EOFError, MemoryError, ValueError)
    if packing == "zst":
        import zstandard

        damage = (*damage, zstandard.ZstdError)
    member: Any = None
    try:
        for chunk in chunks:
            data = chunk
            while data:
                if member is None:
                    data = data if packing == "zst" else data.lstrip(b"\0")
                    if not data:
                        break
                    member = _new_member(packing)
                data = yield from _feed(packing, member, data)
                if member.eof:
                    member = None
    except Any2VecError:
        raise
    except damage as error:
        raise DataError(f"{name} is damaged: its {packing} data cannot be unpacked ({error}).") from error
    if member is not None:
        raise DataError(f"{name} is truncated: its {packing} data ends too early; copy or download it again.")


def _new_member(packing: str) -> Any:
    if packing == "gz":
        return zlib.decompressobj(wbits=31)
    if packing == "xz":
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
    import zstandard

    return zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj(write_size=1 << 16)


def _feed(packing: str, member: Any, data: bytes) -> Generator[bytes, None, bytes]:
    """Feed packed bytes, yield what they unpack to in bounded pieces, return the bytes behind the member's end."""
    if packing == "gz":
        while data and not member.eof:
            yield member.decompress(data, _PIECE_BYTES)
            data = member.unconsumed_tail
        return member.unused_data
    if packing == "xz":
        yield member.decompress(data, _PIECE_BYTES)
        while not member.eof and not member.needs_input:
            yield member.decompress(b"", _PIECE_BYTES)
        return member.unused_data
    view = memoryview(data)
    for start in range(0, len(data), _ZSTD_SLICE):
        yield member.decompress(view[start : start + _ZSTD_SLICE])
        if member.eof:
            return member.unused_data + bytes(view[start + _ZSTD_SLICE :])
    return b""
