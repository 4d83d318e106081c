"""Damage of files, seeded: bytes at random, and values of JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

TOKENS = (
    b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3", b"nan", b"inf", b"1e999", b"-1", b"-0", b"9" * 40, b"1_0",
    b"0x1f", "٣".encode(), b"\t" * 9, b"\r", b"\r\n", b"\n\n", b'"', b"'", b",", b"|", b"[" * 300, b"{" * 3, b"\\",
    b"#", b"\x1b[2J", "\u202e".encode(), b"PK\3\4", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"PAR1", b"ARROW1", b"null",
    b"true", b"%s%n", b"../..", b"<a> <b> \"c\" .", b"x" * 5000, b" " * 500, b"\x93NUMPY",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2**31, 2**63, 10**40, 0.5, -1e308, float("nan"), float("inf"), "", "x", "\0", "../x",
    [], {}, [[]], [1, "a"], {"a": 1}, "9" * 400, "\ud800",
)  # fmt: skip


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Bytes with one to three faults; of JSON now and then a value that does not belong."""
    if data[:1] in (b"{", b"[") and rng.random() < 0.6:
        try:
            return json.dumps(_other_value(json.loads(data), rng)).encode("utf-8", "surrogatepass")
        except (ValueError, RecursionError):
            pass
    for _ in range(int(rng.integers(1, 4))):
        data = _FAULTS[int(rng.integers(len(_FAULTS)))](data, int(rng.integers(0, len(data) + 1)), rng)
    return data


def _other_value(value: Any, rng: np.random.Generator) -> Any:
    """JSON in which one value, wherever it stands, is another one, or is missing."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = list(value)[int(rng.integers(len(value)))]
        if rng.random() < 0.15:
            return {name: item for name, item in value.items() if name != key}
        return value | {key: _other_value(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        place = int(rng.integers(len(value)))
        return [*value[:place], _other_value(value[place], rng), *value[place + 1 :]]
    return VALUES[int(rng.integers(len(VALUES)))]


def _cut(data: bytes, at: int, rng: np.random.Generator) -> bytes:
    return data[:at]


def _turn_bit(data: bytes, at: int, rng: np.random.Generator) -> bytes:
    return data[:at] + bytes(byte ^ 1 << int(rng.integers(8)) for byte in data[at : at + 1]) + data[at + 1 :]


def _overwrite(data: bytes, at: int, rng: np.random.Generator) -> bytes:
    other = rng.bytes(int(rng.integers(1, 12)))
    return data[:at] + other + data[at + len(other) :]


def _take_out(data: bytes, at: int, rng: np.random.Generator) -> bytes:
    return data[:at] + data[at + int(rng.integers(1, 20)) :]


def _double(data: bytes, at: int, rng: np.random.Generator) -> bytes:
    return data[:at] + data[at : at + int(rng.integers(1, 200))] * int(rng.integers(1, 30)) + data[at:]


def _put_in(data: bytes, at: int, rng: np.random.Generator) -> bytes:
    return data[:at] + TOKENS[int(rng.integers(len(TOKENS)))] + data[at:]


def _replace_field(data: bytes, at: int, rng: np.random.Generator) -> bytes:
    """What stands between two marks at this place."""
    stop = min([place for mark in b"\t ,:\n=" if (place := data.find(mark, at)) >= 0], default=len(data))
    start = max(data.rfind(mark, 0, at) for mark in b"\t ,:\n=") + 1
    return data[:start] + TOKENS[int(rng.integers(len(TOKENS)))] + data[stop:]


def _change_lines(data: bytes, at: int, rng: np.random.Generator) -> bytes:
    lines = data.split(b"\n")
    return b"\n".join(lines[int(place)] for place in rng.integers(0, len(lines), len(lines)))


_FAULTS = (_cut, _turn_bit, _overwrite, _take_out, _double, _put_in, _replace_field, _replace_field, _change_lines)
