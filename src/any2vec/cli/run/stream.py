"""`any2vec stream MODEL`."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from any2vec.cli.options import with_flags
from any2vec.cli.output import facts, guarded, note, print_json, show
from any2vec.cli.run.flags import make_spec, model_flags
from any2vec.cli.run.group import AsJson, Config, Out, Quiet, check_out, model_group
from any2vec.cli.stream_bar import StreamBar
from any2vec.train.spec import Hooks
from any2vec.train.task import Task
from any2vec.units import duration, fraction, number, size


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
        from any2vec.tasks.stream.stream import train as stream_spec

        with StreamBar(quiet) as bar:
            hooks = Hooks(progress=bar.record)
            result = stream_spec(replace(spec, data=listed(spec.data)), hooks, time.perf_counter())
        if result is None:  # of the hosts under torchrun rank 0 speaks
            return
        if as_json:
            print_json(result.summary | {"out": str(folder)})
            return
        _print_summary(result.summary, folder)
        note(task.next_step(spec.model, folder, []), quiet)

    stream.__doc__ = (
        f"Train {task.about[model]}, on text that need not end, as it comes. Ctrl-C saves and ends; --resume "
        f"continues.\n\nany2vec stream {model} log.txt --follow --out words"
    )
    return with_flags(guarded(stream), model_flags(task.name, model))


stream = model_group(
    "stream", "Train on text that need not end. `any2vec stream MODEL --help` shows its options.", stream_command
)


def _print_summary(summary: dict[str, Any], out: Path) -> None:
    bad = sum(told["bad"] for told in summary["sources"].values())
    twice = sum(told["duplicates"] for told in summary["sources"].values())
    lines = sum(told["lines"] for told in summary["sources"].values())
    pairs = [
        ("vectors", f"{summary['vocabulary']:,} words × {summary['dim']}, of {summary['types']:,} that are counted"),
        ("trained", f"{summary['words']:,} words of {lines:,} lines, {summary['delivery']}"),
        ("left out", f"{twice:,} duplicates, {bad:,} bad things"),
        ("loss", "not measured" if summary["loss"] is None else f"{fraction(summary['loss'])}, before each update"),
        ("speed", f"{number(summary['words_per_s'])} words/s"),
        ("time", f"{duration(summary['seconds'])}, ended by {summary['ended_by']}"),
        ("memory", f"{size(summary['peak_rss_bytes'])} at the peak"),
        *_spread(summary),
        ("result", str(out)),
        *(("note", remark) for remark in summary["warnings"]),
    ]
    show(facts("", pairs))


def _spread(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """What only a run over several hosts has to tell."""
    if "hosts" not in summary:
        return []
    beside = f" and {summary['servers']} servers" if summary["servers"] else ""
    sent = size(sum(summary["bytes_by_kind"].values()))
    staleness = ", ".join(f"{behind}: {count:,}" for behind, count in summary["staleness"].items())
    return [
        ("hosts", f"{summary['hosts']} trainers{beside}, {summary['sync']}; {sent} between them"),
        ("staleness", f"batches by how many others came between pull and push: {staleness}"),
        *([("restarts", str(summary["restarts"]))] if summary.get("restarts") else []),
    ]
