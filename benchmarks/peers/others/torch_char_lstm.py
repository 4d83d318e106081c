"""A straightforward character model in PyTorch: every center, context and negative of every pair is encoded.

Packed sequences of nn.LSTM, two generators, negatives of each pair's own or shared by the pairs of a step, Adam; on
given pairs of words. One JSON line.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

END, PADDING = 256, 257


class Generator(nn.Module):
    """Words to vectors."""

    def __init__(self, dim: int, hidden: int, byte_dim: int) -> None:
        super().__init__()
        self.symbols = nn.Embedding(258, byte_dim, padding_idx=PADDING)
        self.lstm = nn.LSTM(byte_dim, hidden, batch_first=True)
        self.linear = nn.Linear(hidden, dim)

    def forward(self, symbols: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        packed = pack_padded_sequence(self.symbols(symbols), sizes, batch_first=True, enforce_sorted=False)
        _, (state, _) = self.lstm(packed)
        return self.linear(state[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", required=True, help="npz: symbols (R, S), sizes (R,), pairs (M, 2), noise (R,)")
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--byte-dim", type=int, default=64)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--num-negatives", type=int, default=5)
    parser.add_argument("--shared-negatives", type=int, default=0, help="of all pairs of a step; 0: each has its own")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    with np.load(Path(args.pairs)) as found:
        symbols, sizes = torch.from_numpy(found["symbols"].astype(np.int64)), torch.from_numpy(found["sizes"])
        pairs, noise = torch.from_numpy(found["pairs"].astype(np.int64)), torch.from_numpy(found["noise"])
    symbols[symbols < 0] = PADDING
    center, context = (Generator(args.dim, args.hidden, args.byte_dim) for _ in range(2))
    optimizer = torch.optim.Adam([*center.parameters(), *context.parameters()], lr=0.002)

    def encode(net: Generator, rows: torch.Tensor) -> torch.Tensor:
        size = sizes[rows]
        return net(symbols[rows, : int(size.max())], size)

    def negative_loss(x: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        """Shared ones are weighed so that a pair meets as many as it would have of its own; its context is none."""
        if not args.shared_negatives:
            others = torch.multinomial(noise, len(batch) * args.num_negatives, replacement=True)
            n = encode(context, others).view(len(batch), args.num_negatives, -1)
            return -nn.functional.logsigmoid(-(n @ x[:, :, None]).squeeze(2)).sum()
        others = torch.multinomial(noise, args.shared_negatives, replacement=True)
        weight = (others[None] != batch[:, :1]) * (args.num_negatives / args.shared_negatives)
        return -(weight * nn.functional.logsigmoid(-(x @ encode(context, others).T))).sum()

    def step(batch: torch.Tensor) -> float:
        x = encode(center, batch[:, 1])
        y = encode(context, batch[:, 0])
        loss = -nn.functional.logsigmoid((x * y).sum(1)).sum() + negative_loss(x, batch)
        optimizer.zero_grad()
        (loss / len(batch)).backward()
        optimizer.step()
        return float(loss.detach()) / len(batch)

    step(pairs[: args.batch])  # what PyTorch sets up at the first step is not counted
    began, loss = time.perf_counter(), 0.0
    cpu = time.process_time()
    for number in range(1, args.steps + 1):
        loss = step(pairs[number * args.batch : (number + 1) * args.batch])
    seconds = time.perf_counter() - began
    done = args.steps * args.batch
    print(
        json.dumps(
            {
                "pairs": done, "pairs_per_s": done / seconds, "seconds": seconds, "loss": loss,
                "cpu_seconds": time.process_time() - cpu,
            }
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
