"""Whether the same comes out twice: blocks GRAPH.npz BATCHES, or resumed FOLDER OUT EPOCHS; one JSON line.

blocks: a digest of an epoch's batches by 1, 2 and 4 threads, and by 2 and 4 logical hosts that each sample a part of
them; by way of sampling. resumed: digests of the result of a run that was never stopped, and of one that was stopped
twice; where it was then.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from any2vec import GraphSAGE, Interrupted, fit
from any2vec.sampling.neighbors import NeighborOptions, NeighborSampler
from any2vec.train.checkpoint import FILE as CHECKPOINT
from any2vec.types import Csr

BATCH, EPOCH, SEED = 1024, 3, 1
WAYS: dict[str, dict[str, Any]] = {
    "uniform, a key an epoch": {"key": "epoch"}, "uniform, a key a batch": {"key": "batch"},
    "labor": {"law": "labor"}, "weighted": {"law": "weighted"}, "with replacement": {"replace": True},
}  # fmt: skip
STOPS, CHECKPOINTS = 2, 3
"""times that a run is stopped, each once it has written so many checkpoints"""
FILES = ("*.npy", "*.safetensors")


def main(what: str, *asked: str) -> None:
    print(json.dumps(blocks(*asked) if what == "blocks" else resumed(*asked)))


def blocks(path: str, batches: str) -> dict[str, Any]:
    """Digests of all batches by way, and by who has sampled them."""
    stored = np.load(path)
    weights = np.random.default_rng(SEED).random(len(stored["indices"]), np.float32) + np.float32(0.5)
    csr = Csr(stored["indptr"], stored["indices"], weights)
    order = np.random.default_rng(SEED).permutation(len(csr.indptr) - 1)
    seeds = [order[at * BATCH : (at + 1) * BATCH] for at in range(int(batches))]
    found: dict[str, dict[str, str]] = {}
    for way, options in WAYS.items():
        found[way] = {}
        for threads in (1, 2, 4):
            sampler = NeighborSampler(csr, NeighborOptions(fanouts=(15, 10), seed=SEED, **options))
            with ThreadPoolExecutor(threads) as pool:
                one_each = list(pool.map(lambda at, by=sampler: _digest(by, seeds, at), range(len(seeds))))
            found[way][f"{threads} threads"] = "".join(one_each)
        for hosts in (2, 4):
            one_each = [""] * len(seeds)
            for host in range(hosts):  # each knows its own batches alone, and takes the last ones first
                sampler = NeighborSampler(csr, NeighborOptions(fanouts=(15, 10), seed=SEED, **options))
                for at in reversed(range(host, len(seeds), hosts)):
                    one_each[at] = _digest(sampler, seeds, at)
            found[way][f"{hosts} hosts"] = "".join(one_each)
    whole = {way: {who: _hash(text.encode()) for who, text in by.items()} for way, by in found.items()}
    return {"digests": whole, "batches": len(seeds)}


def _digest(sampler: NeighborSampler, seeds: list[np.ndarray], at: int) -> str:
    found = sampler.sample(seeds[at], EPOCH, at, with_edges=True)
    return _hash(*(np.ascontiguousarray(array) for array in found[:4]), repr(found[4:]).encode())


def _hash(*parts: Any) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def resumed(folder: str, out: str, epochs: str) -> dict[str, Any]:
    """One run at once, and one in three parts, with one thread."""
    model = GraphSAGE(fanouts="10,5", batch_size=32, hidden=64)
    more: dict[str, Any] = {"epochs": int(epochs), "threads": 1, "seed": SEED}
    whole, parts = Path(out) / "whole", Path(out) / "parts"
    fit(model, folder, out=whole, overwrite=True, **more)
    stopped: list[str] = []
    for turn in range(STOPS):
        try:
            with _stopping(parts):
                fit(model, folder, out=parts, overwrite=not turn, resume=bool(turn), checkpoint_seconds=1e-9, **more)
        except Interrupted as error:
            stopped.append(str(error).split(";")[0])
    if len(stopped) == STOPS:
        fit(model, folder, out=parts, resume=True, **more)
    return {"whole": _files(whole), "parts": _files(parts), "stopped": stopped}


@contextmanager
def _stopping(out: Path) -> Iterator[None]:
    """SIGTERM comes when a checkpoint has been written CHECKPOINTS times; behind the run it does nothing."""
    over, before = threading.Event(), signal.signal(signal.SIGTERM, lambda *_: None)

    def watch() -> None:
        times: set[int] = set()
        while not over.wait(0.001) and len(times) <= CHECKPOINTS:
            with suppress(OSError):
                times.add((out / CHECKPOINT).stat().st_mtime_ns)
        if not over.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        signal.signal(signal.SIGTERM, before)


def _files(folder: Path) -> dict[str, str]:
    return {path.name: _hash(path.read_bytes()) for pattern in FILES for path in sorted(folder.glob(pattern))}


if __name__ == "__main__":
    main(*sys.argv[1:])
