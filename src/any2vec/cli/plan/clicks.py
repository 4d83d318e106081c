"""`any2vec plan` for models of clicks."""

from __future__ import annotations

from typing import Any

from any2vec.cli.output import columns, facts, number, parts, print_json, show, size
from any2vec.cluster.launch.join import check_torch
from any2vec.errors import InputError
from any2vec.sync.options.trainers import TrainerAgreement
from any2vec.train.spec import RunSpec

_MOST_SERVERS_SHOWN = 8


def plan_clicks(
    spec: RunSpec, rows: int | None, num_columns: int, num_dense: int, zipf: float, pace: float | None, stage: Any,
    as_json: bool,
) -> None:  # fmt: skip
    """Print what a run of a model of clicks will hold, send and take. rows: in all, without an input."""
    check_torch("Models of clicks")
    from any2vec.plan.cost.clicks import ClickShape, ClickSpread, click_plan
    from any2vec.plan.cost.zipf_columns import zipf_columns
    from any2vec.tasks.clicks.pace import examples_per_s, num_dense_parameters
    from any2vec.tasks.clicks.prepare import prepare_clicks
    from any2vec.tasks.clicks.rows import measured_columns, row_optimiser

    model, hosts, options = spec.model, spec.hosts, TrainerAgreement.of(spec.hosts, spec.sync)
    if rows is None:
        schema = spec.reading["clicks"].resolved()
        clicks = prepare_clicks(spec.data, schema, spec.run.cache_dir, stage).clicks
        known, num_dense = measured_columns(clicks, model.batch_size), len(clicks.dense_names)
    else:
        known = zipf_columns(rows, num_columns, zipf, model.batch_size)
    measured = pace or examples_per_s(model, num_dense, len(known), max(column.rows for column in known))
    optimiser = row_optimiser(model)
    shape = ClickShape(
        columns=tuple(known), width=model.width, num_state=optimiser.num_state,
        dense_parameters=num_dense_parameters(model, num_dense, len(known)), batch_size=model.batch_size,
        examples_per_s=measured,
    )  # fmt: skip
    spread = ClickSpread(
        trainers=hosts.trainers or 1, servers=options.servers,
        sync_servers=options.sync_servers, workers=spec.run.threads or 1,
        link=hosts.link_model, **_agreement(options),
    )  # fmt: skip
    result = click_plan(shape, spread).as_dict() | {
        "model": model.name, "worker_examples_per_s": measured, "is_pace_given": pace is not None,
        "dense_parameters": shape.dense_parameters, "dim": model.dim,
    }  # fmt: skip
    if as_json:
        print_json(result)
    else:
        _print(result, options)


def _agreement(options: TrainerAgreement) -> dict[str, Any]:
    """How dense layers agree, as the plan counts it.

    Raises:
        InputError: the agreement is none that can be planned.
    """
    how = options.agreement
    if options.row_cache.kind != "none":
        raise InputError(f"Only --cache none can be planned, got {options.cache}: what a cache saves, the data decide.")
    if how.name in ("bounded", "async", "m-of-n"):
        return {"sync": "centre", "sync_gap": 1.0}
    every = float(getattr(how, "every", 5.0 if how.name.startswith("shadow") else 1.0))
    if how.name == "none":
        return {"sync_gap": 0.0}
    return {"sync": "centre" if how.name.endswith("easgd") else "mean", "sync_gap": every}


def _print(result: dict[str, Any], options: TrainerAgreement) -> None:
    placement, workers = result["placement"], result["workers"]
    said = "given" if result["is_pace_given"] else "measured here"
    servers = f"{result['servers']:,} servers" if result["servers"] else "rows on the trainers"
    balance = ", ".join(f"{name} {value:.3f}" for name, value in placement["balance"].items())
    pairs = [
        ("rows", f"{placement['num_rows']:,} × {result['dim']}"),
        ("dense layers", f"{result['dense_parameters']:,} numbers"),
        ("hosts", f"{result['trainers']:,} trainers × {workers} worker{'s' * (workers > 1)}, {servers}"),
        ("one worker", f"{number(result['worker_examples_per_s'])} examples/s, {said}"),
        ("all trainers", f"{number(result['examples_per_s'])} examples/s, {result['speedup']:.3g} × one, modelled"),
        ("bottleneck", result["bottleneck"]),
        ("a step", parts(result["step_seconds"], _milliseconds) + ", modelled"),
        ("", f"{size(sum(result['bytes_per_step'].values()))}: {parts(result['bytes_per_step'], size)}"),
        ("all lines", f"{size(sum(result['bytes_per_s'].values()))}/s, modelled"),
        ("a server holds", _held(result["server_memory"])),
        (
            "a trainer holds",
            f"{size(sum(result['trainer_memory'].values()))}: {parts(result['trainer_memory'], size)}",
        ),
        ("balance", f"{balance} (largest over mean)"),
    ]
    rows = [
        [f"{server}", f"{load['rows']:,}", size(load["bytes"]), f"{load['lookups']:.2f}", f"{load['cost']:.2f}"]
        for server, load in enumerate(placement["servers"][:_MOST_SERVERS_SHOWN])
    ]
    more = len(placement["servers"]) - len(rows)
    title = "What each server holds" + (f" (the first of {more + len(rows)})" if more else "")
    show(facts("", pairs), columns(title, ["server", "rows", "bytes", "look-ups", "cost"], rows))


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"


def _held(memory: dict[str, int]) -> str:
    return f"{size(sum(memory.values()))}: {parts(memory, size)}"
