"""`any2vec nearest` and `any2vec analogy`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from any2vec.cli.options import nearest_match
from any2vec.cli.output import columns, guarded, print_json, show
from any2vec.errors import InputError

Result = Annotated[Path, typer.Argument(metavar="DIR", help="A run folder, or any vector file that any2vec reads.")]
K = Annotated[int, typer.Option("--k", "-k", min=1, help="How many to show.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Format = Annotated[
    str | None, typer.Option("--format", help="Format of the file; guessed when not given.", show_default=False)
]


def load(path: Path, format: str | None = None) -> Any:
    """The Embeddings at `path`, memory-mapped where the format allows."""
    from any2vec.embeddings import Embeddings

    return Embeddings.load(path, format=format)


def check_keys(embeddings: Any, keys: Sequence[str]) -> None:
    """Raise InputError for a key without a vector, with the nearest spelling among the most frequent keys."""
    for key in keys:
        if key not in embeddings:
            frequent = [str(embeddings.keys[row]) for row in range(min(len(embeddings), 50_000))]
            said = nearest_match(key, frequent)
            hint = said if said.startswith("did") else "it may be rarer than --min-count, or spelt in another case."
            raise InputError(f"There is no vector of {key!r} among {len(embeddings):,} keys; {hint}")


@guarded
def nearest(
    result: Result,
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="Words or node ids.")],
    k: K = 10,
    format: Format = None,
    as_json: AsJson = False,
) -> None:
    """The nearest neighbours of words or nodes, by cosine similarity."""
    embeddings = load(result, format)
    check_keys(embeddings, keys)
    answers = {key: embeddings.nearest(key, k=k) for key in keys}
    if as_json:
        queries = [{"key": key, "neighbours": _listed(answer)} for key, answer in answers.items()]
        print_json(queries[0] if len(queries) == 1 else {"queries": queries})
        return
    for key, answer in answers.items():
        show(columns(f"nearest to {key}", ["key", "cosine"], [(name, f"{score:.3f}") for name, score in answer]))


@guarded
def analogy(
    result: Result,
    a: Annotated[str, typer.Argument(help="A, as in A is to B")],
    b: Annotated[str, typer.Argument(help="B")],
    c: Annotated[str, typer.Argument(help="as C is to the answer")],
    k: K = 10,
    method: Annotated[str, typer.Option("--method", help="add (3CosAdd) or mul (3CosMul)")] = "add",
    format: Format = None,
    as_json: AsJson = False,
) -> None:
    """A is to B as C is to ...?  `any2vec analogy DIR man king woman`."""
    if method not in ("add", "mul"):
        raise InputError(f"--method must be add or mul, got {method!r}.")
    embeddings = load(result, format)
    check_keys(embeddings, [a, b, c])
    answer = embeddings.analogy([b, c], [a], k=k, method=method)
    if as_json:
        print_json({"a": a, "b": b, "c": c, "method": method, "answers": _listed(answer)})
    else:
        title = f"{a} is to {b} as {c} is to"
        show(columns(title, ["key", "score"], [(name, f"{score:.3f}") for name, score in answer]))


def _listed(answer: Sequence[tuple[str, float]]) -> list[dict[str, Any]]:
    return [{"key": key, "score": float(score)} for key, score in answer]
