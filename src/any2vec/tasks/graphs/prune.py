"""A graph folder without the edges that GCoD's tuning prunes, as a folder of its own.

Legend: N nodes, E entries of the adjacency.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from any2vec.cluster.launch.join import check_torch
from any2vec.data.attributed.graph import FORMAT, VERSION, AttributedGraph
from any2vec.data.attributed.writer import GraphWriter
from any2vec.data.io.storage import atomic_folder, check_folder_free, read_meta, write_json
from any2vec.data.vocab.user_keys import INTEGERS
from any2vec.data.vocab.vocabulary import Keys
from any2vec.errors import FormatError
from any2vec.plan.sharding.graph import check_metis
from any2vec.plan.sharding.pruning import PruneOptions
from any2vec.types import Stage

PRUNED = "pruned"
"""key of meta.json: what was pruned"""


def prune_graph(
    source: Path | str, out: Path | str, options: PruneOptions | None = None, *, split: int = 0,
    overwrite: bool = False, stage: Stage | None = None,
) -> AttributedGraph:  # fmt: skip
    """Write the graph folder `source` to the folder `out` without the edges that `tune_graph` drops, and open it.

    Features, classes, splits and keys are the same, as are weights and features of the edges that stay, which count as
    one each while they are weighed; out-neighbors are left out. `metadata["pruned"]` says how many edges there were and
    are, what a network scored on the validation nodes before and after, and all that was asked; of a folder that was
    pruned before, `earlier` has the same of each time, the first one first. What is trained on it is another model.
    Memory: O(entries and features), which are all in memory, as float32.

    stage: called with (what is done, amount done, amount in all).

    Raises:
        InputError: the graph lacks what edges are weighed by, an option is not legal, or METIS or torch is missing.
        FormatError: `source` is damaged. StorageError: `out` is taken, or cannot be written.
    """
    check_torch("Pruned graphs")
    check_metis()
    from any2vec.nn.tuning.folder import prune_entries

    check_folder_free(out, overwrite, FORMAT)
    graph = AttributedGraph.open(source)
    about: dict[str, Any] = {}
    if (before := graph.metadata.get(PRUNED)) is not None:
        pruned_sentence(before)
        about["earlier"] = [*before.pop("earlier", []), before]
    found = prune_entries(graph, options or PruneOptions(), split, stage)
    with atomic_folder(out, overwrite, FORMAT) as folder, GraphWriter(folder, len(graph)) as writer:
        for name, array in _arrays(graph, found.is_kept_E).items():
            writer.put(name, array)
        are_integers = graph.metadata.get(INTEGERS) is not False
        writer.finish(graph.is_directed, found.about["edges"], graph.classes, are_integers=are_integers)
        meta = read_meta(folder, FORMAT, VERSION, "an attributed graph of any2vec")
        write_json(folder / "meta.json", meta | {PRUNED: found.about | about})
    return AttributedGraph.open(out)


def pruned_sentence(about: Any) -> str:
    """How a graph was changed, and what that cost. FormatError: `about` is not what meta.json says of a pruned one."""
    try:
        earlier = about.get("earlier", [])
        if not isinstance(earlier, list):
            raise TypeError
        first = earlier[0] if earlier else about
        scores = (first["val_accuracy_before"], about["val_accuracy"])
        times = f", pruned {len(earlier) + 1} times" if earlier else ""
        val = "" if None in scores else f"; val accuracy of a GCN {scores[0]:.1%} before, {scores[1]:.1%} after"
        return (
            f"of {first['edges_before']:,} edges {about['edges']:,} stay{times}: another graph, another model{val}"
        )  # fmt: skip
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError("meta.json is damaged (it does not say what was pruned); prune the graph again.") from error


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
