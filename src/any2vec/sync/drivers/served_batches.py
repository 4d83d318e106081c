"""A trainer of a stream around one batch: the rows that it will touch are pulled, what it made of them is pushed.

Draws belong to positions of the stream, so the rows are known before any of them is here (kernels/skipgram/trace.py).

Legend: V rows of a table, D dim, K rows of a batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from any2vec.sync.drivers.stream_tables import StreamTables
from any2vec.tables.server.clocks import REST
from any2vec.types import Stats, Work


class ServedBatches:
    """The driver of one trainer.

    In step, servers get the values that the rows have come to; else their changes, and a change is of the row as this
    batch knew it: `birth` goes with it.

    Args:
        tables: where the rows are.
        here: name -> float32 (V, D), trained in place; rows that no batch asked for are stale.
        trace: puts 1 into marks, name of a table -> uint8 (V,), where a batch reads or writes a row.
    """

    def __init__(
        self,
        tables: StreamTables,
        here: Mapping[str, np.ndarray],
        trace: Callable[[Any, Mapping[str, np.ndarray]], None],
    ) -> None:
        self.tables = tables
        self.here = dict(here)
        self.clock = 0
        """batches that this trainer has pushed, or those of whoever came furthest where all stood last"""
        self.birth = 0
        """the last birth of which the batch knows; set before each"""
        self.seconds = 0.0
        """in which this trainer asked, sent and waited"""
        self._trace = trace
        self._marks = {name: np.zeros(len(table), np.uint8) for name, table in self.here.items()}
        self._places: dict[str, np.ndarray] = {}
        self._rows: dict[str, np.ndarray] = {}
        self._start: dict[str, np.ndarray] = {}
        """of the batch: where its rows stand in the dealt order, which they are, and their values when they came"""

    def before(self, work: Work[Any]) -> None:
        """Find out which rows the batch touches, and pull them."""
        began = time.perf_counter()
        for mark_V in self._marks.values():
            mark_V[:] = 0
        self._trace(work.payload, self._marks)
        self._places = {name: self.tables.places(name, mark_V) for name, mark_V in self._marks.items()}
        self._rows = {name: self.tables.rows(name, places) for name, places in self._places.items()}
        self._start = self.tables.client.pull(self._places, self.clock)
        for name, rows in self._rows.items():
            self.here[name][rows] = self._start[name]
        self.seconds += time.perf_counter() - began

    def after(self, work: Work[Any], stats: Stats) -> None:
        """Push what the batch made of its rows; nobody is waited for."""
        began = time.perf_counter()
        client = self.tables.client
        for name, rows in self._rows.items():
            now_KD, start_KD = self.here[name][rows], self._start[name]
            is_changed = (now_KD != start_KD).any(axis=1)
            value_KD = now_KD[is_changed] if self.tables.in_step else (now_KD - start_KD)[is_changed]
            clock = self.clock if self.tables.in_step else self.birth
            client.push(name, self._places[name][is_changed], value_KD, clock, not self.tables.in_step)
        client.tick(self.clock)
        self.clock += 1
        self.seconds += time.perf_counter() - began

    def is_settled(self, work: Work[Any]) -> bool:
        return False

    def quiesce(self, clock: int) -> None:
        """Stand still: all that was pushed has arrived. All trainers go on from round `clock`."""
        self.tables.client.tick(REST)
        self.tables.client.flush()
        self.clock = clock
