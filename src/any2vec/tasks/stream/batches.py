"""The schedule of a stream: sources → lines that are new → vocabulary → token batches, one batch ahead of the training.

    for batch in TokenBatches(...):   # an idle one now and then while nothing comes
        ...                           # the next is encoded in a thread meanwhile
        batches.rest()                # ask for a batch behind which nothing is encoded: then the state may be kept

How lines become batches depends on the stream alone, unless a slow source is not waited for (`linger`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from any2vec.data.stream.vocabulary import StreamVocabulary
from any2vec.models.stream.token_batch import GAP, LinesOf, TokenBatch
from any2vec.sources.base.cutter import LineBatch
from any2vec.sources.base.inflow import Inflow
from any2vec.sources.base.records import SeenLines
from any2vec.tasks.stream.line_queue import Cut, LineQueue, split_lines
from any2vec.tasks.stream.recent_pairs import RecentPairs
from any2vec.tasks.stream.replay import Replay
from any2vec.types import State, Stateful, Work

LOOK_SECONDS = 0.2
"""while nothing comes the run is looked after so often"""
_TAKE_SECONDS = 0.05
_NUMBERS = ("number", "offset", "words")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Where a run ends, if anywhere."""

    words: int | None = None
    """of the whole run: the line that reaches it is the last"""
    steps: int | None = None
    """batches of the whole run"""

    def are_reached(self, words: int, steps: int) -> bool:
        return (self.words is not None and words >= self.words) or (self.steps is not None and steps >= self.steps)


class TokenBatches:
    """Iterates over token batches until the sources are over, a limit is reached, or `stop` is called.

    Args:
        seen: None: duplicates are trained, too.
        subsample: word2vec's t.
        batch_bytes: of the text of a batch, at least; whole lines.
        linger: seconds of waiting for the lines of a batch after which what there is makes one; 0: it waits for all.
        prepare: what the learner makes of a batch's tokens, beside the training of the batch before.
        replay: behind each batch comes one of sentences of before.
        pairs: counts those of each new batch.
    """

    def __init__(
        self,
        inflow: Inflow,
        seen: SeenLines | None,
        vocabulary: StreamVocabulary,
        *,
        subsample: float,
        batch_bytes: int,
        linger: float,
        limits: Limits,
        keeps_ids: bool,
        prepare: Callable[[np.ndarray, StreamVocabulary], Any],
        replay: Replay | None = None,
        pairs: RecentPairs | None = None,
    ) -> None:
        self.inflow, self.seen, self.vocabulary = inflow, seen, vocabulary
        self.subsample, self.linger, self.limits = subsample, linger, limits
        self.prepare, self.replay, self.pairs = prepare, replay, pairs
        self.lines = LineQueue(batch_bytes, keeps_ids)
        self.number = self.offset = self.words = 0
        """of the next batch; words of all before it"""
        self._high = 0
        """no row from here on has ever been used"""
        self._waited = 0.0
        self._is_over = self._rests = self._stops = False
        self._keep: tuple[np.ndarray, np.ndarray] | None = None
        self._encoded: list[TokenBatch] = []
        """that come next"""
        self._ahead: Future[list[TokenBatch]] | None = None
        """those behind them"""

    def __iter__(self) -> Iterator[Work[TokenBatch]]:
        with ThreadPoolExecutor(1, "encode") as pool:
            while not (self._stops and self._ahead is None):
                self._encoded = (self._ahead or pool.submit(self._next)).result()
                self._ahead = None
                if not self._encoded and self._is_over:
                    return
                if not self._encoded:
                    self._rests = False
                    yield self.idle()
                    continue
                if not (self._rests or self._stops):
                    self._ahead = pool.submit(self._next)
                self._rests = False
                while self._encoded:
                    batch = self._encoded.pop(0)
                    yield replace(batch, is_settled=self._ahead is None and not self._encoded).work

    def peek(self, steps: int) -> list[Work[TokenBatch]]:
        """What has come already and is encoded, `steps` batches or fewer; nothing is waited for.

        Whether a batch is settled is known only when it is given.
        """
        ahead = self._ahead
        behind = ahead.result() if ahead is not None and ahead.done() and ahead.exception() is None else []
        return [batch.work for batch in [*self._encoded, *behind][:steps]]

    def rest(self) -> None:
        """Encode nothing behind the batch that comes next, until it is trained."""
        self._rests = True

    @property
    def has_enough(self) -> bool:
        """Whether a limit is reached."""
        return self.limits.are_reached(self.words, self.number)

    def stop(self) -> None:
        """End behind what is encoded already."""
        self._stops = True

    def drain(self) -> None:
        """End the sources; lines that wait of those that cannot be asked again are kept with the state."""
        for batch in self.inflow.drain():
            self._take(batch)

    @property
    def _stateful(self) -> dict[str, Stateful]:
        """What it keeps beside its own numbers, and the sources' positions, which are no arrays."""
        parts: dict[str, Stateful] = {"lines.": self.lines, "vocabulary.": self.vocabulary}
        if self.seen is not None:
            parts["seen."] = self.seen
        if self.replay is not None:
            parts["replay."] = self.replay
        if self.pairs is not None:
            parts["pairs."] = self.pairs
        return parts

    def state_dict(self) -> State:
        """What to go on from, at `inflow.positions`; only behind a settled batch."""
        state = {name: np.array(getattr(self, name), np.int64) for name in _NUMBERS}
        for prefix, part in self._stateful.items():
            state |= {prefix + name: array for name, array in part.state_dict().items()}
        return state

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`."""
        for prefix, part in self._stateful.items():
            part.load_state_dict(_below(prefix, state))
        self.number, self.offset, self.words = (int(state[name]) for name in _NUMBERS)
        self._high = int(self.vocabulary.rows().max(initial=-1)) + 1

    def idle(self) -> Work[TokenBatch]:
        """Work without tokens."""
        return TokenBatch(self.number, np.zeros(0, np.int32), self.offset, words_before=self.words).work

    def _next(self) -> list[TokenBatch]:
        """The next batch, and what is replayed behind it; [] where there is none so soon, or none at all."""
        if self.has_enough:
            self._is_over = True
            return []
        end = time.monotonic() + LOOK_SECONDS
        while not self.lines.is_full and not self._stops:
            began = time.monotonic()
            batch = self.inflow.take(_TAKE_SECONDS)
            self._waited += min(_TAKE_SECONDS, time.monotonic() - began)  # that this process stood still is no waiting
            if batch is not None:
                self._take(batch)
            elif self.inflow.is_over:
                self._is_over = self.lines.is_empty
                break
            if self.linger and self._waited >= self.linger and self.lines.num_bytes:
                break
            if time.monotonic() >= end and not self.lines.is_full:
                return []
        if self._stops or self.lines.is_empty:
            return []
        self._waited = 0.0
        made = self._encode(self._within_limit(self.lines.cut()))
        return [made] if self.replay is None else [made, self._replayed(self.replay, made.tokens)]

    def _within_limit(self, cut: Cut) -> Cut:
        """The cut as far as the line with which the words of the run are reached; what is behind waits in the queue."""
        left = None if self.limits.words is None else self.limits.words - self.words
        if left is None or sum(part.text_B.size for part in cut.parts) < 2 * left:  # a word has a byte and a blank
            return cut
        for number, part in enumerate(cut.parts):
            raw, start = part.text_B.tobytes(), 0
            for line, stop in enumerate(part.stop_N.tolist(), 1):
                left -= self.vocabulary.num_words(raw[start:stop])
                start = stop
                if left <= 0:
                    first, rest = split_lines(part, line)
                    self.lines.put_back([one for one in (rest, *cut.parts[number + 1 :]) if len(one.stop_N)])
                    return replace(cut, parts=[*cut.parts[:number], first])
        return cut

    def _take(self, batch: LineBatch) -> None:
        fresh_N = None if self.seen is None or not len(batch) else self.seen.fresh(batch.key_N)
        self.lines.put(batch, fresh_N)

    def _encode(self, cut: Cut) -> TokenBatch:
        vocabulary = self.vocabulary
        encoded = [vocabulary.encode(part.text_B, part.stop_N) for part in cut.parts]
        words_of = {
            part.source: int(np.count_nonzero(tokens >= 0)) for part, tokens in zip(cut.parts, encoded, strict=True)
        }
        tokens = encoded[0] if len(encoded) == 1 else np.concatenate([np.zeros(0, np.int32), *encoded])
        made = self._batch(tokens, vocabulary.born(), sum(words_of.values()), _lines_of(cut, words_of))
        if self.pairs is not None:
            self.pairs.add(made, vocabulary)
        self.number += 1
        self.words += made.words
        return made

    def _replayed(self, replay: Replay, tokens: np.ndarray) -> TokenBatch:
        """Sentences of before, in place of so many new ones, which are kept for later.

        One batch, if an empty one: rounds of hosts then end behind a replay again and again, where states are kept.
        """
        drawn, sentences = replay.exchange(tokens, self.vocabulary, self.number)
        made = self._batch(drawn, np.zeros(0, np.int64), 0, ())
        return replace(made, is_replayed=True, sentences=sentences)

    def _batch(self, tokens: np.ndarray, born: np.ndarray, words: int, lines: tuple[LinesOf, ...]) -> TokenBatch:
        # Freed by the end of the batch, or since it was trained for the first time: nobody can spell such a word.
        tokens = self.vocabulary.without_freed(tokens)
        tokens.flags.writeable = False  # one type for the kernels, whoever made the array
        keep_V = self._keep_of_now(born)
        known = tokens[(tokens >= 0) & (tokens < keep_V.size)]
        keep_rate = float(keep_V[known].mean()) / 2.0**32 if known.size else 1.0
        made = TokenBatch(
            self.number, tokens, self.offset, born, *self.vocabulary.noise(), keep_V, keep_rate, words, self.words,
            lines, self.prepare(tokens, self.vocabulary),
        )  # fmt: skip
        self.offset += tokens.size + GAP
        return made

    def _keep_of_now(self, born: np.ndarray) -> np.ndarray:
        """Thresholds of the kernels, at least as many as rows were ever in use; made anew where there is news."""
        self._high = max(self._high, int(born.max(initial=-1)) + 1)
        keep_V = self.vocabulary.keep(self.subsample)
        if self._keep is None or self._keep[0] is not keep_V or len(self._keep[1]) < self._high:
            room = self._high + self._high // 4 + 1024  # or each batch would make it anew
            self._keep = keep_V, np.minimum(keep_V[:room] * 2.0**32, 2.0**32).astype(np.uint64)
        return self._keep[1]


def _below(prefix: str, state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}


def _lines_of(cut: Cut, words_of: dict[int, int]) -> tuple[LinesOf, ...]:
    """What each source has given."""
    parts = {part.source: part for part in cut.parts}
    found = []
    for source in sorted({*parts, *cut.duplicates}):
        lines, ids = (len(parts[source].stop_N), parts[source].ids) if source in parts else (0, ())
        found.append(LinesOf(source, lines, words_of.get(source, 0), cut.duplicates[source], ids))
    return tuple(found)
