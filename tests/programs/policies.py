"""Which policy serves which task: asked of the tasks themselves, which take options or refuse them with the reason.

`python tests/programs/policies.py` prints the page docs/policies.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from any2vec.errors import InputError
from any2vec.options.hosts import HostOptions
from any2vec.options.storage import StorageOptions
from any2vec.options.sync import SyncOptions
from any2vec.registry import loaded
from any2vec.train.registry import tasks
from any2vec.train.spec import Hooks, RunSpec
from any2vec.train.task import Task, check_spread, refuse_absent

Options = Mapping[str, Any]
_GROUPS = {"hosts": HostOptions, "sync": SyncOptions, "storage": StorageOptions}
_TWO = {"logical_hosts": 2}


def _syncs(*names: str, **more: Any) -> list[Options]:
    return [{"sync": name} | _TWO | more for name in names]


POLICIES: Mapping[str, Sequence[Options]] = {
    "several hosts, rows in memory": [_TWO],
    "merge rules at rounds or every k batches (sum, mean, AdaSum)": _syncs("adasum", "fr-adasum", "mean", "fr-mean"),
    "leader, groups, elastic averaging": _syncs("leader", "ds-sync", "elastic", "fr-easgd"),
    "significance (Gaia)": _syncs("gaia"),
    "behind the training": [*_syncs("shadow-adasum", "shadow-easgd"), {"overlap": True} | _TWO],
    "every k batches": _syncs("fr-easgd", "fr-mean"),
    "in step": _syncs("bsp", "sync"),
    "bounded staleness": [*_syncs("bounded", "server:bounded"), *_syncs("bounded", staleness_bound=2)],
    "asynchronous": _syncs("async", "server"),
    "m of n": _syncs("m-of-n"),
    "row cache with versions (HET)": [{"cache": "het:4"} | _TWO],
    "row cache with lookahead (Bagpipe)": [{"cache": "bagpipe:4"} | _TWO],
    "rows on disk in partitions": [{"memory": "2GB", "order": "beta"}],
    "rows on disk in partitions, several hosts": [{"memory": "2GB"} | _TWO],
    "8 bits with error feedback": [{"bits": 8} | _TWO, *_syncs("mean", bits=8)],
}
"""policy -> options that ask for it, of which a task may know one and not the others"""


_NEEDS = {"rows on disk in partitions, several hosts": "order"}
"""policy -> an option that a task has which it serves: a stream has a memory, too, and no partitions"""


@dataclass(frozen=True)
class Cell:
    """Whether a policy serves a task."""

    options: Options | None
    """what asks for it; None: it does not serve"""
    reason: str = ""
    """why it does not"""


def cell(task: Task, policy: str) -> Cell:
    """The first options of a policy that a task takes, or why it takes none."""
    reasons = []
    if needed := _reason(task, [_NEEDS[policy]] if policy in _NEEDS else []):
        return Cell(None, needed)
    for options in POLICIES[policy]:
        try:
            spec = spec_of(task, options)
            refuse_absent(task, spec)
            check_spread(spec)
            task.check(spec, Hooks())
            task.agreement(spec)
        except InputError as error:
            reasons += [_reason(task, options) or str(error).partition(", got ")[0].rstrip(".")]
        else:
            return Cell(options)
    return Cell(None, min(reasons, key=len))


def matrix() -> dict[str, dict[str, Cell]]:
    """policy -> name of a task -> its cell."""
    return {policy: {name: cell(task, policy) for name, task in tasks().items()} for policy in POLICIES}


def spec_of(task: Task, options: Options, **more: Any) -> RunSpec:
    """A run of a task's first model with these options; more: fields of the spec."""
    groups = {
        group: kind(**{name: value for name, value in options.items() if name in {item.name for item in fields(kind)}})
        for group, kind in _GROUPS.items()
    }
    reading = {kind: loaded(where)() for kind, where in task.reading.items() if task.command == "stream"}
    given = {"model": task.model_class(next(iter(task.models)))(), "data": "", "reading": reading} | more
    run = given.pop("run", None) or task.run_class()()
    return RunSpec(task=task.name, run=run, **given, **groups)


def page() -> str:
    """docs/policies.md."""
    found, names = matrix(), list(tasks())
    lines = [
        "# Policies and tasks",
        "",
        "Made by `python tests/programs/policies.py`, which asks the tasks; a test keeps it current and runs every ●.",
        "An option that a task refuses has its reason below. The first model of each task is asked.",
        "",
        f"| policy | {' | '.join(tasks()[name].title for name in names)} |",
        f"|---|{'---|' * len(names)}",
    ]
    for policy, cells in found.items():
        lines.append(f"| {policy} | {' | '.join(_shown(cells[name].options) for name in names)} |")
    for name in names:
        lines += ["", f"## {tasks()[name].title[:1].upper()}{tasks()[name].title[1:]}", ""]
        refused: dict[str, list[str]] = {}
        for policy, cells in found.items():
            if cells[name].options is None:
                refused.setdefault(cells[name].reason, []).append(policy)
        lines += [f"- {'; '.join(policies)}: {reason}" for reason, policies in refused.items()]
    return "\n".join(lines) + "\n"


def _shown(options: Options | None) -> str:
    if options is None:
        return "–"
    shown = (name if value is True else f"{name} {value}" for name, value in options.items() if name != "logical_hosts")
    return f"● {' '.join(shown)}".rstrip()


def _reason(task: Task, options: Iterable[str]) -> str:
    """Of the first of them that the task has not got; "": it has all."""
    model = next(iter(task.models))
    own = {name for names in task.options_of(model).values() for name in names}
    return next((task.why_not(model, option) for option in options if option not in own), "")


if __name__ == "__main__":
    sys.stdout.write(page())
