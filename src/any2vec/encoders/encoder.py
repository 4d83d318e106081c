"""Subword encoders, which compute the vector of any word from its characters; reads the one that a result has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, ClassVar, Protocol

import numpy as np

from any2vec.errors import FormatError, InputError

ENCODERS = {"ngram": ("ngrams", "NGramEncoder"), "char-lstm": ("char_lstm", "CharLstmEncoder")}
"""kind -> (module below any2vec.encoders, its class)"""


class SubwordEncoder(Protocol):
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


def make_possible(encoder: SubwordEncoder, words: Iterable[str]) -> tuple[dict[str, int], np.ndarray]:
    """(the rows of those words that have a vector, the vectors, float32 (M, D)); one too short for an n-gram has none.

    words: each once.
    """
    row_of: dict[str, int] = {}
    vectors = [np.empty((0, encoder.dim), np.float32)]
    for word in words:
        with suppress(InputError):
            vectors.append(encoder.make([word]))
            row_of[word] = len(row_of)
    return row_of, np.concatenate(vectors)


def metadata_of(encoder: SubwordEncoder) -> dict[str, Any]:
    """The entry of an encoder in meta.json."""
    return {"kind": encoder.kind, "file": encoder.file, **encoder.options()}


def read_encoder(metadata: object, arrays: Mapping[str, np.ndarray], dim: int) -> SubwordEncoder:
    """The encoder that `metadata_of` and `arrays` describe, for vectors of `dim` numbers.

    Raises:
        FormatError: this version does not know the encoder, or its parts do not fit together.
    """
    kind = metadata.get("kind") if isinstance(metadata, dict) else None
    if not isinstance(kind, str) or kind not in ENCODERS:
        raise FormatError(f"meta.json names an encoder {kind!r}; this any2vec knows {', '.join(ENCODERS)}.")
    assert isinstance(metadata, dict)
    module, name = ENCODERS[kind]
    options = {key: value for key, value in metadata.items() if key not in ("kind", "file")}
    try:
        encoder: SubwordEncoder = getattr(import_module(f"any2vec.encoders.{module}"), name).of(options, arrays)
    except (LookupError, TypeError, ValueError) as error:
        raise FormatError(f"The subword encoder of this folder is damaged: {type(error).__name__}: {error}.") from error
    if encoder.dim != dim:
        raise FormatError(f"The subword encoder of this folder makes {encoder.dim} numbers, the vectors have {dim}.")
    return encoder
