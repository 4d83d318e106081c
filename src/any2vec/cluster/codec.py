"""How rows, sets of rows and states become parts: 32, 16 or 8 bits a number, and the smallest way to say which rows."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from any2vec.checks import parse_json
from any2vec.cluster.message import Part
from any2vec.cluster.transport import text_of, text_part
from any2vec.errors import MessageError
from any2vec.types import State

_CODES = {16: np.int16, 8: np.int8}


def pack_rows(rows_KD: np.ndarray, bits: int = 32) -> list[Part]:
    """Parts that carry float32 rows (K, D): as they are, or as whole numbers with a float32 scale for each row."""
    if bits == 32 or not len(rows_KD):
        return [Part("rows", rows_KD)]
    parts = empty_parts(rows_KD.shape, bits)
    pack_into(rows_KD, bits, parts)
    return parts


def empty_parts(shape: tuple[int, ...], bits: int) -> list[Part]:
    """Memory for the parts that `pack_rows` makes of one row or more of this shape with 16 or 8 bits."""
    return [Part("rows", np.empty(shape, _CODES[bits])), Part("rows", np.empty(shape[0], np.float32))]


def pack_into(rows_KD: np.ndarray, bits: int, parts: Sequence[Part]) -> None:
    """Fill `empty_parts`, or the same rows of both of them."""
    from any2vec.kernels.rows.quantize import quantize_rows

    quantize_rows(np.ascontiguousarray(rows_KD), most_of(bits), parts[1].array, parts[0].array)


def most_of(bits: int) -> int:
    """The largest code of 16 or 8 bits."""
    return (1 << (bits - 1)) - 1


def unpack_rows(parts: Sequence[Part]) -> np.ndarray:
    """float32 (K, D), what `pack_rows` put in; exact for 32 bits.

    Raises:
        MessageError: there are none, or not a scale for each.
    """
    if len(parts) == 1:
        return parts[0].array
    if not parts:
        raise MessageError("A host sent nothing where rows belong.")
    from any2vec.kernels.rows.quantize import restore_rows

    code_KD, scale_K = parts[0].array, parts[1].array
    _check_rounded([code_KD], [scale_K])
    rows_KD = np.empty(code_KD.shape, np.float32)
    restore_rows(scale_K, code_KD, rows_KD)
    return rows_KD


def unpack_lists(packed: Sequence[Sequence[Part]]) -> list[np.ndarray]:
    """`unpack_rows` of several messages; one call restores all that are rounded, for with many hosts they are short.

    Raises:
        MessageError: as `unpack_rows`, or the rows of two messages differ in length or type.
    """
    found = packed_lists(packed)
    is_coded = found.scale_H > 0
    if not is_coded.any():
        return found.arrays
    from any2vec.kernels.rows.quantize import restore_lists

    size_H = found.size_H[is_coded]
    dim = next(rows.shape[1] for rows, coded in zip(found.arrays, is_coded, strict=True) if coded)
    rows_KD = np.empty((int(size_H.sum()), dim), np.float32)
    restore_lists(found.scale_H[is_coded], found.value_H[is_coded], size_H, found.like, rows_KD)
    restored = iter(np.split(rows_KD, np.cumsum(size_H)[:-1]))
    return [next(restored) if coded else rows for rows, coded in zip(found.arrays, is_coded, strict=True)]


class PackedLists(NamedTuple):
    """Lists of rows as `pack_rows` packed them, for kernels that restore them."""

    arrays: list[np.ndarray]
    """float32 rows (K, D), or codes; kept, for the addresses are theirs"""
    scales: list[np.ndarray | None]
    """float32 (K,), of codes"""
    value_H: np.ndarray
    """uint64 (H,): addresses of the arrays"""
    scale_H: np.ndarray
    """uint64 (H,): of the scales, 0 where there are none"""
    size_H: np.ndarray
    """int64 (H,): K of each"""
    like: np.integer[Any]
    """a code"""


def packed_lists(packed: Sequence[Sequence[Part]]) -> PackedLists:
    """What several hosts have sent, without restoring it.

    Raises:
        MessageError: as `unpack_lists`.
    """
    from any2vec.kernels.common.addresses import addresses

    if not all(packed):
        raise MessageError("A host sent nothing where rows belong.")
    arrays = [parts[0].array for parts in packed]
    scales = [parts[1].array if len(parts) == 2 else None for parts in packed]
    is_coded = np.array([scale is not None for scale in scales], bool)
    codes = [array for array, coded in zip(arrays, is_coded, strict=True) if coded]
    plain = [array for array, coded in zip(arrays, is_coded, strict=True) if not coded]
    own = [scale for scale in scales if scale is not None]
    _check_rounded(codes, own)
    if odd := [rows.dtype for rows in plain if rows.dtype != np.float32]:
        raise MessageError(f"A host sent rows of {odd[0]}, where float32 is due, or codes with scales.")
    kind = codes[0].dtype.type if codes else np.int8
    value_H, scale_H = np.zeros((2, len(packed)), np.uint64)
    value_H[is_coded], value_H[~is_coded] = addresses(codes, kind), addresses(plain, np.float32)
    scale_H[is_coded] = addresses(own, np.float32)
    return PackedLists(arrays, scales, value_H, scale_H, np.array([len(rows) for rows in arrays], np.int64), kind(0))


def _check_rounded(codes: Sequence[np.ndarray], scales: Sequence[np.ndarray]) -> None:
    """Kernels trust lengths, so what another host says is looked at before they do."""
    for code, scale in zip(codes, scales, strict=True):
        if code.ndim != 2 or scale.shape != code.shape[:1] or scale.dtype != np.float32:
            raise MessageError("A host sent rounded rows without a scale for each of them.")
        if code.shape[1] != codes[0].shape[1] or code.dtype != codes[0].dtype:
            raise MessageError(
                f"A host sent rounded rows of {code.shape[1]} numbers ({code.dtype}) where another has "
                f"{codes[0].shape[1]} ({codes[0].dtype})."
            )


def rows_size(count: int, dim: int, bits: int = 32) -> int:
    """Bytes of the rows part(s) of `count` rows."""
    return count * (dim * bits // 8 + (4 if bits < 32 else 0))


def rows_parts(count: int, bits: int) -> int:
    """How many parts `count` rows make."""
    return 1 if bits == 32 or count == 0 else 2


def pack_ids(ids: np.ndarray, num_rows: int) -> Part:
    """The part that says which of `num_rows` rows: ascending ids int64 (K,), 0..num_rows - 1.

    Nothing for none, one byte for all, else the smaller of a bit for each row and 2 or 4 bytes for each id (Gluon,
    Dathathri et al. 2018, section 4.2: the encoding is chosen message by message).
    """
    if not len(ids):
        return Part("ids", np.empty(0, np.uint8))
    if len(ids) == num_rows:
        return Part("ids", np.zeros(1, np.int8))
    kind = np.uint16 if num_rows <= 1 << 16 else np.uint32
    if -(-num_rows // 8) <= len(ids) * np.dtype(kind).itemsize:
        flags = np.zeros(num_rows, np.uint8)
        flags[ids] = 1
        return Part("ids", np.packbits(flags))
    return Part("ids", ids.astype(kind))


def unpack_ids(part: Part, num_rows: int) -> np.ndarray:
    """int64 (K,), ascending: what `pack_ids` put in.

    Raises:
        MessageError: ids are not rows of the block, ascending.
    """
    array = part.array
    if array.dtype == np.int8:
        return np.arange(num_rows)
    if array.dtype == np.uint8:
        if array.size not in (0, -(-num_rows // 8)):
            raise MessageError(f"A host speaks of {8 * array.size} rows of a block of {num_rows} rows.")
        return np.flatnonzero(np.unpackbits(array, count=num_rows).view(bool)) if array.size else np.empty(0, np.int64)
    if array.dtype.kind not in "iu":
        raise MessageError(f"A host speaks of rows by numbers of type {array.dtype}.")
    ids = array.astype(np.int64)
    if ids.ndim != 1 or not ids.size or ids[0] < 0 or ids[-1] >= num_rows or (np.diff(ids) <= 0).any():
        last = ids.reshape(-1)[-1] if ids.size else "none"
        raise MessageError(f"A host speaks of row {last} of a block of {num_rows} rows, or of rows out of order.")
    return ids


def ids_size(count: int, num_rows: int) -> int:
    """Bytes that `pack_ids` needs for `count` of `num_rows` rows."""
    if count in (0, num_rows):
        return min(count, 1)
    return min(-(-num_rows // 8), count * (2 if num_rows <= 1 << 16 else 4))


def pack_state(state: State) -> list[Part]:
    """Parts that hold copies: whoever sends them may change the arrays at once."""
    about = [[name, array.dtype.str, array.shape] for name, array in state.items()]
    copies = [array.flatten().view(np.uint8) for array in state.values()]
    return [text_part(json.dumps(about)), *(Part("dense", copy) for copy in copies)]


def unpack_state(parts: Sequence[Part]) -> State:
    """What `pack_state` packed.

    Raises:
        MessageError: the parts are no state.
    """
    found: State = {}
    try:
        about = parse_json(text_of(parts[0]))
        for (name, kind, shape), part in zip(about, parts[1:], strict=True):
            dtype = np.dtype(kind)
            if dtype.hasobject or part.array.nbytes != math.prod(shape) * dtype.itemsize:
                raise ValueError(f"{name!r} came as {part.array.nbytes} bytes, which are no {kind} of {shape}")
            found[name] = part.array.view(dtype).reshape(shape)
    except (ValueError, TypeError, IndexError) as error:
        raise MessageError(f"A host sent what is no state: {error}.") from error
    return found
