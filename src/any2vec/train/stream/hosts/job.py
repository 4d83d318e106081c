"""A request to train on a stream as JSON: what a parent hands to the processes that carry it out."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from any2vec.data.text.options import TextOptions
from any2vec.errors import InputError
from any2vec.sources.base.options import SourceOptions
from any2vec.sync.options.stream_hosts import StreamHosts
from any2vec.train.stream.models import config_of
from any2vec.train.stream.options import StreamOptions
from any2vec.train.stream.request import StreamRequest


@dataclass(frozen=True, kw_only=True)
class StreamJob:
    """Arguments of `stream` that a file can hold."""

    worker: ClassVar[str] = "any2vec.train.stream.hosts.worker"

    model: dict[str, Any]
    sources: list[str]
    arguments: dict[str, Any]
    """out, and the fields of `StreamOptions`"""
    reading: dict[str, Any]
    text: dict[str, Any]
    hosts: StreamHosts

    @classmethod
    def of(cls, request: StreamRequest, hosts: StreamHosts, out: Path) -> StreamJob:
        """The job of a request.

        Raises:
            InputError: a source is of this process alone.
        """
        for source in request.sources:
            if not isinstance(source, str) or source == "-":
                what = "standard input" if source == "-" else "an iterable"
                raise InputError(
                    f"Processes read addresses, and {what} is of this one alone; use logical_hosts, or give them a "
                    "file, a named pipe or a socket."
                )
        return cls(
            model=request.model.as_dict(), sources=[str(source) for source in request.sources],
            arguments={"out": str(out), **asdict(request.options)}, reading=asdict(request.reading),
            text=asdict(request.text), hosts=hosts,
        )  # fmt: skip

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> StreamJob:
        """Raises ValueError, KeyError or TypeError for a text that `to_json` did not make."""
        found = json.loads(text)
        return cls(**found | {"hosts": StreamHosts(**found["hosts"])})

    def request(self, callback: Any) -> StreamRequest:
        """The request, as a host of it has it. callback: as of `stream`.

        Raises:
            ValueError, KeyError, TypeError: as `from_json`.
        """
        options = dict(self.model)
        name = options.pop("model")
        arguments = dict(self.arguments)
        return StreamRequest(
            model=config_of(name)(**options), sources=self.sources, out=Path(arguments.pop("out")), callback=callback,
            options=StreamOptions(**arguments), reading=SourceOptions(**self.reading), text=TextOptions(**self.text),
            started=time.perf_counter(),
        )  # fmt: skip
