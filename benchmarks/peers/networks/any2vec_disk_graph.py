"""Writes a graph folder whose features are large: GRAPH.npz COLUMNS TRAIN TEST OUT; one JSON line of sizes.

Features are random, float32. Classes are those of a teacher: the largest of CLASSES random mixtures of a node's own and
its neighbors' mean first KNOWN features. TRAIN and TEST nodes, drawn at random, are in the split.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from scipy import sparse
from torch_geometric.data import Data

from any2vec import write_graph

CLASSES, KNOWN, PIECE = 8, 16, 1 << 14
SEED = 1


def main(path: str, columns: str, train: str, test: str, out: str) -> None:
    stored = np.load(path)
    indptr, indices = stored["indptr"], stored["indices"]
    num, rng = len(indptr) - 1, np.random.default_rng(SEED)
    split_N = np.full(num, -1, np.int8)
    split_N[rng.permutation(num)[: int(train) + int(test)]] = np.repeat([0, 2], [int(train), int(test)])
    rows = np.repeat(np.arange(num), np.diff(indptr))
    graph = Data(edge_index=torch.from_numpy(np.stack([indices.astype(np.int64), rows])), num_nodes=num)
    with tempfile.TemporaryDirectory(dir=Path(out).parent) as folder:
        features = np.lib.format.open_memmap(Path(folder) / "x.npy", "w+", np.float32, (num, int(columns)))
        for first in range(0, num, PIECE):
            piece = features[first : first + PIECE]
            piece[:] = rng.standard_normal(piece.shape, np.float32)
        known_NK = np.array(features[:, :KNOWN])
        labels = taught(indptr, indices, known_NK, rng)
        features.flush()
        made = write_graph(graph, Path(out), features=str(Path(folder) / "x.npy"), labels=labels, split=split_N)
    assert made.features is not None
    csr = made.csr
    print(json.dumps({
        "nodes": num, "feature_bytes": made.features.row_ND.nbytes,
        "adjacency_bytes": csr.indptr.nbytes + csr.indices.nbytes, "edges": len(indices),
    }))  # fmt: skip


def taught(indptr: np.ndarray, indices: np.ndarray, known_NK: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """int64 (N,): the teacher's classes."""
    ones, degree_N = np.ones(len(indices), np.float32), np.maximum(np.diff(indptr), 1)
    mean_NK = sparse.csr_matrix((ones, indices, indptr), shape=(len(known_NK),) * 2) @ known_NK / degree_N[:, None]
    own_KC, near_KC = rng.standard_normal((2, KNOWN, CLASSES))
    near_KC *= np.sqrt(np.median(degree_N))  # a mean is that much smaller than one row
    return np.asarray((known_NK @ own_KC + mean_NK @ near_KC).argmax(axis=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
