"""`any2vec nearest`, `any2vec analogy` and `any2vec export`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from any2vec.cli.options import out_option
from any2vec.cli.output import AsJson, columns, details, guarded, note, print_json, show
from any2vec.encoders.encoder import make_possible
from any2vec.errors import InputError
from any2vec.formats import FORMATS, guess_format
from any2vec.formats.vocabulary import beside
from any2vec.units import size

Result = Annotated[Path, typer.Argument(metavar="DIR", help="A run folder, or any vector file that any2vec reads.")]
K = Annotated[int, typer.Option("--k", "-k", min=1, help="How many to show.")]
Format = Annotated[
    str | None, typer.Option("--format", help="Format of the file; guessed when not given.", show_default=False)
]


Relations = Annotated[bool, typer.Option("--relations", help="Of a knowledge graph: the relations, not the entities.")]


def load(path: Path, format: str | None = None, relations: bool = False) -> Any:
    """The Embeddings at `path`, memory-mapped where the format allows; of clicks those keys that have learned."""
    from any2vec.embeddings import Embeddings
    from any2vec.models.clicks.keys import trained_keys

    if relations:
        if format is not None:
            raise InputError("--format is of files of vectors, and --relations are of a run folder; leave it out.")
        from any2vec.models.triples.scorer import TripleScorer

        return TripleScorer.load(path).relation_embeddings()
    return trained_keys(Embeddings.load(path, format=format))


@guarded
def nearest(
    result: Result,
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="Words or node ids.")],
    k: K = 10,
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Through an index: faster for many queries on large tables.")
    ] = False,
    relations: Relations = False,
    column: Annotated[
        str | None, typer.Option("--column", help="Of clicks: neighbors of this column alone.", show_default=False)
    ] = None,
    format: Format = None,
    as_json: AsJson = False,
) -> None:
    """The nearest neighbors of words or nodes, by cosine similarity."""
    embeddings = load(result, format, relations)
    unseen = [key for key in dict.fromkeys(keys) if key not in embeddings]
    possible = make_possible(embeddings.encoder, unseen)[0] if embeddings.encoder is not None else {}
    there = [key for key in keys if key in embeddings or key in possible] or keys
    if column is None:
        answers = dict(zip(there, embeddings.nearest(there, k, approximate), strict=True))
    else:
        from any2vec.models.clicks.keys import keys_of_column

        among = keys_of_column(embeddings, column)
        asked = (key if key in among else embeddings[key] for key in there)
        answers = {key: among.nearest(one, k, approximate) for key, one in zip(there, asked, strict=True)}
    made = [key for key in answers if key not in embeddings]
    missing = [key for key in keys if key not in answers]
    if as_json:
        queries = [
            {"key": key, "seen": key not in made, "neighbors": listed(answer)} for key, answer in answers.items()
        ]
        print_json(queries[0] if len(keys) == 1 else {"queries": queries, "unknown": missing})
    else:
        titled = ((f"nearest to {key}", answer) for key, answer in answers.items())
        show(*(_table(title, "cosine", answer) for title, answer in titled))
        if made:
            note(f"Not among the words of training, so made of characters: {', '.join(made)}.")
    if missing:
        _ = embeddings[missing]  # which says what is near to them


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
    embeddings = load(result, format)
    _ = embeddings[[a, b, c]]  # where one is unknown there is no question
    answer = embeddings.most_similar([b, c], [a], k=k, method=method)
    if as_json:
        print_json({"a": a, "b": b, "c": c, "method": method, "answers": listed(answer)})
    else:
        show(_table(f"{a} is to {b} as {c} is to", "score", answer))


def listed(answer: Sequence[tuple[Any, float]]) -> list[dict[str, Any]]:
    """Keys as they are typed on the command line: as text."""
    return [{"key": str(key), "score": float(score)} for key, score in answer]


def _table(title: str, score: str, answer: Sequence[tuple[Any, float]]) -> Any:
    return columns(title, ["key", score], [(str(name), f"{value:.3f}") for name, value in answer])


@guarded
def export(
    result: Result,
    out: Annotated[Path, out_option("File to write (a folder for tensorboard).", "file")],
    format: Annotated[
        str | None,
        typer.Option("--format", "-f", help=f"{', '.join(FORMATS)}; read off --out when not given", show_default=False),
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", help="Format of DIR; guessed when not given.", show_default=False)
    ] = None,
    dtype: Annotated[str, typer.Option("--dtype", help="float32 or float16")] = "float32",
    relations: Relations = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace --out where it exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write vectors in the format of another tool."""
    if format is None and out.suffix in (".onnx", ".pt", ".pth"):
        raise InputError(
            f"export writes vectors. A graph network becomes ONNX or a module of PyG in Python: "
            f"any2vec.NetworkClassifier.load('{result}').to_onnx('{out.with_suffix('.onnx')}'), or .to_pyg()."
        )
    if from_ is None and result.is_file() and guess_format(result) == "kv":
        raise InputError(
            f"{result} is a pickle, which can run code; if gensim saved it and you trust it, say --from kv, which "
            "unpickles it."
        )
    embeddings = load(result, from_, relations)
    embeddings.save(out, format=format, overwrite=overwrite, dtype=dtype)
    written = format or guess_format(out)
    files = [out, *([beside(out)] if FORMATS[written].has_vocabulary_beside else [])]
    num_bytes = sum(path.stat().st_size for path in (out.rglob("*") if out.is_dir() else files) if path.is_file())
    done: dict[str, Any] = {
        "out": str(out),
        "format": written,
        "dtype": dtype,
        "rows": len(embeddings),
        "dim": embeddings.dim,
    }
    if embeddings.encoder is not None and not FORMATS[done["format"]].keeps(embeddings.encoder.kind):
        note(f"{done['format']} keeps the vectors of the words of training; those of other words need the folder.")
    if as_json:
        print_json(done | {"files": files, "bytes": num_bytes})
    else:
        pairs = [
            ("written", ", ".join(map(str, files))),
            ("format", f"{done['format']}, {dtype}"),
            ("size", size(num_bytes)),
        ]
        show(details("", [*pairs, ("vectors", f"{len(embeddings):,} × {embeddings.dim}")]))
