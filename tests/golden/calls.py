"""How golden runs are called: `fit`, `stream` and the command line of the moment, and what they give.

With `runs.py` the one place of the harness that knows any2vec's API. Where names in a summary or a result change and no
bit does, `NAMES` says so, and the golden file stays as it is.
"""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import any2vec as a2v
from golden.data import Data

SEED = 7
COUNTS = (
    "items", "rows", "dim", "loss", "normalized_entropy", "train_accuracy", "val_accuracy", "test_accuracy",
    "val_auc", "test_auc", "val_mrr", "test_mrr", "val_hits_at_10", "test_hits_at_10",
    "lagrangian", "residual", "hosts", "servers", "scheme", "bits", "rounds", "relations", "num_negatives",
    "partitions", "capacity", "order", "sweeps", "loads", "stores", "holdings", "held_twice",
    "words", "steps", "vocabulary", "types", "batches_of_hosts", "dropped_rows",
)  # fmt: skip
"""what a summary says that depends on the data, the seed and the work alone"""
BYTES = (
    "bytes_by_kind", "bytes_by_phase", "bytes_read", "bytes_written", "table_bytes", "triple_bytes_read",
    "partition_bytes_sent", "round_bytes_sent",
)  # fmt: skip
NAMES: dict[str, str] = {}
"""name of an array or a count since it was renamed -> its name in the golden file, where no bit has changed"""
STATES = ("checkpoint.safetensors", "table/meta.json", "host-0/table/meta.json")
"""files of an unfinished run's folder of which one shows that it can go on"""
READ_ANEW = (
    a2v.ComplEx, a2v.DistMult, a2v.TransE, a2v.RotatE, a2v.DotProduct, a2v.BPR, a2v.ALS, a2v.Item2Vec,
    a2v.GraphSAGE, a2v.GCN, a2v.GAT, a2v.GATv2, a2v.GIN, a2v.GINE, a2v.APPNP, a2v.SGC,
    a2v.RGCN,
)  # fmt: skip
"""models whose data no cache keeps"""
ATTEMPTS = 10
"""at stopping a run before its end"""
STREAM: dict[str, Any] = {
    "threads": 1, "seed": SEED, "linger": 0, "batch_bytes": 2000, "min_count": 2,
    "snapshot_seconds": 1e6,
}  # fmt: skip
Repeat = Literal["all", "data", "none"]


@dataclass(frozen=True)
class Place:
    """Where a run finds its data and leaves its result."""

    data: Data
    out: Path
    """folder of the result, not there yet"""
    aside: Path
    """folder for whatever else it writes"""


@dataclass(frozen=True)
class Outcome:
    """What a run gives."""

    summary: dict[str, Any]
    returned: dict[str, Any]
    """arrays, or lists of names, that are in memory when it is over"""
    folder: Path | None
    """of its result files"""
    bytes_that_repeat: Repeat = "all"
    """bytes of its summary that depend on nothing but the work: all, those that are not control, or none"""


def cached(place: Place) -> dict[str, Any]:
    """No run sees what another one has encoded."""
    return {"cache_dir": place.aside / "cache"}


def spread(**options: Any) -> dict[str, Any]:
    """Arguments of `fit` and `stream` for options of hosts, of their agreement and of storage."""
    kinds = {"hosts": a2v.HostOptions, "sync": a2v.SyncOptions, "storage": a2v.StorageOptions}
    found: dict[str, Any] = {}
    for kind, options_class in kinds.items():
        names = {item.name for item in fields(options_class)}
        own = {name: options.pop(name) for name in list(options) if name in names}
        if own:
            found[kind] = options_class(**own)
    return found | options


def fitted(model: Any, data: Any, place: Place, **options: Any) -> Outcome:
    """One call of `fit`."""
    if not isinstance(model, READ_ANEW):
        options = cached(place) | options
    result = a2v.fit(model, data, **({"threads": 1, "seed": SEED, "out": place.out} | options))
    return Outcome(result.summary, returned(result.embeddings), result.path)


def returned(embeddings: Any) -> dict[str, Any]:
    """The arrays and keys of vectors in memory, by name."""
    found = {"keys": list(embeddings.keys.names), "vectors": embeddings.vectors, "counts": embeddings.counts}
    return found if embeddings.output is None else found | {"output": embeddings.output}


def resumed(model: Any, data: Any, place: Place, stops_at_epoch: bool = False, **options: Any) -> Outcome:
    """A run that SIGTERM stops, behind its first epoch or once it has a checkpoint, and that then goes on.

    Where it is stopped depends on the clock, what it ends with does not; bytes are those of the second part alone.
    """
    for _ in range(ATTEMPTS):
        if _stopped(model, data, place, stops_at_epoch, options):
            outcome = fitted(model, data, place, resume=True, **options)
            return replace(outcome, bytes_that_repeat="none")
    raise AssertionError(f"The run ended {ATTEMPTS} times before it could be stopped; give it more epochs.")


def _stopped(model: Any, data: Any, place: Place, stops_at_epoch: bool, options: dict[str, Any]) -> bool:
    """Begin a run, and whether it was stopped before its end."""
    over = threading.Event()
    if stops_at_epoch:
        options = options | {"on_epoch": lambda number, _: number == 1 and os.kill(os.getpid(), signal.SIGTERM)}
    else:
        options = options | {"checkpoint_seconds": 1e-9}
    watch = threading.Thread(target=_stop_at_checkpoint, args=(place.out, over))
    before = signal.signal(signal.SIGTERM, lambda *_: None)  # it may come when the run is over
    try:
        if not stops_at_epoch:
            watch.start()
        fitted(model, data, place, overwrite=True, **options)
        return False
    except a2v.Interrupted:
        return True
    finally:
        over.set()
        if not stops_at_epoch:
            watch.join()
        signal.signal(signal.SIGTERM, before)


def _stop_at_checkpoint(out: Path, over: threading.Event) -> None:
    """Send SIGTERM to this process when there is something to go on from."""
    while not over.wait(0.001):
        if any((out / name).exists() for name in STATES) and not over.is_set():
            os.kill(os.getpid(), signal.SIGTERM)
            return


def from_disk(
    model: Any, data: Any, place: Place, megabytes: float, run: Callable[..., Outcome] | None = None, **options: Any
) -> Outcome:
    """A run with so many MB beside what the process needs, as the refusal of a budget of nothing says.

    It is asked twice: the first time data are read and kernels compiled, which leaves a process that needs more.
    """
    needed = 0
    for _ in range(2):
        try:
            fitted(model, data, place, **spread(memory="1", **options))
        except a2v.InputError as error:
            found = re.search(r"of which (\d+)MB", str(error))
            assert found is not None, error
            needed = int(found[1])
    assert needed, "a budget of one byte was enough"
    memory = int((needed + megabytes) * 1e6)
    return (run or fitted)(model, data, place, **spread(memory=str(memory), **options))


def streamed(model: Any, place: Place, over: Any = None, **options: Any) -> Outcome:
    """One call of `stream` over a file that ends."""
    files = [str(place.data.text(0, 900))]
    own = a2v.StreamOptions(**(STREAM | options))
    result = a2v.stream(model, files, out=place.out, options=own, storage="20MB", **(over or {}))
    assert result is not None
    newest = max((place.out / "snapshots").iterdir())
    # How often a rank asks for rows that are not there yet depends on the clock, and so do bytes of control.
    repeat: Repeat = "all" if over is None else "data"
    return Outcome(result.summary, returned(result.embeddings), newest, repeat)


def resumed_lines(model: Any, place: Place, over: Any, **options: Any) -> Outcome:
    """A run over a stream that ends behind six batches, and one that goes on."""
    streamed(model, place, over, steps=6, **options)
    return replace(streamed(model, place, over, resume=True, **options), bytes_that_repeat="none")


def commanded(place: Place, *words: Any, result: bool = True) -> Outcome:
    """A run by the command line, in this process, which has imported what it needs; its summary is printed as JSON."""
    more = ("--threads", 1, "--seed", SEED, "--out", place.out, "--json", "--quiet")
    arguments, before, printed = list(map(str, words + more)), sys.argv, io.StringIO()
    sys.argv = ["any2vec", *arguments]
    try:
        with redirect_stdout(printed), chdir(place.aside):
            runpy.run_module("any2vec", run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"any2vec {' '.join(arguments)} ends with {end.code}: {printed.getvalue()}") from end
    finally:
        sys.argv = before
    snapshots = place.out / "snapshots"
    folder = max(snapshots.iterdir()) if snapshots.exists() else place.out
    found = returned(a2v.Embeddings.load(folder)) if result else {}
    return Outcome(json.loads(printed.getvalue()), found, folder, "data" if snapshots.exists() else "all")
