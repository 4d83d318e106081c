"""Messages between hosts: typed arrays under one header with a checksum. A damaged one is an error, never a wrong row.

On the wire a message is a head of HEAD.size bytes, then its body: one PART.size head for each array, then the arrays.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from xxhash import xxh3_64, xxh3_64_intdigest

from any2vec.errors import MessageError

KINDS = ("rows", "ids", "dense", "control")
"""what bytes are: rows of tables, which rows, dense arrays, and whatever steers (heads of messages too)"""
HEAD = struct.Struct("<4sHHIIQQ16sQdQ")
"""magic, version, parts, sender, channel, sequence number, checksum of the body, phase, body bytes, time due, checksum
of all that stands before it"""
PART = struct.Struct("<BBB5xQQ")
"""kind, dtype, dimensions, shape"""
MOST_PARTS = 2048
"""of a message: their heads travel at once"""
MAGIC = b"A2VM"
VERSION = 2
_CHECKSUM = struct.Struct("<Q")
_DTYPES = tuple(np.dtype(name) for name in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"))
_LEGAL: frozenset[np.dtype[Any]] = frozenset(_DTYPES)


class Part(NamedTuple):
    """One array of a message."""

    kind: str
    """one of KINDS"""
    array: np.ndarray
    """C-ordered, one or two dimensions, of integers or floats; not to be changed once it is sent"""


class Message(NamedTuple):
    """What one host said to another."""

    sender: int
    channel: int
    sequence: int
    """number of the message from this sender to this receiver on this channel, from 0"""
    phase: str
    parts: tuple[Part, ...]
    due: float = 0.0
    """moment of the monotonic clock at which an emulated link has brought the last byte; 0 without one"""


def overhead(num_parts: int) -> int:
    """Bytes of a message beside its arrays: they count as control."""
    return HEAD.size + num_parts * PART.size


def size_of(parts: Sequence[Part]) -> int:
    """Bytes of a message, head and body."""
    return overhead(len(parts)) + sum(part.array.nbytes for part in parts)


def check_parts(parts: Sequence[Part], phase: str) -> None:
    """Raise ValueError unless a message can carry these parts in this phase."""
    if len(parts) > MOST_PARTS:
        raise ValueError(f"a message has at most {MOST_PARTS} parts, got {len(parts)}")
    if not phase.isascii() or len(phase) > 16:
        raise ValueError(f"a phase has at most 16 ASCII letters, got {phase!r}")
    for part in parts:
        if part.kind not in KINDS or part.array.dtype not in _LEGAL or part.array.ndim not in (1, 2):
            shape, dtype = part.array.shape, part.array.dtype
            raise ValueError(f"no message carries an array of kind {part.kind!r}, type {dtype} and shape {shape}")


def encode(message: Message) -> tuple[bytes, list[np.ndarray]]:
    """(head, body) of a message; the body in pieces, uint8 (N,): heads of the parts, then views of the arrays."""
    heads = b"".join(_part_head(part) for part in message.parts)
    arrays = (np.ascontiguousarray(part.array).reshape(-1).view(np.uint8) for part in message.parts if part.array.size)
    pieces = [np.frombuffer(heads, np.uint8), *arrays]
    head = HEAD.pack(
        MAGIC, VERSION, len(message.parts), message.sender, message.channel, message.sequence, checksum(pieces),
        message.phase.encode("ascii"), sum(piece.size for piece in pieces), message.due, 0,
    )[: -_CHECKSUM.size]  # fmt: skip
    return head + _CHECKSUM.pack(xxh3_64_intdigest(head)), pieces


def checksum(pieces: Iterable[np.ndarray]) -> int:
    """XXH3, 64 bits, of the bytes of C-ordered arrays one after the other."""
    digest = xxh3_64()
    for piece in pieces:
        digest.update(piece.data)
    return digest.intdigest()


class Head(NamedTuple):
    """What the first HEAD.size bytes of a message say."""

    num_parts: int
    sender: int
    channel: int
    sequence: int
    checksum: int
    """of the body"""
    phase: str
    size: int
    """bytes of the body that follows"""
    due: float


def read_head(data: bytes) -> Head:
    """Read a head.

    Raises:
        MessageError: these bytes are no head, or another version's, or damaged.
    """
    if len(data) != HEAD.size or data[:4] != MAGIC:
        raise MessageError("A message between hosts has no valid head: the connection is out of step or not any2vec's.")
    _, version, num_parts, sender, channel, sequence, body, phase, size, due, own = HEAD.unpack(data)
    if version != VERSION:
        raise MessageError(
            f"A host speaks version {version} of the message format and this one {VERSION}; "
            "install the same any2vec on all hosts."
        )
    if own != xxh3_64_intdigest(data[: -_CHECKSUM.size]):
        raise MessageError("The head of a message between hosts arrived damaged; start again from the last checkpoint.")
    name = phase.rstrip(b"\0").decode("ascii", "replace")
    return Head(num_parts, sender, channel, sequence, body, name, size, due)


def decode(head: Head, fill: Callable[[np.ndarray], None]) -> Message:
    """The message of a head and the body that follows it.

    Args:
        fill: puts the next bytes of the body into a uint8 array, (N,).

    Raises:
        MessageError: it was damaged or made up; the sender is named.
    """
    num_parts, sender, size = head.num_parts, head.sender, head.size
    if num_parts > MOST_PARTS or num_parts * PART.size > size:
        raise MessageError(f"A message from rank {sender} cannot be read: {num_parts} parts in {size} bytes.")
    heads = np.empty(num_parts * PART.size, np.uint8)
    fill(heads)
    try:
        shapes = [_read_part_head(heads.data, number) for number in range(num_parts)]
        if sum(dtype.itemsize * math.prod(shape) for _, dtype, shape in shapes) + heads.size != size:
            raise ValueError(f"its parts do not make {size} bytes")
        parts = tuple(Part(kind, np.empty(shape, dtype)) for kind, dtype, shape in shapes)
    except (struct.error, ValueError, IndexError, MemoryError) as error:
        raise MessageError(f"A message from rank {sender} cannot be read: {error}.") from error
    bodies = [part.array.reshape(-1).view(np.uint8) for part in parts if part.array.size]
    for body in bodies:
        fill(body)
    if checksum([heads, *bodies]) != head.checksum:
        raise MessageError(
            f"A message from rank {sender} arrived damaged ({size} bytes, wrong checksum); "
            "the network or the sender is at fault, start again from the last checkpoint."
        )
    return Message(sender, head.channel, head.sequence, head.phase, parts, head.due)


def from_memory(body: np.ndarray) -> Callable[[np.ndarray], None]:
    """What `decode` reads from, for a body that lies in one piece, uint8 (N,)."""
    at = 0

    def fill(array: np.ndarray) -> None:
        nonlocal at
        array[:] = body[at : at + array.size]
        at += array.size

    return fill


def _part_head(part: Part) -> bytes:
    shape = (*part.array.shape, 0)[:2]
    return PART.pack(KINDS.index(part.kind), _DTYPES.index(part.array.dtype), part.array.ndim, *shape)


def _read_part_head(heads: memoryview, number: int) -> tuple[str, np.dtype[Any], tuple[int, ...]]:
    """(kind, dtype, shape) of an array."""
    kind, dtype, ndim, rows, columns = PART.unpack_from(heads, number * PART.size)
    return KINDS[kind], _DTYPES[dtype], (rows, columns) if ndim == 2 else (rows,)
