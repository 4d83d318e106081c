"""Texts that an encoder may meet, and a writer that keeps what it makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

WHITE = [char for char in map(chr, range(0x110000)) if char.isspace()]


class MemoryWriter:
    """Stands in for `CorpusWriter`, without a disk."""

    def __init__(self) -> None:
        self.parts: list[np.ndarray] = []

    def append(self, tokens: np.ndarray) -> None:
        self.parts.append(tokens.copy())

    def remap(self, rank: np.ndarray) -> None:
        tokens = np.concatenate(self.parts)
        self.parts = [np.where(tokens < 0, -1, rank[tokens]).astype(np.int32)]

    def finish(self, keys: Any, counts: np.ndarray, meta: dict[str, Any]) -> Any:
        return self.parts[0].tolist(), list(keys), counts.tolist()


texts = st.lists(
    st.one_of(
        st.sampled_from(
            ["the", "a", "of", "Straße", "ΟΔΟΣ", "İ", "naïve", "exactly7", "sevenbt", "a" * 40, "ß", "x\x01y"]
        ),
        st.sampled_from(["\n", " ", "\r\n", "\t", *WHITE]),
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12),
    ),
    max_size=60,
).map("".join)
garbage = st.lists(
    st.one_of(
        st.binary(max_size=5), texts.map(str.encode), st.sampled_from([b"\xe2", b"\xe2\x80", b"\xc2", b"\xe3\x80"])
    ),
    max_size=12,
).map(b"".join)
