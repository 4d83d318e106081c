"""Vectors of words by an LSTM over their bytes, in NumPy: what a trained generator says of any word.

Legend: N words, D dim, S symbols, E numbers per symbol, H numbers of the state. Gates: in, forget, cell, out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from any2vec.data.vocabulary import Keys
from any2vec.errors import InputError
from any2vec.makers.spelling import SYMBOLS, spell

_TOGETHER = 1024
"""words whose states are held at a time"""
SHAPES = {
    "symbols": ("S", "E"), "input": ("4H", "E"), "hidden": ("4H", "H"), "bias": ("4H",), "output": ("D", "H"),
    "offset": ("D",),
}  # fmt: skip


class CharLstmMaker:
    """The vector of a word: the last state of an LSTM that has read its bytes and END, through a linear layer.

    Args:
        weights: float32 by name, in the shapes of SHAPES.
    """

    kind: ClassVar[str] = "char-lstm"
    file: ClassVar[str] = "char_lstm.safetensors"

    def __init__(self, weights: Mapping[str, np.ndarray]) -> None:
        self._weights = dict(weights)

    @classmethod
    def of(cls, options: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> CharLstmMaker:
        """Raises KeyError or ValueError for arrays that do not fit together."""
        weights = {name: arrays[name] for name in SHAPES}
        sizes = {"S": SYMBOLS, "E": weights["symbols"].shape[-1], "H": weights["output"].shape[-1]}
        sizes |= {"4H": 4 * sizes["H"], "D": len(weights["output"])}
        for name, shape in SHAPES.items():
            wanted = tuple(sizes[letter] for letter in shape)
            if weights[name].shape != wanted or weights[name].dtype != np.float32:
                raise ValueError(f"{name} has shape {weights[name].shape}, expected {wanted}")
        return cls(weights)

    @property
    def dim(self) -> int:
        return len(self._weights["output"])

    def make(self, words: Sequence[str]) -> np.ndarray:
        if not all(words):
            raise InputError("The empty word has no vector; ask for one with a letter at least.")
        found = np.empty((len(words), self.dim), np.float32)
        order = np.argsort([-len(word.encode("utf-8", "replace")) for word in words], kind="stable")
        for first in range(0, len(order), _TOGETHER):
            own = order[first : first + _TOGETHER]
            found[own] = self._together([words[n] for n in own])
        return found

    def _together(self, words: Sequence[str]) -> np.ndarray:
        """Of words by falling length in bytes."""
        own = self._weights
        symbol_NS, size_N = spell(Keys.of(words))
        read_SG = own["symbols"] @ own["input"].T + own["bias"]
        size = own["output"].shape[1]
        state_NH, cell_NH = (np.zeros((len(words), size), np.float32) for _ in range(2))
        for place in range(symbol_NS.shape[1]):
            still = int(np.count_nonzero(size_N > place))
            gate_NG = read_SG[symbol_NS[:still, place]] + state_NH[:still] @ own["hidden"].T
            let_in, forget, _, out = np.split(expit(gate_NG), 4, axis=1)
            cell_NH[:still] = forget * cell_NH[:still] + let_in * np.tanh(gate_NG[:, 2 * size : 3 * size])
            state_NH[:still] = out * np.tanh(cell_NH[:still])
        return state_NH @ own["output"].T + own["offset"]

    def options(self) -> dict[str, Any]:
        return {}

    def arrays(self) -> dict[str, np.ndarray]:
        return self._weights
