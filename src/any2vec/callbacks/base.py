"""The protocol of callbacks, and how a run tells them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from any2vec.errors import InputError
from any2vec.types import Progress


class Callback:
    """Follows a run of `fit(callbacks=[...])` in the process that called it; by default its methods do nothing.

    If hosts are processes, records come from rank 0; under torchrun only rank 0 calls callbacks. An exception in a
    callback ends the run. `record.epoch` counts epochs from 0, `on_validation` from 1.

    Example:
        class Losses(any2vec.Callback):
            def on_record(self, record):
                print(record.epoch, record.loss)
    """

    folder: Path | None = None
    """where it writes files of its own, if it does; `fit` refuses one in the folder of the run"""

    def on_start(self, settings: Mapping[str, Any]) -> None:
        """Before data are read. settings: model (its name), epochs, seed, ... and the model's options, flat."""

    def on_record(self, record: Progress) -> None:
        """Called with each progress record: about two per second, and one after each validated epoch."""

    def on_validation(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Called after each validated epoch (counted from 1): metrics by name, of which the first decides."""

    def on_end(self, summary: Mapping[str, Any] | None, error: BaseException | None) -> None:
        """Called at the end. summary: as `FitResult.summary`, or None if the run failed or was interrupted by error."""


class Told:
    """Tells callbacks; what `fit` makes of them."""

    def __init__(self, callbacks: Sequence[Callback] | Callback) -> None:
        if isinstance(callbacks, Callback):
            callbacks = [callbacks]
        if not hasattr(callbacks, "__iter__"):
            raise InputError(f"callbacks takes any2vec.Callback, one or a list, got {callbacks!r:.80}.")
        self.callbacks = list(callbacks)
        wrong = next((one for one in self.callbacks if not isinstance(one, Callback)), None)
        if wrong is not None:
            raise InputError(f"callbacks must be instances of any2vec.Callback, got {wrong!r}.")
        self.summary: Mapping[str, Any] | None = None

    def check_apart(self, out: Path | None) -> None:
        """Raise InputError when a callback writes into the folder of the run, which replaces what is there."""
        for one in self.callbacks:
            if out is None or not isinstance(one.folder, Path):  # a subclass may call something else so
                continue
            if one.folder.resolve().is_relative_to(out.resolve()):
                raise InputError(
                    f"{type(one).__name__} writes into {one.folder}, which the run in {out} replaces; choose another "
                    "folder for it."
                )

    @contextmanager
    def run(self, settings: Mapping[str, Any]) -> Iterator[None]:
        """Around a run: each that has begun is told of the end, whatever ends it.

        The error of the run is raised; one of `on_end` only where the run has none.
        """
        begun: list[Callback] = []
        error: BaseException | None = None
        failed: list[BaseException] = []
        try:
            for callback in self.callbacks:
                callback.on_start(settings)
                begun.append(callback)
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            for callback in begun:  # all of them, though one fails: else others never close what they have opened
                try:
                    callback.on_end(self.summary, error)
                except BaseException as raised:
                    failed.append(raised)
                    if error is not None:
                        name = type(callback).__name__
                        error.add_note(f"{name}.on_end failed, too: {type(raised).__name__}: {raised}")
            if failed and error is None:
                raise failed[0]

    def with_record(self, also: Callable[[Any], None] | None) -> Callable[[Any], None] | None:
        """What the run calls with its records. also: is called with them, too."""
        if not self.callbacks:
            return also

        def tell(record: Any) -> None:
            if also is not None:
                also(record)
            for callback in self.callbacks:
                callback.on_record(record)
                if record.validation:
                    callback.on_validation(record.epoch + 1, record.validation)

        return tell
