"""Text that never ends, with known answers: what a stream's statistics and vectors should find, and how much of it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from any2vec.checks import MAX_SEED, check_number, check_whole
from any2vec.data.io.storage import atomic_file
from any2vec.errors import InputError
from any2vec.kernels.common.rng import stream_key
from any2vec.kernels.text import planted_text as kernels
from any2vec.kernels.text.lines import hash_numbers
from any2vec.sources.base.cutter import LineBatch, Position
from any2vec.sources.base.pump import MOMENT, Batches
from any2vec.sources.base.source import PacedSource

SUFFIXES = ("", "ed", "er", "ing", "ly", "ness", "ous", "um")
"""of stems; the first one is the stem itself"""
MOST_LINES = 1 << 40
_CHUNK = 2048


class PlantedStream:
    """Lines that are made when asked for; any range alone, by any thread, always the same.

    - Words that never stop: a general word has rank r or more with probability ((r + head) / (1 + head))**(1 - zipf),
      so ranks fall as Zipf-Mandelbrot's with exponent `zipf`, and n of them hold about n**(1 / zipf) types (Heaps).
    - Topics: each line has one, equally often; `topic_share` of its words are that topic's own: these are neighbors.
    - Drift: drifter d is a word in lines of topic d, and from line `drift_at` on of topic (d + topics // 2) % topics.
    - Morphology: stem s, with or without a suffix, is a word in lines of topic s % topics; with one suffix of its own,
      never the empty one, it is never seen (`unseen`).
    - Repeats: that share of lines is equal to the line `repeat_distance` before it (or, where that is a repeat itself,
      to what would stand there else), and has its key.

    Deterministic, memory O(stems). Words of different kinds never coincide.

    Args:
        seed: 0..2**63 - 1.
        words_per_line: 1..1,000.
        zipf: 1.05..5.
        head: 0..1e6; the larger, the flatter the most frequent words.
        topics: 1..100,000.
        topic_words: of each topic, 1..100,000; word k of K comes with probability sqrt((k + 1) / K) - sqrt(k / K).
        topic_share, form_share, drift_share: of the words of a line (whose topic has any), at most 1 together.
        stems: 0..100,000.
        suffixes: two or more different ones of lower-case letters, 12 at most; the first one is empty.
        drifters: 0..topics.
        drift_at: line, 0..2**40.
        repeat_share: of lines, 0..1.
        repeat_distance: lines, 1..2**40.

    Raises:
        InputError: one is not legal.
    """

    def __init__(
        self,
        *,
        seed: int = 1,
        words_per_line: int = 20,
        zipf: float = 1.7,
        head: float = 20.0,
        topics: int = 50,
        topic_words: int = 40,
        topic_share: float = 0.5,
        stems: int = 0,
        suffixes: Sequence[str] = SUFFIXES,
        form_share: float = 0.0,
        drifters: int = 0,
        drift_at: int = 0,
        drift_share: float = 0.0,
        repeat_share: float = 0.0,
        repeat_distance: int = 1,
    ) -> None:
        check_whole("seed", seed, 0, MAX_SEED)
        check_whole("words_per_line", words_per_line, 1, 1000)
        check_number("zipf", zipf, 1.05, 5)
        check_number("head", head, 0, 1e6)
        check_whole("topics", topics, 1, 100_000)
        check_whole("topic_words", topic_words, 1, 100_000)
        check_whole("stems", stems, 0, 100_000)
        check_whole("drifters", drifters, 0, topics)
        check_whole("drift_at", drift_at, 0, MOST_LINES)
        check_whole("repeat_distance", repeat_distance, 1, MOST_LINES)
        for name, share in (("topic_share", topic_share), ("form_share", form_share), ("drift_share", drift_share)):
            check_number(name, share, 0, 1)
        check_number("repeat_share", repeat_share, 0, 1)
        is_sound = all(part.isascii() and part.islower() and len(part) <= 12 for part in suffixes[1:])
        if len(suffixes) < 2 or suffixes[0] or not is_sound or len({*suffixes}) < len(suffixes):
            raise InputError(
                f"suffixes must be the empty one and then others of lower-case letters, 12 at most, got {suffixes!r}."
            )
        if topic_share + form_share + drift_share > 1:
            raise InputError("topic_share, form_share and drift_share must be at most 1 together.")
        self.seed, self.words_per_line, self.topics, self.drift_at = seed, words_per_line, topics, drift_at
        self.stems = _make_stems(seed, stems)
        """the S stems"""
        self._topic_words = topic_words
        self._suffixes = tuple(suffixes)
        self._held_S = np.arange(stems, dtype=np.int64) % (len(suffixes) - 1) + 1
        letters = [part.encode() for part in (*self.stems, *suffixes)]
        self._planted = kernels.Planted(
            key=stream_key(seed, kernels.PURPOSE_WORDS),
            repeat_key=stream_key(seed, kernels.PURPOSE_REPEATS),
            words=words_per_line,
            exponent=-1.0 / (zipf - 1.0),
            head=float(head),
            topics=topics,
            topic_words=topic_words,
            topic_share=float(topic_share),
            form_share=float(form_share),
            drift_share=float(drift_share),
            drifters=drifters,
            drift_at=drift_at,
            repeat_share=float(repeat_share),
            repeat_distance=repeat_distance,
            stems=stems,
            letters_A=np.frombuffer(b"".join(letters), np.uint8),
            stop_SF=np.cumsum([len(part) for part in letters]).astype(np.int64),
            held_S=self._held_S,
        )

    # ---- what a learner sees ----------------------------------------------------------------------------------------

    def batch(self, start: int, stop: int, number: int = 0) -> LineBatch:
        """Lines [start, stop), as source `number` would give them: 0 <= start <= stop <= 2**40, else InputError.

        A line's number is its place; its key is that of its content; the position is {"line": stop}.
        """
        if not 0 <= start <= stop <= MOST_LINES:
            raise InputError(f"Lines need 0 <= start <= stop <= {MOST_LINES:,}, got {start:,} and {stop:,}.")
        content_N, stop_N = np.empty(stop - start, np.int64), np.empty(stop - start, np.int64)
        key_N = np.empty(stop - start, np.uint64)
        text_B = np.empty((stop - start) * self.words_per_line * kernels.LONGEST_WORD, np.uint8)
        kernels.fill_contents(self._planted, start, content_N)
        used = kernels.fill_lines(self._planted, content_N, text_B, stop_N)
        hash_numbers(content_N, self._planted.key, key_N)
        offset_N = np.arange(start, stop, dtype=np.int64)
        return LineBatch(number, text_B[:used].copy(), stop_N, key_N, offset_N, {"line": stop})

    def text(self, start: int, stop: int) -> bytes:
        """The same as bytes, each line with its line feed."""
        return self.batch(start, stop).text_B.tobytes()

    def write(self, path: Path, start: int, stop: int) -> None:
        """The same as a file, whole or not at all. StorageError: it cannot be written."""
        with atomic_file(path) as temporary, temporary.open("wb") as file:
            for begin in range(start, stop, _CHUNK):
                file.write(self.text(begin, min(begin + _CHUNK, stop)))

    # ---- what is known ----------------------------------------------------------------------------------------------

    def general_word(self, rank: int) -> str:
        """The general word of a rank, 1 and up."""
        return _spelled(rank - 1)

    def topic_words(self, topic: int) -> list[str]:
        """A topic's own words, the most frequent first."""
        return ["q" + _spelled(topic * self._topic_words + word) for word in range(self._topic_words)]

    def drifter(self, number: int) -> str:
        """A word that drifts."""
        return "z" + _spelled(number)

    def topic_of_drifter(self, number: int, line: int) -> int:
        """Whose words are around it there."""
        return number if line < self.drift_at else (number + self.topics // 2) % self.topics

    def forms(self, stem: int) -> list[str]:
        """The forms of a stem that are seen."""
        return [self.stems[stem] + part for place, part in enumerate(self._suffixes) if place != self._held_S[stem]]

    def unseen(self) -> list[tuple[str, str]]:
        """(a form that is never seen, its stem), one for each stem."""
        return [
            (stem + self._suffixes[held], stem) for stem, held in zip(self.stems, self._held_S.tolist(), strict=True)
        ]


def _spelled(number: int) -> str:
    text_B = np.empty(kernels.LONGEST_WORD, np.uint8)
    return text_B[: kernels.spell(number, text_B, 0)].tobytes().decode()


def _make_stems(seed: int, stems: int) -> list[str]:
    """So many different ones: more are drawn than are needed, and those that came before are left out."""
    letters_S6 = np.empty((stems + stems // 2 + 16, 6), np.uint8)
    kernels.fill_stems(stream_key(seed, kernels.PURPOSE_STEMS), letters_S6)
    found = list(dict.fromkeys(row.tobytes().decode() for row in letters_S6))
    return found[:stems]


class PlantedSource(PacedSource):
    """Lines [first, stop) of a planted stream. Position: `line`.

    Args:
        number: of the run's sources, which.
        rate: lines a second at most; None: as fast as they are taken.
        lines: of a batch at most; with a rate, also a twentieth of a second's worth.
    """

    def __init__(
        self,
        stream: PlantedStream,
        *,
        name: str = "planted",
        number: int = 0,
        first: int = 0,
        stop: int = MOST_LINES,
        rate: float | None = None,
        lines: int = 512,
    ) -> None:
        super().__init__(name, rate)
        self._stream, self._number = stream, number
        self._first, self._stop = first, stop
        self._lines = lines if rate is None else max(1, min(lines, int(rate / 20)))
        self._flows = threading.Event()
        self._flows.set()

    def stall(self) -> None:
        """Give nothing more until `flow`."""
        self._flows.clear()

    def flow(self) -> None:
        """Go on."""
        self._flows.set()

    def close(self) -> None:
        super().close()
        self._flows.set()

    def _batches(self, position: Position | None) -> Batches:
        line = self._first if position is None else int(position["line"])
        while line < self._stop and not self._is_closed:
            if not self._flows.wait(MOMENT):
                self._tally.state = "waiting"
                yield None
                continue
            if self._is_closed:
                break
            self._tally.state = "reading"
            batch = self._stream.batch(line, min(line + self._lines, self._stop), self._number)
            line += len(batch)
            self._tally.lines += len(batch)
            self._tally.bytes += batch.text_B.size
            yield batch
        self._tally.state = "closed" if self._is_closed else "ended"
