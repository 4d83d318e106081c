"""What ends a run before its end: an error in the middle of a window, as a kill is, or a signal."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from any2vec.errors import StorageError


@contextmanager
def fails_at(learner: Any, call: int) -> Iterator[None]:
    """The learner's step raises at that call, 1 and up, which ends what stands in the context."""
    left, step = [call], learner.step

    def failing(self: Any, batch: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            raise StorageError("the end")
        return step(self, batch)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(StorageError, match="the end"):
        patch.setattr(learner, "step", failing)
        yield


def stops_after(records: int) -> Callable[[Any], None]:
    """A callback of `fit`: at so many progress records SIGTERM asks the run to stop."""
    received: list[Any] = []

    def on_work(record: Any) -> None:
        received.append(record)
        if len(received) == records:
            os.kill(os.getpid(), signal.SIGTERM)

    return on_work


class _EndedError(Exception):
    """Ends a run from within."""


def ended_at_record(record: int, train: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    """A run that leaves a checkpoint at every progress record, and that breaks at one of them, 1 and up.

    train: `fit`, or what passes options on to it.
    """
    received: list[Any] = []

    def on_work(progress: Any) -> None:
        received.append(progress)
        if len(received) == record:
            raise _EndedError

    with pytest.MonkeyPatch.context() as patch, pytest.raises(_EndedError):
        patch.setattr("any2vec.train.progress.RECORD_SECONDS", 0.0)
        train(*arguments, checkpoint_seconds=1e-9, callback=on_work, **options)
