"""What is published: an sdist and a wheel of all that is in the package, installed into an empty environment."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 900.0
"""seconds, for libraries to be fetched and kernels to be compiled"""


def run(*command: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_runs_where_nothing_else_is(tmp_path: Path) -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    tree = tmp_path / "tree"
    for name in tracked:  # what is committed, and nothing that happens to lie around
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-m", "build", "--outdir", tmp_path / "dist", tree, cwd=tmp_path)
    wheel, sdist = (next((tmp_path / "dist").glob(f"*{end}")) for end in (".whl", ".tar.gz"))
    package = {name.removeprefix("src/") for name in tracked if name.startswith("src/")}
    with zipfile.ZipFile(wheel) as file:
        assert {name for name in file.namelist() if name.startswith("any2vec/")} == package
    with tarfile.open(sdist) as file:
        inside = {name.partition("/")[2] for name in file.getnames()}
    assert {*(f"src/{name}" for name in package), "README.md", "LICENSE", "pyproject.toml"} <= inside

    run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", tmp_path / "from", sdist, cwd=tmp_path)
    assert package <= {str(path.relative_to(tmp_path / "from")) for path in (tmp_path / "from").rglob("*.*")}

    run(sys.executable, "-m", "venv", tmp_path / "empty", cwd=tmp_path)
    python, own = tmp_path / "empty" / "bin" / "python", tmp_path / "own"
    own.mkdir()
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel, cwd=own)
    program = python.with_name("any2vec")
    assert "any2vec" in run(program, "--version", cwd=own)
    run(program, "demo", "--out", "demo", "--quiet", cwd=own)
    assert (own / "demo" / "words" / "report.html").is_file() and (own / "demo" / "modules" / "report.html").is_file()
    assert str(tmp_path / "empty") in run(python, "-c", "import any2vec; print(any2vec.__file__)", cwd=own)
