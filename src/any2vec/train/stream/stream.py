"""Train on text that never ends: `stream` is to a stream what `fit` is to data that lie there."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from any2vec.cluster.launch.join import joined
from any2vec.data.text.options import TextOptions
from any2vec.embeddings import Embeddings
from any2vec.models.stream.config import StreamModel
from any2vec.sources.base.options import SourceOptions
from any2vec.sync.options.stream_hosts import StreamHosts
from any2vec.train.stream.folder import check_stream_folder
from any2vec.train.stream.models import config_of
from any2vec.train.stream.options import StreamOptions
from any2vec.train.stream.progress import StreamProgress
from any2vec.train.stream.request import StreamRequest, listed
from any2vec.train.stream.run import StreamRun


@dataclass(frozen=True)
class StreamResult:
    """What `stream` returns."""

    embeddings: Embeddings
    """the words that have a vector at the end, by falling count"""
    summary: dict[str, Any]
    """what --json prints"""
    records: list[StreamProgress] = field(default_factory=list)
    """the newest thousand"""


def stream(
    model: StreamModel | str,
    sources: Any,
    *,
    out: str | Path | None = None,
    options: StreamOptions | None = None,
    reading: SourceOptions | None = None,
    text: TextOptions | None = None,
    hosts: StreamHosts | None = None,
    callback: Callable[[StreamProgress], None] | None = None,
) -> StreamResult | None:
    """Train on lines as they come: each once, in the order of the stream, in memory that does not grow.

    It ends where the sources end, at a limit of the options, or by Ctrl-C or SIGTERM, which save and end it.

    Args:
        model: `StreamSkipGram(...)`, or a name ("skipgram") for its defaults.
        sources: an address (a path, `-`, tcp://, unix://, http(s)://, kafka://, redis://), an iterable of lines
            (strings), or a list of such.
        out: folder of checkpoints, snapshots and records; None keeps the result in memory alone.
        options, reading, text: limits and budgets; how sources are read; how lines become words.
        hosts: trainers and servers of rows; None: this process trains. Under torchrun, ranks other than 0 get None.
        callback: hears a record about once a second.

    Returns:
        The vectors of the words that have one at the end.

    Raises:
        InputError: an option is not legal, or does not go with the checkpoint.
        DataError: a source is not there, or no word came often enough for a vector.
        StorageError: `out` is taken or cannot be written, or the disk is full.
        HostError: another host is lost; the checkpoint in `out` has the work so far.

    Delivery: where every source can be asked for what follows a position, each line is trained exactly once, however
    often the process is killed and resumed. With one thread, one source and linger=0, the same lines give the same
    bits, killed or not. Memory: `options.memory` and some 300 MB of program, queues and batches.
    """
    started = time.perf_counter()
    request = StreamRequest(
        model=config_of(model)() if isinstance(model, str) else model,
        sources=listed(sources),
        out=None if out is None else Path(out),
        callback=callback,
        options=options or StreamOptions(),
        reading=reading or SourceOptions(),
        text=text or TextOptions(),
        started=started,
    )
    if request.out is not None:
        check_stream_folder(request.out, request.options.resume, request.options.overwrite)
    made = _made(request, hosts or StreamHosts())
    return None if made is None else StreamResult(*made)


def _made(request: StreamRequest, hosts: StreamHosts) -> Any:
    """(vectors, summary, records); None on ranks other than 0 of several processes."""
    if joined():
        from any2vec.train.stream.hosts.spread import run_joined

        return run_joined(request, hosts)
    hosts.check_alone()
    if hosts.is_spread:
        from any2vec.train.stream.hosts.spread import run_spread

        return run_spread(request, hosts)
    return StreamRun(request).train()
