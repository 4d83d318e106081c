"""Bytes and integers become provisional ids (by first appearance), counted: the whole of encoding but the reading.

Letters: B bytes of a block, E entries (words found in it), T types (distinct words), S slots of the hash table.
A word of at most 7 bytes is its own tag (packed, so never 0: words hold no NUL byte); a longer one is hashed to a tag
with the top bit set and compared in the arena, eight bytes at a time. Little-endian machines only, as all we know are.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.rng import mix64

LETTER, SPACE, END, LEAD = 0, 1, 2, 3
"""classes of a byte: part of a word, white space, end of a sentence, perhaps the first byte of Unicode white space"""
NUM_TYPES, ARENA_USED, WORDS_IN_SENTENCE, OUT_USED, TOO_LONG, ENTRIES = 0, 1, 2, 3, 4, 5
STATE_SIZE = 6
"""fields of the encoder's state, int64 (STATE_SIZE,)"""

_TOP = np.uint64(1 << 63)
_ZERO, _ONE, _2, _3, _7, _8, _32, _56, _63 = (np.uint64(value) for value in (0, 1, 2, 3, 7, 8, 32, 56, 63))
_LOW32 = np.uint64(0xFFFFFFFF)
_BELOW_SPACE = np.uint64(0x2121212121212121)
_HIGH_BITS = np.uint64(0x8080808080808080)
_BYTE_INDEX = np.uint64(0x0001020304050607)


# Helpers that loop over arrays are written out below: numba counts references (atomically) around each such call.


@jit
def white_length(first: int, second: int, third: int) -> np.uint64:
    """Bytes (2 or 3) of the Unicode white-space character that these bytes begin with, or 0; the set of str.isspace."""
    if first == 0xC2:
        return _2 if second == 0x85 or second == 0xA0 else _ZERO
    if first == 0xE2 and second == 0x80:
        is_white = (0x80 <= third <= 0x8A) or third == 0xA8 or third == 0xA9 or third == 0xAF
    elif first == 0xE2:
        is_white = second == 0x81 and third == 0x9F
    elif first == 0xE1:
        is_white = second == 0x9A and third == 0x80
    else:
        is_white = first == 0xE3 and second == 0x80 and third == 0x80
    return _3 if is_white else _ZERO


@jit
def load_eight(words_8: np.ndarray, at: np.uint64) -> np.uint64:
    """The 8 bytes from byte `at` (uint64) on, the first one lowest; words_8 is the block seen as uint64."""
    index, shift = at >> _3, (at & _7) << _3
    return (words_8[index] >> shift) | ((words_8[index + _ONE] << _ONE) << (_63 - shift))


@jit
def keep_bytes(eight: np.uint64, count: np.uint64) -> np.uint64:
    """The lowest `count` bytes (uint64, 0..7) of `eight`; the others become 0."""
    return eight & ((_ONE << (count << _3)) - _ONE)


@jit
def split_words(
    block_B: np.ndarray,
    stop: int,
    start: int,
    max_word: int,
    classes: np.ndarray,
    tags_E: np.ndarray,
    begins_E: np.ndarray,
    lengths_E: np.ndarray,
    state: np.ndarray,
) -> np.int64:
    """Find words in block_B[start:stop] until the entries are full; return the first byte not yet done.

    block_B uint8, 8-byte aligned, a separator at stop - 1 and at least 16 bytes more behind it, a multiple of 8 long;
    classes uint8 (256,), where bytes 33..127 are letters; an entry is a word's tag uint64 (0: end of a sentence that
    has words), its first byte int64 and its bytes int32; state[ENTRIES] says how many were made. A word of more than
    `max_word` bytes sets state[TOO_LONG].
    """
    words_8 = block_B.view(np.uint64)
    words = state[WORDS_IN_SENTENCE]
    entry = 0
    at, stop = np.uint64(start), np.uint64(stop)  # type: ignore[assignment]
    while at < stop and entry < tags_E.size:
        kind = classes[block_B[at]]
        if kind == SPACE:
            at += _ONE
            continue
        if kind == END:
            if words > 0:
                tags_E[entry] = _ZERO
                entry += 1
                words = 0
            at += _ONE
            continue
        if kind == LEAD:
            white = white_length(block_B[at], block_B[at + _ONE], block_B[at + _2])
            if white != _ZERO:
                at += white
                continue

        end = at  # eight bytes at a time; a closer look at bytes <= 32 and >= 128
        while True:
            eight = load_eight(words_8, end)
            stops = ((eight - _BELOW_SPACE) & ~eight) & _HIGH_BITS | (eight & _HIGH_BITS)
            if stops == _ZERO:
                end += _8
                continue
            lowest = stops & (~stops + _ONE)
            end += ((lowest >> _7) * _BYTE_INDEX) >> _56
            kind = classes[block_B[end]]
            if kind == SPACE or kind == END:  # noqa: SIM109
                break
            if kind == LEAD and white_length(block_B[end], block_B[end + _ONE], block_B[end + _2]) != _ZERO:
                break
            end += _ONE

        length = end - at
        last = length >> _3  # the chunk that is padded
        tag = keep_bytes(load_eight(words_8, at + (last << _3)), length & _7)
        if last != _ZERO:
            if length > max_word:
                state[TOO_LONG] = length
                break
            tag ^= length
            for chunk in range(last):
                tag = mix64(tag ^ load_eight(words_8, at + (np.uint64(chunk) << _3)))
            tag |= _TOP
        tags_E[entry] = tag
        begins_E[entry] = at
        lengths_E[entry] = length
        entry += 1
        words += 1
        at = end
    state[ENTRIES] = entry
    state[WORDS_IN_SENTENCE] = words
    return np.int64(at)


@jit
def encode_words(
    block_B: np.ndarray,
    tags_E: np.ndarray,
    begins_E: np.ndarray,
    lengths_E: np.ndarray,
    first: int,
    table_2S: np.ndarray,
    arena_8: np.ndarray,
    lengths_T: np.ndarray,
    counts_T: np.ndarray,
    out: np.ndarray,
    state: np.ndarray,
) -> int:
    """Append the ids of the entries from `first` on to `out` (int32); return the first entry not yet done.

    table_2S uint64: in turn a tag (0: empty) and id + (arena offset << 32); arena_8 uint64: the words one after
    another, each padded with 1 to 8 NUL bytes to chunks of 8; lengths_T int32 (bytes) and counts_T int64. Returns early
    when the table (half full), the arena or lengths_T have no room for a new word: the caller grows them and calls
    again. Apart from `split_words` because here the cache misses of many words can overlap.
    """
    words_8 = block_B.view(np.uint64)
    mask = np.uint64(table_2S.size // 2 - 1)
    max_types = min(table_2S.size // 4, counts_T.size)
    num_types = state[NUM_TYPES]
    arena_used = state[ARENA_USED]
    used = state[OUT_USED]
    entry = first
    while entry < state[ENTRIES]:
        tag = tags_E[entry]
        if tag == _ZERO:
            out[used] = -1
            used += 1
            entry += 1
            continue
        slot = mix64(tag) & mask
        row = -1
        while table_2S[slot << _ONE] != _ZERO:
            if table_2S[slot << _ONE] == tag:
                value = table_2S[(slot << _ONE) + _ONE]
                is_same = True
                if tag >= _TOP:
                    at, length = np.uint64(begins_E[entry]), np.uint64(lengths_E[entry])
                    offset, last = value >> _32, length >> _3
                    tail = keep_bytes(load_eight(words_8, at + (last << _3)), length & _7)
                    is_same = np.int64(offset + last) < arena_used and arena_8[offset + last] == tail
                    chunk = _ZERO
                    while is_same and chunk < last:
                        is_same = arena_8[offset + chunk] == load_eight(words_8, at + (chunk << _3))
                        chunk += _ONE
                if is_same:
                    row = np.int64(value & _LOW32)  # type: ignore[assignment]
                    break
            slot = (slot + _ONE) & mask
        if row < 0:
            at, length = np.uint64(begins_E[entry]), np.uint64(lengths_E[entry])
            last = length >> _3
            if num_types >= max_types or arena_used + np.int64(last) >= arena_8.size:
                break
            row = num_types
            num_types += 1
            table_2S[slot << _ONE] = tag
            table_2S[(slot << _ONE) + _ONE] = np.uint64(row) | (np.uint64(arena_used) << _32)
            for chunk in range(last):  # type: ignore[assignment]
                arena_8[arena_used] = load_eight(words_8, at + (np.uint64(chunk) << _3))
                arena_used += 1
            arena_8[arena_used] = keep_bytes(load_eight(words_8, at + (last << _3)), length & _7)
            arena_used += 1
            lengths_T[row] = length
            counts_T[row] = 0
        counts_T[row] += 1
        out[used] = row
        used += 1
        entry += 1
    state[NUM_TYPES] = num_types
    state[ARENA_USED] = arena_used
    state[OUT_USED] = used
    return entry


@jit
def encode_ids(
    ids: np.ndarray,
    start: int,
    table_2S: np.ndarray,
    ids_T: np.ndarray,
    counts_T: np.ndarray,
    out: np.ndarray,
    state: np.ndarray,
) -> int:
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
def rehash(old_2S: np.ndarray, new_2S: np.ndarray, num_types: int) -> None:
    """Move the `num_types` entries of `old_2S` (uint64, tag and id in turn) into the empty, larger `new_2S`.

    In the order of ids: words that came early are frequent, and the first one into a slot is found at once.
    """
    slots_T = np.empty(num_types, np.int64)
    for entry in range(0, old_2S.size, 2):
        if old_2S[entry] != _ZERO:
            slots_T[np.int64(old_2S[entry + 1] & _LOW32)] = entry
    mask = new_2S.size // 2 - 1
    for row in range(num_types):
        tag = old_2S[slots_T[row]]
        slot = np.int64(mix64(tag)) & mask
        while new_2S[2 * slot] != _ZERO:
            slot = (slot + 1) & mask
        new_2S[2 * slot] = tag
        new_2S[2 * slot + 1] = old_2S[slots_T[row] + 1]


@jit
def remap(tokens: np.ndarray, rank_T: np.ndarray) -> None:
    """Replace each id >= 0 in `tokens` int32 by rank_T[id] (int32), in place; ends of sentences stay."""
    for at in range(tokens.size):
        if tokens[at] >= 0:
            tokens[at] = rank_T[tokens[at]]


@jit
def first_uses(tokens: np.ndarray, num_types: int) -> np.ndarray:
    """The ids of `tokens` int32 in the order of their first uses, int32 (num_types,); each of them is used."""
    order_T = np.empty(num_types, np.int32)
    is_seen_T = np.zeros(num_types, np.uint8)
    found = 0
    for at in range(tokens.size):
        if found == num_types:
            break
        token = tokens[at]
        if token >= 0 and is_seen_T[token] == 0:
            is_seen_T[token] = 1
            order_T[found] = token
            found += 1
    return order_T[:found]


@jit
def pack_words(
    arena_B: np.ndarray, starts_T: np.ndarray, lengths_T: np.ndarray, packed: np.ndarray, offsets_T1: np.ndarray
) -> None:
    """Copy the words of `arena_B` uint8, of lengths_T int32 bytes from starts_T int64 on, one behind another.

    packed uint8 (sum of lengths,) and offsets_T1 int64 are written.
    """
    at = 0
    offsets_T1[0] = 0
    for row in range(starts_T.size):
        for byte in range(lengths_T[row]):
            packed[at] = arena_B[starts_T[row] + byte]
            at += 1
        offsets_T1[row + 1] = at


@jit
def count_tokens(tokens: np.ndarray, is_open: bool) -> tuple[int, int]:
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
