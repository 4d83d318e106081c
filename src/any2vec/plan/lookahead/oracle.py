"""The next use of every row of a batch, as far as the batches to come are known: what Belady's choice needs. Pure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from any2vec.errors import InputError
from any2vec.plan.lookahead.window import NONE, UseWindow

LOOK_AHEAD = 200
"""batches, as many as Bagpipe's oracle looks ahead"""
NEVER = np.iinfo(np.int64).max
"""step of a next use that is not known: it is later than any that is"""


class NextUseOracle:
    """Batches are taken in the order of their steps, or nearly: several workers may overtake one another.

    Args:
        batch_ids: step -> int64, the distinct rows of its batch, ascending.
        first_step, num_steps: the steps are [first_step, num_steps).
    """

    def __init__(
        self, batch_ids: Callable[[int], np.ndarray], first_step: int, num_steps: int, look_ahead: int = LOOK_AHEAD
    ) -> None:
        self._batch_ids = batch_ids
        self._first_step, self._num_steps, self._look_ahead = first_step, num_steps, look_ahead
        self._window = UseWindow()
        self._passed: dict[bytes, list[np.ndarray]] = {}
        """rows of batches that have left the window and were not asked about yet -> their next uses"""

    def next_uses(self, id_U: np.ndarray, expect: Callable[[np.ndarray, int], None]) -> np.ndarray:
        """The step of the next use of each row of a batch, int64, NEVER where none is known.

        expect: is called with the rows of each step that comes into view, and its number.

        Raises:
            InputError: no batch to come has these rows.
        """
        key = id_U.tobytes()
        while not self._passed.get(key):
            while self._window.newest < min(self._window.oldest + self._look_ahead, self._last):
                coming = self._batch_ids(self._first_step + self._window.newest + 1)
                self._window.admit(coming)
                expect(coming, self._window.newest)
            if self._window.oldest > self._last or len(self._passed) > self._look_ahead:
                raise InputError(
                    f"A batch of {len(id_U)} rows is trained that was not planned: the batches that are trained must "
                    "be those that were looked ahead for."
                )
            uses = self._window.leave()
            step_G = self._window.steps(uses.next_G)
            self._passed.setdefault(uses.row_G.tobytes(), []).append(np.where(step_G == NONE, NEVER, step_G))
        found = self._passed[key].pop(0)
        self._passed = {rows: uses for rows, uses in self._passed.items() if uses}
        return found

    @property
    def _last(self) -> int:
        """Number of the last step, from 0."""
        return self._num_steps - self._first_step - 1
