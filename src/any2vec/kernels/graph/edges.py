"""Lines of an edge list become fields, integers and floats, a chunk of lines at a time.

Letters: B bytes of the text, L data lines of a chunk, C columns of a line that are kept, F fields.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit

_TAB, _LF, _CR, _SPACE, _QUOTE = 9, 10, 13, 32, 34
_EXACT_MANTISSA = 9007199254740992
_EXACT_TEN = 22
PARSED, FAILED = 0, 1


@jit
def find_fields(
    text_B: np.ndarray,
    start: int,
    delimiter: int,
    is_comment: np.ndarray,
    begins_LC: np.ndarray,
    ends_LC: np.ndarray,
    counts_L: np.ndarray,
    lines_L: np.ndarray,
) -> tuple[int, int]:
    """Cut data lines from byte `start` on into fields, until the text or the chunk ends.

    delimiter: a byte, or 0 for runs of spaces and tabs; is_comment: uint8 (256,), 1 for a byte that begins a comment
    line. The first C fields of each line go to begins and ends, int64 (L, C), spaces and double quotes around them
    stripped; counts int64 (L,) has the number of fields, empty ones at the end left out; lines int64 (L,) the byte
    where the line begins. Returns (data lines found, first byte not done).
    """
    at, size, found = start, text_B.size, 0
    while at < size and found < counts_L.size:
        line = at
        stop = at
        while stop < size and text_B[stop] != _LF:
            stop += 1
        at = stop + 1
        while stop > line and (
            text_B[stop - 1] == _CR or text_B[stop - 1] == _SPACE or (text_B[stop - 1] == _TAB and delimiter != _TAB)
        ):
            stop -= 1
        first = line
        while first < stop and (text_B[first] == _SPACE or (text_B[first] == _TAB and delimiter != _TAB)):
            first += 1
        if first == stop or is_comment[text_B[first]]:
            continue
        field, count = 0, 0
        while first <= stop:
            if delimiter == 0:
                while first < stop and (text_B[first] == _SPACE or text_B[first] == _TAB):
                    first += 1
                if first == stop:
                    break
            begin = first
            if delimiter != 0:
                while begin < stop and text_B[begin] == _SPACE:
                    begin += 1
                quoted = begin + 1
                if begin < stop and text_B[begin] == _QUOTE:
                    while quoted < stop and text_B[quoted] != _QUOTE:
                        quoted += 1
                    if quoted < stop:
                        first = quoted
                while first < stop and text_B[first] != delimiter:
                    first += 1
            else:
                while first < stop and text_B[first] != _SPACE and text_B[first] != _TAB:
                    first += 1
            end = first
            while end > begin and text_B[end - 1] == _SPACE:
                end -= 1
            if delimiter != 0 and end - begin >= 2 and text_B[begin] == _QUOTE and text_B[end - 1] == _QUOTE:
                begin += 1
                end -= 1
            if field < begins_LC.shape[1]:
                begins_LC[found, field] = begin
                ends_LC[found, field] = end
            field += 1
            if end > begin:
                count = field
            first += 1
        if count > 0:
            counts_L[found] = count
            lines_L[found] = line
            found += 1
    return found, at


@jit
def parse_integers(text_B: np.ndarray, begins_F: np.ndarray, ends_F: np.ndarray, out_F: np.ndarray) -> int:
    """int64 from plain decimals (no plus sign, no leading zeros, within int64); the first field that is none, or -1."""
    for field in range(begins_F.size):
        at, stop = begins_F[field], ends_F[field]
        is_negative = at < stop and text_B[at] == 45
        if is_negative:
            at += 1
        digits = stop - at
        if digits < 1 or digits > 19 or (text_B[at] == 48 and (digits > 1 or is_negative)):
            return field
        value = np.uint64(0)
        for place in range(at, stop):
            digit = np.int64(text_B[place]) - 48
            if digit < 0 or digit > 9:
                return field
            value = value * np.uint64(10) + np.uint64(digit)
        if value > np.uint64(9223372036854775807):
            return field
        out_F[field] = -np.int64(value) if is_negative else np.int64(value)
    return -1


@jit
def parse_floats(
    text_B: np.ndarray,
    begins_F: np.ndarray,
    ends_F: np.ndarray,
    powers: np.ndarray,
    out_F: np.ndarray,
    status_F: np.ndarray,
) -> None:
    """float64 from plain decimals; status is FAILED for those left to Python (long, odd, or no numbers at all).

    powers: float64 (23,), 10**0 to 10**22, all exact, as is a mantissa below 2**53: so one operation rounds once.
    """
    for field in range(begins_F.size):
        at, stop = begins_F[field], ends_F[field]
        status_F[field] = FAILED
        is_negative = at < stop and text_B[at] == 45
        if at < stop and (is_negative or text_B[at] == 43):
            at += 1
        mantissa, scale, digits = 0, 0, 0
        is_fraction = False
        while at < stop and digits < 18:
            byte = np.int64(text_B[at])
            if byte == 46 and not is_fraction:
                is_fraction = True
            elif 48 <= byte <= 57:
                mantissa = mantissa * 10 + (byte - 48)  # type: ignore[assignment]
                digits += 1
                scale += 1 if is_fraction else 0
            else:
                break
            at += 1
        if digits == 0 or mantissa > _EXACT_MANTISSA:
            continue
        exponent = 0
        if at < stop and (text_B[at] == 101 or text_B[at] == 69):
            at += 1
            sign = 1
            if at < stop and (text_B[at] == 45 or text_B[at] == 43):
                sign = -1 if text_B[at] == 45 else 1
                at += 1
            if at == stop or stop - at > 3:
                continue
            while at < stop and 48 <= text_B[at] <= 57:
                exponent = exponent * 10 + (np.int64(text_B[at]) - 48)  # type: ignore[assignment]
                at += 1
            exponent *= sign
        exponent -= scale
        if at != stop or abs(exponent) > _EXACT_TEN:
            continue
        value = np.float64(mantissa)
        value = value * powers[exponent] if exponent >= 0 else value / powers[-exponent]
        out_F[field] = -value if is_negative else value
        status_F[field] = PARSED


@jit
def copy_fields(
    text_B: np.ndarray, begins_F: np.ndarray, ends_F: np.ndarray, offsets: np.ndarray, arena: np.ndarray
) -> None:
    """Copy the fields one behind the other: offsets int64 (F + 1,) given, arena uint8 (offsets[F],) written."""
    for field in range(begins_F.size):
        shift = offsets[field] - begins_F[field]
        for place in range(begins_F[field], ends_F[field]):
            arena[place + shift] = text_B[place]
