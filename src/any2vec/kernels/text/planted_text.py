"""Text with known answers, as bytes: any range of its lines alone, the same however it is cut.

Letters: B bytes, N lines, T topics, K words of a topic, D drifting words, S stems, F suffixes, A bytes of the stems'
letters. A line's words depend on the seed and the line's content number alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.rng import below, draw, mix64, unit

PURPOSE_WORDS, PURPOSE_REPEATS, PURPOSE_STEMS = 41, 42, 43
LONGEST_WORD = 24
"""bytes, with the space behind it"""
CONSONANTS = np.frombuffer(b"bcdfghjklmnprstv", np.uint8)
VOWELS = np.frombuffer(b"aeiou", np.uint8)
_SYLLABLES = 80
"""16 different consonants by 5 vowels"""
_MOST_RANK = float(1 << 40)
_32 = np.uint64(32)
_LOW32 = np.uint64(0xFFFFFFFF)
TOPIC_LETTER, DRIFT_LETTER = ord("q"), ord("z")


class Planted(NamedTuple):
    """What a line is made by."""

    key: np.uint64
    repeat_key: np.uint64
    words: int
    """of a line"""
    exponent: float
    """-1 / (Zipf's exponent - 1)"""
    head: float
    topics: int
    topic_words: int
    topic_share: float
    """of all words; so are the next two, of the lines whose topic has any"""
    form_share: float
    drift_share: float
    drifters: int
    drift_at: int
    """content number of the line from which on drifters are in their second topic"""
    repeat_share: float
    """of lines"""
    repeat_distance: int
    stems: int
    letters_A: np.ndarray
    """uint8: the stems, then the suffixes, one behind the other"""
    stop_SF: np.ndarray
    """int64 (S + F,): where each ends"""
    held_S: np.ndarray
    """int64: the suffix that a stem is never seen with"""


@jit
def fill_contents(planted: Planted, start: int, content_N: np.ndarray) -> None:
    """content_N int64 (N,): content numbers of the lines from `start` on; a repeat has that of an earlier one."""
    for n in range(content_N.size):
        line = start + n
        is_repeat = line >= planted.repeat_distance and (
            unit(draw(planted.repeat_key, np.uint64(line))) < planted.repeat_share
        )
        content_N[n] = line - planted.repeat_distance if is_repeat else line


@jit
def spell(number: int, text_B: np.ndarray, at: int) -> int:
    """Write a number >= 0 as syllables (bijective, the lowest first); where they end."""
    number += 1
    while number > 0:
        number -= 1
        syllable = number % _SYLLABLES
        text_B[at] = CONSONANTS[syllable // 5]
        text_B[at + 1] = VOWELS[syllable % 5]
        at += 2
        number //= _SYLLABLES
    return at


@jit
def fill_lines(planted: Planted, content_N: np.ndarray, text_B: np.ndarray, stop_N: np.ndarray) -> np.int64:
    """Write the lines with these content numbers, a space between words; return the bytes written.

    text_B uint8 (at least N * words * LONGEST_WORD,); stop_N int64 (N,): behind each line's line feed.
    """
    at = np.int64(0)
    step = np.uint64(2 * planted.words + 1)
    num_suffixes = planted.stop_SF.size - planted.stems
    for n in range(content_N.size):
        content = content_N[n]
        counter = np.uint64(content) * step
        topic = below(draw(planted.key, counter) & _LOW32, planted.topics)
        drifter = topic if content < planted.drift_at else (topic - planted.topics // 2) % planted.topics
        for _ in range(planted.words):
            first, second = draw(planted.key, counter + np.uint64(1)), draw(planted.key, counter + np.uint64(2))
            counter += np.uint64(2)
            kind, share = unit(first), unit(second)
            if kind < planted.topic_share:
                text_B[at] = TOPIC_LETTER
                word = topic * planted.topic_words + np.int64(planted.topic_words * share * share)
                at = spell(word, text_B, at + 1)
            elif kind < planted.topic_share + planted.form_share and topic < planted.stems:
                of_topic = (planted.stems - topic - 1) // planted.topics + 1
                stem = topic + planted.topics * below(second & _LOW32, of_topic)
                suffix = below(second >> _32, num_suffixes - 1)
                suffix += suffix >= planted.held_S[stem]
                for part in (stem, planted.stems + suffix):
                    begin = planted.stop_SF[part - 1] if part > 0 else 0
                    for letter in range(begin, planted.stop_SF[part]):
                        text_B[at] = planted.letters_A[letter]
                        at += 1
            elif (
                kind >= planted.topic_share + planted.form_share
                and kind < planted.topic_share + planted.form_share + planted.drift_share
                and drifter < planted.drifters
            ):
                text_B[at] = DRIFT_LETTER
                at = spell(drifter, text_B, at + 1)
            else:
                at_rank = (1.0 + planted.head) * (1.0 - share) ** planted.exponent - planted.head
                at = spell(np.int64(min(at_rank, _MOST_RANK)) - 1, text_B, at)
            text_B[at] = 32
            at += 1
        text_B[at - 1] = 10
        stop_N[n] = at
    return at


@jit
def fill_stems(key: np.uint64, letters_S6: np.ndarray) -> None:
    """uint8 (S, 6): stems, each twice a consonant, a vowel and a consonant. Two may be equal: draw more than needed."""
    for s in range(letters_S6.shape[0]):
        bits = mix64(draw(key, np.uint64(s)))
        for letter in range(6):
            size = 5 if letter % 3 == 1 else 16
            place = np.int64(bits % np.uint64(size))
            bits //= np.uint64(size)
            letters_S6[s, letter] = VOWELS[place] if letter % 3 == 1 else CONSONANTS[place]
