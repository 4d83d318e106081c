"""The plain twin of cutting lines and of remembering keys: split, and an ordered dictionary."""

from __future__ import annotations

from collections import OrderedDict

from naive.common.rng import mix64

MOST_LINE = 1 << 20


def cut(text: bytes) -> list[tuple[int, bytes]]:
    """(number of the first byte, line with its line feed) of each line of a stream that counts."""
    found, at = [], 0
    for line in text.split(b"\n"):
        kept = line.removesuffix(b"\r")
        if kept.strip(b" \t\n\v\f\r") and b"\0" not in kept and len(line) <= MOST_LINE:
            found.append((at, kept + b"\n"))
        at += len(line) + 1
    return found


def hash_text(text: bytes) -> int:
    """The key of a text."""
    code = mix64(len(text))
    for at in range(0, len(text), 8):
        code = mix64(code ^ int.from_bytes(text[at : at + 8], "little"))
    return code


def fresh(keys: list[int], window: int, known: OrderedDict[int, None]) -> list[bool]:
    """Whether each key is not among the last `window` new ones, which `known` holds and takes on."""
    found = []
    for key in keys:
        found.append(key not in known)
        if key not in known:
            known[key] = None
            if len(known) > window:
                known.popitem(last=False)
    return found
