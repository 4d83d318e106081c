"""`any2vec data`: the catalogue of public sets."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from any2vec.cli.bar import Bar
from any2vec.cli.output import columns, facts, guarded, note, print_json, show, size
from any2vec.cli.search import AsJson

data = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
Name = Annotated[str, typer.Argument(help="A name that `any2vec data` lists.")]


@data.callback(invoke_without_command=True)
@guarded
def list_sets(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Known public data sets: what they are, their licence, and how to get them."""
    if ctx.invoked_subcommand is not None:
        return
    from any2vec.data.catalogue import CATALOGUE

    if as_json:
        print_json({"sets": [_known(one) for one in CATALOGUE.values()]})
        return
    rows = [(name, size(one.num_bytes) if one.files else "by hand", one.licence) for name, one in CATALOGUE.items()]
    show(columns("", ["set", "get", "licence"], rows, left=3))
    note("any2vec data show NAME tells more; any2vec data get NAME --out DIR fetches it.")


@data.command("show")
@guarded
def show_set(name: Name, as_json: AsJson = False) -> None:
    """What a set is, who may use it, and where it comes from."""
    from any2vec.data.catalogue import find

    known = _known(find(name))
    if as_json:
        print_json(known)
        return
    pairs = [(key, str(known[key])) for key in ("name", "what", "licence", "cite", "where") if known[key]]
    pairs += [("file", f"{one['name']}  {size(one['num_bytes'])}") for one in known["files"]]
    show(facts("", [*pairs, ("here", known["folder"] or "not on this machine (ANY2VEC_DATA names a folder of sets)")]))


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
    from any2vec.data.catalogue import download, find

    with Bar(quiet) as bar:
        folder = download(name, out, base_url=base_url, retries=retries, progress=bar.stage)
    files = [folder / file.name for file in find(name).files]
    if as_json:
        print_json({"name": name, "folder": folder, "files": files})
    else:
        show(facts("", [("folder", str(folder)), ("files", ", ".join(path.name for path in files))]))


def _known(one: Any) -> dict[str, Any]:
    from any2vec.data.catalogue import local_folder

    return asdict(one) | {"is_downloadable": one.is_downloadable, "folder": local_folder(one.name)}
