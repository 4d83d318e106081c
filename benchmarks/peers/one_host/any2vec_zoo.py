"""Modules of PyG's layers of many shapes, untrained: all nodes of a planted graph layer by layer, without a limit and
within one, and by the module's own forward over the whole graph; one JSON line of seconds, differences and counts.

GRAPH.npz HIDDEN ROUNDS THREADS
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from any2vec import machine

machine.keep_freed_memory()  # as a run does, before torch is imported
machine.ask_for_huge_pages()

import torch  # noqa: E402
import torch_geometric.nn as pyg  # noqa: E402
from torch import nn  # noqa: E402

from any2vec.data.attributed.features import FeatureRows  # noqa: E402
from any2vec.models.modules.network import ModuleNetwork, degrees_of  # noqa: E402
from any2vec.models.networks.config.own import OwnModule  # noqa: E402
from any2vec.models.networks.inference import Inference  # noqa: E402
from any2vec.types import Csr  # noqa: E402

COLUMNS, CLASSES, LAYERS = 64, 16, 3
LIMIT = 0.9
"""of what the widest layer of all nodes takes"""


class Residual(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, hidden: int) -> None:
        super().__init__()
        self.before, self.behind = nn.Linear(in_channels, hidden), nn.Linear(hidden, out_channels)
        self.convs = nn.ModuleList([pyg.SAGEConv(hidden, hidden) for _ in range(LAYERS)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(hidden) for _ in range(LAYERS)])

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> Any:
        x = self.before(x).relu()
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + norm(conv(x, edge_index)).relu()
        return self.behind(x)


class Parallel(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, hidden: int) -> None:
        super().__init__()
        self.one, self.other = pyg.GCNConv(in_channels, hidden // 2), pyg.GATConv(in_channels, hidden // 8, heads=4)
        self.last, self.skip = pyg.SAGEConv(hidden, out_channels), nn.Linear(in_channels, out_channels)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> Any:
        both = torch.cat([self.one(x, edge_index), self.other(x, edge_index)], dim=1).relu()
        return self.last(both, edge_index) + self.skip(x)


def stack(kind: str, **options: Any) -> Callable[..., nn.Module]:
    def made(in_channels: int, out_channels: int, hidden: int) -> nn.Module:
        found: nn.Module = getattr(pyg, kind)(in_channels, hidden, LAYERS, out_channels, **options)
        return found

    return made


ZOO = {
    "GraphSAGE": stack("GraphSAGE"), "GCN, batch norm": stack("GCN", norm="batch_norm"),
    "GAT": stack("GAT", heads=4), "GIN": stack("GIN"),
    "jumping, cat": stack("GraphSAGE", jk="cat"), "jumping, max": stack("GCN", jk="max"),
    "jumping, LSTM": stack("GraphSAGE", jk="lstm"), "residual": Residual, "parallel": Parallel,
}  # fmt: skip


def main(path: str, hidden: str, rounds: str, threads: str) -> None:
    torch.set_num_threads(int(threads))
    stored = np.load(path)
    csr = Csr(stored["indptr"], stored["indices"], np.empty(0, np.float32))
    num = len(csr.indptr) - 1
    x_ND = np.random.default_rng(1).standard_normal((num, COLUMNS), np.float32)
    targets = np.repeat(np.arange(num), np.diff(csr.indptr))
    given = torch.from_numpy(x_ND), torch.from_numpy(np.stack([csr.indices, targets]).astype(np.int64))
    found = {}
    for name, factory in ZOO.items():
        torch.manual_seed(1)
        model = OwnModule(module=factory, module_args={"hidden": int(hidden)}, num_layers=LAYERS)  # type: ignore[arg-type]
        network = ModuleNetwork(model, COLUMNS, CLASSES)
        if network.cut is None:
            found[name] = {"why_whole": network.why_whole}
            continue
        limit = int(LIMIT * 4 * num * max(network.widths))
        rows, degree_N = FeatureRows(x_ND, np.empty(0, np.float32)), degrees_of(csr)
        makes = {
            budget: partial(Inference, csr, rows, budget, 0, degree_N)
            for budget in (0, limit)
        }  # fmt: skip
        found[name] = judged(network, given, makes[0], makes[limit], int(rounds))
    print(json.dumps({"zoo": found, "nodes": num}))


def judged(network: ModuleNetwork, given: Any, free: Any, limited: Any, rounds: int) -> dict[str, Any]:
    """Seconds of both ways, in turn, how far they are from each other, and what the limit has come to."""
    network.module.eval()
    whole, layers, nodes = [], [], np.arange(len(given[0]))
    for _ in range(rounds + 1):  # the first one compiles
        began = time.perf_counter()
        with torch.no_grad():
            expected = network.module(*given).numpy()
        whole.append(time.perf_counter() - began)
        began = time.perf_counter()
        scores = free().scores(network, nodes)
        layers.append(time.perf_counter() - began)
    most = max(1.0, float(np.abs(expected).max()))
    within, began = limited(), time.perf_counter()
    bounded = within.scores(network, nodes)
    seconds = time.perf_counter() - began
    return {
        "whole": statistics.median(whole[1:]), "layers": statistics.median(layers[1:]), "limited": seconds,
        "difference": float(np.abs(scores - expected).max()) / most,
        "limited_difference": float(np.abs(bounded - expected).max()) / most,
        "limit_bytes": within.budget_bytes, **within.counts._asdict(),
    }  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
