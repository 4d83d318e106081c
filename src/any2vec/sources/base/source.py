"""What every source of lines is to those who read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Protocol

from any2vec.sources.base.line_batch import LineBatch, Position

Delivery = Literal["exactly once", "at least once", "at most once"]
"""How often a line is trained where the job is killed and goes on from a checkpoint of position, keys and model.

exactly once: the source can be asked for what follows a position. at least once: it can be asked for old lines, but not
for a position; those within the window of de-duplication are trained once. at most once: what was read and is not in
the checkpoint is gone.
"""


class Source(Protocol):
    """Lines from one place. One thread reads it; `close` and `facts` may be called from any other."""

    name: str
    """alone among those of a run"""
    delivery: Delivery

    def batches(self, position: Position | None) -> Iterator[LineBatch | None]:
        """The lines behind a position, or from the source's beginning; None each tenth of a second or so without any.

        Ends where the source ends, where `close` has been called, or where its retries are spent (`facts` says which).
        Raises no error for what the source sends.
        """
        ...

    def close(self) -> None:
        """Let `batches` end soon."""
        ...

    def facts(self) -> dict[str, Any]:
        """What has come so far: see `Tally.facts`."""
        ...
