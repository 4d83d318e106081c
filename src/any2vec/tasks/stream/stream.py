"""Train on text that never ends: `stream` is to a stream what `fit` is to data that lie there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from any2vec.data.io.files import is_table
from any2vec.data.options import TextOptions
from any2vec.embeddings import Embeddings
from any2vec.errors import InputError
from any2vec.models.stream.config import StreamModel
from any2vec.options.given import check_called, given_options, given_path
from any2vec.options.hosts import HostOptions
from any2vec.options.named import named_options
from any2vec.options.storage import StorageOptions
from any2vec.options.sync import SyncOptions
from any2vec.sources.base.address import is_crawl
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.kinds.column_lines import ColumnLines
from any2vec.tasks.stream.options import StreamOptions
from any2vec.tasks.stream.progress import StreamProgress
from any2vec.train.fit import options_of, train
from any2vec.train.registry import model_named, task_of
from any2vec.train.spec import Hooks, RunSpec


@dataclass(frozen=True)
class StreamResult:
    """What `stream` returns."""

    embeddings: Embeddings
    """the words that have a vector at the end, by falling count"""
    summary: dict[str, Any]
    """what --json prints"""
    records: list[StreamProgress] = field(default_factory=list)
    """the newest thousand"""


@named_options(lambda name: model_named(name, "stream")())
def stream(
    model: StreamModel | str,
    sources: Any,
    *,
    out: str | Path | None = None,
    options: StreamOptions | None = None,
    reading: SourceOptions | None = None,
    text: TextOptions | None = None,
    hosts: HostOptions | int | None = None,
    sync: SyncOptions | str | None = None,
    storage: StorageOptions | str | int | None = None,
    callback: Callable[[StreamProgress], None] | None = None,
) -> StreamResult | None:
    """Train on each line of a stream once, in order of arrival, in bounded memory.

    It ends when the sources end, at a limit of the options, or at Ctrl-C or SIGTERM, which save the state first.

    Args:
        model: the config of a model of streams (`StreamSkipGram(...)`), or a name ("skipgram") for its defaults.
        sources: an address (a path, `-`, tcp://, unix://, http(s)://, kafka://, redis://, crawl:URL), an iterable of
            lines (strings), a table in memory (pandas, Polars, Arrow, a Dataset, a dict of columns), or a list of such.
            A list of strings is lines when none of them is an address or the path of a file, and one holds white space.
            From a table, and a file of Parquet or Arrow, it reads the text column, or the one that
            `TextOptions(column=...)` names, which CSV and TSV need.
        out: folder of checkpoints, snapshots and records; None keeps the result only in memory.
        options, reading, text: limits and intervals; how sources are read; how lines become words.
        hosts: trainers and servers of rows; None: this process trains. Under torchrun, ranks other than 0 get None.
        sync: how the trainers synchronize; a string: the name of the method.
        storage: bytes for vectors and vocabulary (500_000_000, "4GB"), by default 1GB; when they are used up, the
            rarest words are dropped.
        callback: called with a record about once a second.

    Returns:
        The vectors at the end, of all words that have one. None where it was stopped by a signal before there was one:
        the state is in `out`; and under torchrun on ranks other than 0.

    Raises:
        InputError: an option is not legal, or does not go with the checkpoint.
        DataError: a source does not exist, or no word was frequent enough for a vector.
        StorageError: `out` is taken or cannot be written, or the disk is full.
        HostError: another host is lost; the checkpoint in `out` has the work so far.

    Delivery: if every source can resume from a position, each line is trained exactly once, however
    often the process is killed and resumed. With one thread, one source and linger=0, the same lines give the same
    bits, killed or not. Memory: `storage` plus about 300 MB for program, queues and batches.
    """
    started = time.perf_counter()
    check_called(callback=callback)
    config = model_named(model, "stream")() if isinstance(model, str) else model
    run = StreamOptions() if options is None else given_options("options", options, StreamOptions)
    reading = SourceOptions() if reading is None else given_options("reading", reading, SourceOptions)
    text = TextOptions() if text is None else given_options("text", text, TextOptions)
    data = listed(_as_lines(sources, text))
    if any(isinstance(one, ColumnLines) for one in data) and not any(isinstance(one, str) for one in data):
        text = replace(text, column=None)
    spec = RunSpec(
        task=task_of(config, "stream").name, model=config, data=data,
        reading={"sources": reading, "text": text},
        run=run if out is None else replace(run, out=given_path("out", out)), hosts=options_of("hosts", hosts),
        sync=options_of("sync", sync), storage=options_of("storage", storage),
    )  # fmt: skip
    found = train(spec, Hooks(progress=callback), started)
    if found.embeddings is None:  # it was stopped before a word had a vector, or this is another rank
        return None
    return StreamResult(found.embeddings, found.summary, found.progress)


def _as_lines(sources: Any, text: TextOptions) -> Any:
    """A list of lines as one source, a table as the lines of its column; all else as it is."""
    if is_table(sources):
        return ColumnLines(sources, text)
    if not isinstance(sources, list | tuple):
        return sources
    if not all(isinstance(one, str) for one in sources):
        return [ColumnLines(one, text) if is_table(one) else one for one in sources]
    is_text = any(len(one.split()) > 1 for one in sources) and not any(map(_is_address, sources))
    return [sources] if is_text else sources


def _is_address(text: str) -> bool:
    """Whether it begins with a scheme, or is the path of what is there."""
    is_there = False
    with suppress(OSError, ValueError):  # a line may be no name at all: too long, or with a NUL in it
        is_there = text.strip() != "" and Path(text).exists()
    return text == "-" or is_crawl(text) or "://" in text.partition(" ")[0] or is_there


def listed(sources: Any) -> list[Any]:
    """One address or iterable, or a list of them, as a list.

    Raises:
        InputError: there is none, or something that is neither.
    """
    found = sources if isinstance(sources, list | tuple) else [sources]
    if not found:
        raise InputError("Say what to train on: a path, - for standard input, or an address with its scheme.")
    for one in found:
        if not isinstance(one, str | os.PathLike | Iterable) and not hasattr(one, "batches"):
            raise InputError(f"A source is an address or an iterable of lines, got {one!r}.")
    return [os.fspath(one) if isinstance(one, str | os.PathLike) else one for one in found]
