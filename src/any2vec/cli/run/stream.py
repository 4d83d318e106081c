"""`any2vec stream`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from any2vec.cli.options import Flag, flags_of, with_flags
from any2vec.cli.output import AsJson, duration, facts, fraction, guarded, note, number, print_json, show, size
from any2vec.cli.run.job import text_options
from any2vec.cli.stream_bar import StreamBar
from any2vec.errors import InputError
from any2vec.sources.base.options import SourceOptions
from any2vec.sync.options.stream_hosts import StreamHosts
from any2vec.train.stream.models import CONFIGS, config_of
from any2vec.train.stream.options import StreamOptions

_NOT_HERE = ("column",)
"""options of reading text that no stream has"""


@cache
def _owners() -> dict[str, type]:
    models: dict[str, type] = {name: config_of(name) for name in CONFIGS}
    return models | {"run": StreamOptions, "hosts": StreamHosts, "reading": SourceOptions, "text": text_options()}


@cache
def stream_flags() -> dict[str, Flag]:
    """Flags of models, of the run, and of reading."""
    panels = dict.fromkeys(CONFIGS, "Model") | {
        "run": "Run",
        "hosts": "Hosts",
        "reading": "Reading sources",
        "text": "Words",
    }
    return {name: flag for name, flag in flags_of(_owners(), panels).items() if name not in _NOT_HERE}


def _stream(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE...",
            help="A path, - (standard input), tcp://, unix://, http(s)://, kafka:// or redis:// address.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help=f"{', '.join(CONFIGS)}.", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder of the result.", show_default=False)] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    **values: Any,
) -> None:
    """Train vectors of words on text that need not end, as it comes.

    any2vec stream log.txt --model skipgram --follow --out words

    any2vec nearest words coffee    (meanwhile, in another terminal)

    Ctrl-C saves and ends; --resume goes on.
    """
    if not sources:
        raise InputError("Say what to train on: a path, - for standard input, or an address with its scheme.")
    if model is None:
        raise InputError(f"Say which model to train: --model {'|'.join(CONFIGS)}.")
    if out is None:
        raise InputError("Say where the result goes: --out DIR.")
    config_of(model)
    mine = (model, "run", "reading", "text", "hosts")
    flags = stream_flags()
    for key in values:
        if not any(owner in flags[key].defaults for owner in mine):
            raise InputError(
                f"{flags[key].flag} is not an option of {model}; it is for {', '.join(flags[key].defaults)}."
            )

    def build(owner: str) -> Any:
        return _owners()[owner](**{key: value for key, value in values.items() if owner in flags[key].defaults})

    built = [build(owner) for owner in mine]
    from any2vec.train.stream.stream import stream as train

    with StreamBar(quiet) as bar:
        result = train(
            built[0], sources, out=out, options=built[1], reading=built[2], text=built[3], hosts=built[4],
            callback=bar.record,
        )  # fmt: skip
    if result is None:  # of the hosts under torchrun rank 0 speaks
        return
    if as_json:
        print_json(result.summary | {"out": str(out)})
        return
    _print_summary(result.summary, out)
    note(f"To see the words nearest to another:  any2vec nearest {out} WORD", quiet)


stream = with_flags(guarded(_stream), stream_flags())


def _print_summary(summary: dict[str, Any], out: Path) -> None:
    bad = sum(told["bad"] for told in summary["sources"].values())
    twice = sum(told["duplicates"] for told in summary["sources"].values())
    lines = sum(told["lines"] for told in summary["sources"].values())
    pairs = [
        ("vectors", f"{summary['vocabulary']:,} words × {summary['dim']}, of {summary['types']:,} that are counted"),
        ("trained", f"{summary['words']:,} words of {lines:,} lines, {summary['delivery']}"),
        ("left out", f"{twice:,} duplicates, {bad:,} bad things"),
        ("loss", "not measured" if summary["loss"] is None else f"{fraction(summary['loss'])}, before each update"),
        ("speed", f"{number(summary['words_per_s'])} words/s"),
        ("time", f"{duration(summary['seconds'])}, ended by {summary['ended_by']}"),
        ("memory", f"{size(summary['peak_rss_bytes'])} at the peak"),
        *_spread(summary),
        ("result", str(out)),
        *(("note", remark) for remark in summary["warnings"]),
    ]
    show(facts("", pairs))


def _spread(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """What only a run over several hosts has to tell."""
    if "hosts" not in summary:
        return []
    beside = f" and {summary['servers']} servers" if summary["servers"] else ""
    sent = size(sum(summary["bytes_by_kind"].values()))
    staleness = ", ".join(f"{behind}: {count:,}" for behind, count in summary["staleness"].items())
    return [
        ("hosts", f"{summary['hosts']} trainers{beside}, {summary['sync']}; {sent} between them"),
        ("staleness", f"batches by how many others came between pull and push: {staleness}"),
        *([("restarts", str(summary["restarts"]))] if summary.get("restarts") else []),
    ]
