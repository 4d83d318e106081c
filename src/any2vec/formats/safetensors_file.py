"""Safetensors, written straight from the arrays and read memory-mapped.

The layout (huggingface/safetensors, README "Format"): 8 bytes little-endian length of the header, the header as JSON
`{"name": {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {str: str}}` padded with spaces, the data.
The library's own writer takes every tensor as bytes, a second copy of a matrix that may fill half the memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
from xxhash import xxh3_64

from any2vec.checks import parse_json
from any2vec.data.io.held import stored
from any2vec.errors import FormatError
from any2vec.formats.table import row_blocks, to_float16

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_STORED = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "U64": "<u8", "I32": "<i4", "U32": "<u4", "I16": "<i2",
    "U16": "<u2", "I8": "i1", "U8": "u1", "BOOL": "?",
}  # fmt: skip
"""types that arrays of a checkpoint may have"""
_NAMES = {np.dtype(stored): name for name, stored in _STORED.items()}
_LARGEST_HEADER = 100 << 20
_MOST_DIMENSIONS = 8
_CHECKSUM = "checksum"
"""field of the metadata: xxh3 of all bytes behind the header, 16 hexadecimal digits"""
_NOT_YET = "0" * 16
_PIECE = 1 << 22
"""bytes that are checked at a time"""


def write_safetensors(
    file: IO[bytes], tensors: dict[str, np.ndarray], dtype: str, metadata: dict[str, str], is_checked: bool = False
) -> None:
    """Write float32 matrices as `dtype` ("float32", "float16"), block by block: memory O(block).

    is_checked: with a checksum, for `check_file`; the file is then one that can be sought in, and empty.
    """

    def blocks() -> Iterator[np.ndarray]:
        for name, matrix in tensors.items():
            for block in row_blocks(matrix):
                yield to_float16(matrix[block], name) if dtype == "float16" else matrix[block]

    _write(file, tensors, dict.fromkeys(tensors, np.dtype(dtype)), metadata, blocks(), is_checked)


def write_arrays(
    file: IO[bytes], arrays: dict[str, np.ndarray], metadata: dict[str, str], is_checked: bool = False
) -> None:
    """Write arrays of numbers, each of its own type and shape, block by block: memory O(block).

    is_checked: as of `write_safetensors`.
    """
    blocks = (array[block] for array in arrays.values() for block in (row_blocks(array) if array.ndim else [...]))
    _write(file, arrays, {name: array.dtype for name, array in arrays.items()}, metadata, blocks, is_checked)


def _write(
    file: IO[bytes], tensors: dict[str, np.ndarray], dtypes: dict[str, np.dtype], metadata: dict[str, str],
    blocks: Iterator[np.ndarray], is_checked: bool,
) -> None:  # fmt: skip
    """Header, then data. The checksum, put in at the end, is of what was written, whatever becomes of the arrays."""
    header = _write_header(file, tensors, dtypes, metadata | ({_CHECKSUM: _NOT_YET} if is_checked else {}))
    digest = xxh3_64()
    for block in blocks:
        data = np.ascontiguousarray(block, dtype=block.dtype.newbyteorder("<"))
        if is_checked:
            data = data.copy() if data is block else data
            digest.update(data.data)
        file.write(data.data)
    if is_checked:
        end = file.tell()
        file.seek(header.index(f'"{_CHECKSUM}": "{_NOT_YET}"'.encode()) + len(_CHECKSUM) + 5)
        file.write(digest.hexdigest().encode())
        file.seek(end)


def check_file(path: Path) -> None:
    """Read a file that was written with a checksum, if it was.

    Raises:
        FormatError: its bytes are not those that were written.
    """
    header, start = _read_header(path)
    metadata = header.get("__metadata__")
    expected = metadata.get(_CHECKSUM) if isinstance(metadata, dict) else None
    if expected is None:
        return
    digest = xxh3_64()
    with path.open("rb") as file:
        file.seek(start)
        while piece := file.read(_PIECE):
            digest.update(piece)
    if digest.hexdigest() != expected:
        raise FormatError(f"{path.name}: its bytes are not those that were written (checksum {expected}).")


def _write_header(
    file: IO[bytes], tensors: dict[str, np.ndarray], dtypes: dict[str, np.dtype], metadata: dict[str, str]
) -> bytes:
    """Write the header; it."""
    header: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    offset = 0
    for name, matrix in tensors.items():
        stop = offset + matrix.size * dtypes[name].itemsize
        dtype = _NAMES[dtypes[name].newbyteorder("<")]
        header[name] = {"dtype": dtype, "shape": list(matrix.shape), "data_offsets": [offset, stop]}
        offset = stop
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    text = len(text).to_bytes(8, "little") + text
    file.write(text)
    return text


def _read_header(path: Path) -> tuple[dict[str, object], int]:
    """The header and the position at which the data start."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _LARGEST_HEADER):
            raise FormatError(f"{path.name}: not a safetensors file, or cut short (its header does not fit).")
        try:
            header = parse_json(file.read(length))
        except ValueError:
            raise FormatError(f"{path.name}: not a safetensors file, or damaged (its header is not JSON).") from None
    if not isinstance(header, dict):
        raise FormatError(f"{path.name}: the safetensors header must be a JSON object.")
    return header, 8 + length


def _is_sound(entry: object, room: int) -> bool:
    """Whether a header entry describes a tensor that lies within `room` bytes of data."""
    if not isinstance(entry, dict) or not isinstance(entry.get("dtype"), str):
        return False
    shape, offsets = entry.get("shape"), entry.get("data_offsets")
    if not isinstance(shape, list) or not isinstance(offsets, list) or len(offsets) != 2:
        return False
    if len(shape) > _MOST_DIMENSIONS:  # whose product would take long, too
        return False
    if not all(type(number) is int and 0 <= number <= 2**48 for number in [*shape, *offsets]):
        return False
    if entry["dtype"] not in _DTYPES:
        return True  # integers and the like: not ours to read, and no sign of damage
    return (
        offsets[1] <= room and offsets[1] - offsets[0] == math.prod(shape) * np.dtype(_DTYPES[entry["dtype"]]).itemsize
    )


def read_safetensors(
    path: Path, mmap: bool, ranks: tuple[int, ...] = (2,)
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The float matrices of a file as float32 (mapped where they are F32 and `mmap`), and its metadata.

    ranks: numbers of dimensions of the tensors that are wanted; others, and empty ones, are left out.

    Raises FormatError when the header is damaged or a tensor reaches beyond the file's end.
    """
    header, start = _read_header(path)
    room = path.stat().st_size - start
    metadata = header.pop("__metadata__", {})
    tensors: dict[str, np.ndarray] = {}
    for name, entry in header.items():
        if not _is_sound(entry, room):
            raise FormatError(f"{path.name}: tensor {name!r} does not fit the file; it is damaged or cut short.")
        assert isinstance(entry, dict)
        if entry["dtype"] not in _DTYPES or len(entry["shape"]) not in ranks or 0 in entry["shape"]:
            continue
        offset, shape = start + entry["data_offsets"][0], tuple(entry["shape"])
        array = stored(path, _DTYPES[entry["dtype"]], offset, shape)
        if entry["dtype"] == "BF16":  # the upper half of a float32
            array = (array.astype(np.uint32) << 16).view(np.float32)
        if entry["dtype"] == "F64":
            with np.errstate(over="ignore"):  # infinity is found, and named, by the check of the contents
                array = array.astype(np.float32)
        tensors[name] = array.astype(np.float32, copy=not mmap)
    return tensors, metadata if isinstance(metadata, dict) else {}


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """What `write_arrays` wrote, memory-mapped and read-only, and its metadata.

    Raises FormatError when the header is damaged or an array reaches beyond the file's end.
    """
    header, start = _read_header(path)
    room = path.stat().st_size - start
    metadata = header.pop("__metadata__", {})
    arrays: dict[str, np.ndarray] = {}
    for name, entry in header.items():
        if not _is_sound(entry, room) or not isinstance(entry, dict) or entry["dtype"] not in _STORED:
            raise FormatError(f"{path.name}: array {name!r} does not fit the file; it is damaged or cut short.")
        dtype, shape = np.dtype(_STORED[entry["dtype"]]), tuple(entry["shape"])
        begin, stop = entry["data_offsets"]
        is_small = math.prod(size or 1 for size in shape) < 1 << 56  # NumPy counts empty ones by their other sides
        if not is_small or stop > room or stop - begin != dtype.itemsize * math.prod(shape):
            raise FormatError(f"{path.name}: array {name!r} does not fit the file; it is damaged or cut short.")
        is_empty = begin == stop  # which cannot be mapped
        arrays[name] = np.empty(shape, dtype) if is_empty else stored(path, dtype, start + begin, shape)
    return arrays, metadata if isinstance(metadata, dict) else {}
