"""Validation of models of clicks: AUC and log-loss on the last share of the examples, or on other data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from any2vec.data.clicks.clicks import is_clicks, read_clicks
from any2vec.data.clicks.rows import ClickBatch
from any2vec.data.clicks.writer import before_share
from any2vec.errors import DataError, InputError
from any2vec.evaluate.clicks import auc, log_loss
from any2vec.train.in_memory.validation import Validator
from any2vec.train.result import Result

_BATCH = 4096


def training_part(source: Any, share: float | None) -> tuple[int, int]:
    """(examples that train, clicks among them), where the last share of the examples is held out.

    Raises:
        InputError: nothing is left of one of the two.
    """
    num_examples = source.num_examples
    if share is None:
        return num_examples, source.num_clicks
    kept = before_share(num_examples, share)
    if not 0 < kept < num_examples:
        raise InputError(
            f"A share of {share:g} of {num_examples:,} examples leaves {kept:,} to train and {num_examples - kept:,} "
            "to validate on; give another share, or a file."
        )
    return kept, source.num_clicks - sum(int(batch.label_B.sum()) for batch in _Tail(source, kept))


def click_validator(source: Any, kept: int, data: Any) -> Validator:
    """AUC, which decides, and log-loss (nats an example) of the examples from `kept` on; where that is all, of data.

    source: the examples of training, whose encoder reads the data; these are held in memory, encoded.

    Raises:
        DataError: the data cannot be read, do not fit the schema, or have labels of one class only.
    """
    batches: Iterable[ClickBatch] = _Tail(source, kept)
    if kept == source.num_examples:
        if is_clicks(data):
            data = read_clicks(data)
            raise InputError(
                f"{data.path} was encoded with values of its own, which are other rows than those of the training; "
                "give the files themselves to validate on."
            )
        batches = list(source.encoder.encode(data, batch_size=_BATCH, needs_label=True))
    labels = np.concatenate([batch.label_B for batch in batches] or [np.empty(0, np.float32)])
    if not len(labels) or labels.min() == labels.max():
        raise DataError(
            f"The {len(labels):,} examples to validate on have labels of one class only; give examples of both."
        )

    def validate(result: Result) -> Mapping[str, float]:
        found = np.concatenate([result.scorer.predict(batch) for batch in batches])
        return {"auc": auc(labels, found), "log_loss": log_loss(labels, found)}

    return validate


class _Tail:
    """The last examples, batch after batch, however often."""

    def __init__(self, source: Any, start: int) -> None:
        self._source, self._start = source, start

    def __iter__(self) -> Iterator[ClickBatch]:
        stop = self._source.num_examples
        for start in range(self._start, stop, _BATCH):
            yield self._source.batch(start, min(start + _BATCH, stop))
