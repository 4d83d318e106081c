"""What a run of a graph network needs, and what it keeps in memory of a budget.

Legend: N nodes, M nodes of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from any2vec.errors import InputError
from any2vec.models.modules.sizes import ModuleSizes
from any2vec.models.networks.config.base import SUBGRAPHS, GraphNetwork, LayeredNetwork, objective_name
from any2vec.models.networks.config.layers import APPNP, GINE, SGC, AttentionNetwork
from any2vec.models.networks.config.own import OwnModule
from any2vec.models.networks.config.relational import RGCN
from any2vec.models.networks.sizing import (
    FLOAT,
    distinct,
    feature_columns,
    gine_columns,
    least_inference_bytes,
    relation_columns,
    whole_inference_bytes,
)
from any2vec.plan.cost.size import Size, TableSize
from any2vec.plan.sharding.graph import has_metis
from any2vec.sampling.links import CANDIDATES, RANKED
from any2vec.units import size

SLOT_BYTES = 96
"""of a row of features in memory, beside the row: its place in the map of ids, its id, and what policies remember"""
_AHEAD_BYTES = 80
"""of a row that a batch to come reads: its id, when it is read next, and where the table of uses has it"""
_TRACE = 128
"""of what is free, one part in so many that samples of batches to come may take; the others wait on disk"""
_KEPT, _HELD, _PER_EDGE = 4, 3, 5
"""arrays like the weights that a run keeps: they, two moments, the best epoch's; arrays (M, columns) of a layer at the
peak; arrays (edges, heads) of one that attends: weights, what is dropped, gradients"""
_LSTM = 12
"""numbers that an LSTM keeps of a row for each number of its layers, times the layers"""
_NODE_BYTES = 30
"""of each node: degrees, and what samplers remember of it"""
_SEQUENCES = 128, 9
"""bytes of breadth-first sequences: of a training node; of each node, while they are found"""
_ORDERED = 24
"""bytes of each node whose order is another one: the rows' ends, the order, its inverse"""
_PARTS = 64, 72
"""bytes of parts of the graph, while they are found: of each node; with METIS also of each entry of the adjacency"""
_BEGINS, _DRAWN = 8, 104
"""bytes of lists on disk: of each node, where its list in memory begins; of each edge of a batch, while it is drawn:
its place, in order and as given, its entry, its page, where these lie, and what readers under way hold"""
_RANKING = 4, 40
"""bytes of each number of the edges that are ranked and of their candidates: kept; while it validates, of places of
nodes"""
_KEY_BYTES = 70
"""of each node's key"""
_LIBRARIES = 40_000_000
"""of what PyTorch loads with the first gradient"""
_HEAP = 32 << 20
"""bytes below which the C library keeps an array when it is freed (`machine.keep_freed_memory`)"""
CACHES_AHEAD = 4
"""times the rows in memory that batches to come read which are known: on planted graphs of 60,000 and 100,000 nodes, 5
and 20 % of the rows in memory, 1.00 to 1.10 times the misses of who knows all; with 2, 1.08 to 1.35; with 6, 1.00"""
_AHEAD = 0.25
"""of what is free, the most that knowing of batches to come may take"""
_CACHE = 0.75
"""of what is free, the share that rows of features have; layers have the rest"""


class NetworkPlan(NamedTuple):
    """What a run keeps in memory."""

    rows: int | None
    """of features; None: all"""
    inference_bytes: int
    """of memory for inference; 0: half of the machine's"""
    sentence: str
    """what was chosen, and why; empty without a budget"""
    num_ahead: int = 0
    """batches whose nodes are known before they are read"""
    trace_bytes: int = 0
    """of their samples, in memory"""
    list_bytes: int | None = None
    """of lists of neighbors, where the others are on disk; None: all are in memory"""
    adjacency: str = ""
    """what was chosen of lists"""


def _columns(metadata: Mapping[str, Any]) -> tuple[int, int]:
    """Of features, of scores."""
    return metadata["num_features"], metadata["num_classes"]


def plan_network(
    model: GraphNetwork, metadata: Mapping[str, Any], budget_bytes: int, process_bytes: int, threads: int,
    num_ahead: int | None = 0,
) -> NetworkPlan:  # fmt: skip
    """Rows of features that stand in memory, and what is left to layers.

    Args:
        budget_bytes: 0: there is none.
        num_ahead: batches whose nodes are known before they are read, None: `batches_ahead`; fewer where that takes a
            quarter of what is free.

    Raises:
        InputError: the budget is too small; it says how much is needed.
    """
    if not budget_bytes:
        return NetworkPlan(None, 0, "")
    nodes, row_bytes = metadata["num_nodes"], metadata["feature_bytes"]
    parts, stays = needed_parts(model, metadata, process_bytes, threads)
    needed, whole = sum(parts.values()), nodes * row_bytes
    if needed > budget_bytes:
        largest = ", ".join(f"{size(value)} {name}" for name, value in sorted(parts.items(), key=lambda one: -one[1]))
        raise InputError(
            f"--memory {size(budget_bytes)} is too small: {model.name} needs {size(needed)} here ({largest}); give it, "
            "or take fewer nodes a batch, smaller fan-outs, or fewer hidden columns."
        )
    free = budget_bytes - needed
    if model.sampling == "full-graph" or whole <= free:
        left = free if model.sampling == "full-graph" else free - whole
        return NetworkPlan(None, parts["a batch"] - stays + left, f"all {nodes:,} rows in memory: {size(whole)} fit")
    reached = reached_by_hop(model, metadata)[0][-1]
    ahead = int(_AHEAD_BYTES * reached)
    trace = free // _TRACE if num_ahead != 0 else 0
    free -= trace
    if num_ahead is None:
        num_ahead = batches_ahead(int(_CACHE * free) // (row_bytes + SLOT_BYTES), reached)
    num_ahead = min(num_ahead, max(1, int(_AHEAD * free) // ahead))
    free = max(0, free - num_ahead * ahead)
    rows = min(nodes, int(_CACHE * free) // (row_bytes + SLOT_BYTES))
    inference = parts["a batch"] - stays + free - rows * (row_bytes + SLOT_BYTES)
    sentence = (
        f"{rows:,} of {nodes:,} rows in memory, the others on disk: all are {size(whole)}, and of {size(budget_bytes)} "
        f"{size(needed)} go to the process, the graph and a batch"
    )
    if num_ahead:
        sentence += f"; which rows the next {num_ahead} batches read is known: {size(num_ahead * ahead)}"
    return NetworkPlan(rows, inference, sentence, num_ahead, trace)


def needed_parts(
    model: GraphNetwork, metadata: Mapping[str, Any], process_bytes: int, threads: int
) -> tuple[dict[str, int], int]:  # fmt: skip
    """(bytes that a run needs at least, by name; those of a batch that stay with the process when it is over)."""
    widths, nodes = _widths(model, metadata), metadata["num_nodes"]
    parts = {"the process": process_bytes, **_fixed(model, metadata)}
    batch, stays = batch_bytes(model, metadata, threads)
    least = least_inference_bytes(widths, metadata["most_neighbors"], _edge_columns(model, metadata))
    if isinstance(model, OwnModule) and not _own(model, metadata).is_cut:
        least = _own(model, metadata).at_once_bytes(nodes, metadata["num_entries"])
    parts["a batch"] = max(batch, stays + least)
    if model.sampling == "full-graph":
        parts["the features, which full-graph holds"] = nodes * metadata["feature_bytes"]
    return parts, stays


def with_lists(model: GraphNetwork, metadata: Mapping[str, Any], list_bytes: int) -> dict[str, Any]:
    """The metadata where so many bytes of lists of neighbors are in memory, and where they begin, and what a batch
    draws of them."""
    edges = reached_by_hop(model, metadata)[1]
    return {**metadata, "list_bytes": list_bytes + _BEGINS * metadata["num_nodes"] + int(_DRAWN * edges)}


def batches_ahead(rows: int, reached: float) -> int:
    """Batches that read `CACHES_AHEAD` times the rows in memory, `reached` different ones each; 1 at least."""
    return max(1, math.ceil(CACHES_AHEAD * rows / reached))


def size_of_network(model: GraphNetwork, metadata: Mapping[str, Any], threads: int, plan: NetworkPlan) -> Size:
    """Of a run on one host. Batches and inference take turns."""
    nodes, row_bytes = metadata["num_nodes"], metadata["feature_bytes"]
    listed = metadata if plan.list_bytes is None else with_lists(model, metadata, plan.list_bytes)
    weights, fixed = _weights(model, metadata), _fixed(model, listed)
    inference = whole_inference_bytes(_widths(model, metadata), nodes)
    inference += FLOAT * _edge_columns(model, metadata) * metadata["num_entries"]
    if plan.inference_bytes:
        inference = min(inference, plan.inference_bytes)
    (batch, stays), rows = batch_bytes(model, metadata, threads), nodes * row_bytes
    dim = vector_columns(model, metadata)
    if plan.rows is not None:
        rows = plan.rows * (row_bytes + SLOT_BYTES)
    return Size(
        tables=(weights,),
        resident={
            "features": rows, "batches": batch, "layers of all nodes": max(0, stays + inference - batch),
            "gradients": weights.num_bytes // _KEPT, "neighbors": fixed["the graph"], "libraries": fixed["libraries"],
        },
        items=metadata.get("num_items", metadata["num_train"]),
        result_bytes=weights.num_bytes // _KEPT + FLOAT * nodes * dim,
    )  # fmt: skip


def batch_bytes(model: GraphNetwork, metadata: Mapping[str, Any], threads: int) -> tuple[int, int]:
    """Of a batch in training: what is kept for the way back, and the most that a layer makes on the way; and what of it
    stays with the process when it is over.

    Where batches are made meanwhile, the next one's features stand there, too.
    """
    reached, edges = reached_by_hop(model, metadata)
    if isinstance(model, OwnModule):
        return _own(model, metadata).batch_bytes(reached[-1], edges), 0
    nodes, widths = metadata["num_nodes"], model.dense_widths(*_columns(metadata))
    is_dropped, kept, most = float(model.dropout > 0), FLOAT * reached[-1] * widths[0], 0.0
    for layer, (size_in, size_out) in enumerate(pairwise(widths)):
        hops = max(0, model.num_layers - layer)  # a matrix behind jumping knowledge reads the seeds
        read, targets = reached[hops], reached[max(0, hops - 1)]
        narrow = min(size_in, size_out)
        mask = is_dropped * read * size_in
        kept += FLOAT * (is_dropped * read * size_in + (mask if layer else 0) + targets * (narrow + 2 * size_out))
        most = max(most, FLOAT * (read * narrow + (0 if layer else mask)))
    ahead = FLOAT * reached[-1] * widths[0] if threads > 1 else 0
    if isinstance(model, AttentionNetwork):
        kept += _attention(model, reached, metadata)
    if isinstance(model, GINE):
        kept += _edge_messages(model, reached, metadata)
    if isinstance(model, RGCN):  # means of groups, products of groups, and gradients of both
        kept += FLOAT * 2 * model.num_layers * edges * _edge_columns(model, metadata)
    if isinstance(model, APPNP):
        kept += FLOAT * _HELD * nodes * 2 * model.hidden * model.hops
    if isinstance(model, SGC):
        kept += FLOAT * _HELD * nodes * widths[0]
    if isinstance(model, LayeredNetwork) and model.jumping_knowledge == "lstm":
        kept += FLOAT * _LSTM * reached[0] * model.num_layers**2 * model.hidden
    total = int(kept + max(most, metadata["feature_bytes"] * reached[-1]) + ahead + 24 * edges)
    largest = FLOAT * max(read * size_in for read, size_in in zip(reversed(reached), widths, strict=False))
    return total, total if largest < _HEAP else 0


def reached_by_hop(model: GraphNetwork, metadata: Mapping[str, Any]) -> tuple[list[float], float]:
    """(different nodes of a batch behind each hop, from its seeds on; edges that it samples), as expected."""
    nodes = metadata["num_nodes"]
    if model.sampling in SUBGRAPHS:  # each layer answers for all nodes of a batch
        found, mean = _subgraph_nodes(model, metadata), metadata["mean_sampled"][0]
        return [found] * (1 + len(metadata["mean_sampled"])), found * mean
    each, shared = metadata.get("batch_seeds", (1, 0))
    items = min(model.batch_size, metadata.get("num_items", metadata["num_train"]))
    found = float(nodes if model.sampling == "full-graph" else min(nodes, each * items + shared))
    reached, edges, new = [found], 0.0, found
    for mean in metadata["mean_sampled"]:  # a node samples at the hop that finds it
        edges += new * mean
        reached.append(distinct(found, new * mean, nodes))
        found, new = reached[-1], reached[-1] - found
    return reached, edges


def vector_columns(model: GraphNetwork, metadata: Mapping[str, Any]) -> int:
    """Of the vectors of nodes."""
    own = _own(model, metadata).hidden if isinstance(model, OwnModule) else 0
    return int(own or model.dim or metadata["num_features"])


def _own(model: OwnModule, metadata: Mapping[str, Any]) -> ModuleSizes:
    from any2vec.models.modules.network import sizes_of

    return sizes_of(model, *_columns(metadata), metadata["num_edge_features"] if model.edge_attr else 0)


def _widths(model: GraphNetwork, metadata: Mapping[str, Any]) -> tuple[int, ...]:
    """Columns that each layer takes, and those of the scores."""
    return _own(model, metadata).widths if isinstance(model, OwnModule) else model.widths(*_columns(metadata))


def _subgraph_nodes(model: GraphNetwork, metadata: Mapping[str, Any]) -> float:
    """Of a batch, as expected."""
    nodes, mean = metadata["num_nodes"], metadata["mean_sampled"][0]
    if model.sampling == "walks":
        roots = float(min(model.batch_size, metadata["num_train"]))
        return distinct(roots, roots * model.walk_steps, nodes)
    found = float(min(nodes, nodes * model.parts_per_batch / model.parts_of(nodes)))
    for _ in range(model.halo):
        found = distinct(found, found * mean, nodes)
    return found


def _weights(model: GraphNetwork, metadata: Mapping[str, Any]) -> TableSize:
    if isinstance(model, OwnModule):
        return TableSize(name="weights", rows=_own(model, metadata).num_weights, columns=_KEPT)
    widths = model.dense_widths(*_columns(metadata))
    if isinstance(model, RGCN):
        matrices = 1 + (model.num_bases or metadata["num_relations"])
        rows = sum(widths[1:-1]) + (widths[0] or metadata["num_nodes"])
        return TableSize(name="weights", rows=rows * matrices, columns=_KEPT * model.hidden)
    matrices = 3 if isinstance(model, LayeredNetwork) and model.residual else 2
    if isinstance(model, GINE):
        matrices += math.ceil(metadata["num_edge_features"] / model.hidden)
    return TableSize(name="weights", rows=sum(widths[:-1]) * matrices, columns=_KEPT * (model.hidden or widths[-1]))


def _fixed(model: GraphNetwork, metadata: Mapping[str, Any]) -> dict[str, int]:
    """What a run holds wherever features are, beside the process and batches."""
    nodes, weights = metadata["num_nodes"], _weights(model, metadata).num_bytes
    lists = metadata.get("list_bytes", FLOAT * metadata["num_entries"])
    graph = lists + (8 + _NODE_BYTES + _KEY_BYTES) * nodes + metadata["label_bytes"]
    if model.node_order != "none":
        graph += FLOAT * metadata["num_entries"] + _ORDERED * nodes + metadata["label_bytes"]
    if model.batch_order == "proximity":
        graph += _SEQUENCES[0] * metadata["num_train"] + _SEQUENCES[1] * nodes
    if "cluster" in (model.batch_order, model.sampling):
        is_metis = model.partitioner != "ldg" and has_metis()
        graph += _PARTS[0] * nodes + (_PARTS[1] * metadata["num_entries"] if is_metis else 0)
    if model.sampling == "walks" and model.sample_coverage:
        graph += FLOAT * (nodes + metadata["num_entries"])
    graph += _ranking_bytes(model, metadata)
    return {"the graph": graph, "the weights": weights + weights // _KEPT, "libraries": _LIBRARIES}


def _ranking_bytes(model: GraphNetwork, metadata: Mapping[str, Any]) -> int:
    """Of the held-out edges that are ranked, and the nodes that they are ranked among."""
    if objective_name(model) != "links":
        return 0
    val, test = (min(metadata[f"num_{part}"], RANKED) for part in ("val", "test"))
    return (2 + CANDIDATES) * (_RANKING[0] * (val + test) + _RANKING[1] * val)


def _edge_columns(model: GraphNetwork, metadata: Mapping[str, Any]) -> int:
    """Numbers of an edge in inference."""
    if isinstance(model, OwnModule):
        return _own(model, metadata).edge_columns
    if isinstance(model, RGCN):
        widest = max(map(sum, pairwise(model.dense_widths(*_columns(metadata)))))
        return relation_columns(widest, 0)
    if isinstance(model, GINE):
        return gine_columns(metadata["num_edge_features"], max(model.dense_widths(*_columns(metadata))[:-1]))
    if not isinstance(model, AttentionNetwork):
        return 0
    heads, given = max(model.heads, model.output_heads), metadata.get("num_edge_features", 0)
    return heads + 1 + feature_columns(given, _projected(model, metadata))


def _projected(model: AttentionNetwork, metadata: Mapping[str, Any]) -> int:
    """Numbers that a layer makes of an edge's features, at most."""
    if model.name == "gat":
        return max(model.heads, model.output_heads)
    return max(model.hidden, metadata["num_classes"] * model.output_heads)


def _attention(model: AttentionNetwork, reached: Sequence[float], metadata: Mapping[str, Any]) -> int:
    """Bytes of a batch besides: weights of edges, and what a layer reads, projected; reached: nodes by hop."""
    found, columns = 0.0, [metadata["num_classes"] * model.output_heads, *[model.hidden] * (model.num_layers - 1)]
    heads = [model.output_heads, *[model.heads] * (model.num_layers - 1)]
    for hop, fanout in enumerate(model.fanouts_by_hop):
        fanout = metadata["mean_sampled"][hop] if model.sampling in SUBGRAPHS else fanout
        most = 2.0 * metadata["num_edges"]
        edges = reached[hop] + (most if fanout < 0 else min(most, reached[hop] * fanout))
        given = metadata.get("num_edge_features", 0)
        found += 4 * edges * feature_columns(given, _HELD * _projected(model, metadata))
        found += 4 * (_PER_EDGE * edges * heads[hop] + _HELD * reached[hop + 1] * columns[hop])
    return int(found)


def _edge_messages(model: GINE, reached: Sequence[float], metadata: Mapping[str, Any]) -> int:
    """Bytes of a batch besides: features of edges, and what layers make of them, with gradients; reached: nodes by
    hop. Layers answer for what later ones ask, so that the first one reads all edges of the batch."""
    found, edges, widths = 0.0, 0.0, model.dense_widths(*_columns(metadata))
    for hop, mean in enumerate(metadata["mean_sampled"]):
        edges = min(metadata["num_entries"], reached[hop] * mean)
        found += FLOAT * edges * gine_columns(0, _HELD * widths[model.num_layers - 1 - hop])
    return int(found + FLOAT * edges * metadata["num_edge_features"])
