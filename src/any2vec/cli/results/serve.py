"""`any2vec serve`."""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from any2vec.cli.options import Flag, flags_of, with_flags
from any2vec.cli.output import guarded, note
from any2vec.serve.limits import Limits
from any2vec.serve.server import Server, check_address, check_installed, read_token


@cache
def limit_flags() -> dict[str, Flag]:
    """Flags of the limits of requests."""
    return flags_of({"limits": Limits}, {"limits": "Limits of a request"})


def _serve(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]DIR...", help="Run folders, folders of streams, vector files.", show_default=False
        ),
    ],
    host: Annotated[
        str, typer.Option("--host", help="Address; one that other machines reach needs a --token-file.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0: any free one.")] = 8485,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            help="File with a token, of 16 characters or more, that requests must bear.",
            show_default=False,
        ),
    ] = None,
    approximate: Annotated[
        bool,
        typer.Option("--approximate", help="Neighbors through an index, made at the start: faster on large tables."),
    ] = False,
    **values: Any,
) -> None:
    """Answer over HTTP: neighbors, analogies, similarities, scores and predictions of runs. Ctrl-C ends it.

    any2vec serve runs/words shop=runs/clicks --port 8485

    The paths stand in /openapi.json. A run that is published anew is opened anew; requests under way keep the old one.
    """  # fmt: skip
    limits = Limits(**values)
    token = None if token_file is None else read_token(token_file)
    check_address(host, token)
    check_installed()
    from any2vec.serve.app import make_app
    from any2vec.serve.catalog import Catalog, named_folders

    folders = named_folders(runs)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    with Catalog(folders, approximate, note) as catalog:
        server = Server(make_app(catalog, limits, token, host), host, port, limits.max_seconds)
        note(f"Serving {', '.join(folders)} at {server.address} (Ctrl-C ends it)")
        server.serve()


serve = with_flags(guarded(_serve), limit_flags())
