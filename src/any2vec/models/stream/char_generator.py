"""A generator of vectors of words: LSTMs over their bytes, each distinct beginning or ending read once. PyTorch.

Legend: U words, D dim, S symbols, E numbers per symbol, H numbers of a state, G = 4 H gates, R ways in which a word is
read, N prefixes of a level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from any2vec.encoders.char_lstm import CharLstmEncoder
from any2vec.encoders.spelling import READINGS, SYMBOLS, Level


class _Cell(torch.autograd.Function):
    """(state, cell) of an LSTM from its gates before the sigmoids, (N, 4 H), and the cell before, (N, H)."""

    @staticmethod
    def forward(context: Any, gate_NG: torch.Tensor, before_NH: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        size = before_NH.shape[1]
        done = torch.empty_like(gate_NG)
        torch.sigmoid(gate_NG, out=done)
        torch.tanh(gate_NG[:, 2 * size : 3 * size], out=done[:, 2 * size : 3 * size])
        let_in, forget, new, out = done.split(size, dim=1)
        cell = torch.addcmul(let_in * new, forget, before_NH)
        shown = torch.tanh(cell)
        context.save_for_backward(done, before_NH, shown)
        return out * shown, cell

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        d_state, d_cell = gradients
        done, before_NH, shown = context.saved_tensors
        size = before_NH.shape[1]
        let_in, forget, new, out = done.split(size, dim=1)
        d_out = d_state * shown
        d_total = torch.addcmul(d_cell, d_state * out, 1 - shown * shown)
        slope = done * (1 - done)
        found = torch.empty_like(done)
        torch.mul(d_total * new, slope[:, :size], out=found[:, :size])
        torch.mul(d_total * before_NH, slope[:, size : 2 * size], out=found[:, size : 2 * size])
        torch.mul(d_total * let_in, 1 - new * new, out=found[:, 2 * size : 3 * size])
        torch.mul(d_out, slope[:, 3 * size :], out=found[:, 3 * size :])
        return found, d_total * forget


class CharGenerator(nn.Module):
    """An LSTM (Hochreiter and Schmidhuber 1997, with Gers's forget gate) over bytes for each way, then a linear layer.

    Both ways have the same numbers per symbol; the linear layer takes their last states one after the other.
    """

    def __init__(self, dim: int, hidden: int, byte_dim: int, reading: str, seed: int) -> None:
        """Weights start uniform in +-1 / sqrt(H), as PyTorch's; symbols normal; the forget gates' bias at 1."""
        super().__init__()
        draws = torch.Generator().manual_seed(seed)

        def uniform(*shape: int) -> nn.Parameter:
            return nn.Parameter((torch.rand(shape, generator=draws) * 2 - 1) / math.sqrt(hidden))

        self.symbols = nn.Parameter(torch.randn((SYMBOLS, byte_dim), generator=draws))
        self.reading, ways = reading, len(READINGS[reading])
        self.input, self.hidden = uniform(ways * 4 * hidden, byte_dim), uniform(ways * 4 * hidden, hidden)
        self.bias = uniform(ways * 4 * hidden)
        self.output, self.offset = uniform(dim, ways * hidden), nn.Parameter(torch.zeros(dim))
        with torch.no_grad():
            self.bias.view(ways, 4, hidden)[:, 1] = 1

    def forward(self, tries: Sequence[Sequence[Level]], words: int) -> torch.Tensor:
        """Vectors (U, D) of the words whose prefixes these are, for each way those that it reads."""
        states = [self._last_states(way, levels, words) for way, levels in enumerate(tries)]
        return torch.addmm(self.offset, torch.cat(states, dim=1), self.output.T)

    def _last_states(self, way: int, levels: Sequence[Level], words: int) -> torch.Tensor:
        """Of one LSTM, (U, H)."""
        ways = len(READINGS[self.reading])
        input_GE, hidden_GH, bias_G = (of.chunk(ways)[way] for of in (self.input, self.hidden, self.bias))
        device, size = hidden_GH.device, hidden_GH.shape[1]
        read_SG = torch.addmm(bias_G, self.symbols, input_GE.T)
        state_PH = torch.zeros((1, size), device=device)
        cell_PH = state_PH
        found, which = [], []
        for level in levels:
            parent_N = _there(level.parent_N, device)
            gate_NG = read_SG.index_select(0, _there(level.symbol_N, device))
            if level is not levels[0]:
                gate_NG = gate_NG + (state_PH @ hidden_GH.T).index_select(0, parent_N)
            state_NH, cell_NH = _Cell.apply(gate_NG, cell_PH.index_select(0, parent_N))
            if len(level.whole_W):
                found.append(state_NH.index_select(0, _there(level.whole_W, device)))
                which.append(level.word_W)
            inner_P = _there(level.inner_P, device)
            state_PH, cell_PH = state_NH.index_select(0, inner_P), cell_NH.index_select(0, inner_P)
        place_U = np.empty(words, np.int64)
        place_U[np.concatenate(which)] = np.arange(words)
        return torch.cat(found).index_select(0, _there(place_U, device))

    def encoder(self) -> CharLstmEncoder:
        """What says the same of any word without PyTorch: copies."""
        weights = {name: value.detach().cpu().numpy().copy() for name, value in self.named_parameters()}
        return CharLstmEncoder(self.reading, weights)


def _there(array: np.ndarray, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)
