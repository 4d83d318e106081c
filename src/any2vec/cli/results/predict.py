"""`any2vec predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from any2vec.cli.options import path_option
from any2vec.cli.output import AsJson, columns, guarded, print_json, show
from any2vec.cli.results.search import K, listed
from any2vec.cli.run.flags import check_input
from any2vec.errors import InputError


@guarded
def predict(
    model: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run of a knowledge graph.")],
    head: Annotated[str | None, typer.Option("--head", help="Name of the head.", show_default=False)] = None,
    relation: Annotated[
        str | None, typer.Option("--relation", help="Name of the relation.", show_default=False)
    ] = None,
    tail: Annotated[str | None, typer.Option("--tail", help="Name of the tail.", show_default=False)] = None,
    queries: Annotated[
        Path | None,
        path_option("--queries", help="Many queries: a file of triples with ? for what is asked.", show_default=False),
    ] = None,
    k: K = 10,
    exclude: Annotated[
        list[Path] | None,
        path_option("--exclude", help="Triples that are no answers; repeat for more.", show_default=False),
    ] = None,
    exclude_training: Annotated[
        bool, typer.Option("--exclude-training", help="Leave out the triples of training, too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """The likeliest answers for the missing part of a triple, by a model of a knowledge graph.

    any2vec predict DIR --head H --relation R -k 10
    any2vec predict DIR --relation R --tail T --exclude known.tsv
    any2vec predict DIR --head H --tail T

    Scores of answers to one query are comparable, and higher is better.
    """
    from any2vec.models.triples.prediction import MISSING, PARTS, Query, read_queries
    from any2vec.models.triples.scorer import TripleScorer

    given = Query(head, relation, tail)
    if queries is None:
        _ = given.missing
    elif given != (None, None, None):
        raise InputError("--queries has names of its own; leave out --head, --relation and --tail.")
    for path in [*([queries] if queries else []), *(exclude or [])]:
        check_input(str(path))
    scorer = TripleScorer.load(model)
    asked = [given] if queries is None else read_queries(queries, scorer.options)
    answers = scorer.predict_many(asked, k=k, exclude=exclude or [], exclude_training=exclude_training)
    if as_json:
        found = [
            dict(zip(PARTS, query, strict=True)) | {"answers": listed(answer)}
            for query, answer in zip(asked, answers, strict=True)
        ]
        print_json(found[0] if queries is None else {"queries": found})
        return
    for query, answer in zip(asked, answers, strict=True):
        title = "  ".join(MISSING if name is None else str(name) for name in query)
        rows = [(str(key), f"{score:.4g}") for key, score in answer]
        show(columns(title, [PARTS[query.missing], "score"], rows))
