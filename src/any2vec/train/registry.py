"""Tasks by name: they register by the entry points of the group `tasks`, ours through the same door as others'."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from any2vec.checks import did_you_mean, parse_json
from any2vec.errors import InputError
from any2vec.registry import Registry
from any2vec.train.run_folder import ABOUT
from any2vec.train.task import Task


@cache
def tasks() -> dict[str, Task]:
    """All registered tasks by name, in the order of their `rank`, then by name.

    Raises:
        InputError: an entry point does not load, or is no task; nothing is registered.
    """
    known: Registry[Task] = Registry("task", "any2vec.tasks", base="any2vec.train.task:Task")
    found = sorted((known.made(name) for name in known.names()), key=lambda task: (task.rank, task.name))
    if not found:
        raise InputError("No task is registered: this any2vec is not installed; run pip install (-e) in its folder.")
    tasks = {task.name: task for task in found}
    if len(tasks) < len(found):
        names = ", ".join(task.name for task in found)
        raise InputError(f"Two tasks have the same name, of {names}; uninstall one of the packages.")
    return tasks


def task_named(name: str) -> Task:
    """The task of that name.

    Raises:
        InputError: there is none.
    """
    if name not in tasks():
        raise InputError(f"There is no task {name!r}; known are {', '.join(tasks())}.")
    return tasks()[name]


def models_of(command: str) -> dict[str, Task]:
    """Name of each model that a command ("train", "stream") trains -> its task."""
    return {name: task for task in tasks().values() if task.command == command for name in task.known_models.names()}


def task_of(model: Any, command: str = "train") -> Task:
    """The task of a model's config.

    Raises:
        InputError: it is of none.
    """
    known = models_of(command)
    task = known.get(getattr(model, "name", ""))
    if task is None or not isinstance(model, task.model_class(model.name)):
        names = ", ".join(str(task.known_models.places()[name]).rpartition(":")[2] for name, task in known.items())
        raise InputError(f"model must be the config of one of {names}, or its name on the command line, got {model!r}.")
    return task


def model_named(name: str, command: str = "train") -> Any:
    """The class of the config of a model by its name on the command line.

    Raises:
        InputError: there is none.
    """
    known = models_of(command)
    if name not in known:
        raise InputError(f"There is no model {name!r} here; {did_you_mean(name, sorted(known))}")
    return known[name].model_class(name)


def task_of_run(folder: Path) -> Task | None:
    """The task of the run that is finished in a folder; None: it is of none that is known."""
    try:
        name = parse_json((folder / ABOUT).read_text(encoding="utf-8"))["settings"]["model"]["model"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return models_of("train").get(name)
