"""Plain twin of the character model's step: torch's own LSTMs read every occurrence of every word alone."""

from __future__ import annotations

import torch
from torch import nn

END, SYMBOLS, MOST_BYTES = 256, 257, 64


class Reader(nn.Module):
    """Bytes, in reverse, or both, and END, each way through its nn.LSTM, the last states through a linear layer."""

    def __init__(self, weights: dict[str, torch.Tensor], reading: str) -> None:
        super().__init__()
        given = {name: weight.detach().double().clone() for name, weight in weights.items()}
        self.steps = {"forward": [1], "backward": [-1], "both": [1, -1]}[reading]
        self.symbols = nn.Parameter(given["symbols"])
        self.linear = nn.Linear(*reversed(given["output"].shape), dtype=torch.float64)
        self.linear.weight.data, self.linear.bias.data = given["output"], given["offset"]
        self.lstms = nn.ModuleList()
        hidden = given["hidden"].shape[1]
        for way in range(len(self.steps)):
            own = slice(4 * hidden * way, 4 * hidden * (way + 1))
            lstm = nn.LSTM(given["symbols"].shape[1], hidden, dtype=torch.float64)
            lstm.weight_ih_l0.data, lstm.weight_hh_l0.data = given["input"][own], given["hidden"][own]
            lstm.bias_ih_l0.data = given["bias"][own]
            nn.init.zeros_(lstm.bias_hh_l0)
            self.lstms.append(lstm)

    def gradients(self) -> dict[str, torch.Tensor]:
        ways = {"input": "weight_ih_l0", "hidden": "weight_hh_l0", "bias": "bias_ih_l0"}
        found = {"symbols": self.symbols, "output": self.linear.weight, "offset": self.linear.bias}
        return {name: parameter.grad for name, parameter in found.items()} | {
            name: torch.cat([getattr(lstm, own).grad for lstm in self.lstms]) for name, own in ways.items()
        }

    def read(self, word: str) -> torch.Tensor:
        last = []
        for step, lstm in zip(self.steps, self.lstms, strict=True):
            symbols = torch.tensor([*word.encode()[:MOST_BYTES][::step], END])
            last.append(lstm(self.symbols[symbols][:, None])[0][-1, 0])
        return self.linear(torch.cat(last))


def loss_of_pairs(center: Reader, context: Reader, pairs: list[tuple[str, str]], negatives: list[str], share: float):
    """Sum over (context, center) pairs, each word read where it stands, without negatives that are the context."""
    total = torch.zeros((), dtype=torch.float64)
    for other, own in pairs:
        x = center.read(own)
        total = total - nn.functional.logsigmoid(x @ context.read(other))
        for negative in negatives:
            if negative != other:
                total = total - share * nn.functional.logsigmoid(-(x @ context.read(negative)))
    return total
