"""Tokens that distributed walkers make: a whole round ahead, by all hosts together; then read piece by piece."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from any2vec.cluster.transport import control
from any2vec.errors import InputError
from any2vec.sampling.distributed_walks import PHASE, DistributedWalker


class WalkCorpusTokens:
    """A `TokenSource` for a graph that lies on several hosts: at each epoch and position the token of `WalkedTokens`.

    Memory: 4 bytes a position of what was asked for last.
    """

    def __init__(self, walker: DistributedWalker) -> None:
        self.walker = walker
        self.unit = walker.stride
        self.num_positions = walker.num_walks * walker.stride
        self._epoch = 0
        self._made: list[tuple[int, int, np.ndarray]] = []
        """[start, stop) and the tokens of what was walked last"""

    def boundary(self, position: int) -> int:
        return min(self.num_positions, -(-position // self.unit) * self.unit)

    def ahead(self, epoch: int, parts: Sequence[tuple[int, int]]) -> None:
        """Make the positions [start, stop) of each part, multiples of `unit`: a collective call, before each round.

        Every host names what it will read itself, which may be nothing.

        Raises:
            InputError: an interval is not legal.
            HostError: as `DistributedWalker.sample`.
        """
        for start, stop in parts:
            if start % self.unit or stop % self.unit:
                raise InputError(
                    f"start and stop must be multiples of {self.unit}, a walk's slots, got {start} and {stop}."
                )
        self._made = []  # the walks of the last round go before these come
        self._epoch = epoch
        for index in range(self._most(len(parts))):
            start, stop = parts[index] if index < len(parts) else (0, 0)
            tokens = self.walker.sample(start // self.unit, stop // self.unit, epoch)
            tokens.flags.writeable = False
            self._made.append((start, stop, tokens))

    def _most(self, own: int) -> int:
        """The largest number that any host names: so often all of them walk together."""
        transport = self.walker.transport
        received = transport.exchange(dict.fromkeys(range(transport.hosts), (control(own),)), PHASE, PHASE)
        return max([own, *(int(parts[0].array[0]) for parts in received.values())])

    def piece(self, epoch: int, start: int, stop: int) -> tuple[np.ndarray, int, int, int]:
        """Of what `ahead` made. An empty piece can be had at any time.

        Raises:
            InputError: other positions than these.
        """
        if start == stop:
            return np.empty(0, np.int32), 0, 0, start
        for first, last, tokens in self._made:
            if epoch == self._epoch and first <= start <= stop <= last:
                return tokens, start - first, stop - first, first
        raise InputError(
            f"positions [{start}, {stop}) of epoch {epoch} were not walked ahead; call "
            f"ahead({epoch}, [({start}, {stop})]) on all hosts first."
        )
