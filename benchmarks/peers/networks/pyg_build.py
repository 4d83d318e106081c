"""A graph as users of PyG make it of a file of edges: FILE NODES; seconds, and edges that are left.

pandas reads two columns, `coalesce` sorts the edges and drops those that come twice.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import pandas as pd
import torch
from torch_geometric.utils import coalesce


def main(path: str, nodes: str) -> None:
    started = time.perf_counter()
    if path.endswith(".parquet"):
        table = pd.read_parquet(path, columns=["src", "dst"])
    else:
        table = pd.read_csv(path, sep="\t", header=None, names=["src", "dst"], dtype=np.int64)
    edge_index = torch.from_numpy(table.to_numpy().T.copy())
    del table
    edge_index = coalesce(edge_index, num_nodes=int(nodes), sort_by_row=False)
    print(json.dumps({"seconds": time.perf_counter() - started, "edges": edge_index.shape[1]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
