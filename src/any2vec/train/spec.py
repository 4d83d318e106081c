"""A run, described once: from the command line, through `fit`, to the worker process. JSON in and out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from any2vec.checks import parse_json
from any2vec.options.hosts import HostOptions
from any2vec.options.storage import StorageOptions
from any2vec.options.sync import SyncOptions
from any2vec.types import Stage

if TYPE_CHECKING:
    from any2vec.embeddings import Embeddings
    from any2vec.train.in_memory.validation import Validator


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """What to train, on what, and how. Options of hosts, sync and storage have one class each for all tasks."""

    task: str
    """name of the task that the model belongs to"""
    model: Any
    """config of the model: a frozen dataclass with `name` and `as_dict`"""
    data: Any
    """what the task reads: paths (strings; then the spec can be stored as JSON) or objects in memory"""
    reading: Mapping[str, Any] = field(default_factory=dict)
    """how data are read, by kind: text, graph, clicks, triples, nodes, sources; kinds that are missing have defaults"""
    run: Any
    """`RunOptions`; of streams `StreamOptions`"""
    hosts: HostOptions = field(default_factory=HostOptions)
    sync: SyncOptions = field(default_factory=SyncOptions)
    storage: StorageOptions = field(default_factory=StorageOptions)

    def to_json(self) -> str:
        """One object; data and everything that is read must be named by paths."""
        data = [str(name) for name in self.data] if isinstance(self.data, list | tuple) else str(self.data)
        parts = {name: as_plain(getattr(self, name)) for name in ("run", "hosts", "sync", "storage")}
        reading = {name: as_plain(options) for name, options in self.reading.items()}
        about = {"task": self.task, "model": self.model.as_dict(), "data": data}
        return json.dumps(about | parts | {"reading": reading})

    @staticmethod
    def from_json(text: str) -> RunSpec:
        """Raises ValueError, KeyError or TypeError for what `to_json` did not write; InputError as options do."""
        from any2vec.train.registry import task_named

        found = parse_json(text)
        task = task_named(found["task"])
        return RunSpec(
            task=task.name, model=task.model_from(found["model"]), data=found["data"],
            reading={name: task.reading_from(name, options) for name, options in found["reading"].items()},
            run=task.run_class()(**found["run"]), hosts=HostOptions(**found["hosts"]),
            sync=SyncOptions(**found["sync"]), storage=StorageOptions(**found["storage"]),
        )  # fmt: skip

    def fingerprint(self) -> str:
        """What all hosts must have been asked for alike; data and start vectors are compared when they are read."""
        parts = {name: as_plain(getattr(self, name)) for name in ("hosts", "sync", "storage")}
        reading = {name: as_plain(options) for name, options in self.reading.items()}
        about = {"model": self.model.as_dict(), "run": self.run.settings(), "reading": reading}
        return json.dumps(about | parts, default=str)

    def settings(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """What must be the same for a run to go on from a checkpoint. metadata: what the data are."""
        return {
            "model": self.model.as_dict(), "epochs": self.run.epochs, "seed": self.run.seed, "data": dict(metadata),
            "init": None, **self.storage.settings(self.model), **self.run.validation_settings(),
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """What no file can hold: whom a run keeps informed."""

    progress: Callable[[Any], None] | None = None
    """is called with every progress record"""
    stage: Stage | None = None
    """is called with how far reading and compiling are"""
    on_epoch: Callable[[int, Embeddings], None] | None = None
    """is called at the end of each epoch with (its number from 1, the vectors so far)"""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A checked spec as one host carries it out."""

    spec: RunSpec
    hooks: Hooks
    threads: int
    agreement: Any
    """what the task makes of `hosts` and `sync`; None: a single host, which agrees with nobody"""
    settings: dict[str, Any]
    """what must be the same for a run to go on"""
    started: float
    """moment of `time.perf_counter` at which the run was asked for"""
    validator: Validator | None = None
    """what scores the run behind each epoch, at rank 0 where it validates"""


def as_plain(options: Any) -> Any:
    """Options as JSON has them: what has a `to_dict` says it itself, other dataclasses by their fields."""
    if hasattr(options, "to_dict"):
        return options.to_dict()
    return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(options).items()}
