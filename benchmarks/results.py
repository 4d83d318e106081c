"""Committed results: one JSON file a table, the history of each row kept, with the commit and the machine."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.table import Figure, Table, missing

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).resolve().parent / "results"
LIBRARIES = ("any2vec", "numpy", "numba", "llvmlite", "scipy", "scikit-learn")


def commit() -> str:
    """Hash of the measured commit, with `+changes` where tracked files under src/ or benchmarks/ differ from it."""
    head = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "src", "benchmarks/*.py", "benchmarks/peers")
    return (head or "unknown") + ("+changes" if changed else "")


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


def entry(lines: Sequence[Figure], runs: Mapping[str, Any], seconds: float, load: float) -> dict[str, Any]:
    """One entry of a row's history. `load`: the system's load before the row started, below 0.7 on a quiet machine."""
    return {
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "load_before": round(load, 2),
        "machine": machine(),
        "figures": [line.as_dict() for line in lines],
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
    """Writes the table's file through a temporary name."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{table}.json"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n")
    temporary.replace(path)
    return path


def latest(table: Table, stored: Mapping[str, Any]) -> list[Figure]:
    """The newest figures of each row, in the table's order; a row never measured says so."""
    lines: list[Figure] = []
    for row in table.rows:
        history = stored["rows"].get(row.name)
        lines += [Figure(**line) for line in history[-1]["figures"]] if history else missing(row, "not yet run")
    return lines


def provenance(stored: Mapping[str, Any]) -> list[str]:
    """One sentence for each (commit, machine, day) that the newest figures come from."""
    groups: dict[str, list[str]] = {}
    for name, history in stored["rows"].items():
        newest = history[-1]
        host, mark = newest["machine"], newest["commit"]
        mark = mark[:10] + ("+changes" if mark.endswith("+changes") else "")
        where = (
            f"commit {mark}, {newest['date'][:10]}, {host['cpu']}, {host['cores']} cores, "
            f"{host['memory_bytes'] / 2**30:.0f} GiB, Python {host['python']}, numba {host['versions']['numba']}"
        )
        groups.setdefault(where, []).append(name)
    return [f"Measured at {where}: {', '.join(names)}." for where, names in groups.items()]


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "missing"
