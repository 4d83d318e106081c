"""Blocks of bytes become lines with keys, and keys those that are new: what stands between a source and words.

Letters: B bytes of a block, N lines, W keys that are remembered, S slots of their table.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.rng import mix64

NUM_LINES, USED, TOO_LONG, WITH_NUL, NOT_UTF8 = range(5)
FOUND_SIZE = 5
"""fields of what `cut_lines` says, int64 (FOUND_SIZE,): lines and bytes written, lines left out (two), kept as is"""

_NEWLINE, _RETURN = 10, 13
_ZERO = np.uint64(0)


@jit
def cut_lines(
    block_B: np.ndarray,
    begin: int,
    look: int,
    stop: int,
    offset: int,
    most: int,
    key: np.uint64,
    is_by_text: bool,
    text_B: np.ndarray,
    stop_N: np.ndarray,
    key_N: np.ndarray,
    offset_N: np.ndarray,
    found: np.ndarray,
) -> int:
    """Copy the whole lines of block_B[begin:stop] to text_B, each with its line feed; return where the rest begins.

    block_B uint8; the first `look - begin` bytes are known to hold no line feed; `offset` is the number of the byte at
    `begin` in its stream. A line of white space alone is left out; one of more than `most` bytes before its line feed,
    or with a NUL byte, is left out and counted. A line feed may have a carriage return before it. A key is
    `mix64(key ^ offset of the line)`, or (is_by_text) the hash of the line's bytes as in `hash_strings.hash_rows`.
    Stops when the N lines are full; text_B holds stop - begin bytes.
    """
    lines = used = too_long = with_nul = not_utf8 = 0
    while lines < stop_N.size:
        end = look
        while end < stop and block_B[end] != _NEWLINE:
            end += 1
        if end == stop:
            break
        first = begin
        begin = look = end + 1
        if end - first > most:
            too_long += 1
            continue
        last = end - 1 if end > first and block_B[end - 1] == _RETURN else end
        highest, nuls, letters = np.int64(0), 0, 0
        for at in range(first, last):
            byte = np.int64(block_B[at])
            text_B[used + at - first] = block_B[at]
            highest |= byte
            nuls += byte == 0
            letters += byte != 32 and not 9 <= byte <= 13
        if nuls:
            with_nul += 1
            continue
        if letters == 0:
            continue
        if highest >= 128:
            at = first
            while at < last:  # RFC 3629, section 4
                byte = np.int64(block_B[at])
                follow = 0
                low, high = 0x80, 0xBF
                if byte >= 0x80:
                    if 0xC2 <= byte <= 0xDF:
                        follow = 1
                    elif 0xE0 <= byte <= 0xEF:
                        follow = 2
                        low = 0xA0 if byte == 0xE0 else 0x80
                        high = 0x9F if byte == 0xED else 0xBF
                    elif 0xF0 <= byte <= 0xF4:
                        follow = 3
                        low = 0x90 if byte == 0xF0 else 0x80
                        high = 0x8F if byte == 0xF4 else 0xBF
                    else:
                        break
                    if at + follow >= last:
                        break
                    is_right = low <= block_B[at + 1] <= high
                    for more in range(2, follow + 1):
                        is_right &= (block_B[at + more] & 0xC0) == 0x80
                    if not is_right:
                        break
                at += 1 + follow
            not_utf8 += at < last
        size = last - first
        if is_by_text:
            code = mix64(np.uint64(size))
            at = used
            while at < used + size:
                eight = _ZERO
                for place in range(min(8, used + size - at)):
                    eight |= np.uint64(text_B[at + place]) << np.uint64(8 * place)
                code = mix64(code ^ eight)
                at += 8
        else:
            code = mix64(key ^ np.uint64(offset + first))
        text_B[used + size] = _NEWLINE
        used += size + 1
        stop_N[lines] = used
        key_N[lines] = code
        offset_N[lines] = offset + first
        lines += 1
    found[NUM_LINES] = lines
    found[USED] = used
    found[TOO_LONG] += too_long
    found[WITH_NUL] += with_nul
    found[NOT_UTF8] += not_utf8
    return begin


@jit
def hash_lines(text_B: np.ndarray, stop_N: np.ndarray, salt: np.uint64, key_N: np.ndarray) -> None:
    """key_N uint64 (N,) = the hash of text n's bytes, text_B[stop_N[n - 1] : stop_N[n]], all exclusive-ored with salt.

    The hash of `hash_strings.hash_rows`; with a salt that is not 0, mixed once more.
    """
    begin = np.int64(0)
    for line in range(stop_N.size):
        stop = stop_N[line]
        code = mix64(np.uint64(stop - begin))
        at = begin
        while at < stop:
            eight = _ZERO
            for place in range(min(8, stop - at)):
                eight |= np.uint64(text_B[at + place]) << np.uint64(8 * place)
            code = mix64(code ^ eight)
            at += 8
        key_N[line] = code if salt == _ZERO else mix64(code ^ salt)
        begin = stop


@jit
def hash_numbers(number_N: np.ndarray, key: np.uint64, key_N: np.ndarray) -> None:
    """key_N uint64 (N,) = mix64(key ^ number_N), number_N int64: `cut_lines`'s keys of lines by their offsets."""
    for line in range(number_N.size):
        key_N[line] = mix64(key ^ np.uint64(number_N[line]))


@jit
def mark_fresh(
    key_N: np.ndarray, ring_W: np.ndarray, count: int, slots_S: np.ndarray, is_fresh_N: np.ndarray
) -> np.int64:
    """is_fresh_N = whether a key is not among the last W fresh ones before it, which it then joins; the new count.

    ring_W uint64: fresh key number i lies at i mod W; count: fresh keys ever. slots_S uint32, S a power of two and at
    least 2 W: 0, or 1 + the place in the ring of a key that hashes there (linear probing; the oldest key leaves by
    shifting back what stands behind it: Knuth, The Art of Computer Programming 3, 6.4, algorithm R).
    """
    window, mask = ring_W.size, np.int64(slots_S.size - 1)
    for n in range(key_N.size):
        key = key_N[n]
        slot = np.int64(mix64(key)) & mask
        is_there = False
        while slots_S[slot] != 0:
            if ring_W[np.int64(slots_S[slot]) - 1] == key:
                is_there = True
                break
            slot = (slot + 1) & mask
        is_fresh_N[n] = not is_there
        if is_there:
            continue
        place = count % window
        if count >= window:
            gap = np.int64(mix64(ring_W[place])) & mask
            while np.int64(slots_S[gap]) != place + 1:
                gap = (gap + 1) & mask
            behind = gap
            while True:
                behind = (behind + 1) & mask
                if slots_S[behind] == 0:
                    break
                home = np.int64(mix64(ring_W[np.int64(slots_S[behind]) - 1])) & mask
                if ((behind - home) & mask) >= ((behind - gap) & mask):
                    slots_S[gap] = slots_S[behind]
                    gap = behind
            slots_S[gap] = 0
            slot = np.int64(mix64(key)) & mask
            while slots_S[slot] != 0:
                slot = (slot + 1) & mask
        ring_W[place] = key
        slots_S[slot] = np.uint32(place + 1)
        count += 1
    return np.int64(count)
