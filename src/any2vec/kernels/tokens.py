"""Bytes and integers become provisional ids (by first appearance), counted: the whole of encoding but the reading.

Letters: B bytes of a block, T types (distinct words), S slots of the hash table (a power of two).
A word of at most 7 bytes is its own tag (packed big-endian, so never 0: words hold no NUL byte); a longer one is hashed
to a tag with the top bit set and compared in the arena.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.jit import inline_jit, jit
from any2vec.kernels.rng import mix64

LETTER, SPACE, END, LEAD = 0, 1, 2, 3
"""classes of a byte: part of a word, white space, end of a sentence, perhaps the first byte of Unicode white space"""
NUM_TYPES, ARENA_USED, WORDS_IN_SENTENCE, OUT_USED, TOO_LONG = 0, 1, 2, 3, 4
STATE_SIZE = 5
"""fields of the encoder's state, int64 (STATE_SIZE,)"""

_SHORT = 7
_EIGHT = np.uint64(8)
_TOP = np.uint64(1 << 63)
_PRIME = np.uint64(0x100000001B3)
_BASIS = np.uint64(0xCBF29CE484222325)
_ZERO = np.uint64(0)


@inline_jit
def white_length(block_B, at):
    """Bytes (2 or 3) of the Unicode white-space character at `at` in `block_B` uint8, or 0; the set of str.isspace."""
    if at + 1 >= block_B.size:
        return 0
    first, second = block_B[at], block_B[at + 1]
    if first == 0xC2:
        return 2 if second == 0x85 or second == 0xA0 else 0
    if at + 2 >= block_B.size:
        return 0
    third = block_B[at + 2]
    if first == 0xE2 and second == 0x80:
        is_white = (0x80 <= third <= 0x8A) or third == 0xA8 or third == 0xA9 or third == 0xAF
    elif first == 0xE2:
        is_white = second == 0x81 and third == 0x9F
    elif first == 0xE1:
        is_white = second == 0x9A and third == 0x80
    else:
        is_white = first == 0xE3 and second == 0x80 and third == 0x80
    return 3 if is_white else 0


@inline_jit
def long_tag(block_B, start, stop):
    """The tag of a word of more than 7 bytes: FNV-1a over its bytes, mixed, top bit set."""
    tag = _BASIS
    for at in range(start, stop):
        tag = (tag ^ np.uint64(block_B[at])) * _PRIME
    return mix64(tag) | _TOP


@inline_jit
def is_word(block_B, start, stop, arena, offset):
    """Whether the word block_B[start:stop] is the one that begins at `offset` in the arena (of equal length)."""
    for at in range(stop - start):  # noqa: SIM110 (numba)
        if block_B[start + at] != arena[offset + at]:
            return False
    return True


@jit
def encode_block(block_B, start, max_word, classes, table_2S, arena, offsets_T1, counts_T, out, state):
    """Append the ids of the words of `block_B` from byte `start` on to `out`; return the first byte not yet done.

    block_B uint8, ends with a separator; classes uint8 (256,); table_2S uint64: tag and id in turn, tag 0 is empty;
    arena uint8: the words' bytes one after another; offsets_T1, counts_T int64; out int32, at least as long as what is
    left of block_B; state int64. Returns before the end when the table (half full), the arena or the offsets have no
    room for a new word: the caller grows them and calls again. A word of more than `max_word` bytes sets
    state[TOO_LONG].
    """
    mask = table_2S.size // 2 - 1
    max_types = min(table_2S.size // 4, counts_T.size)
    num_types = state[NUM_TYPES]
    used = state[OUT_USED]
    words = state[WORDS_IN_SENTENCE]
    at = start
    while at < block_B.size:
        kind = classes[block_B[at]]
        if kind == SPACE:
            at += 1
            continue
        if kind == END:
            if words > 0:
                out[used] = -1
                used += 1
                words = 0
            at += 1
            continue
        if kind == LEAD:
            length = white_length(block_B, at)
            if length > 0:
                at += length
                continue
        begin = at
        tag = _ZERO
        while at < block_B.size:
            byte = block_B[at]
            kind = classes[byte]
            if kind != LETTER and (kind != LEAD or white_length(block_B, at) > 0):
                break
            tag = (tag << _EIGHT) | np.uint64(byte)
            at += 1
        length = at - begin
        if length > _SHORT:
            if length > max_word:
                state[TOO_LONG] = length
                at = begin
                break
            tag = long_tag(block_B, begin, at)
        slot = np.int64(mix64(tag)) & mask
        row = -1
        while table_2S[2 * slot] != _ZERO:
            if table_2S[2 * slot] == tag:
                row = np.int64(table_2S[2 * slot + 1])
                if length <= _SHORT or (
                    offsets_T1[row + 1] - offsets_T1[row] == length
                    and is_word(block_B, begin, at, arena, offsets_T1[row])
                ):
                    break
                row = -1
            slot = (slot + 1) & mask
        if row < 0:
            if num_types >= max_types or state[ARENA_USED] + length > arena.size:
                at = begin
                break
            row = num_types
            num_types += 1
            table_2S[2 * slot] = tag
            table_2S[2 * slot + 1] = np.uint64(row)
            offset = state[ARENA_USED]
            for i in range(length):
                arena[offset + i] = block_B[begin + i]
            state[ARENA_USED] = offset + length
            offsets_T1[num_types] = offset + length
            counts_T[row] = 0
        counts_T[row] += 1
        out[used] = row
        used += 1
        words += 1
    state[NUM_TYPES] = num_types
    state[OUT_USED] = used
    state[WORDS_IN_SENTENCE] = words
    return at


@jit
def encode_ids(ids, start, table_2S, ids_T, counts_T, out, state):
    """The same for integers: ids int64, those below 0 end a sentence; ids_T int64 takes the distinct ones.

    The table's tag of an id is the id plus 1. Returns the first position not yet done.
    """
    mask = table_2S.size // 2 - 1
    max_types = min(table_2S.size // 4, counts_T.size)
    num_types = state[NUM_TYPES]
    used = state[OUT_USED]
    words = state[WORDS_IN_SENTENCE]
    at = start
    while at < ids.size:
        if ids[at] < 0:
            if words > 0:
                out[used] = -1
                used += 1
                words = 0
            at += 1
            continue
        tag = np.uint64(ids[at]) + np.uint64(1)
        slot = np.int64(mix64(tag)) & mask
        while table_2S[2 * slot] != _ZERO and table_2S[2 * slot] != tag:
            slot = (slot + 1) & mask
        if table_2S[2 * slot] == _ZERO:
            if num_types >= max_types:
                break
            table_2S[2 * slot] = tag
            table_2S[2 * slot + 1] = np.uint64(num_types)
            ids_T[num_types] = ids[at]
            counts_T[num_types] = 0
            num_types += 1
        row = np.int64(table_2S[2 * slot + 1])
        counts_T[row] += 1
        out[used] = row
        used += 1
        words += 1
        at += 1
    state[NUM_TYPES] = num_types
    state[OUT_USED] = used
    state[WORDS_IN_SENTENCE] = words
    return at


@jit
def rehash(old_2S, new_2S):
    """Move the entries of table `old_2S` (uint64, tag and id in turn) into the empty, larger `new_2S`."""
    mask = new_2S.size // 2 - 1
    for entry in range(0, old_2S.size, 2):
        tag = old_2S[entry]
        if tag != _ZERO:
            slot = np.int64(mix64(tag)) & mask
            while new_2S[2 * slot] != _ZERO:
                slot = (slot + 1) & mask
            new_2S[2 * slot] = tag
            new_2S[2 * slot + 1] = old_2S[entry + 1]


@jit
def remap(tokens, rank_T):
    """Replace each id >= 0 in `tokens` int32 by rank_T[id] (int32), in place; ends of sentences stay."""
    for at in range(tokens.size):
        if tokens[at] >= 0:
            tokens[at] = rank_T[tokens[at]]


@jit
def pack_words(arena, offsets_T1, order_T, packed, packed_offsets_T1):
    """Copy the words of `arena` (uint8) in the order `order_T` (int64) to `packed` uint8 and its offsets int64."""
    at = 0
    packed_offsets_T1[0] = 0
    for row in range(order_T.size):
        for byte in range(offsets_T1[order_T[row]], offsets_T1[order_T[row] + 1]):
            packed[at] = arena[byte]
            at += 1
        packed_offsets_T1[row + 1] = at


@jit
def count_tokens(tokens, is_open):
    """(ids, ended sentences) in `tokens` int32, where `is_open` says that a sentence is open before the first token."""
    num_tokens, num_sentences = 0, 0
    for at in range(tokens.size):
        if tokens[at] >= 0:
            num_tokens += 1
            is_open = True
        elif is_open:
            num_sentences += 1
            is_open = False
    return num_tokens, num_sentences
