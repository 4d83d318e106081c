"""`any2vec walk` and `any2vec split`."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from any2vec.checks import MAX_SEED, MAX_THREADS, check_choice
from any2vec.cli.bar import Bar
from any2vec.cli.options import Flag, flags_of, out_option, read_config, with_flags
from any2vec.cli.output import AsJson, details, guarded, print_json, render, show
from any2vec.cli.run.flags import check_input
from any2vec.data.io.storage import check_folder_free
from any2vec.data.options import GraphOptions
from any2vec.errors import InputError
from any2vec.units import duration, number

GraphPath = Annotated[str, typer.Argument(metavar="GRAPH", help="Edge list, Parquet, Arrow or Matrix Market file.")]
Out = Annotated[Path, out_option("Folder of the result.")]
Config = Annotated[
    Path | None,
    typer.Option("--config", help="TOML file with the reading and walking flags' names.", show_default=False),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is in --out.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=MAX_SEED, help="Seed of every random draw.")]
LogicalHosts = Annotated[
    int,
    typer.Option(
        "--logical-hosts",
        min=0,
        max=256,
        help="Walk over so many hosts in this process, each with a part of the graph.",
    ),
]
Partition = Annotated[
    str | None,
    typer.Option(
        "--partition",
        metavar="<choice>",
        help=r"contiguous | hash | metis; how the graph is cut for them \[default contiguous].",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]


def _walk_options() -> type:
    from any2vec.sampling.walks import WalkOptions

    return WalkOptions


@cache
def graph_flags() -> dict[str, Flag]:
    """Flags of reading a graph."""
    return flags_of({"graph": GraphOptions}, {"graph": "Reading graphs"})


@cache
def walk_flags() -> dict[str, Flag]:
    """Flags of walking it."""
    return flags_of({"walks": _walk_options()}, {"walks": "Walks"})


def _options(config: Path | None, values: dict[str, Any], flags: dict[str, Flag]) -> dict[str, Any]:
    return (read_config(config, flags, {}) if config else {}) | values


def read(path: str, options: dict[str, Any], bar: Bar) -> Any:
    """The graph at `path`, as `options` (fields of GraphOptions) say."""
    from any2vec.data.graph.reader import read_graph

    check_input(path)
    return read_graph(path, GraphOptions(**options), progress=lambda done, total: bar.stage("reading", done, total))


def _walk(
    graph: GraphPath,
    out: Out,
    seed: Seed = 1,
    threads: Annotated[int, typer.Option("--threads", min=0, max=MAX_THREADS, help="0 = all usable cores.")] = 0,
    logical_hosts: LogicalHosts = 0,
    method: Partition = None,
    config: Config = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    **values: Any,
) -> None:
    """Write random walks of a graph, in the format that `any2vec train` reads.

    any2vec walk edges.tsv --p 0.25 --q 0.25 --out walks

    The walks are the same for any number of threads. With --logical-hosts the graph is cut into parts, and walkers
    travel from part to part: the same walks again.
    """
    from any2vec.data.text.corpus import FORMAT
    from any2vec.plan.choices import PARTITIONS

    if method is not None and not logical_hosts:
        raise InputError("--partition says how the graph is cut for several hosts; give --logical-hosts too.")
    method = method or "contiguous"
    check_choice("partition", method, PARTITIONS)
    chosen = _options(config, values, graph_flags() | walk_flags())
    options = _walk_options()(**{key: value for key, value in chosen.items() if key in walk_flags()})
    check_folder_free(out, overwrite, FORMAT)
    with Bar(quiet) as bar:
        found = read(graph, {key: value for key, value in chosen.items() if key in graph_flags()}, bar)
        started = time.perf_counter()
        where = (out, threads, overwrite, lambda done, total: bar.stage("walking", done, total))
        corpus, distributed = _written(found, options, seed, *where, logical_hosts, method)
        seconds = time.perf_counter() - started
    result = {
        "out": str(out),
        "nodes": found.report.num_nodes,
        "edges": found.report.num_edges,
        "walks": corpus.num_sentences,
        "steps": corpus.num_tokens,
        "walk_seconds": seconds,
        "steps_per_s": corpus.num_tokens / seconds if seconds else None,
        "seed": seed,
    }
    if distributed is not None:
        result |= {"hosts": logical_hosts, "partition": method} | distributed.as_dict()
    if as_json:
        print_json(result)
        return
    pairs = [
        ("graph", describe(found.report)),
        ("walks", f"{corpus.num_sentences:,} walks, {corpus.num_tokens:,} nodes on them"),
        ("time", f"{duration(seconds)} ({number(result['steps_per_s'])} steps/s)"),
        *(distributed.metrics(method) if distributed is not None else []),
        ("result", str(out)),
    ]
    show(details("", pairs))


def _written(
    graph: Any,
    options: Any,
    seed: int,
    out: Path,
    threads: int,
    overwrite: bool,
    progress: Any,
    hosts: int,
    method: str,
) -> tuple[Any, Any]:
    """(the corpus of walks, what they cost over hosts or None)."""
    if hosts:
        from any2vec.sampling.walk_corpus import write_distributed_walks

        return write_distributed_walks(
            graph, options, seed, out, hosts=hosts, method=method, overwrite=overwrite, progress=progress
        )
    from any2vec.sampling.walks import write_walks

    return write_walks(graph, options, seed, out, threads=threads, overwrite=overwrite, progress=progress), None


def describe(report: Any) -> str:
    """A GraphReport in one line; what was dropped or odd is said only where there is any."""
    parts = [f"{report.num_nodes:,} nodes", f"{report.num_edges:,} edges"]
    odd = {
        "duplicates": "duplicates merged",
        "self_loops": "self-loops",
        "isolated": "nodes without edges",
        "ignored_columns": "columns ignored",
    }
    parts += [f"{getattr(report, name):,} {words}" for name, words in odd.items() if getattr(report, name, 0)]
    if report.header:
        parts.append(f"first line taken as a header: {report.header}")
    return ", ".join(parts)


def _split(
    graph: GraphPath,
    out: Out,
    test_share: Annotated[float, typer.Option("--test-share", help="Share of the edges to test on, in (0, 1).")] = 0.1,
    negatives: Annotated[
        int, typer.Option("--negatives", min=1, help="Non-neighbors to rank each test edge's target among.")
    ] = 100,
    seed: Seed = 1,
    config: Config = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    **values: Any,
) -> None:
    """Cut a graph into train edges, test edges and fixed negatives, to score links fairly.

    any2vec split edges.tsv --out split && any2vec train node2vec split/train.edges --out nodes

    any2vec evaluate nodes --task links --data split
    """
    from any2vec.evaluate.graph.split import FORMAT, split_graph

    check_folder_free(out, overwrite, FORMAT)
    with Bar(quiet) as bar:
        found = read(graph, _options(config, values, graph_flags()), bar)
    done = split_graph(found, out, test_share=test_share, negatives=negatives, seed=seed, overwrite=overwrite)
    result = {"out": str(out)} | {name: value for name, value in done.as_dict().items() if name not in _UNSHOWN}
    if as_json:
        print_json(result)
    else:
        show(*render({name: value for name, value in result.items() if name != "rule"}))


_UNSHOWN = ("format", "version", "path")


walk = with_flags(guarded(_walk), walk_flags() | graph_flags())
split = with_flags(guarded(_split), graph_flags())
