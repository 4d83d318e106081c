"""`any2vec data`: the catalog of public sets."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from any2vec.cli.bar import Bar
from any2vec.cli.output import AsJson, columns, details, guarded, note, print_json, show
from any2vec.errors import InputError, StorageError
from any2vec.units import size

data = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
Name = Annotated[str, typer.Argument(help="A name that `any2vec data` lists.")]


@data.callback(invoke_without_command=True)
@guarded
def list_sets(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Known public data sets: what they are, their license, and how to get them."""
    if ctx.invoked_subcommand is not None:
        if as_json:
            raise InputError(
                f"--json goes behind {ctx.invoked_subcommand}: any2vec data {ctx.invoked_subcommand} NAME --json."
            )
        return
    from any2vec.data.catalog.catalog import CATALOG

    if as_json:
        print_json({"sets": [_known(one) for one in CATALOG.values()]})
        return
    rows = [(name, size(one.num_bytes) if one.files else "by hand", one.license) for name, one in CATALOG.items()]
    show(columns("", ["set", "get", "license"], rows, left=3))
    note("any2vec data show NAME tells more; any2vec data get NAME --out DIR fetches it.")


@data.command("show")
@guarded
def show_set(name: Name, as_json: AsJson = False) -> None:
    """What a set is, who may use it, and where it comes from."""
    from any2vec.data.catalog.catalog import find

    known = _known(find(name))
    if as_json:
        print_json(known)
        return
    pairs = [(key, str(known[key])) for key in ("name", "what", "license", "cite", "where") if known[key]]
    pairs += [("file", f"{one['name']}  {size(one['num_bytes'])}") for one in known["files"]]
    here = str(known["folder"] or "not on this machine (ANY2VEC_DATA names a folder of sets)")
    show(details("", [*pairs, ("here", here)]))


@data.command("get")
@guarded
def get_set(
    name: Name,
    out: Annotated[Path, typer.Option("--out", "-o", help="The set comes into a folder of its name in here.")] = Path(),
    base_url: Annotated[
        str | None, typer.Option("--base-url", help="A mirror with the same paths.", show_default=False)
    ] = None,
    retries: Annotated[int, typer.Option("--retries", min=0, help="Further attempts at a file.")] = 3,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Download a set and check it, where its exact address and SHA-256 are known."""
    from any2vec.data.catalog.catalog import download, find

    with Bar(quiet) as bar:
        folder = download(name, out, base_url=base_url, retries=retries, progress=bar.stage)
    files = [folder / file.name for file in find(name).files]
    if as_json:
        print_json({"name": name, "folder": folder, "files": files})
    else:
        show(details("", [("folder", str(folder)), ("files", ", ".join(path.name for path in files))]))


@data.command("plant")
@guarded
def plant(
    out: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the files go.", show_default=False)],
    examples: Annotated[int, typer.Option("--examples", min=10, help="To train on; a fifth more to score.")] = 50_000,
    columns_: Annotated[int, typer.Option("--columns", min=2, help="Columns of categories.")] = 8,
    rows: Annotated[int, typer.Option("--rows", min=2, help="Categories of each column.")] = 1000,
    zipf: Annotated[float, typer.Option("--zipf", help="Exponent of their popularity.")] = 1.1,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of every draw.")] = 1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files of the same names there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write clicks that are made up by a known rule, so that the best possible score is known.

    any2vec data plant clicks

    any2vec train deepfm clicks/train.tsv --schema clicks/train.toml --out model
    """
    from any2vec.testing.planted_clicks import PlantedClicks, write_tsv

    more = examples // 5
    for name in ("train.tsv", "train.toml", "test.tsv", "test.toml"):
        if (out / name).exists() and not overwrite:
            raise StorageError(f"{out / name} exists; choose another folder or pass --overwrite.")
    clicks = PlantedClicks(examples + more, columns=columns_, rows=rows, zipf=zipf, dense=4, seed=seed)
    schema = write_tsv(clicks, out / "train.tsv", 0, examples)
    write_tsv(clicks, out / "test.tsv", examples, examples + more)
    best = asdict(clicks.bayes(examples, examples + more))
    if as_json:
        print_json({"folder": str(out), "schema": str(schema), "best": best})
        return
    pairs = [("train on", f"{out / 'train.tsv'}, {examples:,} examples"), ("schema", str(schema))]
    pairs += [("score", f"{out / 'test.tsv'}, {more:,} examples")]
    pairs += [("best log-loss", f"{best['log_loss']:.4f} there, AUC {best['auc']:.4f}: no model can do better")]
    show(details("", pairs))


def _known(one: Any) -> dict[str, Any]:
    from any2vec.data.catalog.catalog import local_folder

    return asdict(one) | {"is_downloadable": one.is_downloadable, "folder": local_folder(one.name)}
