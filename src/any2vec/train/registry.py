"""Tasks by name: they register by the entry points of the group `tasks`, ours through the same door as others'."""

from __future__ import annotations

import json
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from any2vec.errors import InputError
from any2vec.train.run_folder import ABOUT
from any2vec.train.task import Task

GROUP = "any2vec.tasks"


@cache
def tasks() -> dict[str, Task]:
    """All registered tasks by name, in the order of their `rank`, then by name.

    Raises:
        InputError: an entry point does not load, or is no task; nothing is registered.
    """
    found: dict[str, Task] = {}
    for point in entry_points(group=GROUP):
        try:
            task = point.load()()
        except Exception as error:
            raise InputError(
                f"The task {point.name} of the package {point.dist.name if point.dist else '?'} cannot be loaded: "
                f"{type(error).__name__}: {error}; mend the package or uninstall it."
            ) from error
        if not isinstance(task, Task) or task.name in found:
            what = "registered twice" if isinstance(task, Task) else "no subclass of any2vec.train.task.Task"
            raise InputError(f"The task {point.name} is {what}; mend the package or uninstall it.")
        found[task.name] = task
    if not found:
        raise InputError("No task is registered: this any2vec is not installed; run pip install (-e) in its folder.")
    return dict(sorted(found.items(), key=lambda item: (item[1].rank, item[0])))


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
    return {name: task for task in tasks().values() if task.command == command for name in task.known_models}


def task_of(model: Any, command: str = "train") -> Task:
    """The task of a model's config.

    Raises:
        InputError: it is of none.
    """
    known = models_of(command)
    task = known.get(getattr(model, "name", ""))
    if task is None or not isinstance(model, task.model_class(model.name)):
        names = ", ".join(task.known_models[name].rpartition(":")[2] for name, task in known.items())
        raise InputError(f"model must be the config of one of {names}, or its name on the command line, got {model!r}.")
    return task


def model_named(name: str, command: str = "train") -> Any:
    """The class of the config of a model by its name on the command line.

    Raises:
        InputError: there is none.
    """
    known = models_of(command)
    if name not in known:
        raise InputError(f"There is no model {name!r} here; {nearest_match(name, list(known))}")
    return known[name].model_class(name)


def task_of_run(folder: Path) -> Task | None:
    """The task of the run that is finished in a folder; None: it is of none that is known."""
    try:
        name = json.loads((folder / ABOUT).read_text(encoding="utf-8"))["settings"]["model"]["model"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return models_of("train").get(name)


def nearest_match(name: str, known: list[str]) -> str:
    """`did you mean X?` for the nearest known name, or the list of them."""
    import difflib

    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(known))}."
