"""Committed results: one JSON file a table, the history of each row kept, with the commit and the machine.

They name no folder and no host: what is written loses both.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.source_code import Code, changed_since
from benchmarks.table import FAILED, STALE, Figure, Row, Table, missing

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).resolve().parent / "results"
CHANGED = "+changes"
UNKNOWN = "unknown"
"""commit of a kept run that does not say at which it ran"""
LIBRARIES = ("any2vec", "numpy", "numba", "llvmlite", "scipy", "scikit-learn")
_PATH = re.compile(r"(?<![\w.:/])/(?!(?:proc|sys|dev)/)(?:[\w.+@~-]+/)+([\w.+@~-]*)")
"""an absolute path of two parts or more, apart from the kernel's own; not the path of an address"""


def commit() -> str:
    """Hash of the measured commit, with `+changes` where tracked files under src/ or benchmarks/ differ from it."""
    head = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "src", "benchmarks/*.py", "benchmarks/peers")
    return (head or UNKNOWN) + (CHANGED if changed else "")


def machine() -> dict[str, Any]:
    """CPU model, cores, memory in bytes, system, versions: nothing that names a host or a user."""
    model = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else ""
    return {
        "cpu": model or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in LIBRARIES},
    }


def entry(
    lines: Sequence[Figure],
    runs: Mapping[str, Any],
    seconds: float,
    load: float,
    commits: Collection[str] = (),
    code: Code | None = None,
    processors: Collection[str] = (),
    confirmed: Collection[str] = (),
) -> dict[str, Any]:
    """One entry of a row's history.

    Args:
        load: the system's load before the row started, below 0.7 on a quiet machine.
        commits: at which the kept runs ran that the row has read; most rows read none.
        code: of the files that its runs imported.
        processors: on which the kept runs ran.
        confirmed: commits at which some of them were begun again, and went as before.
    """
    return {
        "commit": commit(),
        **({"ran_at": sorted(commits), "ran_on": sorted(processors)} if commits else {}),
        **({"confirmed_at": sorted(confirmed)} if confirmed else {}),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "load_before": round(load, 2),
        "machine": machine(),
        "figures": [line.as_dict() for line in lines],
        "code": dict(code or {}),
        "runs": dict(runs),
    }


def load(table: str, folder: Path = RESULTS) -> dict[str, Any]:
    """What is committed of a table: {"table": name, "rows": {row: [entries, the oldest first]}}."""
    path = folder / f"{table}.json"
    return json.loads(path.read_text()) if path.exists() else {"table": table, "rows": {}}


def merged(stored: Mapping[str, Any], new: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """`stored` with one entry more for each row of `new`; the other rows keep theirs."""
    rows = {name: list(history) for name, history in stored["rows"].items()}
    for name, added in new.items():
        rows.setdefault(name, []).append(dict(added))
    return {"table": stored["table"], "rows": rows}


def save(table: str, stored: Mapping[str, Any], folder: Path = RESULTS) -> Path:
    """Writes the table's file through a temporary name, without folders and hosts."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{table}.json"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(anonymous(stored), indent=1, ensure_ascii=False) + "\n")
    temporary.replace(path)
    return path


def anonymous(value: Any) -> Any:
    """The same without what tells of a machine: of an absolute path its last part stays, of a host's name HOST."""
    if isinstance(value, Mapping):
        return {anonymous(name): anonymous(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [anonymous(one) for one in value]
    if not isinstance(value, str):
        return value
    text = _PATH.sub(r"\1", value)
    host = platform.node()
    # A name that is a word may stand for the word.
    return text if host.isalpha() or not host else re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", "HOST", text)


def latest(table: Table, stored: Mapping[str, Any]) -> list[Figure]:
    """The newest figures of each row, in the table's order; a row never measured, or failed since, says so."""
    lines: list[Figure] = []
    for row in table.rows:
        history = _of_its_measures(row, stored["rows"].get(row.name, ()))
        found = [replace(line, settings=row.settings) for line in _shown(history)] if history else []
        lines += found or missing(row, "not yet run")
    return lines


def _of_its_measures(row: Row, history: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Entries of the row as it is: where it has more measures by now, or fewer, former ones are another row's."""
    return [entry for entry in history if len(entry["figures"]) == len(row.measures)]


def has_failed(entry: Mapping[str, Any]) -> bool:
    """Whether the row ended with an error when this entry was made."""
    return any(line["verdict"].startswith(FAILED) for line in entry["figures"])


def provenance(table: Table, stored: Mapping[str, Any]) -> list[str]:
    """One sentence for each (commits, machine, day) that the newest figures come from."""
    groups: dict[str, list[str]] = {}
    older: list[str] = []
    keeps_runs = {row.name for row in table.rows if row.keeps_runs}
    rows = {row.name: row for row in table.rows}
    for name, entries in stored["rows"].items():
        history = _of_its_measures(rows[name], entries) if name in rows else entries
        if not history or has_failed(newest := history[-1]):
            continue
        if is_stale(newest):
            older.append(f"{name} ({_age(newest)})")
        host = newest["machine"]
        marks = newest.get("ran_at") or ([UNKNOWN] if name in keeps_runs else [newest["commit"]])
        ran = " and ".join(f"commit {_short(mark)}" if mark != UNKNOWN else "an unknown commit" for mark in marks)
        if "ran_at" in newest or name in keeps_runs:
            again = " and ".join(map(_short, newest.get("confirmed_at", ())))
            begun = f", begun again at {again} with the same scores" if again else ""
            ran += f" (read at {_short(newest['commit'])}{begun})"
        processors = " and ".join(newest.get("ran_on", [host["cpu"]]))
        where = (
            f"{ran}, {newest['date'][:10]}, {processors}, {host['cores']} cores, "
            f"{host['memory_bytes'] / 2**30:.0f} GiB, Python {host['python']}, numba {host['versions']['numba']}"
        )
        groups.setdefault(where, []).append(name)
    found = [f"Measured at {where}: {', '.join(names)}." for where, names in groups.items()]
    return found + (
        [f"{STALE.strip()} Code that ran has changed since, or is not known: {', '.join(older)}."] if older else []
    )


def is_stale(entry: Mapping[str, Any]) -> bool:
    """Whether a file that the row's runs imported does something else now, or nobody knows which they were."""
    return not entry.get("code") or bool(changed_since(entry["code"]))


def unmarked(page: str) -> str:
    """A page without what depends on the present code."""
    lines = (line for line in page.splitlines() if not line.startswith(STALE.strip()))
    return "\n".join(filter(None, lines)).replace(STALE, "")


def _age(entry: Mapping[str, Any]) -> str:
    """When it was measured, and how many of the files have changed."""
    files = f"{len(changed_since(entry['code']))} files" if entry.get("code") else "code not known"
    return f"{entry['date'][:10]}, {files}"


def _shown(history: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """The newest figures, medians of all that the same code has given; of a failure also when and where it was."""
    entry = history[-1]
    lines = [_median([Figure(**other["figures"][place]) for other in _alike(history)])
             for place in range(len(entry["figures"]))]  # fmt: skip
    if not has_failed(entry) and is_stale(entry):
        lines = [replace(line, verdict=line.verdict + STALE) for line in lines]
    when = f" ({entry['date'][:10]}, commit {_short(entry['commit'])})"
    return [replace(line, verdict=line.verdict + when) if line.verdict.startswith(FAILED) else line for line in lines]


def _alike(history: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The newest entry and those of the same code and machine that give the same measures."""
    newest = history[-1]

    def key(entry: Mapping[str, Any]) -> Any:
        return entry.get("code"), entry["machine"]["cpu"], [line["measure"] for line in entry["figures"]]

    if has_failed(newest) or not newest.get("code"):
        return [newest]
    return [entry for entry in history if key(entry) == key(newest) and not has_failed(entry)]


def _median(lines: Sequence[Figure]) -> Figure:
    """The middle one by value, of an even number the one nearer to falling short; how many there are is said."""
    newest = lines[-1]
    if len(lines) == 1 or any(line.value is None for line in lines):
        return newest
    ordered = sorted(lines, key=lambda line: line.value or 0.0)
    at_most = newest.target.startswith("≤")
    middle = ordered[len(lines) // 2 if at_most else (len(lines) - 1) // 2]
    return replace(middle, figure=f"{middle.figure}; median of {len(lines)} runs")


def _short(mark: str) -> str:
    """A commit in ten letters, with its mark of changes."""
    return mark[:10] + (CHANGED if mark.endswith(CHANGED) else "")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "missing"
