"""The models of streams by name, and what memory they and their vocabulary may have."""

from __future__ import annotations

from dataclasses import dataclass

from any2vec.cluster.launch.join import check_torch
from any2vec.errors import InputError
from any2vec.models.stream.config import StreamModel
from any2vec.models.stream.learner import StreamLearner
from any2vec.registry import loaded
from any2vec.sync.options.streams import StreamAgreement
from any2vec.train.spec import Request

LEARNERS = {
    "skipgram": "any2vec.models.stream.skipgram:StreamedSkipGram",
    "ngram": "any2vec.models.stream.ngram:StreamedNGram",
    "char-lstm": "any2vec.models.stream.char_lstm:StreamedCharLstm",
}
"""model -> "module:class" of its learner"""
_NEED_TORCH = ("char-lstm",)
TYPE_BYTES = 160
"""of a word that is counted: places in the hash table, letters, and their copies while a checkpoint is written"""
ROW_BYTES = 100
"""of a word that has a row, beside the model's own: its count, its part of the noise, whether it is kept"""
TYPES_SHARE = 0.25
"""of the budget, for words that are counted"""


@dataclass(frozen=True)
class Budget:
    """How many words there may be."""

    max_types: int
    max_rows: int


def budget(model: StreamModel, memory_bytes: int) -> Budget:
    """How many words a budget has room for.

    Raises:
        InputError: hardly any.
    """
    if model.name in _NEED_TORCH:
        check_torch(f"Trainers of {model.name}")
    learner = loaded(LEARNERS[model.name])
    row_bytes, fixed = learner.row_bytes(model) + ROW_BYTES, learner.fixed_bytes(model)
    # A power of two: the hash table has just twice as many places.
    types = 1 << max(0, (int(memory_bytes * TYPES_SHARE) // TYPE_BYTES).bit_length() - 1)
    rows = max(0, int(memory_bytes * (1 - TYPES_SHARE)) - fixed) // row_bytes
    if rows < 1000:
        least = 1300 * row_bytes + fixed * 4 // 3
        raise InputError(
            f"memory has room for {rows:,} vectors of dim {model.dim} only; give it {least // 10**6 + 1}MB or more."
        )
    # Twice as many are counted as have a row: then the rarest of those that are counted have none.
    return Budget(types, min(rows, types // 2, 2**31 - 2))


def make_learner(request: Request, room: Budget) -> StreamLearner:
    """Of this host."""
    model, seed = request.spec.model, request.spec.run.seed
    learner: StreamLearner = loaded(LEARNERS[model.name])(
        model, max_rows=room.max_rows, threads=request.threads, seed=seed
    )
    return learner


def check_model(model: StreamModel, hosts: StreamAgreement) -> None:
    """InputError unless a model can be trained so by several hosts."""
    if model.is_dense:
        if hosts.sync not in ("sync", "bounded", "async"):
            raise InputError(
                f"The trainers of {model.name} agree on gradients at every step, so --sync must be sync, bounded or "
                f"async, got {hosts.sync!r}."
            )
    elif hosts.sync == "dense" and loaded(LEARNERS[model.name]).fixed_tables:
        raise InputError(
            f"With sync dense the tables of words go round whole, and {model.name} has rows beside them; give it sync, "
            "bounded, async or a merge rule."
        )
