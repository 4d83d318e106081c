"""The task of streams: words of text that need not end."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from any2vec.cluster.launch.join import joined
from any2vec.errors import InputError
from any2vec.sync.options.streams import StreamAgreement
from any2vec.tasks.stream.settings import memory_bytes, stream_settings
from any2vec.train.task import HOSTS, Nouns, Task

if TYPE_CHECKING:
    from any2vec.cluster.transport import Transport
    from any2vec.train.frame import Program
    from any2vec.train.spec import Hooks, Request, RunSpec

LEAST_MEMORY = 1 << 20
_SERVED = "trainers pull and push the rows of each batch"


class Streams(Task):
    """Skip-gram, n-grams and a character LSTM over lines as they come."""

    name = "stream"
    title = "streams of text"
    command = "stream"
    rank = 50
    models: ClassVar = {
        "skipgram": "any2vec.models.stream.config:StreamSkipGram",
        "ngram": "any2vec.models.stream.config:StreamNGram",
        "char-lstm": "any2vec.models.stream.config:StreamCharLstm",
    }
    about: ClassVar = {
        "skipgram": "vectors of words by skip-gram",
        "ngram": "vectors of words and of their character n-grams",
        "char-lstm": "vectors of any word from its letters, by an LSTM",
    }
    reading: ClassVar = {
        "sources": "any2vec.sources.base.options:SourceOptions", "text": "any2vec.data.options:TextOptions",
    }  # fmt: skip
    has: ClassVar = {
        "hosts": (*HOSTS, "servers"), "sync": ("sync", "staleness_bound", "credits"), "storage": ("memory",),
    }  # fmt: skip
    lacks: ClassVar = {
        "epochs": "a stream has no epochs, and --words, --steps or --seconds end it",
        "sync_servers": "servers hold all that is shared",
        "read": "rank 0 reads the sources and sends batches to trainers",
        "partition": "it reads no graph",
        "scheme": _SERVED,
        "rounds_per_epoch": "a stream has no epochs",
        "bits": "its rows and gradients travel in 32 bits",
        "overlap": _SERVED,
        "cache": _SERVED,
        "cache_rows": _SERVED,
        "dual": "it has no layers on different hosts",
        "estimate": "a stream takes the memory that --memory says (by default 1GB), however long it is",
        "plan": "nobody knows beforehand how many words a stream brings and how fast",
        "order": "rows are held in memory; where that is used up the rarest words go",
    }
    help: ClassVar = {
        "sync": "sync (in step), a merge rule such as adasum (likewise), async, bounded (by --staleness-bound) or "
        "dense (whole tables) [default async]",
        "staleness_bound": "batches ahead of the slowest, 0 or more; default 4",
        "column": "column of text in CSV, TSV, Parquet, Arrow files",
        "memory": "memory for vectors and vocabulary; the rarest words are dropped when it is full [default 1GB]",
    }
    ends: ClassVar = False
    record: ClassVar = "any2vec.tasks.stream.progress:StreamProgress"
    summary_file: ClassVar = "stream.json"
    input: ClassVar = (
        "paths, - (standard input), or addresses: tcp://, unix://, http(s)://, kafka://, redis://, crawl:URL"
    )

    def run_class(self) -> Any:
        from any2vec.tasks.stream.options import StreamOptions

        return StreamOptions

    def nouns(self, model: Any) -> Nouns:
        return Nouns("words", "words")

    def num_ranks(self, spec: RunSpec) -> int | None:
        return self.agreement(spec).num_ranks

    def agreement(self, spec: RunSpec) -> StreamAgreement:
        return StreamAgreement.of(spec.hosts, spec.sync)

    def check(self, spec: RunSpec, hooks: Hooks) -> None:
        agreement = self.agreement(spec)
        if spec.hosts.is_distributed or joined():
            from any2vec.tasks.stream.models import check_model

            check_model(spec.model, agreement)
        if memory_bytes(spec) < LEAST_MEMORY:
            raise InputError(f"memory must be at least 1MiB, got {spec.storage.memory!r}.")
        if spec.model.is_dense and spec.run.replay_alpha:
            raise InputError(
                f"{spec.model.name} measures no loss of single lines, so they are replayed alike; leave replay_alpha "
                "out."
            )
        for name in ("resume", "overwrite", "log_ids"):
            if getattr(spec.run, name) and spec.run.out is None:
                raise InputError(f"{name} needs out, the run folder; give it.")
        text = spec.reading["text"]
        if text.column is not None and not any(isinstance(one, str) for one in spec.data):
            raise InputError("column is for files of columns and tables; leave it out.")
        odd = [one for one in spec.data if not isinstance(one, str) or one == "-"]
        if odd and spec.hosts.hosts is not None:
            what = "standard input" if odd[0] == "-" else "an iterable"
            raise InputError(
                f"Processes read addresses, and {what} is of this one alone; use logical_hosts, or give them a "
                "file, a named pipe or a socket."
            )
        if text.bad_bytes == "error":
            raise InputError("bad_bytes must be replace or skip for a stream, which no bad byte may end, got 'error'.")
        if spec.run.out is not None and not joined():
            from any2vec.tasks.stream.folder import check_stream_folder

            check_stream_folder(spec.run.out, spec.run.resume, spec.run.overwrite)

    def read(self, spec: RunSpec, hooks: Hooks) -> Any:
        """A stream is read while it is trained."""

    def settings(self, spec: RunSpec, data: Any, hosts: int) -> dict[str, Any]:
        return stream_settings(spec)

    def program(self, request: Request, data: Any, transport: Transport) -> Program:
        from any2vec.tasks.stream.program import StreamProgram
        from any2vec.tasks.stream.trainer import TrainerProgram

        return StreamProgram(request, transport) if transport.rank == 0 else TrainerProgram(request, transport)

    def claim(self, spec: RunSpec, may_start_again: bool) -> None:
        from any2vec.tasks.stream.folder import check_stream_folder, forget_former

        check_stream_folder(spec.run.out, spec.run.resume, spec.run.overwrite)
        if may_start_again and spec.run.overwrite:
            _check_sources(spec)
            forget_former(spec.run.out)  # once nothing is left to refuse; they go on from what they find there

    def stored(self, spec: RunSpec, folder: Path, hooks: Hooks) -> RunSpec:
        from any2vec.tasks.stream.folder import forget_former

        _check_sources(spec)
        if spec.hosts.restarts and spec.run.overwrite:
            forget_former(spec.run.out)
        return spec

    def next_step(self, model: Any, folder: Path, keys: Sequence[str]) -> str:
        return f"To see the words nearest to another:  any2vec nearest {shlex.quote(str(folder))} WORD"


def _check_sources(spec: RunSpec) -> None:
    """Whatever is wrong with an address is said here, before anything starts."""
    from any2vec.sources.base.inflow import check_names
    from any2vec.sources.opening import open_sources

    sources = open_sources(spec.data, spec.reading["sources"], spec.run.seed, spec.reading["text"])
    for source in sources:
        source.close()
    check_names(sources)
