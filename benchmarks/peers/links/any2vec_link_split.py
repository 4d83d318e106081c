"""The edges that a run of `any2vec train ... --objective links` holds out, for peers.

Arguments: folder of `any2vec graph build`, undirected; seed; the .npz to write.
"""

from __future__ import annotations

import json
import sys

import numpy as np

from any2vec import AttributedGraph, GraphSAGE
from any2vec.evaluate.graph.split import hold_out


def main(folder: str, seed: str, out: str) -> None:
    graph, shares = AttributedGraph.open(folder), GraphSAGE(objective="links")
    assert graph.features is not None
    links, csr = hold_out(graph.csr, graph.is_directed, shares.val_share, shares.test_share, int(seed))
    arrays = {name: array for name, array in links._asdict().items() if name != "is_directed"}
    np.savez(out, x=graph.features.take(np.arange(len(graph))), indptr=csr.indptr, indices=csr.indices, **arrays)
    print(json.dumps({"train": links.train.shape[1], "test": links.test.shape[1]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
