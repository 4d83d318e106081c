"""Messages between hosts: typed arrays under one header with a checksum. A damaged one is an error, never a wrong row.

On the wire a message is a head of HEAD.size bytes, then its body: one PART.size head for each array, then the arrays.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from any2vec.errors import MessageError

KINDS = ("rows", "ids", "dense", "control")
"""what bytes are: rows of tables, which rows, dense arrays, and whatever steers (heads of messages too)"""
HEAD = struct.Struct("<4sHHIIQI16sQdI")
"""magic, version, parts, sender, channel, sequence number, checksum of the body, phase, body bytes, time due, checksum
of all that stands before it"""
PART = struct.Struct("<BBB5xQQ")
"""kind, dtype, dimensions, shape; its size is a multiple of 8, so that the first array is aligned"""
MAGIC = b"A2VM"
VERSION = 1
_CHECKSUM = struct.Struct("<I")
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
    if not phase.isascii() or len(phase) > 16:
        raise ValueError(f"a phase has at most 16 ASCII letters, got {phase!r}")
    for part in parts:
        if part.kind not in KINDS or part.array.dtype not in _LEGAL or part.array.ndim not in (1, 2):
            shape, dtype = part.array.shape, part.array.dtype
            raise ValueError(f"no message carries an array of kind {part.kind!r}, type {dtype} and shape {shape}")


def encode(message: Message) -> tuple[bytes, bytearray]:
    """(head, body) of a message."""
    body = bytearray(size_of(message.parts) - HEAD.size)
    return encode_into(message, np.frombuffer(body, np.uint8)), body


def encode_into(message: Message, body: np.ndarray) -> bytes:
    """Write the body of a message, `size_of` less HEAD.size bytes, into uint8 memory; returns the head.

    Memory that is used again costs nothing but the copy; fresh memory costs more than that.
    """
    heads = b"".join(_part_head(part) for part in message.parts)
    target = body.data
    target[: len(heads)] = heads
    at = len(heads)
    for part in message.parts:
        array = np.ascontiguousarray(part.array)
        if array.nbytes:
            target[at : at + array.nbytes] = array.data.cast("B")
        at += array.nbytes
    head = HEAD.pack(
        MAGIC, VERSION, len(message.parts), message.sender, message.channel, message.sequence, zlib.crc32(target),
        message.phase.encode("ascii"), len(body), message.due, 0,
    )[: -_CHECKSUM.size]  # fmt: skip
    return head + _CHECKSUM.pack(zlib.crc32(head))


def body_size(head: bytes) -> int:
    """Bytes of the body that follows a head.

    Raises:
        MessageError: these bytes are no head, or another version's.
    """
    if len(head) != HEAD.size or head[:4] != MAGIC:
        raise MessageError("A message between hosts has no valid head: the connection is out of step or not any2vec's.")
    version, size = HEAD.unpack(head)[1], HEAD.unpack(head)[8]
    if version != VERSION:
        raise MessageError(
            f"A host speaks version {version} of the message format and this one {VERSION}; "
            "install the same any2vec on all hosts."
        )
    if _CHECKSUM.unpack(head[-_CHECKSUM.size :])[0] != zlib.crc32(head[: -_CHECKSUM.size]):
        raise MessageError("The head of a message between hosts arrived damaged; start again from the last checkpoint.")
    return int(size)


def decode(head: bytes, body: bytes | bytearray | memoryview) -> Message:
    """The message of a head and a body; its arrays are views of `body`, or copies where a view would not be aligned.

    Raises:
        MessageError: it was cut short, damaged or made up; `sender` is named where it is known.
    """
    size = body_size(head)
    _, _, num_parts, sender, channel, sequence, checksum, phase, _, due, _ = HEAD.unpack(head)
    if len(body) != size or zlib.crc32(body) != checksum:
        raise MessageError(
            f"A message from rank {sender} arrived damaged ({len(body)} of {size} bytes, or a wrong checksum); "
            "the network or the sender is at fault, start again from the last checkpoint."
        )
    parts, at = [], num_parts * PART.size
    for number in range(num_parts):
        part, at = _read_part(body, number, at, sender)
        parts.append(part)
    if at != size:
        raise MessageError(f"A message from rank {sender} is {size} bytes long, and its parts are {at}.")
    return Message(sender, channel, sequence, phase.rstrip(b"\0").decode("ascii", "replace"), tuple(parts), due)


def _part_head(part: Part) -> bytes:
    shape = (*part.array.shape, 0)[:2]
    return PART.pack(KINDS.index(part.kind), _DTYPES.index(part.array.dtype), part.array.ndim, *shape)


def _read_part(body: bytes | bytearray | memoryview, number: int, at: int, sender: int) -> tuple[Part, int]:
    """(part, where the next one starts) of the array that starts at `at`."""
    try:
        kind, dtype, ndim, rows, columns = PART.unpack_from(body, number * PART.size)
        count = rows * columns if ndim == 2 else rows
        array = np.frombuffer(body, _DTYPES[dtype], count, at) if count else np.empty(0, _DTYPES[dtype])
        if not array.flags.aligned:  # a kernel would be compiled anew for it
            array = array.copy()
        return Part(KINDS[kind], array.reshape(rows, columns) if ndim == 2 else array), at + array.nbytes
    except (struct.error, ValueError, IndexError, OverflowError) as error:
        raise MessageError(f"A message from rank {sender} cannot be read: {error}.") from error
