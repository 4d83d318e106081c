"""Numbers as people read them: bytes, seconds, counts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from any2vec.errors import InputError

_HUGE = 1e12
"""from here on a number is shown by its power of ten"""
_QUANTITY = re.compile(
    r"((?:[1-9]\d{0,2}(?:[,_]\d{3})+|\d+)(?:\.\d+)?(?:e\d+)?)\s*(?:([kMGT])(i?))?(B(?:/s)?)?", re.IGNORECASE
)
_SUFFIXES = {"": ("",), "B": ("", "b"), "B/s": ("", "b", "b/s")}
MOST_BYTES = 10**18
"""that an option may ask for"""
_HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""control characters but tab and newline, marks that turn the direction of text, halves of surrogate pairs"""


def visible(text: str, *, is_json: bool = False) -> str:
    """Text of any origin for a terminal: what would steer it, or turn what it shows, is spelled out, as `\\x1b`.

    Names of files and words of data may hold sequences that write the clipboard, set a title or erase lines.

    is_json: it is JSON, and stays what it is.
    """
    return _HIDDEN.sub(
        lambda found: f"\\u{ord(found[0]):04x}" if is_json or found[0] > "\xff" else f"\\x{ord(found[0]):02x}", text
    )


def parts(values: Mapping[str, Any], spelled: Callable[[Any], str]) -> str:
    """What a sum is made of, in one line; zeros are left out."""
    return ", ".join(f"{name} {spelled(value)}" for name, value in values.items() if value)


def size(num_bytes: float | None) -> str:
    """Bytes in the unit that reads best, powers of 1 000: `1.23 GB`."""
    if num_bytes is None:
        return "unknown"
    for unit in ("B", "kB", "MB", "GB"):
        if abs(num_bytes) < 999.5:  # what rounds to 1,000 is one of the next unit
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.3g} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:,.0f} TB" if abs(num_bytes) >= 999.5 else f"{num_bytes:.3g} TB"


def duration(seconds: float | None) -> str:
    """`37 ms`, `0.8 s`, `42 s`, `3:05 min`, `2:03:05 h`."""
    if seconds is None or not math.isfinite(seconds):
        return "unknown"
    if 0 < seconds < 0.095:
        return f"{1000 * seconds:.2g} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d} h" if hours else f"{minutes}:{rest:02d} min"


def number(value: float | None, unit: str = "") -> str:
    """`1.23 M`, `17 k`, `1.85e34`: three digits are enough to read."""
    if value is None or not math.isfinite(value):
        return "unknown"
    rounded = abs(value) / 0.9995  # 999.7 reads as 1 k
    if rounded >= _HUGE:
        return f"{_power(value)} {unit}".rstrip()
    for prefix, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if rounded >= scale:
            return f"{value / scale:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}".rstrip()


def fraction(value: float) -> str:
    """A measurement: `0.1234`, `12,345`, `1.85e34`."""
    if not abs(value) < _HUGE:
        return _power(value)
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4f}"


def _power(value: float) -> str:
    return f"{value:.3g}".replace("e+", "e")


def quantity(flag: str, text: str, low: int, high: int, unit: Literal["", "B", "B/s"] = "") -> int:
    """The whole number that a flag says, like 399000, 399,000, 399k, 2.5G or 1e9; of bytes also like 2GB or 64MiB.

    Args:
        unit: that may stand behind the number: bytes, or bytes/s.

    Raises:
        InputError: it is not written like that, or not from low to high.
    """
    found = _QUANTITY.fullmatch(text.strip())
    value = -1
    digits, prefix, binary, suffix = (group or "" for group in found.groups()) if found else ("inf", "", "", "")
    digits = digits.replace(",", "").replace("_", "")
    if len(digits) < 20 and float(digits) < 1e18 and suffix.lower() in _SUFFIXES[unit] and (unit or not binary):
        value = round(float(digits) * (1024 if binary else 1000) ** " KMGT".index(prefix.upper() or " "))
    if not low <= value <= high:
        kind = "bytes/s such as 200GB/s" if unit == "B/s" else "bytes such as 2GB, 800MB or 64MiB"
        said = f"a number of {kind}," if unit else "a number"
        how = "" if unit else ", with k, M, G or T for thousands"
        raise InputError(f"{flag} must be {said} from {low} to {high:.0e}{how}, got {text!r}.")
    return value
