"""`any2vec graph`: attributed graphs, which graph networks train on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from any2vec.cli.bar import Bar
from any2vec.cli.options import flags_of, out_option, with_flags
from any2vec.cli.output import EXIT_BAD_INPUT, AsJson, details, guarded, note, print_json, show
from any2vec.cli.run.flags import check_input
from any2vec.cli.run.graph import graph_flags
from any2vec.data.options import GraphOptions
from any2vec.errors import InputError
from any2vec.plan.sharding.pruning import PruneOptions
from any2vec.units import size

_SHOWN = 8
"""types of nodes or edges that are named on the terminal"""
graph = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich", no_args_is_help=True)


@graph.callback()
def root() -> None:
    """Attributed graphs: edges, features, classes and splits in one folder, which is mapped, not read."""


def _build(
    edges: Annotated[str, typer.Argument(metavar="EDGES", help="Edge list, Parquet, Arrow or Matrix Market file.")],
    out: Annotated[Path, out_option("Folder of the graph.")],
    features: Annotated[
        Path | None,
        typer.Option(
            "--features", help=".npy, .npz (dense or SciPy CSR), or vectors by node id. A matrix: row r is node r.",
            show_default=False,
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option("--labels", help="File of lines `node class`, or `node class class ...`.", show_default=False),
    ] = None,
    split: Annotated[
        Path | None,
        typer.Option(
            "--split", help="File of lines `node train|val|test`, or .npz: `split` (splits, nodes), 0, 1, 2 or -1.",
            show_default=False,
        ),
    ] = None,
    split_index: Annotated[
        int | None, typer.Option("--split-index", min=0, help="Keep this split alone, from 0.", show_default=False)
    ] = None,
    feature_type: Annotated[
        str,
        typer.Option("--feature-type", metavar="<choice>", help="float32 | float16 | int8; as what they are kept."),
    ] = "float32",
    out_neighbors: Annotated[bool, typer.Option("--out-neighbors", help="Keep the out-neighbors, too.")] = False,
    edge_types: Annotated[
        str | None,
        typer.Option(
            "--edge-types", metavar="<where>", show_default=False,
            help="Edges have types, and directions: triples (lines `head relation tail`), last (`src dst relation`), "
            "or the column of a table.",
        ),
    ] = None,
    edge_features: Annotated[
        Path | None,
        typer.Option(
            "--edge-features", help=".npy or .npz: a row an edge, in the order of EDGES.", show_default=False,
        ),
    ] = None,
    edge_feature_type: Annotated[
        str, typer.Option("--edge-feature-type", metavar="<choice>", help="float32 | float16; as what they are kept."),
    ] = "float32",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the graph in --out.")] = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    **values: Any,
) -> None:  # fmt: skip
    """Write a graph with features, classes and splits of its nodes into one folder.

    any2vec graph build edges.tsv --features x.npz --labels classes.tsv --split split.tsv --out DIR

    Edges whose ids are whole numbers go through in pieces: the graph may be larger than memory.
    """
    from any2vec.tasks.graphs.build import BuildOptions, write_graph

    check_input(edges)
    if split_index is not None and split is None:
        raise InputError("--split-index is of several splits; give their file, --split, or leave it out.")
    options = BuildOptions(
        features=features, labels=labels, split=split, split_index=split_index, feature_type=feature_type,  # type: ignore[arg-type]
        out_neighbors=out_neighbors, edge_types=edge_types, edge_features=edge_features,
        edge_feature_type=edge_feature_type,  # type: ignore[arg-type]
    )  # fmt: skip
    with Bar(quiet) as bar:
        made = write_graph(
            edges, out, options, graph=GraphOptions(**values), overwrite=overwrite, stage=bar.stage
        )  # fmt: skip
    _tell(made.describe(), as_json)


graph.command("build")(with_flags(guarded(_build), graph_flags()))


def _prune(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `any2vec graph build` wrote.")],
    out: Annotated[Path, out_option("Folder of the pruned graph.")],
    split_index: Annotated[
        int, typer.Option("--split-index", min=0, help="Split by whose train and val nodes edges are weighed.")
    ] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the graph in --out.")] = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    **values: Any,
) -> None:
    """Write a graph without the edges by which a network gains least (GCoD). It changes the graph, and so the model.

    any2vec graph prune runs/graph --share 0.3 --out runs/pruned

    A GCN learns from the graph; by its loss edges are weighed, and a share of them goes (ADMM). Train, score and
    evaluate on the folder that is written, or score the given graph and say so. Out-neighbors are not kept.
    """
    from any2vec.tasks.graphs.prune import prune_graph

    with Bar(quiet) as bar:
        made = prune_graph(
            folder, out, PruneOptions(**values), split=split_index, overwrite=overwrite, stage=bar.stage
        )  # fmt: skip
    _tell(made.describe() | {"pruned": made.metadata["pruned"]}, as_json)


graph.command("prune")(with_flags(guarded(_prune), flags_of({"prune": PruneOptions}, {"prune": "Pruning"})))


@graph.command("show")
@guarded
def show_graph(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `any2vec graph build` wrote.")],
    check: Annotated[bool, typer.Option("--check", help="Read every file and compare its checksum.")] = False,
    as_json: AsJson = False,
) -> None:
    """What an attributed graph holds."""
    from any2vec.data.attributed.graph import AttributedGraph

    opened = AttributedGraph.open(folder)
    problems = [f"{found.file}: {found.problem}" for found in opened.check() if found.problem] if check else []
    pruned = {"pruned": opened.metadata["pruned"]} if "pruned" in opened.metadata else {}
    _tell(opened.describe() | pruned | ({"problems": problems} if check else {}), as_json)
    if problems:
        note("Build the graph again: " + "; ".join(problems) + ".")
        raise typer.Exit(EXIT_BAD_INPUT)


def _counts(numbers: Mapping[str, int]) -> str:
    """How many there are, and the most frequent of them."""
    shown = sorted(numbers.items(), key=lambda one: -one[1])[:_SHOWN]
    rest = ", ..." if len(numbers) > len(shown) else ""
    return f"{len(numbers):,}: {', '.join(f'{name} {number:,}' for name, number in shown)}{rest}"


def _tell(found: dict[str, Any], as_json: bool) -> None:
    from any2vec.data.attributed.graph import SPLITS
    from any2vec.tasks.graphs.prune import pruned_sentence

    if as_json:
        print_json(found)
        return
    kinds = ["directed" if found["is_directed"] else "undirected", "weighted" if found["is_weighted"] else ""]
    degree = f"mean degree {found['mean_degree']:.1f}, most {found['most_degree']:,}"
    sizes = ", ".join(f"{part} {found[part][0]:,}" for part in SPLITS if found["splits"])
    more = f"{found['splits']:,}; the first: " if found["splits"] > 1 else ""
    pairs = [
        ("graph", f"{found['nodes']:,} nodes, {found['edges']:,} edges, {' '.join(filter(None, kinds))}"),
        *((what.replace("_", " "), _counts(found[what])) for what in ("relations", "node_types") if found[what]),
        ("in-neighbors", f"{degree}, {found['without_neighbors']:,} nodes without"),
        ("features", f"{found['features']:,} {found['feature_type']}" if found["features"] else "none"),
        *([("edge features", f"{found['edge_features']:,}")] if found["edge_features"] else []),
        ("classes", f"{found['classes']:,}, {found['labeled']:,} nodes have one" if found["classes"] else "none"),
        ("splits", more + sizes or "none"),
        ("folder", f"{found['folder']}, {size(found['total_bytes'])}"),
    ]  # fmt: skip
    if "pruned" in found:
        pairs.append(("pruned", pruned_sentence(found["pruned"])))
    if "problems" in found:
        pairs.append(("files", "; ".join(found["problems"]) or "all as they were written"))
    show(details("", pairs))
