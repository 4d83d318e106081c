"""Runs of click models on planted streams, for rows that need the same kind: what has run is kept and not run again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.bench import ROOT, Bench

STREAM_CODE = ("kernels/clicks/planted.py", "testing/planted_clicks.py")
"""below src/any2vec: what makes the examples"""


def planted_runs(
    bench: Bench, stream: Mapping[str, Any], train: Sequence[int], test: Sequence[int], options: Mapping[str, Any],
    hosts: Sequence[Mapping[str, Any] | None], seed: int, about: Sequence[str], push_bound: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Train a DLRM on one slice of a stream, once for each of `hosts`, and score it on another.

    Args:
        stream: arguments of PlantedClicks; train, test: examples [start, stop) of it.
        options: of the model; hosts: of HostOptions and SyncOptions, None for one trainer alone.
        about: files below src/any2vec that are compared; a run is done again when they change, not when what carries
            their messages does.
        push_bound: of caches by HET, where it is not the pull bound.

    Returns:
        {"bayes": the floor of the test slice, "runs": [scores, bytes and syncs of each]}.
    """
    request = [dict(stream), list(train), list(test), dict(options), list(hosts), seed, push_bound]
    bound = () if push_bound is None else ("--push-bound", push_bound)
    return kept(
        bench, request, (*STREAM_CODE, *about), "any2vec_clicks.py", "--stream", json.dumps(stream),
        "--train", *train, "--test", *test, "--options", json.dumps(options), "--hosts", json.dumps(list(hosts)),
        "--seed", seed, *bound,
    )  # fmt: skip


def kept(bench: Bench, request: Any, about: Sequence[str], script: str, *arguments: object) -> dict[str, Any]:
    """What a script of peers/ tells, from its file where it ran before with the same request and the same code."""
    return bench.kept(name_of(request, about), lambda: {"request": request} | bench.ours(script, *arguments).result)


def name_of(request: Any, about: Sequence[str]) -> str:
    """File of what was asked of this code (patterns of files below src/any2vec).

    Raises ValueError for a pattern of no file: what it meant has moved, and would no longer count.
    """
    digest = hashlib.sha256(json.dumps(request, sort_keys=True).encode())
    for pattern in about:
        paths = sorted((ROOT / "src" / "any2vec").glob(pattern))
        if not paths:
            raise ValueError(f"no file of src/any2vec fits {pattern}")
        for path in paths:
            digest.update(path.read_bytes())
    return f"clicks-{digest.hexdigest()[:16]}.json"
