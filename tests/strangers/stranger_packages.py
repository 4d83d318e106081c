"""Packages outside src, of modules in tests/strangers, as pip would have installed them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from any2vec.models import registry
from any2vec.train import registry as tasks
from found_by_children import python_path

STRANGERS = Path(__file__).parent


def install(folder: Path, module: str, points: Mapping[str, str], source: str | None = None) -> Path:
    """A folder with one module and its entry points, "GROUP:NAME" -> "module:class"."""
    if source is None:
        shutil.copy(STRANGERS / f"{module}.py", folder)
    else:
        (folder / f"{module}.py").write_text(source)
    about = folder / f"{module}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module.replace('_', '-')}\nVersion: 1.0\n")
    lines = []
    for point, where in points.items():
        group, _, name = point.partition(":")
        lines.append(f"[{group}]\n{name} = {where}\n")
    (about / "entry_points.txt").write_text("".join(lines))
    return folder


def run(package: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Python, in the package's folder, which is all that it finds beside any2vec."""
    environment = {"PYTHONPATH": python_path(package), "PATH": "", "HOME": str(package), "COLUMNS": "80"}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=package, env=environment, capture_output=True, text=True, timeout=120)


def any2vec(package: Path, *words: str) -> str:
    """What a command prints that must succeed."""
    done = run(package, "-m", "any2vec", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def known_here(package: Path, patch: pytest.MonkeyPatch) -> None:
    """This process finds the package, too, until the patch is undone (`forget` then)."""
    patch.syspath_prepend(package)
    forget()


def forget() -> None:
    """What is registered is looked up again."""
    registry._registry.cache_clear()
    tasks.tasks.cache_clear()
