"""Python's own iterables as sources.

Delivery is exactly once where the iterable can be begun anew and gives the same again (a list, a class with
`__iter__`): a position counts its items. A generator or another iterator is gone when the job is: at most once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from any2vec.errors import InputError
from any2vec.sources.base.cutter import LineBatch, Position
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.base.pump import MOMENT, Batches
from any2vec.sources.base.records import Records, is_utf8
from any2vec.sources.base.source import Delivery, PacedSource

_BATCH_BYTES = 1 << 16


class PythonLines(PacedSource):
    """Texts of an iterable: each item a string or bytes, a list of words, (id, text), or None for nothing for now.

    An item is one line: line ends in it become spaces. What is none of these is counted and skipped. An error of the
    iterable ends the source; `metrics` says so. Position: `items`.
    """

    def __init__(self, items: Iterable[Any], name: str, number: int, options: SourceOptions) -> None:
        if isinstance(items, str | bytes) or not isinstance(items, Iterable):
            raise InputError(f"A source of Python's is an iterable of texts, got {type(items).__name__}.")
        super().__init__(name, options.rate)
        self._items, self._options = items, options
        self._records = Records(number, options, self._tally)
        self.delivery: Delivery = "at most once" if isinstance(items, Iterator) else "exactly once"

    def _batches(self, position: Position | None) -> Batches:
        done = 0 if position is None else int(position["items"])
        skip = 0 if isinstance(self._items, Iterator) else done
        gathered, since = 0, time.monotonic()
        items = iter(self._items)
        while not self._is_closed:
            try:
                item = next(items)
            except StopIteration:
                break
            except Exception as error:
                self._tally.trouble = f"{self.name} raised {type(error).__name__}: {error}."
                break
            if item is not None and skip:
                skip -= 1
                continue
            if item is not None:
                gathered += self._add(done, item)
                done += 1
            is_due = self._records.is_full or gathered >= _BATCH_BYTES or time.monotonic() - since >= MOMENT
            if item is None or is_due:
                yield self._take(done)
                gathered, since = 0, time.monotonic()
        if (batch := self._take(done)) is not None:
            yield batch
        self._tally.state = "closed" if self._is_closed else "given up" if self._tally.trouble else "ended"

    def _take(self, done: int) -> LineBatch | None:
        batch = self._records.take({"items": done})
        self._tally.state = "waiting" if batch is None else "reading"
        self._tally.lines += len(batch or ())
        return batch

    def _add(self, number: int, item: Any) -> int:
        """Bytes, about."""
        id = None
        if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str | int):
            id, item = str(item[0]), item[1]
        if isinstance(item, list) and all(isinstance(word, str) for word in item):
            item = " ".join(item)
        if not isinstance(item, str | bytes):
            self._tally.bad("no text")
            return 0
        self._tally.bytes += len(item)
        if isinstance(item, bytes) and not is_utf8(item):
            self._tally.bad("not UTF-8")
        if self._options.form == "ndjson":
            self._records.add_json(number, item if isinstance(item, bytes) else item.encode("utf-8", "replace"))
        else:
            self._records.add(number, item, id)
        return len(item)
