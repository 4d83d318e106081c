"""A checked request to train on a stream."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from any2vec.data.text.options import TextOptions
from any2vec.errors import InputError
from any2vec.machine import usable_cores
from any2vec.models.stream.config import StreamModel
from any2vec.sources.base.options import SourceOptions
from any2vec.train.stream.options import StreamOptions
from any2vec.train.stream.progress import StreamProgress


@dataclass(frozen=True, kw_only=True)
class StreamRequest:
    """What to train, on what, and how."""

    model: StreamModel
    sources: Sequence[Any]
    """addresses, Python iterables of lines, or what is a `Source` already"""
    out: Path | None
    callback: Callable[[StreamProgress], None] | None
    options: StreamOptions = field(default_factory=StreamOptions)
    reading: SourceOptions = field(default_factory=SourceOptions)
    text: TextOptions = field(default_factory=TextOptions)
    started: float = 0.0
    """moment of `time.perf_counter` at which the request came"""

    def __post_init__(self) -> None:
        options = self.options
        for name in ("resume", "overwrite", "log_ids"):
            if getattr(options, name) and self.out is None:
                raise InputError(f"{name} is of a folder, and none is given; say which, as out.")
        if self.text.column is not None:
            raise InputError("column is for files of columns; of NDJSON say the field.")
        if self.text.bad_bytes == "error":
            raise InputError("bad_bytes must be replace or skip for a stream, which no bad byte may end, got 'error'.")

    @property
    def threads(self) -> int:
        return self.options.threads or usable_cores()

    def settings(self, names: Sequence[str]) -> dict[str, Any]:
        """What must be the same for the run to go on. names: those of the sources."""
        reading = {name: getattr(self.reading, name) for name in ("form", "field", "id_field", "dedup")}
        text = asdict(self.text)
        return {
            "model": self.model.as_dict(), "sources": dict(enumerate(names)), "run": self.options.settings(),
            "reading": reading, "text": text,
        }  # fmt: skip


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
