"""The vocabulary of a text that lies in parts on several hosts: counted together, ranked as one host would rank it.

Rank 0 receives the words of one part after another, each in the order of their first uses there. So it meets new words
in the order of their first uses in the whole text, by which ties in count are ranked. It holds the union of all words,
the others their own and, for a moment, 4 bytes for each word of the union; what is kept of the vocabulary goes to all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport, control
from any2vec.data.io.files import fingerprint
from any2vec.data.io.storage import atomic_file
from any2vec.data.text.corpus import Corpus
from any2vec.data.text.encoder import WORD_END, WordEncoder, exact_classes
from any2vec.data.vocab.vocabulary import Keys, Vocabulary, open_array
from any2vec.errors import FormatError
from any2vec.kernels.text import tokens as kernel

PHASE = "vocabulary"
_BLOCK_WORDS = 1 << 16
"""words of one message"""
_BLOCK_TOKENS = 1 << 20


class SharedVocabulary(NamedTuple):
    """What a host knows of the vocabulary of the whole text."""

    kept: Vocabulary
    """the first rows, as `Vocabulary.truncate` leaves them"""
    num_types: int
    """of the whole text"""
    digest: str
    """fingerprint of all keys and counts"""
    rows: np.ndarray
    """int32 (T,): the row, in the whole vocabulary, of each word of this host's own"""


def count_together(
    transport: Transport, own: Vocabulary, tokens: np.ndarray, min_count: int, max_vocab: int | None
) -> SharedVocabulary:
    """One vocabulary of the parts of all hosts: a collective call.

    own: the words and counts of this host's part; tokens: int32, the part, by rows of `own`. Deterministic.

    Raises:
        InputError: as `Vocabulary.truncate`.
        HostError: a host is lost.
    """
    order_T = kernel.first_uses(np.asarray(tokens), len(own))
    number_T = np.empty(len(own), np.int32)
    if transport.rank == 0:
        union = _Union()
        number_T[order_T] = np.concatenate([union.add(*block) for block in _blocks(own, order_T)])
        for peer in range(1, transport.hosts):
            _receive(transport, peer, union)
        parts = _summed_up(union, min_count, max_vocab)
    else:
        number_T[order_T] = _announce(transport, own, order_T)
        parts = []
    rank, arena, offsets, counts, digest, sizes = (part.array for part in transport.share(parts, PHASE))
    kept = Vocabulary(Keys(arena, offsets, own.keys.are_integers), counts)
    return SharedVocabulary(kept, int(sizes[0]), digest.tobytes().hex(), rank[number_T])


class _Ranks:
    """Stands where a `CorpusWriter` stands, and keeps what an encoder writes to it: numbers, ranks, the vocabulary."""

    def __init__(self) -> None:
        self.numbers: list[np.ndarray] = []
        self.rank = np.empty(0, np.int32)
        self.vocabulary = Vocabulary.from_keys([], [])

    def append(self, numbers: np.ndarray) -> None:
        """Numbers, int32, of the words that were fed."""
        self.numbers.append(numbers.copy())

    def remap(self, rank: np.ndarray) -> None:
        """The row of each number, int32 (N,)."""
        self.rank = rank

    def finish(self, keys: Keys, counts: np.ndarray, meta: dict[str, Any]) -> None:
        """The vocabulary, ranked."""
        self.vocabulary = Vocabulary(keys, counts)


class _Union:
    """The words of all parts so far, numbered as they came, with their counts."""

    def __init__(self) -> None:
        self._ranks = _Ranks()
        self._encoder = WordEncoder(self._ranks, exact_classes())  # type: ignore[arg-type]

    def add(self, keys: Keys, counts: np.ndarray) -> np.ndarray:
        """Take in different words and their counts, int64 (W,); their numbers, int32 (W,)."""
        if len(keys) == 0:
            return np.empty(0, np.int32)
        self._encoder.feed(np.insert(keys.arena, keys.offsets[1:], WORD_END[0]).tobytes())
        numbers = np.concatenate(self._ranks.numbers)
        self._ranks.numbers.clear()
        self._encoder.counts[numbers] += counts - 1  # the encoder has counted each once
        return numbers

    def ranked(self) -> tuple[np.ndarray, Vocabulary]:
        """(the row of each number, int32 (N,); the vocabulary), by count and then by number. Once, at the end."""
        self._encoder.finish({})
        return self._ranks.rank, self._ranks.vocabulary


def _blocks(own: Vocabulary, order_T: np.ndarray) -> Iterator[tuple[Keys, np.ndarray]]:
    """(words, counts) in the order of their first uses, block by block, at least one."""
    lengths_T = np.diff(own.keys.offsets).astype(np.int32)
    for first in range(0, max(1, len(order_T)), _BLOCK_WORDS):
        rows = order_T[first : first + _BLOCK_WORDS]
        packed, offsets = np.empty(int(lengths_T[rows].sum()), np.uint8), np.zeros(len(rows) + 1, np.int64)
        starts = np.asarray(own.keys.offsets[rows])
        kernel.pack_words(np.asarray(own.keys.arena), starts, lengths_T[rows], packed, offsets)
        yield Keys(packed, offsets), np.asarray(own.counts[rows])


def _announce(transport: Transport, own: Vocabulary, order_T: np.ndarray) -> np.ndarray:
    """Tell rank 0 this host's words when it is its turn; their numbers, int32 (T,)."""
    transport.recv(0, PHASE)
    numbers: list[np.ndarray] = []
    for keys, counts in _blocks(own, order_T):
        is_last = len(numbers) == (max(1, len(order_T)) - 1) // _BLOCK_WORDS
        said = [control(is_last), Part("dense", keys.arena), Part("dense", keys.offsets), Part("dense", counts)]
        transport.send(0, said, PHASE)
        numbers.append(transport.recv(0, PHASE).parts[0].array)
    return np.concatenate(numbers)


def _receive(transport: Transport, peer: int, union: _Union) -> None:
    """Receive the words of one host at a time, to save memory, and answer with their numbers."""
    transport.send(peer, (), PHASE)
    is_last = False
    while not is_last:
        last, arena, offsets, counts = (part.array for part in transport.recv(peer, PHASE).parts)
        transport.send(peer, [Part("dense", union.add(Keys(arena, offsets), counts))], PHASE)
        is_last = bool(last[0])


def _summed_up(union: _Union, min_count: int, max_vocab: int | None) -> list[Part]:
    """The parts of the vocabulary that are sent to all hosts."""
    rank, whole = union.ranked()
    kept = whole.truncate(min_count, max_vocab)
    digest = np.frombuffer(bytes.fromhex(fingerprint(whole.keys.arena, whole.counts)), np.uint8)
    arrays = (rank, kept.keys.arena, kept.keys.offsets, kept.counts)
    parts = [Part("dense", np.ascontiguousarray(array)) for array in arrays]
    return [*parts, Part("control", digest), Part("control", np.array([len(whole)], np.int64))]


def renamed_tokens(corpus: Corpus, row_T: np.ndarray) -> np.ndarray:
    """The tokens of a part by rows of the whole vocabulary: int32, memory-mapped from a file beside the part's corpus.

    row_T: int32 (T,), the row of each of its words. The part's own corpus stays as it is, for its rows serve other
    runs, whose other parts differ; the file is found again by the rows. O(block) memory.

    Raises:
        StorageError: the file cannot be written.
    """
    if np.array_equal(row_T, np.arange(len(row_T))):
        return corpus.tokens
    name = f"{corpus.path.name}.{fingerprint(row_T)}"
    path = corpus.path.parent / f"{name}.npy"
    if not _fits(path, len(corpus.tokens)):
        with atomic_file(path) as temporary, temporary.open("wb") as file:
            about = {"descr": "<i4", "fortran_order": False, "shape": corpus.tokens.shape}
            np.lib.format.write_array_header_1_0(file, about)
            for first in range(0, len(corpus.tokens), _BLOCK_TOKENS):
                block = np.array(corpus.tokens[first : first + _BLOCK_TOKENS])
                kernel.remap(block, row_T)
                file.write(block.data)
    return open_array(path.parent, name, np.int32)


def _fits(path: Path, num_slots: int) -> bool:
    """Whether a file holds so many tokens."""
    try:
        return path.is_file() and len(open_array(path.parent, path.stem, np.int32)) == num_slots
    except FormatError:
        return False
