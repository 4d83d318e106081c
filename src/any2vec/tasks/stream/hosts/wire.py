"""A token batch as a message from the host that keeps the vocabulary to a trainer.

[kind, clock, birth, batch, offset, words, words before, which of the rest come], share of words kept, tokens, born
rows; then the news, what the vocabulary says of all rows: noise (two arrays) and subsampling; how much each sentence
counts, where that differs; the words of the batch, where a model has them spelled out. What the vocabulary says changes
seldom, and each trainer gets it once.

Legend: T tokens, V rows of the tables, R rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from any2vec.cluster.message import Part
from any2vec.errors import MessageError
from any2vec.models.stream.char_step import BatchWords
from any2vec.models.stream.ngram import SpelledRows
from any2vec.models.stream.token_batch import Sentences, TokenBatch
from any2vec.types import Stats

TRAIN, PUT = 1, 2
"""kinds of pieces: a batch; a state to go on from"""
_LOSS_STEPS = 1 << 20
"""of 1 nat: up to 8 billion nats a float64 adds such numbers without rounding"""
_NUMBERS = 8
_PREPARED: dict[int, Callable[..., Any]] = {3: SpelledRows, 5: BatchWords}
"""what a model has of a batch's words, by its number of arrays"""
_NEWS, _WEIGHTS = 1, 2
"""bits that say which parts come"""


@dataclass(frozen=True)
class Piece:
    """What a trainer is dealt."""

    batch: TokenBatch
    clock: int
    """round of the trainer"""
    birth: int
    """the last birth of which the batch knows"""


class Sender:
    """One trainer's messages: it remembers what of the vocabulary the trainer has."""

    def __init__(self) -> None:
        self._last = TokenBatch(0, np.zeros(0, np.int32), 0)

    def parts(self, piece: Piece) -> list[Part]:
        """The parts of a batch."""
        batch = piece.batch
        has_changed = batch.tokens.size > 0 and (
            batch.alias_V is not self._last.alias_V or batch.keep_V is not self._last.keep_V
        )
        numbers = (
            TRAIN, piece.clock, piece.birth, batch.number, batch.offset, batch.words, batch.words_before,
            _NEWS * has_changed + _WEIGHTS * (batch.sentences is not None),
        )  # fmt: skip
        parts = [
            Part("control", np.array(numbers, np.int64)), Part("control", np.array([batch.keep_rate])),
            Part("ids", batch.tokens), Part("ids", batch.born),
        ]  # fmt: skip
        if has_changed:
            self._last = batch
            parts += [Part("dense", array) for array in (batch.threshold_V, batch.alias_V, batch.keep_V)]
        if batch.sentences is not None:
            parts.append(Part("dense", batch.sentences.weight_N))
        if batch.prepared is not None:
            parts += [Part("dense", array) for array in vars(batch.prepared).values()]
        return parts


class Receiver:
    """The trainer's side."""

    def __init__(self) -> None:
        self._last = TokenBatch(0, np.zeros(0, np.int32), 0)

    def piece(self, parts: Sequence[Part]) -> Piece:
        """The batch of a message.

        Raises:
            MessageError: it is none.
        """
        numbers = parts[0].array.tolist() if parts else []
        comes = numbers[7] if len(numbers) == _NUMBERS else 0
        weights_at = 7 if comes & _NEWS else 4
        words_at = weights_at + bool(comes & _WEIGHTS)
        if len(numbers) != _NUMBERS or numbers[0] != TRAIN or len(parts) - words_at not in (0, *_PREPARED):
            raise MessageError(f"{len(parts)} parts that begin with {numbers} are no batch of a stream.")
        _, clock, birth, number, offset, words, before, _ = numbers
        tokens = parts[2].array
        tokens.flags.writeable = False  # one type for the kernels, whatever brought the array
        if comes & _NEWS:
            threshold_V, alias_V, keep_V = (part.array for part in parts[4:7])
            self._last = replace(self._last, threshold_V=threshold_V, alias_V=alias_V, keep_V=keep_V)
        self._last = replace(
            self._last, number=number, tokens=tokens, offset=offset, born=parts[3].array,
            keep_rate=float(parts[1].array[0]), words=words, words_before=before,
            sentences=_sentences(*parts[weights_at:words_at]),
            prepared=_prepared([part.array for part in parts[words_at:]]),
        )  # fmt: skip
        return Piece(self._last, clock, birth)


def put_parts(state: Sequence[np.ndarray]) -> list[Part]:
    """The parts that say what state to go on from, its arrays in their order."""
    return [Part("control", np.array([PUT], np.int64)), *(Part("dense", array) for array in state)]


def is_put(parts: Sequence[Part]) -> bool:
    return bool(parts) and parts[0].array.tolist() == [PUT]


def _prepared(arrays: list[np.ndarray]) -> Any:
    return _PREPARED[len(arrays)](*arrays) if arrays else None


def _sentences(*weights: Part) -> Sentences | None:
    return Sentences(weights[0].array, np.empty(len(weights[0].array))) if weights else None


def stats_parts(stats: Stats, sentences: Sentences | None = None) -> list[Part]:
    """What a trainer reports of a batch: its loss in steps of which sums are exact, whoever reports first."""
    loss = round(stats.loss_sum * _LOSS_STEPS) / _LOSS_STEPS if np.isfinite(stats.loss_sum) else stats.loss_sum
    numbers = np.array([stats.items, loss, stats.loss_examples, stats.cpu_seconds], np.float64)
    return [Part("control", numbers), *([] if sentences is None else [Part("dense", sentences.loss_N)])]


def stats_of(part: Part) -> Stats:
    items, loss, examples, seconds = part.array.tolist()
    return Stats(int(items), loss, int(examples), seconds)
