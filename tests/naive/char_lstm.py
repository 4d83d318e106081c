"""Plain twin of the character model's step: torch's own LSTM reads every occurrence of every word alone."""

from __future__ import annotations

import torch
from torch import nn

END, SYMBOLS, MOST_BYTES = 256, 257, 64


class Reader(nn.Module):
    """Bytes and END, through nn.LSTM, the last state through a linear layer."""

    def __init__(self, weights: dict[str, torch.Tensor]) -> None:
        super().__init__()
        hidden, byte_dim = weights["output"].shape[1], weights["symbols"].shape[1]
        self.symbols = nn.Embedding(SYMBOLS, byte_dim)
        self.lstm = nn.LSTM(byte_dim, hidden)
        self.linear = nn.Linear(hidden, len(weights["output"]))
        for parameter, name in self.named():
            parameter.data = weights[name].detach().double().clone()
        self.lstm.bias_hh_l0.data = torch.zeros(4 * hidden, dtype=torch.float64)

    def named(self) -> list[tuple[nn.Parameter, str]]:
        return [
            (self.symbols.weight, "symbols"), (self.lstm.weight_ih_l0, "input"), (self.lstm.weight_hh_l0, "hidden"),
            (self.lstm.bias_ih_l0, "bias"), (self.linear.weight, "output"), (self.linear.bias, "offset"),
        ]  # fmt: skip

    def read(self, word: str) -> torch.Tensor:
        symbols = torch.tensor([*word.encode()[:MOST_BYTES], END])
        states, _ = self.lstm(self.symbols(symbols)[:, None])
        return self.linear(states[-1, 0])


def loss_of_pairs(centre: Reader, context: Reader, pairs: list[tuple[str, str]], negatives: list[str], share: float):
    """Sum over (context, centre) pairs, each word read where it stands, without negatives that are the context."""
    total = torch.zeros((), dtype=torch.float64)
    for other, own in pairs:
        x = centre.read(own)
        total = total - nn.functional.logsigmoid(x @ context.read(other))
        for negative in negatives:
            if negative != other:
                total = total - share * nn.functional.logsigmoid(-(x @ context.read(negative)))
    return total
