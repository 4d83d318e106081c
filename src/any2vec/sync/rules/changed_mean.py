"""Dense rows of hosts that train different parts of one table: after a round, the mean over who has changed a row.

A row that one host alone has touched (a rare relation) keeps all that this host has learned, as a sum would keep it;
one that all have touched moves by the mean of their ways, as in local SGD (Stich 2019). A sum would go as many times
too far as there are hosts, since every host has a random share of its triples and so goes nearly the same way.
Optimizer columns are columns like others.

The mean is taken by rank 0, in rank order and in float64: all hosts go on with the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.transport import LONG_WORK, Transport, control
from any2vec.sync.rules.merge_rule import StateMean

PHASE = "round"


def mean_of_changed(start: np.ndarray, found: Sequence[np.ndarray]) -> np.ndarray:
    """start + the mean of (host's - start) over the hosts whose row differs from start's; float32 (rows, columns).

    found: of each host, by rank.
    """
    mean = np.empty(start.shape, np.float32)
    StateMean().combine(start, [array.astype(np.float64) - start for array in found], mean)
    return mean


class ChangedMean:
    """One host's replica of some arrays, float32 (rows, columns), changed in place.

    Args:
        arrays: the same names and shapes on all hosts, and at the beginning the same values.
    """

    def __init__(self, transport: Transport, arrays: Mapping[str, np.ndarray]) -> None:
        self._transport, self._arrays = transport, arrays
        self._start = {name: array.copy() for name, array in arrays.items()}

    def barrier(
        self, numbers: Sequence[float], decide: Callable[[Sequence[np.ndarray]], Sequence[float]]
    ) -> Sequence[float]:
        """Agree on the arrays; all hosts call it together, while none trains.

        Args:
            numbers: what this host sends to rank 0.
            decide: rank 0's answer to what all hosts have sent, by rank.

        Returns:
            the answer, at every host.
        """
        own = [control(*numbers), *(Part("dense", array) for array in self._arrays.values())]
        found = list(self._transport.gather(own, PHASE, timeout=LONG_WORK).values())
        answer: list[Part] = []
        if found:
            merged = [
                Part("dense", mean_of_changed(start, [parts[place].array for parts in found]))
                for place, start in enumerate(self._start.values(), 1)
            ]
            answer = [control(*decide([parts[0].array for parts in found])), *merged]
        received = self._transport.share(answer, PHASE, timeout=LONG_WORK)
        for (name, array), part in zip(self._arrays.items(), received[1:], strict=True):
            array[:] = part.array
            self._start[name][:] = part.array
        return [float(number) for number in received[0].array]
