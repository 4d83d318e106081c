"""What a run of a graph network needs.

Legend: N nodes, M nodes of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from any2vec.models.networks.config import APPNP, AttentionNetwork, GraphNetwork
from any2vec.plan.cost.size import Size, TableSize

_KEPT, _HELD, _PER_EDGE = 4, 3, 5
"""arrays like the weights that a run keeps: they, two moments, the best epoch's; arrays (M, columns) of a layer at the
peak; arrays (edges, heads) of one that attends: weights, what is dropped, gradients"""


def size_of_network(model: GraphNetwork, metadata: Mapping[str, Any]) -> Size:
    """Of a run on one host: the features of all nodes are in memory for validation, and so are two layers."""
    nodes, columns = metadata["num_nodes"], metadata["num_features"]
    sizes = [columns, *[model.hidden] * (model.num_layers - 1), metadata["num_classes"]]
    weights = TableSize(name="weights", rows=sum(sizes[:-1]) * 2, columns=_KEPT * model.hidden)
    found, reached = float(model.batch_size if model.sampling != "full-graph" else nodes), []
    for fanout in reversed(model.fanouts_by_hop):
        reached.append(found)
        found = min(float(nodes), found * (1 + (nodes if fanout < 0 else fanout)))
    reached.append(found)
    batch = sum(
        4 * _HELD * int(asked) * (size_in + size_out)
        for asked, (size_in, size_out) in zip(reversed(reached[1:]), pairwise(sizes), strict=True)
    )
    if isinstance(model, AttentionNetwork):
        batch += _attention(model, reached, metadata)
    if isinstance(model, APPNP):
        batch += 4 * _HELD * nodes * 2 * model.hidden * model.hops
    edges = 12 * metadata["num_edges"] * 2
    return Size(
        tables=(weights,),
        resident={
            "features": 4 * nodes * columns, "layers of all nodes": 8 * nodes * model.hidden, "batches": batch,
            "gradients": weights.num_bytes // _KEPT, "neighbors": edges,
        },
        items=metadata["num_train"], result_bytes=weights.num_bytes // _KEPT + 4 * nodes * model.hidden,
    )  # fmt: skip


def _attention(model: AttentionNetwork, reached: Sequence[float], metadata: Mapping[str, Any]) -> int:
    """Bytes of a batch besides: weights of edges, and what a layer reads, projected; reached: nodes by hop."""
    found, columns = 0.0, [metadata["num_classes"] * model.output_heads, *[model.hidden] * (model.num_layers - 1)]
    heads = [model.output_heads, *[model.heads] * (model.num_layers - 1)]
    for hop, fanout in enumerate(model.fanouts_by_hop):
        most = 2.0 * metadata["num_edges"]
        edges = reached[hop] + (most if fanout < 0 else min(most, reached[hop] * fanout))
        found += 4 * (_PER_EDGE * edges * heads[hop] + _HELD * reached[hop + 1] * columns[hop])
    return int(found)
