"""What a run of a model of clicks needs, sends and takes; the pace of one worker of this machine is measured."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from any2vec.data.clicks.rows import ClickBatch
from any2vec.errors import InputError
from any2vec.models.clicks.config import ClickModel
from any2vec.plan.cost.clicks import ClickShape, ClickSpread, click_plan
from any2vec.plan.cost.columns import zipf_columns
from any2vec.plan.cost.estimate import THREAD_BYTES
from any2vec.plan.cost.size import Forecast, Size, TableSize
from any2vec.sync.options.names import Bounded, Bsp, MOfN
from any2vec.sync.options.trainers import TrainerAgreement
from any2vec.tasks.clicks.prepare import prepare_clicks
from any2vec.tasks.clicks.rows import fresh_rows, measured_columns, row_optimizer
from any2vec.units import number, parts, size

if TYPE_CHECKING:
    from any2vec.models.clicks.worker import ClickWorker
    from any2vec.options.planning import ColumnShape
    from any2vec.train.spec import RunSpec
    from any2vec.types import Stage

_ROWS = 10_000
"""of each column, at most: their way from memory is part of what is measured"""
_SECONDS = 1.5
_MOST_SERVERS_SHOWN = 8
_BATCH_COPIES = 6
"""of a batch's vectors: rows, what the net makes of them, gradients"""
_NAME = 24
"""bytes of a value's name"""


def warm_up(model: ClickModel, num_dense: int, num_columns: int) -> None:
    """Compile every kernel of a worker, or load it from the cache, and let PyTorch make what it makes at first use."""
    worker = _worker(model, num_dense, num_columns, 2)
    worker.train(_batch(np.random.default_rng(1), 2, num_dense, num_columns, 2), 0)


def examples_per_s(model: ClickModel, num_dense: int, num_columns: int, rows: int) -> float:
    """Measured for a second or two on made-up examples; the kernels are compiled before. rows: of a column."""
    from any2vec.models.torch_threads import torch_threads

    rows = min(rows, _ROWS)
    worker = _worker(model, num_dense, num_columns, rows)
    batches = [_batch(np.random.default_rng(seed), model.batch_size, num_dense, num_columns, rows) for seed in range(8)]
    with torch_threads(1):
        worker.train(batches[0], 0)
        began, steps = time.perf_counter(), 0
        while time.perf_counter() - began < _SECONDS:
            worker.train(batches[steps % len(batches)], steps + 1)
            steps += 1
        return steps * model.batch_size / (time.perf_counter() - began)


def num_dense_parameters(model: ClickModel, num_dense: int, num_columns: int) -> int:
    """Q, the numbers of the dense layers."""
    from any2vec.models.clicks.nets import make_net, start_values

    return len(start_values(make_net(model, num_dense, num_columns), 1))


def _dense_state(model: ClickModel) -> int:
    """Numbers that the optimizer keeps for a dense parameter."""
    from any2vec.tables.replica import Replica

    return len(Replica(np.empty(0, np.float32), model.optimizer).state)


def _worker(model: ClickModel, num_dense: int, num_columns: int, rows: int) -> ClickWorker:
    """A worker with rows of its own, which agrees with nobody."""
    from any2vec.models.clicks.nets import make_net, start_values
    from any2vec.models.clicks.worker import ClickWorker
    from any2vec.sync.base.dense import NoAgreement
    from any2vec.tables.replica import Replica
    from any2vec.tables.row_table import MemoryRows

    net = make_net(model, num_dense, num_columns)
    value_Q = start_values(net, 1)
    access = MemoryRows(fresh_rows(model, np.arange(rows * num_columns), 1), row_optimizer(model))
    replica = Replica(value_Q, model.optimizer, model.dense_rate)
    return ClickWorker(0, net, value_Q, access, NoAgreement(replica), np.zeros(num_columns, np.bool_))


def _batch(rng: np.random.Generator, size: int, num_dense: int, num_columns: int, rows: int) -> ClickBatch:
    ids = rng.integers(0, rows, (size, num_columns)) + np.arange(num_columns) * rows
    dense = rng.normal(size=(size, num_dense)).astype(np.float32)
    start = np.arange(size * num_columns + 1, dtype=np.int64)
    return ClickBatch((rng.random(size) < 0.25).astype(np.float32), dense, ids.reshape(-1), start)


def size_of_clicks(spec: RunSpec, metadata: Mapping[str, Any], threads: int) -> Size:
    """Of one host that holds all rows."""
    model, num_columns, num_dense = spec.model, len(metadata["columns"]), len(metadata["dense"])
    optimizer = row_optimizer(model)
    dense = num_dense_parameters(model, num_dense, num_columns)
    batch = 4 * model.batch_size * (_BATCH_COPIES * num_columns * model.width + num_dense)
    result = (4 * model.width + _NAME) * metadata["num_rows"] + 4 * dense
    return Size(
        tables=(TableSize(name="rows", rows=metadata["num_rows"], columns=optimizer.num_columns),),
        resident={"dense layers": (2 + _dense_state(model) + threads) * 4 * dense},
        thread_bytes=THREAD_BYTES + batch, items=metadata["num_examples"],
        # At the end the vectors without their state, and names.
        whole_bytes=result - 4 * dense, result_bytes=result,
    )  # fmt: skip


def plan_clicks(spec: RunSpec, shape: ColumnShape, pace: float | None, stage: Stage) -> Forecast:
    """What a run will hold, send and take on trainers and servers. shape: has rows where there are no data.

    Raises:
        InputError: it is no legal shape, or the agreement is none that can be planned.
    """
    model, hosts, options = spec.model, spec.hosts, TrainerAgreement.of(spec.hosts, spec.sync)
    num_dense = shape.numbers
    if shape.rows is None:
        schema = spec.reading["clicks"].resolved()
        clicks = prepare_clicks(spec.data, schema, spec.run.cache_dir, stage).clicks
        known, num_dense = measured_columns(clicks, model.batch_size), len(clicks.dense_names)
    else:
        known = zipf_columns(shape.num_rows, shape.columns, shape.zipf, model.batch_size)
    measured = pace or examples_per_s(model, num_dense, len(known), max(column.rows for column in known))
    planned = ClickShape(
        columns=tuple(known), width=model.width, num_state=row_optimizer(model).num_state,
        dense_parameters=num_dense_parameters(model, num_dense, len(known)),
        dense_state=_dense_state(model), batch_size=model.batch_size, examples_per_s=measured,
    )  # fmt: skip
    spread = ClickSpread(
        trainers=hosts.trainers or 1, servers=options.servers, sync_servers=options.sync_servers,
        workers=spec.run.threads or 1, link=hosts.link_model,
        validates=spec.run.validate is not None, **_agreement(options),
    )  # fmt: skip
    result = click_plan(planned, spread).as_dict() | {
        "model": model.name, "worker_examples_per_s": measured, "is_pace_given": pace is not None,
        "dense_parameters": planned.dense_parameters, "dim": model.dim,
    }  # fmt: skip
    placement, workers = result["placement"], result["workers"]
    said = "given" if result["is_pace_given"] else "measured here"
    servers = f"{result['servers']:,} servers" if result["servers"] else "rows on the trainers"
    balance = ", ".join(f"{name} {value:.3f}" for name, value in placement["balance"].items())
    pairs = [
        ("rows", f"{placement['num_rows']:,} × {result['dim']}"),
        ("dense layers", f"{result['dense_parameters']:,} numbers"),
        ("hosts", f"{result['trainers']:,} trainers × {workers} worker{'s' * (workers > 1)}, {servers}"),
        ("one worker", f"{number(result['worker_examples_per_s'])} examples/s, {said}"),
        ("all trainers", f"{number(result['examples_per_s'])} examples/s, {result['speedup']:.3g} × one, modeled"),
        ("bottleneck", result["bottleneck"]),
        ("a step", parts(result["step_seconds"], _milliseconds) + ", modeled"),
        ("", f"{size(sum(result['bytes_per_step'].values()))}: {parts(result['bytes_per_step'], size)}"),
        ("all lines", f"{size(sum(result['bytes_per_s'].values()))}/s, modeled"),
        ("a server holds", _held(result["server_memory"])),
        (
            "a trainer holds",
            f"{size(sum(result['trainer_memory'].values()))}: {parts(result['trainer_memory'], size)}",
        ),
        *([("rank 0 besides", _held(result["rank_0_memory"]))] if result["rank_0_memory"] else []),
        ("balance", f"{balance} (largest over mean)"),
    ]
    rows = [
        [f"{server}", f"{load['rows']:,}", size(load["bytes"]), f"{load['lookups']:.2f}", f"{load['cost']:.2f}"]
        for server, load in enumerate(placement["servers"][:_MOST_SERVERS_SHOWN])
    ]
    more = len(placement["servers"]) - len(rows)
    title = "What each server holds" + (f" (the first of {more + len(rows)})" if more else "")
    heads = ["server", "rows", "bytes", "look-ups", "cost"]
    return Forecast(result, pairs, [(title, heads, rows)])


def _agreement(options: TrainerAgreement) -> dict[str, Any]:
    """How dense layers agree, as the plan counts it.

    Raises:
        InputError: the agreement is none that can be planned.
    """
    how = options.agreement
    if options.row_cache.kind != "none":
        raise InputError(f"Only --cache none can be planned, got {options.cache}: what a cache saves, the data decide.")
    sums_bags = not isinstance(how, Bsp | Bounded | MOfN)  # as the row backends have it
    if how.name in ("bounded", "async", "m-of-n"):
        return {"sync": "center", "sync_gap": 1.0, "sums_bags": sums_bags}
    every = float(getattr(how, "every", 5.0 if how.name.startswith("shadow") else 1.0))
    if how.name == "ds-sync":
        raise InputError(f"sync {options.sync} cannot be planned; take fr-ma:1, of which its groups send less.")
    if how.name == "none":
        return {"sync_gap": 0.0}
    return {"sync": "center" if how.name.endswith("easgd") else "mean", "sync_gap": every, "sums_bags": sums_bags}


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"


def _held(memory: dict[str, int]) -> str:
    return f"{size(sum(memory.values()))}: {parts(memory, size)}"
