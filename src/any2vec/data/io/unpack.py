"""gz, zst and xz: told by their first bytes, unpacked as a stream, refused when damaged or truncated."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from any2vec.errors import Any2VecError, DataError

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
