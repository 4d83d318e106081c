"""Sentences of a stream kept for a while, to be trained once more: a ring of fixed size, drawn from by priority.

Prioritized experience replay (Schaul, Quan, Antonoglou, Silver 2016, arXiv 1511.05952): sentence i is drawn with the
probability P(i) = p_i^a / sum p^a (equation 1), its priority p_i = |loss| + 0.001 being that of when it was trained
last, and that of the largest so far while it has not been (algorithm 1, line 6). Drawing so changes what is learnt;
importance weights w_i = (N P(i))^-b, over the largest of the draw (section 3.4), take that back, with b = 1 wholly:
multiply the step of a sentence, or train it with that probability. a = 0: all are drawn alike, and all weights are 1.

Legend: P tokens, V rows of the vocabulary, C tokens and Q sentences of the ring, N drawn sentences.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from any2vec.checks import MAX_SEED, check_number, check_whole
from any2vec.errors import FormatError
from any2vec.kernels.common.rng import PURPOSE_REPLAY, stream_key
from any2vec.kernels.text import replay as kernel
from any2vec.types import State

LEAST_LOSS = 1e-3
"""is added to a loss, so that no sentence is forgotten"""
TOKENS_PER_SENTENCE = 8
"""C / Q is about that"""


class Replayed(NamedTuple):
    """Sentences that were drawn, perhaps one several times."""

    tokens: np.ndarray
    """int32 (P,): rows, -1 behind each sentence; a word whose row has gone to another word since is max_rows"""
    number_N: np.ndarray
    """int64 (N,): which sentences they are, for `learn`"""
    weight_N: np.ndarray
    """float64 (N,): importance weights, in (0, 1]"""


class ReplayBuffer:
    """The last sentences of a stream. Memory: O(C), fixed; deterministic."""

    def __init__(self, *, max_tokens: int, alpha: float = 0.0, beta: float = 1.0, seed: int = 1) -> None:
        """max_tokens: C, 8 or more; alpha: how much priorities count, 0 (uniform) to 1; beta: how much weights undo it.

        Raises:
            InputError: a number out of these bounds.
        """
        check_whole("max_tokens", max_tokens, TOKENS_PER_SENTENCE, 2**40)
        check_number("alpha", alpha, 0, 1)
        check_number("beta", beta, 0, 1)
        check_whole("seed", seed, 0, MAX_SEED)
        self.alpha, self.beta, self.seed = float(alpha), float(beta), seed
        slots = 1 << (max_tokens // TOKENS_PER_SENTENCE - 1).bit_length()
        self._ring_C = np.zeros(max_tokens, np.int32)
        self._start_Q, self._length_Q = np.zeros(slots, np.int64), np.zeros(slots, np.int32)
        self._births_Q = np.zeros(slots, np.int64)
        self._tree_2Q = np.zeros(2 * slots)
        self._mark = np.zeros(kernel.MARKS, np.int64)
        self._largest = 1.0
        self._draws = 0
        self._key = stream_key(seed, PURPOSE_REPLAY)

    def __len__(self) -> int:
        """Sentences in the buffer."""
        return int(self._mark[kernel.NEXT] - self._mark[kernel.FIRST])

    def put(self, tokens: np.ndarray, births: int) -> None:
        """Keep the sentences of tokens int32 (P,), over the oldest; births: the vocabulary's, behind encoding them."""
        kernel.put_sentences(
            tokens, births, self._largest, self._ring_C, self._start_Q, self._length_Q, self._births_Q, self._tree_2Q,
            self._mark,
        )  # fmt: skip

    def draw(self, num: int, birth_V: np.ndarray) -> Replayed:
        """`num` sentences, one of each num-th of all priorities; none where the buffer is empty. O(num log Q + P).

        birth_V: int64 (V,), the vocabulary's now: a row born since a sentence was put is another word's.
        """
        slot_N = np.empty(num if len(self) else 0, np.int64)
        kernel.draw_sentences(self._tree_2Q, self._key, self._draws, slot_N)
        self._draws += len(slot_N)
        tokens = np.empty(int(self._length_Q[slot_N].sum()) + len(slot_N), np.int32)
        kernel.copy_sentences(slot_N, birth_V, self._ring_C, self._start_Q, self._length_Q, self._births_Q, tokens)
        first, slots = self._mark[kernel.FIRST], len(self._start_Q)
        chance_N = self._tree_2Q[slots + slot_N] / self._tree_2Q[1]
        weight_N = (len(self) * chance_N) ** -self.beta if self.alpha else np.ones(len(slot_N))
        return Replayed(tokens, first + (slot_N - first) % slots, weight_N / weight_N.max(initial=0.0))

    def learn(self, number_N: np.ndarray, loss_N: np.ndarray) -> None:
        """Take the losses (per pair) that drawn sentences had; those that have left the buffer are passed over."""
        priority_N = (np.abs(np.asarray(loss_N, np.float64)) + LEAST_LOSS) ** self.alpha
        there_N = number_N >= self._mark[kernel.FIRST]
        for number, priority in zip(number_N[there_N].tolist(), priority_N[there_N].tolist(), strict=True):
            kernel.set_priority(self._tree_2Q, number % len(self._start_Q), priority)
            self._largest = max(self._largest, priority)

    def state_dict(self) -> State:
        """All that is needed to go on from here, as arrays."""
        return {
            "ring": self._ring_C.copy(), "start": self._start_Q.copy(), "length": self._length_Q.copy(),
            "births": self._births_Q.copy(), "tree": self._tree_2Q.copy(), "mark": self._mark.copy(),
            "draws": np.array([self._draws, self.seed], np.int64),
            "value": np.array([self.alpha, self.beta, self._largest]),
        }  # fmt: skip

    def load_state_dict(self, state: State) -> None:
        """Become what `state_dict()` was taken of, down to the bit.

        Raises:
            FormatError: it is of other settings.
        """
        alpha, beta, largest = state["value"].tolist()
        draws, seed = state["draws"].tolist()
        theirs = len(state["ring"]), alpha, beta, seed
        ours = len(self._ring_C), self.alpha, self.beta, self.seed
        if theirs != ours:
            raise FormatError(
                f"The stored replay buffer has (max_tokens, alpha, beta, seed) = {theirs}, this one {ours}; go on with "
                "the same settings."
            )
        self._largest, self._draws = largest, draws
        for name, array in (
            ("ring", self._ring_C), ("start", self._start_Q), ("length", self._length_Q), ("births", self._births_Q),
            ("tree", self._tree_2Q), ("mark", self._mark),
        ):  # fmt: skip
            array[:] = state[name]
