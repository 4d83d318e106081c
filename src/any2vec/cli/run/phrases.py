"""`any2vec phrases`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from any2vec.checks import MAX_THREADS
from any2vec.cli.bar import Bar
from any2vec.cli.options import Flag, flags_of, out_option, with_flags
from any2vec.cli.output import AsJson, columns, details, guarded, note, print_json, show
from any2vec.cli.run.flags import check_input
from any2vec.data.io.storage import check_file_free
from any2vec.data.options import PhraseOptions, TextOptions
from any2vec.errors import InputError
from any2vec.types import as_reading

_SHOWN = 5


@cache
def phrase_flags() -> dict[str, Flag]:
    """Flags of finding phrases, and of reading text."""
    return flags_of({"phrases": PhraseOptions, "text": TextOptions}, {"phrases": "Phrases", "text": "Reading text"})


def _phrases(
    text: Annotated[list[str], typer.Argument(metavar="TEXT...", help="Text, as for train.", show_default=False)],
    out: Annotated[Path, out_option("Text to write, phrases joined, a sentence a line.", "file")],
    save: Annotated[
        Path | None, typer.Option("--save", help="Keep the phrases here, for other texts.", show_default=False)
    ] = None,
    known: Annotated[
        Path | None, typer.Option("--phrases", help="Phrases that --save kept: none are sought.", show_default=False)
    ] = None,
    threads: Annotated[int, typer.Option("--threads", min=0, max=MAX_THREADS, help="0 = all usable cores.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace --out and --save.")] = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    **values: Any,
) -> None:
    """Find words that belong together, such as new york, and write the text with them as one: new_york.

    any2vec phrases corpus.txt --out joined.txt --passes 2 --connectors english

    any2vec phrases other.txt --phrases phrases.json --out joined.txt
    """
    from any2vec.data.text.pairs.phrases import Phrases
    from any2vec.data.text.text import encode_text

    if known is not None and (save is not None or values):
        name = "save" if save is not None else next(iter(values))
        raise InputError(f"--{name.replace('_', '-')} is of finding phrases; leave it out where --phrases gives them.")
    for path in text:
        check_input(path)
    for place in (out, save):
        if place is not None:
            check_file_free(place, overwrite)
    found = None if known is None else Phrases.load(known)
    reading = {name: value for name, value in values.items() if name in TextOptions.__dataclass_fields__}
    chosen = {name: value for name, value in values.items() if name not in reading}
    PhraseOptions(**chosen)  # refused before the text is read
    read = TextOptions(**reading) if found is None else found.text
    with Bar(quiet) as bar:
        corpus = encode_text(text[0] if len(text) == 1 else text, read, progress=as_reading(bar.stage))
        if found is None:
            found = Phrases.fit(corpus, text=read, threads=threads, stage=bar.stage, **chosen)
        found.write(corpus, out, overwrite=overwrite, threads=threads, stage=bar.stage)
    if save is not None:
        found.save(save, overwrite)
    numbers = [len(one) for one in found.passes]
    if as_json:
        print_json({"out": str(out), "phrases": numbers, "words": corpus.num_tokens, "saved": save})
        return
    pairs = [
        ("phrases", " + ".join(f"{number:,}" for number in numbers) + " by pass"),
        ("words", f"{corpus.num_tokens:,}"),
        ("written", str(out)),
    ]
    best = sorted(found.scores.items(), key=lambda pair: -pair[1])[:_SHOWN]
    rows = [(phrase, f"{score:.4g}") for phrase, score in best]
    show(details("", pairs), *([columns("highest scores", ["phrase", "score"], rows)] if rows else []))
    if not rows:
        note("No two words came together often enough; lower --threshold or --min-count.", quiet)


phrases = with_flags(guarded(_phrases), phrase_flags())
