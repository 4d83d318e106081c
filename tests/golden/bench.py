"""Carries out golden runs in child processes, at this commit or another one, and compares what they give."""

from __future__ import annotations

import io
import json
import os
import queue
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from golden.machine import environment

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
START_SECONDS = 120.0
"""until a child has imported the package"""


class Runner:
    """Runs of one tree of sources: a child process carries out one after the other, and is replaced when it fails.

    tests: the folder in which the harness of these runs lies.
    """

    def __init__(self, root: Path = ROOT, tests: Path = TESTS) -> None:
        self.root, self.tests = root, tests
        self._child: _Child | None = None
        about = self._ask("?", START_SECONDS)
        if not Path(about["package"]).is_relative_to(root):
            raise RuntimeError(f"The runs of {root} would import any2vec from {about['package']}.")
        self.runs: dict[str, dict[str, Any]] = about["runs"]
        self.left_out: dict[str, str] = about["left_out"]
        self.machine: dict[str, Any] = about["machine"]

    def run(self, name: str) -> dict[str, Any]:
        """The answer of a run: "arrays", "counts" and "seconds", or "error"."""
        run = self.runs[name]
        if run["is_alone"]:
            self.close()
        try:
            return self._ask(name, run["seconds"])
        except (TimeoutError, ChildProcessError) as error:
            return {"name": name, "error": str(error)}
        finally:
            if run["is_alone"]:
                self.close()

    def close(self) -> None:
        """End the child process."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def _ask(self, line: str, seconds: float) -> dict[str, Any]:
        if self._child is None:
            self._child = _Child(self.root, self.tests)
        try:
            return self._child.ask(line, seconds)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class _Child:
    """A process of `golden.child`."""

    def __init__(self, root: Path, tests: Path) -> None:
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "golden.child"], env=environment(root / "src", tests), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self._errors, text=True, cwd=root, start_new_session=True,
        )  # fmt: skip
        self._answers: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, line: str, seconds: float) -> dict[str, Any]:
        """Send a line, and wait for its answer; TimeoutError or ChildProcessError where none comes."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        try:
            answer = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"{line} did not end within {seconds:.0f} s.\n{self._tail()}") from None
        if not answer:
            self._process.wait()
            raise ChildProcessError(f"{line} ended its process with {self._process.returncode}.\n{self._tail()}")
        found: dict[str, Any] = json.loads(answer)
        return found

    def close(self) -> None:
        """End the process and those that it has started."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5 if self._answers.empty() else 0)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, 9)
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()
        self._errors.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _tail(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-2000:]


# ---- what differs


def differences(expected: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """A line for each array, byte count or other count in which two answers differ; none where they are equal."""
    if "error" in found:
        return ["it fails: " + found["error"].strip()]
    lines = []
    for name in sorted(expected["arrays"].keys() | found["arrays"].keys()):
        former, now = expected["arrays"].get(name), found["arrays"].get(name)
        if former != now:
            others = [other for other, value in found["arrays"].items() if value == former]
            how = "differs" if former and now else "is new" if now else f"is missing{' but as ' * bool(others)}"
            lines.append(f"array {name} {how}{' and '.join(others) if former and not now else ''}")
    for name in sorted(expected["counts"].keys() | found["counts"].keys()):
        former, now = expected["counts"].get(name), found["counts"].get(name)
        if former != now:
            lines.append(f"{name}: {_shown(former)} -> {_shown(now)}")
    return lines


def _shown(value: Any) -> str:
    if isinstance(value, str) and "0x" in value:
        with suppress(ValueError):
            return f"{float.fromhex(value)!r} ({value})"
    text = "absent" if value is None else json.dumps(value)
    return text if len(text) <= 300 else text[:300] + " ..."


# ---- other commits


def git(*arguments: str) -> str | None:
    """What git answers, None where it does not know."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


@contextmanager
def tree_of(commit: str) -> Iterator[Path]:
    """A temporary folder with the sources and the tests of a commit."""
    done = subprocess.run(["git", "archive", commit, "src", "tests"], cwd=ROOT, capture_output=True, timeout=120)
    if done.returncode:
        raise RuntimeError(f"git cannot give the files of {commit}: {done.stderr.decode(errors='replace').strip()}")
    with tempfile.TemporaryDirectory(prefix="golden-tree-") as folder:
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder)


@contextmanager
def runner_at(commit: str) -> Iterator[Runner]:
    """A runner of the package at a commit, by the harness of that commit; by this one where it has none."""
    with tree_of(commit) as tree:
        tests = tree / "tests" if (tree / "tests" / "golden" / "child.py").exists() else TESTS
        with Runner(tree, tests) as runner:
            yield runner
