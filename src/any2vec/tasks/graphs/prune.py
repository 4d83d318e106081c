"""A graph folder without the edges that GCoD's tuning prunes, as a folder of its own.

Legend: N nodes, E entries of the adjacency.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from any2vec.cluster.launch.join import check_torch
from any2vec.data.attributed.graph import FORMAT, VERSION, AttributedGraph
from any2vec.data.attributed.writer import GraphWriter
from any2vec.data.io.storage import atomic_folder, check_folder_free, read_meta, write_json
from any2vec.data.vocab.user_keys import INTEGERS
from any2vec.data.vocab.vocabulary import Keys
from any2vec.plan.sharding.graph import check_metis
from any2vec.plan.sharding.pruning import PruneOptions

PRUNED = "pruned"
"""key of meta.json: what was pruned"""


def prune_graph(
    source: Path | str, out: Path | str, options: PruneOptions | None = None, *, split: int = 0, overwrite: bool = False
) -> AttributedGraph:
    """Write the graph folder `source` to the folder `out` without the edges that `tune_graph` drops, and open it.

    Features, classes, splits and keys are the same, as are weights and features of the edges that stay, which count as
    one each while they are weighed; out-neighbors are left out. `metadata["pruned"]` says how many edges there were and
    are, what a network scored on the validation nodes before and after, and all that was asked. What is trained on it
    is another model. Memory: O(entries and features), which are all in memory, as float32.

    Raises:
        InputError: the graph lacks what edges are weighed by, an option is not legal, or METIS or torch is missing.
        FormatError: `source` is damaged. StorageError: `out` is taken, or cannot be written.
    """
    check_torch("Pruning a graph")
    check_metis()
    from any2vec.nn.tuning.folder import prune_entries

    check_folder_free(out, overwrite, FORMAT)
    graph = AttributedGraph.open(source)
    found = prune_entries(graph, options or PruneOptions(), split)
    with atomic_folder(out, overwrite, FORMAT) as folder, GraphWriter(folder, len(graph)) as writer:
        for name, array in _arrays(graph, found.is_kept_E).items():
            writer.put(name, array)
        are_integers = graph.metadata.get(INTEGERS) is not False
        writer.finish(graph.is_directed, found.about["edges"], graph.classes, are_integers=are_integers)
        meta = read_meta(folder, FORMAT, VERSION, "an attributed graph of any2vec")
        write_json(folder / "meta.json", meta | {PRUNED: found.about})
    return AttributedGraph.open(out)


def _arrays(graph: AttributedGraph, is_kept_E: np.ndarray) -> dict[str, np.ndarray]:
    """Of the new folder, by name. Out-neighbors are left out: they are another order of the same entries."""
    indptr, indices, weights = graph.csr
    before_E1 = np.concatenate([[0], np.cumsum(is_kept_E)]).astype(np.int64)
    found = {"indptr": before_E1[indptr], "indices": indices[is_kept_E]}
    if len(weights):
        found["weights"] = weights[is_kept_E]
    if graph.edge_features is not None:
        found["edge_features"] = graph.edge_features.row_ND[is_kept_E]
    assert graph.features is not None and graph.labels is not None
    found |= {"features": graph.features.row_ND, "labels": graph.labels, "splits": graph.splits}
    if len(graph.features.scale_N):
        found["scales"] = graph.features.scale_N
    if isinstance(graph.keys, Keys):
        found |= {"words": graph.keys.arena, "offsets": graph.keys.offsets}
    return found
