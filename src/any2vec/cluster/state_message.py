"""State in a message: arrays of any dtype and shape, which parts of messages are not."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.transport import text_of, text_part
from any2vec.errors import MessageError
from any2vec.types import State


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
    about = json.loads(text_of(parts[0]))
    found: State = {}
    for (name, kind, shape), part in zip(about, parts[1:], strict=True):
        dtype = np.dtype(kind)
        if dtype.hasobject or part.array.nbytes != math.prod(shape) * dtype.itemsize:
            raise MessageError(f"The array {name!r} came as {part.array.nbytes} bytes, which are no {kind} of {shape}.")
        found[name] = part.array.view(dtype).reshape(shape)
    return found
