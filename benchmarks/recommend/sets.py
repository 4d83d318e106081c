"""The sets of users and items, as both sides read them: pairs of training, and others that judge."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.bench import Bench

if TYPE_CHECKING:
    from any2vec.data.interactions.interactions import Interactions

SETS = ("gowalla", "ml-1m")
HELD_OUT, CUT = (0.2, 0), (0.1, 1)
"""(share of each user, seed): of ml-1m's test, and of the validation part of any training set"""


def parts(bench: Bench, name: str, is_chosen: bool = False) -> Path:
    """A file with the pairs that train and those that judge: the test, or (is_chosen) a cut of the training pairs."""
    what = "choose" if is_chosen else "test"
    return bench.made(f"{name}-{what}.npz", lambda target: _write(bench, name, is_chosen, target))


def _write(bench: Bench, name: str, is_chosen: bool, target: Path) -> None:
    train, test = _pairs(bench, name)
    if is_chosen:
        train, test = train.split(*CUT)
    found = {}
    for part, data in (("train", train), ("test", test)):
        found |= {f"{part}_indptr": data.indptr, f"{part}_items": data.item_E}
    with target.open("wb") as file:
        np.savez(file, num_items=len(train.items), **found)


def _pairs(bench: Bench, name: str) -> tuple[Interactions, Interactions]:
    """(training, test), of the same users and items."""
    from any2vec.data.interactions.interactions import read_interactions
    from any2vec.data.interactions.options import InteractionOptions

    lists = InteractionOptions(lists=True)
    if name == "ml-1m":
        return read_interactions(bench.data("rec-ml1m/ml1m.user_movies.txt.gz"), lists).split(*HELD_OUT)
    train, test = (bench.data(f"rec-gowalla/{part}.txt.gz") for part in ("train", "test"))
    both = bench.made("gowalla.txt", lambda target: target.write_bytes(b"".join(map(_text, (train, test)))))
    known = read_interactions(str(both), lists)
    found = [read_interactions(str(part), lists, known=known) for part in (train, test)]
    return found[0], found[1]


def _text(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()).rstrip() + b"\n"
