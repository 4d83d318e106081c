"""What a run of a model of triples needs, and how it is laid out: all rows in memory, or partitions of them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from any2vec.models.triples.config import TripleModel
from any2vec.models.triples.score_worker import dense_shapes
from any2vec.models.triples.worker import relation_optimizer
from any2vec.plan.cost.shared_plan import host_moves, plan_shared, round_bytes
from any2vec.plan.cost.size import Forecast, Size, TableSize
from any2vec.plan.order.shared_walk import SharedWalk
from any2vec.sampling.triple_windows import window_bytes
from any2vec.tables.row_optimizer import RowOptimizer
from any2vec.train.spec import RunSpec
from any2vec.units import number, parts
from any2vec.units import size as bytes_text

WINDOW = 1 << 17
"""triples that are shuffled together, and between two moments at which a run can stop"""
_QUERIES = 120
"""bytes of a triple's two queries, at the peak while they are sorted"""
_TRIPLE = 12
"""bytes: head, relation and tail on the disk"""
NAME_BYTES = 24
"""of a name, and of finding it"""


def row_bytes(model: TripleModel) -> int:
    """Of an entity's row with its state."""
    return 4 * RowOptimizer(model.dim).num_columns


def size_of_triples(model: TripleModel, metadata: Mapping[str, Any]) -> Size:
    """Of triples as their report has them. unread_bytes: that reading them will yet leave in memory."""
    triples, entities = metadata["num_triples"], metadata["num_entities"]
    negatives = model.negatives_of(entities) or entities
    scores = 4 * (1 + model.is_near) * model.batch_size * negatives
    rows = 4 * 3 * (negatives + 3 * model.batch_size) * (model.dim + 1)
    relations = 4 * model.num_relation_rows(metadata["num_relations"]) * relation_optimizer(model).num_columns
    resident = {
        "windows": window_bytes(WINDOW) + 2 * _QUERIES * WINDOW, "relations": 4 * relations,
        "names": metadata.get("unread_bytes", 0),
    }  # fmt: skip
    shapes = dense_shapes(model).values()
    if shapes:  # a table with its state, its gradients, and copies of both
        resident["dense"] = 4 * sum(4 * (prod(shape) + shape[0]) for shape in shapes)
    return Size(
        tables=(TableSize(name="entities", rows=entities, columns=RowOptimizer(model.dim).num_columns),),
        resident=resident, thread_bytes=scores + rows,
        # The queries of all triples, and at the end the vectors without their state.
        whole_bytes=_QUERIES * max(0, triples - WINDOW) + entities * 4 * model.dim,
        items=triples, items_bytes=_TRIPLE * triples,
        result_bytes=(4 * model.dim + NAME_BYTES) * entities + _TRIPLE * triples,
    )  # fmt: skip


def forecast(found: dict[str, Any], spec: RunSpec, metadata: Mapping[str, Any]) -> Forecast:
    """What a run holds and moves, on one host or on several. found: its estimate on one host."""
    hosts, model = spec.hosts.trainers or 1, spec.model
    result = {"model": model.name, "hosts": hosts, "is_modeled": True, "host": found}
    if hosts > 1:
        size, fixed = size_of_triples(model, metadata), found["fixed_bytes"] - found["memory"]["all rows in memory"]
        table, row_columns = size.tables[0], RowOptimizer(model.dim).num_columns
        plan = plan_shared(table.rows, table.row_bytes, spec.storage.memory_bytes, fixed, hosts)
        bounds = [table.rows * part // plan.partitions for part in range(plan.partitions + 1)]
        moves = [
            host_moves(SharedWalk(hosts=hosts, rank=rank, partitions=plan.partitions, capacity=plan.capacity, epochs=1),
                       bounds, row_columns)
            for rank in range(hosts)
        ]  # fmt: skip
        relations = (model.num_relation_rows(metadata["num_relations"]), relation_optimizer(model).num_columns)
        agreed = (2 * hosts - 1) * round_bytes([relations], hosts, 5, 3)
        result["host"] = plan.as_dict() | {
            "bytes_read_per_epoch": max(move.bytes_read for move in moves),
            "bytes_written_per_epoch": max(move.bytes_written for move in moves),
            "bytes_sent_per_epoch": max(move.bytes_sent for move in moves),
        }  # fmt: skip
        result["bytes_per_epoch"] = {"rows": sum(move.bytes_sent for move in moves), "relations": agreed}
    host = result["host"]
    lines = [
        ("entities", f"{metadata['num_entities']:,} × {model.dim}"),
        ("epochs", f"{found['epochs']} × {number(metadata['num_triples'])} triples"),
        ("hosts", f"{hosts:,}"),
        ("memory", f"{bytes_text(host['memory_bytes'])} a host"),
        ("table", f"{host['partitions']} partitions, {host['capacity']} in memory of each host"),
    ]
    if hosts > 1:
        names = {"read": "reads from its disk", "written": "writes to it", "sent": "sends"}
        moved = ", ".join(f"{text} {bytes_text(host[f'bytes_{name}_per_epoch'])}" for name, text in names.items())
        lines += [("a host, an epoch", moved), ("all hosts, an epoch", parts(result["bytes_per_epoch"], bytes_text))]
    return Forecast(result, lines)
