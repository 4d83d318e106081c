"""Which tests cover a line: recorded once over a set of tests, and asked for by file and line."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"


def record(folder: Path, options: list[str]) -> int:
    """Run pytest with the options and keep in the folder what each test covers; its exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in [*folder.glob("coverage*"), *folder.glob("kernels/*.json")]:
        path.unlink()
    command = [
        sys.executable, "-m", "pytest", "-p", "mutants.kernel_calls", "--kernel-calls", str(folder / "kernels"),
        "--cov", str(SOURCE), "--cov-context", "test", "--cov-report", "", *options,
    ]  # fmt: skip
    environment = os.environ | {"COVERAGE_FILE": str(folder / "coverage"), "PYTHONPATH": python_path(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


def python_path(root: Path) -> str:
    """PYTHONPATH of a process that takes the package and the tests below `root`."""
    return os.pathsep.join([str(root / "src"), str(root / "tests"), os.environ.get("PYTHONPATH", "")])


class Covering:
    """What `record` kept: the tests of a line, those that cover least first."""

    def __init__(self, folder: Path) -> None:
        data = CoverageData(str(folder / "coverage"))
        data.read()
        self.tests_by_line: dict[Path, dict[int, set[str]]] = {}
        self.num_covered: dict[str, int] = defaultdict(int)
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        """those that fail without any fault: they say nothing of one"""
        for file in data.measured_files():
            path = Path(file).relative_to(SOURCE)
            by_line = {
                line: {name.split("|")[0] for name in names if name}
                for line, names in data.contexts_by_lineno(file).items()
            }
            self.tests_by_line[path] = by_line
        self._add_kernels(folder / "kernels")
        for by_line in self.tests_by_line.values():
            for names in by_line.values():
                for name in names:
                    self.num_covered[name] += 1

    def _add_kernels(self, folder: Path) -> None:
        kernels: dict[str, set[str]] = defaultdict(set)
        for path in folder.glob("*.json"):
            for test, record in json.loads(path.read_text(encoding="utf-8")).items():
                self.seconds[test] = max(self.seconds.get(test, 0.0), record["seconds"])
                if record.get("has_failed"):
                    self.failed.add(test)
                for kernel in record["kernels"]:
                    kernels[kernel].add(test)
        for kernel, tests in kernels.items():
            module, _, function = kernel.partition(":")
            path = Path(*module.split(".")).with_suffix(".py")
            if not (SOURCE / path).is_file():
                continue  # of numba, or of a test
            for node in ast.walk(ast.parse((SOURCE / path).read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef) and node.name == function:
                    for statement in node.body:
                        for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1):
                            self.tests_by_line.setdefault(path, {}).setdefault(line, set()).update(tests)

    def files(self) -> list[Path]:
        """Below src, sorted."""
        return sorted(self.tests_by_line)

    def tests(self, file: Path, line: int) -> list[str]:
        """Those that ran the line; where it runs only while the module is imported, those that ran the file."""
        by_line = self.tests_by_line[file]
        if line not in by_line:
            return []
        names = by_line[line] or set().union(*by_line.values())
        return sorted(names - self.failed, key=lambda name: (self.num_covered[name], name))
