"""The same command by this tree and by an earlier commit, in alternating runs."""

from __future__ import annotations

import io
import os
import resource
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench import ONE_BLAS_THREAD, ROOT, Bench, run, waited
from benchmarks.table import NotMeasuredError, RowError

BEFORE = "258045d"
"""the commit before the house was rebuilt, unless ANY2VEC_BENCH_BEFORE names another"""


@dataclass(frozen=True)
class Version:
    """A tree of any2vec: where its `src` stands, its caches, and how its command line names a model."""

    src: Path
    cache: Path
    has_model_flag: bool = False
    """`train FILE --model NAME`, where later ones say `train NAME FILE`"""

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join(filter(None, (str(self.src), os.environ.get("PYTHONPATH"))))
        return ONE_BLAS_THREAD | {"ANY2VEC_CACHE": str(self.cache), "PYTHONPATH": path}

    def command(self, verb: str, model: str, data: Path, flags: Sequence[object]) -> list[str]:
        named = [data, "--model", model] if self.has_model_flag else [model, data]
        return [sys.executable, "-m", "any2vec", verb, *map(str, [*named, *flags]), "--json"]


@dataclass(frozen=True)
class Run:
    """What one process took."""

    items_per_s: float
    """of training alone"""
    seconds: float
    """of the whole process"""
    cpu_seconds: float


def versions(bench: Bench) -> tuple[Version, Version]:
    """This tree and the earlier one, unpacked once; where rows only start, this tree twice.

    Raises NotMeasuredError where this repository does not hold the commit.
    """
    now = Version(ROOT / "src", bench.cache)
    return now, (now if bench.tiny else bench.once("the commit before", lambda: _unpacked(bench)))


def timed(bench: Bench, version: Version, verb: str, model: str, data: Path, flags: Sequence[object]) -> Run:
    out = bench.scratch(f"version-{verb}-{model}")
    before = _children()
    started = time.perf_counter()
    command = version.command(verb, model, data, [*flags, "--seed", 1, "--out", out, "--overwrite", "--quiet"])
    found = run(command, version.environment, timeout=bench.limit).result
    rate = found["words_per_s" if verb == "stream" else "items_per_s"]
    return Run(float(rate), time.perf_counter() - started, _children() - before)


def started(version: Version, code: str) -> float:
    """Seconds of a process that runs this code, untraced: what tells of imports has imports of its own.

    Raises CalledProcessError where it does not end well.
    """
    command = [sys.executable, "-c", code]
    begin = time.perf_counter()
    ended = waited(subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(version.src)}), timeout=120)
    seconds = time.perf_counter() - begin
    if ended:
        raise subprocess.CalledProcessError(ended, command)
    return seconds


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _unpacked(bench: Bench) -> Version:
    commit = os.environ.get("ANY2VEC_BENCH_BEFORE", BEFORE)
    packed = subprocess.run(
        ["git", "archive", "--format=tar", commit, "src"], cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    if packed.returncode:
        raise NotMeasuredError(f"this repository has no commit {commit}")

    def write(target: Path) -> None:
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
            files.extractall(target, filter="data")

    tree = bench.made(f"version-{commit}", write)
    task = tree / "src" / "any2vec" / "tasks"
    if not (tree / "src" / "any2vec" / "__init__.py").exists():
        raise RowError(f"commit {commit} has no src/any2vec")
    return Version(tree / "src", bench.folder / f"cache-{commit}", has_model_flag=not task.exists())
