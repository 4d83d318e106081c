"""Vectors of words by an LSTM over their bytes, in NumPy: what a trained generator says of any word.

Legend: N words, D dim, S symbols, E numbers per symbol, H numbers of a state, R ways in which a word is read.
Gates: in, forget, cell, out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from any2vec.data.vocab.vocabulary import Keys
from any2vec.encoders.spelling import READINGS, SYMBOLS, backwards, spell
from any2vec.errors import InputError

_TOGETHER = 1024
"""words whose states are held at a time"""
SHAPES = {
    "symbols": ("S", "E"), "input": ("4RH", "E"), "hidden": ("4RH", "H"), "bias": ("4RH",),
    "output": ("D", "RH"), "offset": ("D",),
}  # fmt: skip


class CharLstmEncoder:
    """The vector of a word: the last states of LSTMs that have read its bytes and END, through a linear layer.

    Args:
        reading: one LSTM forwards, one backwards, or both.
        weights: float32 by name, in the shapes of SHAPES.
    """

    kind: ClassVar[str] = "char-lstm"
    file: ClassVar[str] = "char_lstm.safetensors"

    def __init__(self, reading: str, weights: Mapping[str, np.ndarray]) -> None:
        self._reading, self._weights = reading, dict(weights)

    @classmethod
    def of(cls, options: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> CharLstmEncoder:
        """Raises KeyError or ValueError for arrays that do not fit together."""
        weights = {name: arrays[name] for name in SHAPES}
        ways = len(READINGS[options["reading"]])
        sizes = {"S": SYMBOLS, "E": weights["symbols"].shape[-1], "H": weights["hidden"].shape[-1]}
        sizes |= {"4RH": 4 * ways * sizes["H"], "RH": ways * sizes["H"], "D": len(weights["output"])}
        for name, shape in SHAPES.items():
            wanted = tuple(sizes[letter] for letter in shape)
            if weights[name].shape != wanted or weights[name].dtype != np.float32:
                raise ValueError(f"{name} has shape {weights[name].shape}, expected {wanted}")
        return cls(options["reading"], weights)

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
        symbol_NS, size_N = spell(Keys.of(words))
        state_NRH = np.concatenate(
            [
                self._states(way, backwards(symbol_NS, size_N) if is_backward else symbol_NS, size_N)
                for way, is_backward in enumerate(READINGS[self._reading])
            ],
            axis=1,
        )
        return state_NRH @ self._weights["output"].T + self._weights["offset"]

    def _states(self, way: int, symbol_NS: np.ndarray, size_N: np.ndarray) -> np.ndarray:
        """The last states of one LSTM, float32 (N, H)."""
        ways = len(READINGS[self._reading])
        input_GE, hidden_GH, bias_G = (np.split(self._weights[name], ways)[way] for name in ("input", "hidden", "bias"))
        read_SG, hidden_HG = self._weights["symbols"] @ input_GE.T + bias_G, hidden_GH.T
        size = len(hidden_HG)
        state_NH, cell_NH = (np.zeros((len(size_N), size), np.float32) for _ in range(2))
        for place in range(symbol_NS.shape[1]):
            still = int(np.count_nonzero(size_N > place))
            gate_NG = read_SG[symbol_NS[:still, place]] + state_NH[:still] @ hidden_HG
            let_in, forget, _, out = np.split(expit(gate_NG), 4, axis=1)
            cell_NH[:still] = forget * cell_NH[:still] + let_in * np.tanh(gate_NG[:, 2 * size : 3 * size])
            state_NH[:still] = out * np.tanh(cell_NH[:still])
        return state_NH

    def options(self) -> dict[str, Any]:
        return {"reading": self._reading}

    def arrays(self) -> dict[str, np.ndarray]:
        return self._weights
