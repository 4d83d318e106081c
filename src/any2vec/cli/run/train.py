"""`any2vec train MODEL` and `any2vec stream MODEL`."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from any2vec.cli import STARTED
from any2vec.cli.bar import Bar, StreamBar
from any2vec.cli.options import with_flags
from any2vec.cli.output import details, guarded, note, print_json, show
from any2vec.cli.run.flags import make_spec, model_flags
from any2vec.cli.run.group import AsJson, Config, Inputs, Out, Quiet, check_out, model_group
from any2vec.cluster.launch.join import is_first
from any2vec.train.fit import train as fit_spec
from any2vec.train.spec import Hooks, RunSpec
from any2vec.train.task import Task
from any2vec.units import duration, fraction, number, size


def train_command(task: Task, model: str) -> Any:
    """The function behind `any2vec train MODEL`."""

    def train(
        inputs: Inputs = None,
        out: Out = None,
        config: Config = None,
        as_json: AsJson = False,
        quiet: Quiet = False,
        **values: Any,
    ) -> None:
        spec = make_spec(task, model, inputs, out, config, values)
        if spec.run.out is None and task.needs_folder:
            check_out(None)
        with Bar(quiet or not is_first()) as bar:
            hooks = Hooks(progress=bar.record, stage=bar.stage)
            result = fit_spec(spec, hooks, time.perf_counter())
        if is_first():  # of the hosts under torchrun one speaks
            _report(task, spec, result, as_json, quiet)

    train.__doc__ = f"Train {task.about_model(model)}.\n\nany2vec train {model} INPUT --out DIR"
    return with_flags(guarded(train), model_flags(task.name, model))


train = model_group("train", "Train a model. `any2vec train MODEL --help` shows its options.", train_command)


def _report(task: Task, spec: RunSpec, result: Any, as_json: bool, quiet: bool) -> None:
    """Print what the run made, for people or programs."""
    out = spec.run.out
    summary = dict(result.summary)
    summary["seconds"] = time.perf_counter() - STARTED
    summary |= {"model": spec.model.name, "out": None if out is None else str(out)}
    for remark in summary.get("warnings") or [] if task.warns_always else []:
        note(f"Note: {remark}")  # with --quiet and --json, too: the model is of little use
    if as_json:
        print_json(summary)
        return
    _print_summary(task, spec, summary)
    if out is not None:
        note(task.next_step(spec.model, out, result.embeddings.keys.names), quiet)


def _host_lines(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """What only a run over several hosts has to tell."""
    if "hosts" not in summary:
        return []
    sent = sum(summary["bytes_by_kind"].values())
    if _is_layered(summary):
        if summary["hosts"] == 1:
            return []
        stripes = " + ".join(str(layers) for layers in summary["layers_by_host"])
        return [*_restart_lines(summary), ("hosts", f"{stripes} layers, {size(sent)} between them")]
    if "sync_servers" in summary:
        servers = summary["servers"] + summary["sync_servers"]
        beside = f" and {servers} server{'s' * (servers > 1)}" if servers else ""
        agreed = f"{summary['sync']}, cache {summary['cache']}"
        hosts = f"{summary['hosts']} trainers{beside}, {size(sent)} between them"
        return [*_restart_lines(summary), ("hosts", hosts), ("agreement", agreed)]
    if "cache" in summary:
        hosts = f"{summary['hosts']}, {size(sent)} between them"
        return [*_restart_lines(summary), ("hosts", hosts), ("agreement", f"cache {summary['cache']}")]
    if "held_twice" in summary:
        waits = ", ".join(duration(seconds) for seconds in summary["seconds_idle"])
        return [*_restart_lines(summary), ("hosts", f"{summary['hosts']}, {size(sent)} between them"), ("waits", waits)]
    agreed = f"{summary['sync']}, {summary['rounds']:,} rounds, {summary['agree_share']:.0%} of the time"
    walked = [("walking", f"{duration(summary['walk_seconds'])} of it")] if "walk_seconds" in summary else []
    hosts = f"{summary['hosts']}, {size(sent)} between them"
    return [*walked, *_restart_lines(summary), ("hosts", hosts), ("agreement", agreed)]


def _is_layered(summary: dict[str, Any]) -> bool:
    return "layers_by_host" in summary


def _validation_lines(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """What a run that has validated kept."""
    found = {one["epoch"]: one for one in summary.get("validation") or ()}
    best = found.get(summary.get("best_epoch"))
    if best is None:
        return []
    scores = ", ".join(f"{name.replace('_', ' ')} {fraction(value)}" for name, value in best.items() if name != "epoch")
    return [("validation", f"{scores}, epoch {best['epoch']} of {summary['epochs_done']}, which is kept")]


def _table_lines(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """What only a run of a table larger than memory has to tell."""
    if summary.get("partitions", 1) == 1:
        return []
    parts = f"{summary['capacity']} of {summary['partitions']} partitions in memory, order {summary['order']}"
    moved = f"{size(summary['bytes_read'])} read, {size(summary['bytes_written'])} written"
    return [("table", parts), ("disk", f"{moved}, {duration(summary['seconds_waited'])} waited for it")]


def _restart_lines(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """How often hosts were started again, and what that has cost."""
    again = [("restarts", f"{summary['restarts']:,}")] if summary.get("restarts") else []
    lost = summary.get("updates_lost", 0)
    return [*again, *([("lost", f"{lost:,} updates of rows, by the trainers that were left")] if lost else [])]


def _print_summary(task: Task, spec: RunSpec, summary: dict[str, Any]) -> None:
    nouns = task.nouns(spec.model)
    loss = fraction(summary["loss"]) if summary.get("loss") is not None else "not measured"
    if "normalized_entropy" in summary:
        seen = ", each example before it is learned from" if summary["epochs"] == 1 else " in the last pass"
        loss += f", normalized entropy {fraction(summary['normalized_entropy'])}{seen}"
    elif summary.get("loss") is not None:
        loss += ", mean of the last epoch"  # the bar shows that of its last moments
    pairs = [
        ("vectors", f"{summary['rows']:,} {nouns.rows} × {summary['dim']}"),
        ("loss", loss),
        *task.lines(summary),
        *_validation_lines(summary),
        ("speed", f"{number(summary['items_per_s'])} {nouns.items}/s"),
        ("time", _time(summary)),
        ("memory", _memory(summary)),
        *_table_lines(summary),
        *_host_lines(summary),
        *([] if spec.run.out is None else [("result", str(spec.run.out))]),
    ]
    for remark in summary.get("warnings") or []:
        pairs.append(("note", str(remark)))
    show(details("", pairs))


def _time(summary: dict[str, Any]) -> str:
    """Of this process; a run that went on counts the training before it, too."""
    seconds, training = summary["seconds"], summary.get("train_seconds")
    if training is not None and training > seconds:
        return f"{duration(seconds)} this time, {duration(training)} of training since the run began"
    return f"{duration(seconds)} in all, {duration(training)} of training"


def _memory(summary: dict[str, Any]) -> str:
    """The process's own, which `watch` shows, too, and with mapped files, which go when their room is wanted."""
    with_files = f"{size(summary['peak_rss_bytes'])} with mapped files"
    own = summary.get("peak_anon_bytes")  # runs that ended long ago have none
    return f"{with_files}, at the peak" if own is None else f"{size(own)} at the peak, {with_files}"


def stream_command(task: Task, model: str) -> Any:
    """The function behind `any2vec stream MODEL`."""

    def stream(
        sources: Annotated[
            list[str] | None,
            typer.Argument(metavar="SOURCE...", show_default=False),
        ] = None,
        out: Out = None,
        config: Config = None,
        as_json: AsJson = False,
        quiet: Quiet = False,
        **values: Any,
    ) -> None:
        spec = make_spec(task, model, sources, out, config, values)
        folder = check_out(spec.run.out)
        from any2vec.tasks.stream.stream import listed

        with StreamBar(quiet) as bar:
            hooks = Hooks(progress=bar.record)
            result = fit_spec(replace(spec, data=listed(spec.data)), hooks, time.perf_counter())
        if not result.summary:  # of the hosts under torchrun rank 0 speaks
            return
        if as_json:
            print_json(result.summary | {"out": str(folder)})
            return
        _print_end(result.summary, folder)
        if result.embeddings is None:
            note("It was stopped before a word had a vector; --resume goes on.", quiet)
            return
        note(task.next_step(spec.model, folder, []), quiet)

    stream.__doc__ = (
        f"Train {task.about_model(model)}, on text that need not end, as it comes. Ctrl-C saves and ends; --resume "
        f"continues.\n\nany2vec stream {model} log.txt --follow --out words"
    )
    return with_flags(guarded(stream), model_flags(task.name, model))


stream = model_group(
    "stream", "Train on text that need not end. `any2vec stream MODEL --help` shows its options.", stream_command
)


def _print_end(summary: dict[str, Any], out: Path) -> None:
    bad = sum(source["bad"] for source in summary["sources"].values())
    twice = sum(source["duplicates"] for source in summary["sources"].values())
    lines = sum(source["lines"] for source in summary["sources"].values())
    pairs = [
        ("vectors", f"{summary['vocabulary']:,} words × {summary['dim']}, of {summary['types']:,} that are counted"),
        ("trained", f"{summary['words']:,} words of {lines:,} lines, {summary['delivery']}"),
        ("left out", f"{twice:,} duplicates, {bad:,} invalid records"),
        ("loss", "not measured" if summary["loss"] is None else f"{fraction(summary['loss'])}, before each update"),
        *([] if summary["pip"] is None else [("PIP loss", f"{fraction(summary['pip'])}, of the pairs counted")]),
        ("speed", f"{number(summary['words_per_s'])} words/s"),
        ("time", f"{duration(summary['seconds'])}, ended by {summary['ended_by']}"),
        ("memory", _memory(summary)),
        *_spread(summary),
        ("result", str(out)),
        *(("note", remark) for remark in summary["warnings"]),
    ]
    show(details("", pairs))


def _spread(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """What only a run over several hosts has to tell."""
    if "hosts" not in summary:
        return []
    beside = f" and {summary['servers']} server{'s' * (summary['servers'] > 1)}" if summary["servers"] else ""
    sent = size(sum(summary["bytes_by_kind"].values()))
    staleness = ", ".join(f"{behind}: {count:,}" for behind, count in summary["staleness"].items())
    return [
        ("hosts", f"{summary['hosts']} trainers{beside}, {summary['sync']}; {sent} between them"),
        ("staleness", f"batches by how many others came between pull and push: {staleness}"),
        *([("restarts", str(summary["restarts"]))] if summary.get("restarts") else []),
    ]
