"""Runs of click models on planted streams, for rows that need the same kind: what has run is kept and not run again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.bench import ROOT, Bench

_CODE = (
    "kernels/planted.py", "kernels/replicas.py", "models/click_nets.py", "models/click_worker.py", "models/dlrm.py",
    "sync/averaged_replica.py", "sync/block_momentum.py", "sync/centre.py", "sync/circle.py", "sync/elastic_replica.py",
    "sync/fixed_rate.py", "sync/replica_*.py", "sync/shadow.py", "sync/syncing.py", "tables/het_*.py",
    "tables/replica.py", "tables/residency.py", "testing/planted_clicks.py",
)  # fmt: skip
"""below src/any2vec: what is being compared, and the stream"""


def planted_runs(
    bench: Bench, stream: Mapping[str, Any], train: Sequence[int], test: Sequence[int], options: Mapping[str, Any],
    hosts: Sequence[Mapping[str, Any] | None], seed: int, push_bound: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Train a DLRM on one slice of a stream, once for each of `hosts`, and score it on another.

    Args:
        stream: arguments of PlantedClicks; train, test: examples [start, stop) of it.
        options: of the model; hosts: of TrainerOptions, None for one trainer alone.
        push_bound: of caches by HET, where it is not the pull bound.

    Returns:
        {"bayes": the floor of the test slice, "runs": [scores, bytes and syncs of each]}. Kept in the working folder
        under a hash of the settings and of the code that the figures depend on.
    """
    request = [dict(stream), list(train), list(test), dict(options), list(hosts), seed, push_bound]
    name = hashlib.sha256(json.dumps([request, sources()], sort_keys=True).encode()).hexdigest()[:16]

    def make(target: Any) -> None:
        bound = () if push_bound is None else ("--push-bound", push_bound)
        done = bench.ours(
            "any2vec_clicks.py", "--stream", json.dumps(stream), "--train", *train, "--test", *test,
            "--options", json.dumps(options), "--hosts", json.dumps(list(hosts)), "--seed", seed, *bound,
        )  # fmt: skip
        target.write_text(json.dumps({"request": request} | done.result))

    found: dict[str, Any] = json.loads(bench.made(f"clicks-{name}.json", make).read_text())
    return found


def sources() -> str:
    """Hash of the code that these figures depend on."""
    digest = hashlib.sha256()
    for pattern in _CODE:
        for path in sorted((ROOT / "src" / "any2vec").glob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()
