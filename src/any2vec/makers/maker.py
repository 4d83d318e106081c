"""What a maker of vectors is, and the one door from what a result keeps to its maker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, Protocol

import numpy as np

from any2vec.errors import FormatError

MAKERS = {"ngram": ("ngrams", "NGramMaker"), "char-lstm": ("char_lstm", "CharLstmMaker")}
"""kind -> (module below any2vec.makers, its class)"""


class WordMaker(Protocol):
    """Makes vectors of words from their characters."""

    kind: ClassVar[str]
    file: ClassVar[str]
    """where a result's folder keeps the arrays"""

    @property
    def dim(self) -> int:
        """Numbers of a vector."""

    def make(self, words: Sequence[str]) -> np.ndarray:
        """Vectors of N words, float32 (N, D). InputError for one of which none can be made, such as the empty one."""

    def options(self) -> dict[str, Any]:
        """What is needed besides the arrays; JSON-ready."""

    def arrays(self) -> dict[str, np.ndarray]:
        """What the file holds."""


def facts_of(maker: WordMaker) -> dict[str, Any]:
    """What meta.json says of a maker."""
    return {"kind": maker.kind, "file": maker.file, **maker.options()}


def read_maker(facts: object, arrays: Mapping[str, np.ndarray], dim: int) -> WordMaker:
    """The maker that `facts_of` and `arrays` tell of, for vectors of so many numbers.

    Raises:
        FormatError: it is none that this version knows, or they do not fit together.
    """
    kind = facts.get("kind") if isinstance(facts, dict) else None
    if kind not in MAKERS:
        raise FormatError(f"meta.json names a maker of vectors {kind!r}; this any2vec knows {', '.join(MAKERS)}.")
    assert isinstance(facts, dict)
    module, name = MAKERS[kind]
    options = {key: value for key, value in facts.items() if key not in ("kind", "file")}
    try:
        maker: WordMaker = getattr(import_module(f"any2vec.makers.{module}"), name).of(options, arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"What makes vectors of other words is damaged: {type(error).__name__}: {error}.") from error
    if maker.dim != dim:
        raise FormatError(f"What makes vectors of other words makes {maker.dim} numbers, the vectors have {dim}.")
    return maker
