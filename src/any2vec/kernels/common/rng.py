"""Counter-based random numbers: a draw depends on (seed, purpose, epoch, position) alone, never on who draws it.

SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators", figure 15), read at any index.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit

PURPOSE_TOKEN = 1
"""subsampling (low 32 bits) and window (high 32 bits) of a token position"""
PURPOSE_NEGATIVE = 2
PURPOSE_WALK = 3
PURPOSE_ORDER = 4
PURPOSE_INIT = 5
PURPOSE_PARTS = 6
"""which row of a partitioned table an entity has"""
PURPOSE_WINDOW = 7
"""in which order the triples of a state of the buffer are trained"""
PURPOSE_GRAM = 8
"""where rows of n-grams start"""
PURPOSE_REPLAY = 9
"""which sentences of a stream are trained once more"""
PURPOSE_NEIGHBOR = 10
"""which neighbors a node samples"""
PURPOSE_SUBGRAPH = 11
"""where walks that a subgraph is made of begin, and where they go"""
PURPOSE_PAIR = 12
"""which node of a walk its start is paired with"""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)
_11 = np.uint64(11)
_LOW32 = np.uint64(0xFFFFFFFF)


@jit
def mix64(x: np.uint64) -> np.uint64:
    """uint64 -> uint64, a bijection with good avalanche."""
    x = (x ^ (x >> _30)) * _M1
    x = (x ^ (x >> _27)) * _M2
    return x ^ (x >> _31)


@jit
def draw(key: np.uint64, counter: np.uint64) -> np.uint64:
    """64 random bits of stream `key` (uint64) at `counter` (uint64)."""
    return mix64(key + (counter + np.uint64(1)) * _GOLDEN)


@jit
def below(bits32: np.uint64, n: int) -> np.int64:
    """An integer in [0, n) from 32 random bits in a uint64 (multiply and shift; bias below n / 2**32)."""
    return np.int64((bits32 * np.uint64(n)) >> _32)


@jit
def unit(bits64: np.uint64) -> float:
    """A float64 in [0, 1) from 64 random bits."""
    return np.float64(bits64 >> _11) * (1.0 / 9007199254740992.0)


def stream_key(seed: int, purpose: int, epoch: int = 0) -> np.uint64:
    """The key of one stream of draws. Plain Python: called once a run and epoch, never in a kernel."""
    mask = (1 << 64) - 1

    def mix(x: int) -> int:
        x = ((x ^ (x >> 30)) * int(_M1)) & mask
        x = ((x ^ (x >> 27)) * int(_M2)) & mask
        return x ^ (x >> 31)

    key = mix((seed + int(_GOLDEN)) & mask)
    key = mix((key + purpose * int(_GOLDEN)) & mask)
    return np.uint64(mix((key + (epoch + 1) * int(_GOLDEN)) & mask))
