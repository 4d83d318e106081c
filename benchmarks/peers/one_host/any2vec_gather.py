"""Random rows of a table: ROWS TAKEN ROUNDS; milliseconds of any2vec's kernels and of torch's index_select, in turn."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from any2vec.data.attributed.features import FeatureRows, feature_chunks
from any2vec.kernels.rows.take import take_floats

DIM = 128


def main(rows: int, taken: int, rounds: int) -> None:
    torch.set_num_threads(1)
    rng = np.random.default_rng(1)
    table = rng.standard_normal((rows, DIM), dtype=np.float32)
    codes, scales = zip(*feature_chunks(table, "int8", "the table"), strict=True)
    narrow = FeatureRows(np.concatenate(codes), np.concatenate(scales))
    tensor, out = torch.from_numpy(table), torch.empty(taken, DIM)
    mine = np.empty((taken, DIM), np.float32)
    calls: dict[str, Callable[[np.ndarray], object]] = {
        "any2vec": lambda ids: take_floats(table, ids, mine),
        "any2vec, 8 bits": narrow.take,
        "index_select(out=)": lambda ids: torch.index_select(tensor, 0, torch.from_numpy(ids), out=out),
        "index_select": lambda ids: torch.index_select(tensor, 0, torch.from_numpy(ids)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        ids = rng.integers(0, rows, taken)
        for name, call in calls.items():
            started = time.perf_counter()
            call(ids)
            if number:
                seconds[name].append(1e3 * (time.perf_counter() - started))
    assert np.array_equal(mine, out.numpy())
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
