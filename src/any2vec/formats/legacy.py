"""What former versions wrote as the present one has it: names, checkpoints of runs (version 2), of streams (version 1).

Version 2 knew float32 arrays of two dimensions alone: a flag was a float, a number a matrix with one entry, float64 two
float32. Version 1 of streams kept numbers and ids of lines as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from any2vec.types import State

_NAMES = {"optimiser": "optimizer", "normalise": "normalize"}
"""option of a model -> its present name"""


def present_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options, or groups of them, that a former version may have written, by the names that they have now."""
    return {
        _NAMES.get(name, name): present_names(value) if isinstance(value, dict) else value
        for name, value in options.items()
    }


Place = dict[str, Any]
Upgrade = Callable[[State, Place], tuple[State, Place]]
_FLAT = ("replica", "value", "square", "mean", "easgd.centre", "bmuf.global", "bmuf.velocity")
"""dense parameters, their slices, and the state of their optimizers: were (1, n)"""


def _run(state: State, place: Place) -> tuple[State, Place]:
    """A run of version 2."""
    found: State = {}
    for name, array in state.items():
        kept, at, host = name.partition("@")
        found |= {f"{new}{at}{host}": one for new, one in _upgraded(kept, array).items()}
    return found, place


def _upgraded(name: str, array: np.ndarray) -> Mapping[str, np.ndarray]:
    """What became of one array; name: without its host."""
    stem, _, end = name.rpartition(".")
    if name == "history":
        return {name: np.ascontiguousarray(array).view(np.float64)}
    if end == "count" or name == "count":
        return {name: array.reshape(()).astype(np.int64)}
    if name == "dense" or name in _FLAT or stem == "replica":
        return {name: array.reshape(-1)}
    if name == "gaia.threshold":
        return {name: array.reshape(()).astype(np.float64)}
    if name == "leader.loss":
        return {name: array.reshape(())}
    if stem.startswith("leader.") and end == "leader":
        return {name: array.reshape(()).astype(np.int64)}
    if stem.startswith("leader.") and end == "flags":
        return {f"{stem}.ids": np.flatnonzero(array[0]), f"{stem}.trained": array[1] > 0}
    if (stem.startswith("elastic.") and end == "alive") or (stem.startswith("leader.") and end == "moved"):
        return {name: array[0] > 0}
    if stem.startswith("ds-sync.") and end == "news":
        return {f"{stem}.weight": array[0], f"{stem}.life": array[1].astype(np.uint8), f"{stem}.moved": array[2] > 0}
    if stem.startswith("gaia.") and end.startswith("slots"):
        return {name: np.flatnonzero(array[0])}
    return {name: array}


def _stream(state: State, place: Place) -> tuple[State, Place]:
    """A stream of version 1."""
    parts, duplicates = place["queued"]
    numbers: State = {name: np.array(place[name], np.int64) for name in ("number", "offset", "words")}
    lines: State = {
        "source": np.array([source for source, _, _ in parts], np.int64),
        "lines": np.array([lines for _, lines, _ in parts], np.int64),
        "ids": np.frombuffer(json.dumps([ids for _, _, ids in parts]).encode(), np.uint8),
        "duplicates": np.array(duplicates, np.int64).reshape(-1, 2),
    }
    more = numbers | {f"lines.{name}": array for name, array in lines.items()}
    return state | {f"batches.{name}": array for name, array in more.items()}, {"positions": place["positions"]}


UPGRADES: Mapping[tuple[str, int | None], Upgrade] = {
    ("any2vec-checkpoint", 2): _run, ("any2vec-stream-checkpoint", 1): _stream,
}  # fmt: skip
"""by format and version: from its arrays and its place to those of the present version

Raises:
    KeyError, TypeError, ValueError, IndexError: they are not those of such a checkpoint.
"""
