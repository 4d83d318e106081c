"""Runs of click models on planted streams, for rows that need the same kind: what has run is kept and not run again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.bench import Bench


def planted_runs(
    bench: Bench, stream: Mapping[str, Any], train: Sequence[int], test: Sequence[int], options: Mapping[str, Any],
    hosts: Sequence[Mapping[str, Any] | None], seed: int, push_bound: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Train a DLRM on one slice of a stream, once for each of `hosts`, and score it on another.

    Args:
        stream: arguments of PlantedClicks; train, test: examples [start, stop) of it.
        options: of the model; hosts: of HostOptions and SyncOptions, None for one trainer alone.
        push_bound: of caches by HET, where it is not the pull bound.

    Returns:
        {"bayes": the floor of the test slice, "runs": [scores, bytes and syncs of each]}.
    """
    request = [dict(stream), list(train), list(test), dict(options), list(hosts), seed, push_bound]
    bound = () if push_bound is None else ("--push-bound", push_bound)
    return bench.kept(
        "clicks",
        request,
        lambda: bench.ours(
            "any2vec_clicks.py", "--stream", json.dumps(stream), "--train", *train, "--test", *test, "--options",
            json.dumps(options), "--hosts", json.dumps(list(hosts)), "--seed", seed, *bound,
        ).result,
    )  # fmt: skip
