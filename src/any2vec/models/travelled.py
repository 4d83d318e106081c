"""Tokens that travelling walkers make: a whole round ahead, by all hosts together; then read piece by piece."""

from __future__ import annotations

import numpy as np

from any2vec.errors import InputError
from any2vec.sampling.travel import TravellingWalker


class TravelledTokens:
    """A `TokenSource` for a graph that lies on several hosts: at each epoch and position the token of `WalkedTokens`.

    Memory: 4 bytes a position of what was asked for last.
    """

    def __init__(self, walker: TravellingWalker) -> None:
        self.walker = walker
        self.unit = walker.stride
        self.num_positions = walker.num_walks * walker.stride
        self._epoch = self._start = self._stop = 0
        self._tokens = _read_only(np.empty(0, np.int32))

    def ahead(self, epoch: int, start: int, stop: int) -> None:
        """Make the positions [start, stop) of `epoch`, multiples of `unit`: a collective call, before each round.

        Every host names what it will read itself, which may be nothing.

        Raises:
            InputError: the interval is not legal.
            HostError: as `TravellingWalker.sample`.
        """
        if start % self.unit or stop % self.unit:
            raise InputError(
                f"start and stop must be multiples of {self.unit}, a walk's slots, got {start} and {stop}."
            )
        self._tokens = _read_only(np.empty(0, np.int32))  # the walks of the last round go before these come
        self._epoch, self._start, self._stop = epoch, start, start
        self._tokens = _read_only(self.walker.sample(start // self.unit, stop // self.unit, epoch))
        self._stop = stop

    def piece(self, epoch: int, start: int, stop: int) -> tuple[np.ndarray, int, int, int]:
        """Of what `ahead` made. An empty piece can be had at any time.

        Raises:
            InputError: other positions than these.
        """
        if start == stop:
            return self._tokens[:0], 0, 0, start
        if epoch != self._epoch or not self._start <= start <= stop <= self._stop:
            raise InputError(
                f"positions [{start}, {stop}) of epoch {epoch} were not walked ahead; call "
                f"ahead({epoch}, {start}, {stop}) on all hosts first."
            )
        return self._tokens, start - self._start, stop - self._start, self._start


def _read_only(tokens: np.ndarray) -> np.ndarray:
    tokens.flags.writeable = False
    return tokens
