"""Small runs whose checkpoints of former versions lie in fixtures/checkpoints, by `python former_runs.py FOLDER`.

What lies there was made by the program before version 3 of checkpoints.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import any2vec
from any2vec.models.stream.config import StreamSkipGram
from any2vec.tasks.stream.options import StreamOptions
from any2vec.tasks.stream.stream import stream
from any2vec.train import monitor
from any2vec.train.checkpoint import FILE, save_checkpoint
from spreads import spread

SYNCS = ("leader", "elastic", "ds-sync", "gaia:clock=1:0.3")
WORDS = [f"words-{sync.partition(':')[0]}" for sync in SYNCS]
CLICK_SYNCS = ("fr-bmuf:2", "fr-easgd:2", "async")
CLICKS = [f"clicks-{sync.partition(':')[0]}" for sync in CLICK_SYNCS]
LAYERS, STREAM = "layers", "stream"


def sentences() -> list[list[str]]:
    rng = np.random.default_rng(1)
    return [[str(word) for word in row] for row in (rng.integers(0, 5, (40, 6)) + 5 * rng.integers(0, 3, (40, 1)))]


def train_words(name: str, folder: Path, **options: Any) -> Any:
    sync = SYNCS[WORDS.index(name)]
    options_of_hosts = spread(logical_hosts=2, sync=sync, rounds_per_epoch=3)
    model = any2vec.SkipGram(dim=4)
    return any2vec.fit(model, sentences(), epochs=3, threads=1, out=folder / name, **options_of_hosts, **options)


def train_clicks(name: str, folder: Path, **options: Any) -> Any:
    log = folder / "clicks.tsv"
    if not log.exists():
        rng = np.random.default_rng(2)
        rows = [(int(rng.integers(2)), round(float(rng.random()), 3), *rng.integers(0, 4, 2)) for _ in range(160)]
        log.write_text("label\tage\tuser\tsite\n" + "".join("\t".join(map(str, row)) + "\n" for row in rows))
    schema = any2vec.ClickSchema(dense=("age",), categorical=("user", "site"), hash_rows=20)
    sync = CLICK_SYNCS[CLICKS.index(name)]
    model = any2vec.DLRM(dim=2, bottom="4", top="4", batch_size=16)
    return any2vec.fit(
        model, str(log), epochs=3, threads=1, schema=schema, out=folder / name, cache_dir=folder / "cache",
        **spread(logical_hosts=2, sync=sync), **options,
    )  # fmt: skip


def train_layers(name: str, folder: Path, **options: Any) -> Any:
    rng, edges = np.random.default_rng(3), folder / "edges.txt"
    edges.write_text("".join(f"{node}\t{(node + step) % 12}\n" for node in range(12) for step in (1, 3)))
    nodes = any2vec.NodeOptions(features=rng.random((12, 3), np.float32), labels=np.arange(12) % 2)  # type: ignore[arg-type]
    model = any2vec.GAMLP(layers=3, width=4, growth="2", hops=1)
    return any2vec.fit(
        model, str(edges), epochs=75, threads=1, nodes=nodes, out=folder / name, cache_dir=folder / "cache", **options
    )


def train_stream(name: str, folder: Path, steps: int | None = None, **options: Any) -> Any:
    """Of a file in the working folder: sources are known by their names."""
    (folder / "lines.txt").write_text("".join(" ".join(words) + "\n" for words in sentences()))
    given = StreamOptions(
        threads=1, linger=0, batch_bytes=200, min_count=2, log_ids=True, replay=0.5, replay_words=64,
        window_lines=16, steps=steps, **options,
    )  # fmt: skip
    return stream(StreamSkipGram(dim=4), "lines.txt", out=folder / name, options=given, storage="2MB")


TRAIN: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(WORDS, train_words), **dict.fromkeys(CLICKS, train_clicks), LAYERS: train_layers,
    STREAM: train_stream,
}  # fmt: skip


def stop_at_checkpoint(path: Path, checkpoint: Any) -> None:
    """In place of `save_checkpoint`: the run ends soon behind its first."""
    save_checkpoint(path, checkpoint)
    os.kill(os.getpid(), signal.SIGTERM)


def interrupted(name: str, folder: Path) -> None:
    """Leave an unfinished run in `folder`/`name`."""
    if name == STREAM:
        train_stream(name, folder, steps=3)
        return
    monitor.save_checkpoint = stop_at_checkpoint
    try:
        TRAIN[name](name, folder, checkpoint_seconds=1e-9)
        raise AssertionError(f"{name} has not stopped.")
    except any2vec.Interrupted:
        monitor.save_checkpoint = save_checkpoint


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    for name in TRAIN:
        interrupted(name, folder)
        shutil.copy(folder / name / FILE, folder / f"{name}.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
