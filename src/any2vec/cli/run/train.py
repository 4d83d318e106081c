"""`any2vec train`."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Annotated, Any

import typer

import any2vec
from any2vec.cli import STARTED
from any2vec.cli.bar import Bar
from any2vec.cli.options import with_flags
from any2vec.cli.output import AsJson, duration, facts, fraction, guarded, note, number, print_json, show, size
from any2vec.cli.run.job import ALL_MODELS, Job, job_flags, make_job
from any2vec.cluster.launch.join import is_first
from any2vec.errors import InputError


def _train(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INPUT...", help="Text, graph, clicks, triples: files, folders, globs, or - .", show_default=False
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help=f"{', '.join(ALL_MODELS)}.", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder of the result.", show_default=False)] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="TOML file with the same names as the flags.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    **values: Any,
) -> None:
    """Train vectors of words, graph nodes or entities, a model of clicks, or a classifier of nodes.

    any2vec train corpus.txt --model skipgram --out words

    any2vec train edges.tsv --model node2vec --p 0.25 --q 0.25 --out nodes

    any2vec train corpus.txt --model skipgram --hosts 2 --out words

    any2vec train clicks.tsv --model dlrm --schema criteo --out clicks

    any2vec train triples.tsv --model complex --out entities

    any2vec train edges.tsv --model ga-mlp --features x.npz --labels y.tsv --split s.tsv --out classes
    """
    job = make_job(inputs, model, out, config, values)
    if job.out is None and not job.is_classes:  # what a classifier tells rightly may be all that is wanted
        raise InputError("Say where the result goes: --out DIR.")
    with Bar(quiet or not is_first()) as bar:
        result = any2vec.fit(job.model, job.data, out=job.out, callback=bar.record, stage=bar.stage, **job.arguments())
    if not is_first():  # of the hosts under torchrun one speaks
        return
    summary = dict(result.summary)
    summary["seconds"] = time.perf_counter() - STARTED
    summary |= {"model": job.name, "out": None if job.out is None else str(job.out)}
    for remark in summary.get("warnings") or [] if job.is_clicks else []:
        note(f"Note: {remark}")  # with --quiet and --json, too: the model is of little use
    if as_json:
        print_json(summary)
    else:
        _print_summary(job, summary, result)
        if job.out is not None:
            note(_next(job, result), quiet)


_NOUNS = {
    "clicks": ("values", "examples"), "triples": ("entities", "triples"), "graph": ("nodes", "steps"),
    "classes": ("nodes", "nodes"), "": ("words", "words"),
}  # fmt: skip
"""what has vectors, and what speed counts"""

train = with_flags(guarded(_train), job_flags())


def _next(job: Job, result: Any) -> str:
    """What to try with the result, for a key that is neither the most frequent nor rare."""
    keys = result.embeddings.keys
    if job.is_clicks:
        return f"To score other rows:  {shlex.join(['any2vec', 'score', str(job.out), 'ROWS.tsv'])}"
    if job.is_triples:
        ask = ["any2vec", "evaluate", str(job.out), "--task", "triples", "--data", "TEST.tsv"]
        return f"To rank the answers of other triples:  {shlex.join(ask)}"
    if job.is_classes:
        ask = ["any2vec", "score", str(job.out), "EDGES.tsv", "--features", "X.npz"]
        return f"To tell classes of these nodes, or of others:  {shlex.join(ask)}"
    key = str(keys[min(len(keys) - 1, 300)]) if len(keys) else "KEY"
    command = shlex.join(["any2vec", "nearest", str(job.out), key])
    return f"To see the {'nodes' if job.is_graph else 'words'} nearest to {key}:  {command}"


def _host_lines(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """What only a run over several hosts has to tell."""
    if "hosts" not in summary:
        return []
    sent = sum(summary["bytes_by_kind"].values())
    if _is_layered(summary):
        deal = " + ".join(str(layers) for layers in summary["layers_by_host"])
        return [*_restart_lines(summary), ("hosts", f"{deal} layers, {size(sent)} between them")]
    if "cache" in summary:
        servers = summary["servers"] + summary["sync_servers"]
        beside = f" and {servers} server{'s' * (servers > 1)}" if servers else ""
        agreed = f"{summary['sync']}, cache {summary['cache']}"
        hosts = f"{summary['hosts']} trainers{beside}, {size(sent)} between them"
        return [*_restart_lines(summary), ("hosts", hosts), ("agreement", agreed)]
    if "held_twice" in summary:
        waits = ", ".join(duration(seconds) for seconds in summary["seconds_idle"])
        return [*_restart_lines(summary), ("hosts", f"{summary['hosts']}, {size(sent)} between them"), ("waits", waits)]
    agreed = f"{summary['sync']}, {summary['rounds']:,} rounds, {summary['agree_share']:.0%} of the time"
    walked = [("walking", f"{duration(summary['walk_seconds'])} of it")] if "walk_seconds" in summary else []
    hosts = f"{summary['hosts']}, {size(sent)} between them"
    return [*walked, *_restart_lines(summary), ("hosts", hosts), ("agreement", agreed)]


def _is_layered(summary: dict[str, Any]) -> bool:
    return "layers_by_host" in summary


def _class_lines(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """How many classes of nodes a classifier tells rightly."""
    told = [(name, summary.get(f"{name}_accuracy")) for name in ("train", "val", "test")]
    shares = ", ".join(f"{name} {value:.1%}" for name, value in told if value is not None)
    linear = summary.get("linear_test_accuracy")
    beside = [] if linear is None else [("a linear model", f"test {linear:.1%}")]
    return [("right classes", shares), *beside] if shares else []


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


def _print_summary(job: Job, summary: dict[str, Any], result: Any) -> None:
    kinds = {"clicks": job.is_clicks, "triples": job.is_triples, "classes": job.is_classes, "graph": job.is_graph}
    rows, items = _NOUNS[next((kind for kind, is_one in kinds.items() if is_one), "")]
    loss = fraction(summary["loss"]) if summary.get("loss") is not None else "not measured"
    if "normalised_entropy" in summary:
        seen = ", each example before it is learned from" if summary["epochs"] == 1 else " in the last pass"
        loss += f", normalised entropy {fraction(summary['normalised_entropy'])}{seen}"
    pairs = [
        ("vectors", f"{summary['rows']:,} {rows} × {summary['dim']}"),
        ("loss", loss),
        *_class_lines(summary),
        ("speed", f"{number(summary['items_per_s'])} {items}/s"),
        ("time", f"{duration(summary['seconds'])} in all, {duration(summary.get('train_seconds'))} of training"),
        ("memory", f"{size(summary['peak_rss_bytes'])} at the peak"),
        *_table_lines(summary),
        *_host_lines(summary),
        *([] if job.out is None else [("result", str(job.out))]),
    ]
    for remark in summary.get("warnings") or []:
        pairs.append(("note", str(remark)))
    show(facts("", pairs))
