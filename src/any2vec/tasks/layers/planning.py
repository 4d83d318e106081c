"""What a run of a GA-MLP needs, and what its hosts send each other.

Legend: T training nodes, X columns of the augmented features.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from any2vec.models.layers.ga_mlp import GAMLP
from any2vec.plan.cost.size import TORCH_BYTES, Forecast, Size, TableSize
from any2vec.plan.sharding.layers import boundary_bytes, critical_path, layers_of_hosts, pipeline_path
from any2vec.units import parts
from any2vec.units import size as bytes_text

if TYPE_CHECKING:
    from any2vec.train.spec import RunSpec

_ADMM_ARRAYS, _PASSED_ARRAYS = 4, 3
"""arrays (T, width) that a layer of ADMM, and one of back-propagation, holds at the peak: measured"""
_WIDTHS = {"none": 4, "8": 1, "16": 2}
"""bytes of a number on the grid on which it travels"""


def size_of_layers(model: GAMLP, metadata: Mapping[str, Any], hosts: int) -> Size:
    """Of the host that has the most layers; the features, on every host, are there as soon as they are read."""
    nodes, columns, is_admm = metadata["num_train"], _columns(model, metadata), model.trainer == "pdadmm"
    held = max(stop - start for start, stop in pairwise(_bounds(model, metadata, hosts)[1]))
    weights = TableSize(name="weights", rows=columns + (held - 1) * model.width, columns=model.width)
    arrays = 4 * held * nodes * model.width * (_ADMM_ARRAYS if is_admm else _PASSED_ARRAYS)
    return Size(
        tables=(weights,),
        resident={
            "layers": arrays, "gradients and states": 3 * weights.num_bytes, "torch": 0 if is_admm else TORCH_BYTES
        },
        whole_bytes=4 * metadata["num_nodes"] * 2 * model.width, items=nodes,
        result_bytes=weights.num_bytes + 4 * metadata["num_nodes"] * model.width,
    )  # fmt: skip


def plan_layers(spec: RunSpec, metadata: Mapping[str, Any], found: dict[str, Any]) -> Forecast:
    """What hosts in a row hold and send. Layers are taken to cost what their weights do."""
    model, hosts = spec.model, spec.hosts.trainers or 1
    costs, bounds = _bounds(model, metadata, hosts)
    if model.trainer == "pdadmm":
        wide = _WIDTHS.get(model.quantize) or (1 if len(model.grid_values) <= 256 else 2)
        p_bytes, q_bytes = (wide if name in model.quantized else 4 for name in "pq")
        u_bytes = 4 if spec.sync.dual == "sent" else 0
        crossing = boundary_bytes(metadata["num_train"], model.width, p_bytes, q_bytes, u_bytes)
        speedup = critical_path(costs, bounds)
    else:  # activations there, gradients back
        crossing = boundary_bytes(metadata["num_train"], model.width, 4, 4, 0)
        speedup = pipeline_path(costs, bounds, model.micro_batches)
    bytes_by_kind = {kind: (hosts - 1) * size for kind, size in crossing.items()}
    result = {
        "model": model.name, "hosts": hosts, "is_modeled": True, "host": found, "speedup": speedup,
        "layers_by_host": [stop - start for start, stop in pairwise(bounds)],
        "bytes_per_epoch": sum(bytes_by_kind.values()), "bytes_by_kind": bytes_by_kind,
    }  # fmt: skip
    lines = [
        ("features", f"{metadata['num_train']:,} training nodes × {_columns(model, metadata):,}"),
        ("layers", f"{model.num_layers}, on {hosts} hosts: {', '.join(map(str, result['layers_by_host']))}"),
        ("memory", f"{bytes_text(found['memory_bytes'])}, of the host with the most layers"),
        ("", parts(found["memory"], bytes_text)),
        ("an epoch", f"sends {bytes_text(result['bytes_per_epoch'])}: {parts(bytes_by_kind, bytes_text)}"),
        ("speed-up", f"at most {speedup:.3g} × one host, modeled"),
    ]
    return Forecast(result, lines)


def _bounds(model: GAMLP, metadata: Mapping[str, Any], hosts: int) -> tuple[list[float], list[int]]:
    """(what each layer costs, which hosts have which)."""
    sizes = [_columns(model, metadata), *[model.width] * (model.num_layers - 1), metadata["num_classes"]]
    costs = [float(size_in * size_out) for size_in, size_out in pairwise(sizes)]
    return costs, layers_of_hosts(costs, hosts)


def _columns(model: GAMLP, metadata: Mapping[str, Any]) -> int:
    """X, as the model's own functions of the adjacency make them."""
    return int(metadata["num_features"]) * (model.hops + 1 if model.psi == "powers" else 2)
