"""The flags of a model, and the run that they and a TOML file ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from any2vec.cli.options import Flag, flags_of, read_config
from any2vec.data.io.files import NAMELESS
from any2vec.errors import DataError, InputError
from any2vec.registry import loaded
from any2vec.sources.base.address import is_crawl
from any2vec.train.registry import models_of, task_named
from any2vec.train.spec import RunSpec
from any2vec.train.task import CLASSES, Task, absent

PANELS = {"run": "Run", "hosts": "Hosts", "sync": "Synchronization", "storage": "Storage"}
ONLY_OF_RUNS = (
    "resume", "overwrite", "init", "checkpoint_seconds", "patience", "host_timeout", "ray", "restarts",
)  # fmt: skip
"""flags that change nothing of an estimate or a plan"""
OWN: dict[str, type | tuple[type, ...]] = {"input": (str, list), "model": str, "out": str}
"""keys of a TOML file that are no flags -> their types"""


def owners_of(task: Task, model: str) -> dict[str, Any]:
    """Whose fields become flags: the model, the run, hosts, their agreement, storage, how data are read."""
    groups = {**CLASSES, "run": task.run_class()}
    kinds = {kind: loaded(task.reading[kind]) for kind in task.reading_of(model)}
    return {"model": task.model_class(model)} | groups | kinds


@cache
def model_flags(task_name: str, model: str) -> dict[str, Flag]:
    """Every flag of a model, and no other model's."""
    task = task_named(task_name)
    owners, own = owners_of(task, model), task.options_of(model)
    panels = {owner: f"Reading {owner}" for owner in owners} | {"model": "Model"} | PANELS
    flags = flags_of(owners, panels)
    kept = {}
    for name, flag in flags.items():
        groups = [owner for owner in flag.defaults if owner not in CLASSES or _has(own, owner, name, task)]
        if groups and name not in task.leaves_out:
            kept[name] = replace(flag, help=task.help.get(name, flag.help), panel=panels[groups[0]])
    if "epochs" in kept:
        kept["epochs"] = replace(kept["epochs"], defaults={"run": owners["model"].default_epochs})
    return kept


def planning_flags(task_name: str, model: str) -> dict[str, Flag]:
    """As `model_flags`, for a command that trains nothing: what only a run needs is accepted and not listed."""
    flags = model_flags(task_name, model)
    return {name: replace(flag, is_hidden=True) if name in ONLY_OF_RUNS else flag for name, flag in flags.items()}


def _has(own: Mapping[str, Sequence[str]], group: str, name: str, task: Task) -> bool:
    return name in own.get(group, ()) or (group == "run" and task.run_class() is not CLASSES["run"])


def make_spec(
    task: Task, model: str, inputs: Sequence[str] | None, out: Path | None, config: Path | None,
    given: Mapping[str, Any], needs_input: bool = True,
) -> RunSpec:  # fmt: skip
    """The run that arguments, flags (`given`) and the TOML file ask for; a flag wins over the file.

    Raises InputError when an option is unknown, not legal, or none of this model's.
    """
    flags = model_flags(task.name, model)
    values = read_config(config, flags, OWN, lambda key: _why_not(task, model, key)) if config else {}
    from_file = {name: values.pop(name) for name in OWN if name in values}
    values |= given
    owners = owners_of(task, model)

    def build(owner: str) -> Any:
        names = {item.name for item in fields(owners[owner])}
        return owners[owner](**{key: value for key, value in values.items() if key in names})

    if from_file.get("out") in ("", "-"):
        raise InputError(f"In the config {config}: out must name a folder, got {from_file['out']!r}.")
    folder = out or (Path(from_file["out"]) if "out" in from_file else None)
    return RunSpec(
        task=task.name, model=build("model"), data=_data(task, inputs or from_file.get("input")) if needs_input else [],
        reading={kind: build(kind) for kind in task.reading_of(model)}, run=replace(build("run"), out=folder),
        hosts=build("hosts"), sync=build("sync"), storage=build("storage"),
    )  # fmt: skip


def _why_not(task: Task, model: str, key: str) -> str | None:
    """Why a model has not got an option that others have; None: nobody has it."""
    if any(key == item.name for group in CLASSES.values() for item in fields(group)):
        return absent(task, model, key)
    known = models_of(task.command)
    option = "--" + key.replace("_", "-")
    return of_others(model, option, [other for other in known if key in model_flags(known[other].name, other)])


def of_others(model: str, option: str, others: Sequence[str]) -> str | None:
    """The sentence for an option that only other models have; None: there are none."""
    names = " and ".join(filter(None, [", ".join(others[:-1]), *others[-1:]]))
    return f"{model} has no {option}: it is for {names}; leave it out." if others else None


def _data(task: Task, inputs: str | Sequence[str] | None) -> str | list[str]:
    if not inputs:
        raise InputError("Say what to train on: a file, a folder, a glob, or - for standard input.")
    paths = [inputs] if isinstance(inputs, str) else [str(path) for path in inputs]
    for path in paths:
        if task.ends or not is_crawl(path):
            check_input(path)
    return paths[0] if len(paths) == 1 else paths


def check_input(path: str) -> None:
    """Raise DataError when `path` is empty, or no `-`, no address, no glob and not there; InputError: a crawl's."""
    if not path:
        raise DataError(NAMELESS)
    if is_crawl(path):
        raise InputError(f"A crawl is read by `any2vec stream MODEL {path}`; this command takes files.")
    if path != "-" and "://" not in path and not any(sign in path for sign in "*?[") and not Path(path).exists():
        raise DataError(
            f"There is no file or folder {path}; check the name, or take a public set: `any2vec data` lists them."
        )
