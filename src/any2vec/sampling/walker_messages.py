"""What a host sends another in one superstep of distributed walks. On the wire: one byte of control that says which
arrays follow, then those that are not empty, all of kind ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from any2vec.cluster.message import Part
from any2vec.errors import MessageError

_IS_DONE = 1 << 7
_DTYPES = (np.uint32, np.int32, np.int32, np.int32, np.uint8, np.int32)
_MAX_WORD = 0xFFFFFFFF


class Message(NamedTuple):
    """Arrays from one host to another; M walkers, Q edge queries."""

    walkers: np.ndarray
    """uint32 (M, 3 or 5): ticket, node, nodes so far; in second-order walks also last node and words drawn. The stream
    of a walker follows from its number and the words drawn, so its state stays at home"""
    segments: np.ndarray
    """int32 (any,), see `kernels.graph.segments`"""
    edges: np.ndarray
    """int32 (Q, 2): is this an edge? The receiver owns the source"""
    nodes: np.ndarray
    """int32 (any,): whose rows are asked for; the receiver owns them"""
    near: np.ndarray
    """uint8 (ceil(Q / 8),): a bit for each edge that the receiver asked about one superstep before"""
    rows: np.ndarray
    """int32 (any,): the length of a row, then the row; what the receiver asked for, in its order, as far as it fits"""
    is_done: bool = False
    """whether all walks that the sender asked for are over"""

    @classmethod
    def of_arrays(cls, arrays: Mapping[int, np.ndarray], is_done: bool) -> Message:
        """Of the arrays by their place among the fields; the others are empty."""
        every = [arrays.get(place, np.empty(0, dtype)) for place, dtype in enumerate(_DTYPES)]
        return cls._make([*every, is_done])

    @classmethod
    def empty(cls) -> Message:
        return cls.of_arrays({}, False)

    def parts(self) -> list[Part]:
        """As the transport takes it."""
        arrays = [getattr(self, name) for name in self._fields[:-1]]
        mask = sum(1 << place for place, array in enumerate(arrays) if len(array)) | (_IS_DONE if self.is_done else 0)
        head = Part("control", np.array([mask], np.uint8))
        return [head, *(Part("ids", array) for array in arrays if len(array))]

    @classmethod
    def of(cls, parts: Sequence[Part], sender: int) -> Message:
        """Read what `parts` made.

        Raises:
            MessageError: these are other arrays than it made.
        """
        mask = int(parts[0].array[0]) if parts and parts[0].array.size == 1 else -1
        present = [place for place in range(len(_DTYPES)) if mask >> place & 1]
        arrays = [part.array for part in parts[1:]]
        if mask < 0 or [array.dtype for array in arrays] != [np.dtype(_DTYPES[place]) for place in present]:
            raise MessageError(f"Rank {sender} sent arrays that are no walkers; the hosts do not run the same job.")
        return cls.of_arrays(dict(zip(present, arrays, strict=True)), bool(mask & _IS_DONE))

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in self._fields[:-1])


def pack_walkers(walkers_WC: np.ndarray, columns: Sequence[int]) -> np.ndarray:
    """Columns of walkers as uint32 (W, columns).

    Raises:
        OverflowError: a walk has drawn 2**32 words.
    """
    sent = walkers_WC[:, columns]
    if sent.size and sent.max() > _MAX_WORD:
        raise OverflowError("a walk drew more than 2**32 random words")
    return sent.astype(np.uint32)
