"""The built-in data, the machine's facts, the doctor and the start script."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from any2vec import machine
from any2vec.data.catalog.catalog import demo_text, import_graph
from any2vec.doctor import diagnose
from any2vec.errors import InputError
from any2vec.kernels.common.jit import cache_folder

ROOT = Path(__file__).parents[2]


def test_demo_text_is_sentences_of_words() -> None:
    sentences = demo_text()
    words = [word for sentence in sentences for word in sentence]
    assert 40_000 < len(words) < 120_000 and all(len(sentence) > 1 for sentence in sentences)
    assert all(word == word.lower() and word.replace("_", "a").isalnum() for word in words)
    assert {"tuple", "__init__", "nonlocal"} <= set(words)


def test_import_graph_is_pairs_of_public_modules() -> None:
    edges = import_graph()
    nodes = {module for edge in edges for module in edge}
    assert len(edges) > 500 and len(nodes) > 100 and edges == sorted(set(edges))
    assert ("json", "re") in edges and ("tarfile", "gzip") in edges
    assert all(source != target for source, target in edges)
    assert not any(module.startswith("_") or module in {"test", "idlelib"} for module in nodes)


def test_machine() -> None:
    assert 1 <= machine.usable_cores() <= (machine.describe()["cores"])
    assert machine.memory_bytes() > machine.available_bytes() >= 0
    assert machine.free_disk_bytes(ROOT / "not" / "there") > 0
    assert machine.versions(["numpy", "no-such-thing"])["no-such-thing"] is None
    json.dumps(machine.describe())
    assert machine.is_one_disk(ROOT, ROOT / "not" / "there")
    if Path("/proc").is_dir():
        assert not machine.is_one_disk(ROOT, Path("/proc/not"))


def test_files_that_go_when_their_room_is_wanted_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container counts the pages of files that were read as used."""
    files = {
        "/proc/meminfo": "MemAvailable: 9000000 kB", "/sys/fs/cgroup/memory.max": "4000000000",
        "/sys/fs/cgroup/memory.current": "3900000000",
        "/sys/fs/cgroup/memory.stat": "anon 400000000\ninactive_file 3000000000\nactive_file 500000000",
    }  # fmt: skip
    monkeypatch.setattr(machine, "_read", lambda path: files.get(path, ""))
    assert machine.available_bytes() == 3_100_000_000


def test_a_user_without_a_home_is_told_to_name_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("ANY2VEC_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "expanduser", homeless)
    with pytest.raises(InputError, match="there is no home folder; name a folder in the variable ANY2VEC_CACHE"):
        machine.cache_root()


def test_doctor_is_json_and_imports_no_optional_package() -> None:
    code = "import json, sys; from any2vec import doctor; print(json.dumps([doctor.diagnose(), sorted(sys.modules)]))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    metrics, modules = json.loads(done.stdout)
    assert metrics["versions"]["numba"] and metrics["machine"]["usable_cores"] >= 1
    assert {"torch", "ray", "partition", "streams", "crawl"} <= metrics["extras"].keys()
    assert not {"torch", "ray", "pymetis", "gensim", "matplotlib", "sklearn"} & set(modules)


def test_doctor_warns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ANY2VEC_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setenv("ANY2VEC_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    text = " ".join(diagnose()["warnings"])
    for words in ("ANY2VEC_CACHE", "ANY2VEC_DATA", "OMP_NUM_THREADS"):
        assert words in text


@pytest.fixture
def start() -> ModuleType:
    spec = importlib.util.spec_from_file_location("start", ROOT / "start.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_start_explains_itself_from_anywhere(tmp_path: Path) -> None:
    script = [sys.executable, str(ROOT / "start.py")]
    asked = subprocess.run([*script, "--help"], capture_output=True, text=True, cwd=tmp_path)
    wrong = subprocess.run([*script, "nonsense"], capture_output=True, text=True, cwd=tmp_path)
    assert asked.returncode == 0 and wrong.returncode == 2 and "start.py demo" in wrong.stderr


def test_start_refuses_an_old_python(
    start: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(start.sys, "version_info", (3, 9, 1))
    monkeypatch.setattr(start.shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match="2"):
        start.use_new_enough_python()
    assert "3.11 or newer" in capsys.readouterr().err


def test_start_uses_the_environment_again(start: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "VENV", tmp_path)
    monkeypatch.setattr(start, "VENV_PYTHON", Path(sys.executable))
    assert not start.is_ready("")
    stamp = tmp_path / "any2vec-stamp"
    stamp.write_text(start.wanted_stamp("") + "\n")
    assert start.is_ready("") and not start.is_ready("dev")
    stamp.write_text(start.wanted_stamp("dev") + "\n")
    assert start.is_ready("") and start.is_ready("dev")
    monkeypatch.setattr(start, "VENV_PYTHON", tmp_path / "gone")
    assert not start.is_ready("")


def test_start_shows_pips_words_when_it_fails(
    start: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(start, "VENV_PYTHON", Path("/bin/ls"))
    monkeypatch.setattr(start, "PIP_LOG", tmp_path / "install.log")
    with pytest.raises(SystemExit, match="2"):
        start.install("")
    error = capsys.readouterr().err
    assert "pip could not install any2vec" in error and "ls" in error


def test_start_runs_tests_in_parallel_and_without_the_slow(
    start: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(start, "VENV_PYTHON", Path(sys.executable))
    assert 1 <= start.num_workers() <= 4
    monkeypatch.setattr(start, "num_workers", lambda: 3)
    parallel, quick = ["-n", "3", "--dist", "loadfile"], ["-m", "not slow"]
    assert start.pytest_options(["-x"]) == [*parallel, *quick, "-x"]
    assert "start.py test --slow" in capsys.readouterr().out
    assert start.pytest_options(["--slow", "-x"]) == [*parallel, "-x"]
    assert start.pytest_options(["-m", "slow"]) == [*parallel, "-m", "slow"]
    for options in (["-n", "2"], ["-n0"], ["--numprocesses=2"], ["-p", "no:xdist"], ["-s"], ["--pdb"]):
        assert start.pytest_options(options) == [*quick, *options]


def test_start_names_a_path_that_is_not_there_before_anything_runs(
    start: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(start, "prepare", lambda extra: pytest.fail("the environment was made"))
    for options in (["tests/nosuch", "-q"], ["-x", "tests/nosuch::test_x[a/b]"], ["--maxfail", "1", "tests/nosuch"]):
        with pytest.raises(SystemExit, match="2"):
            start.main(["test", *options])
        said = capsys.readouterr()
        assert said.out == "" and said.err.startswith("start.py: there is no tests/nosuch in ")
    start.check_paths(["-q", "tests/house/test_house.py::test_machine", "-k", "a/b", "--junitxml", "x/y.xml", "tests"])


def test_start_says_that_no_test_was_run(
    start: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(start, "VENV_PYTHON", Path(sys.executable))
    assert start.run_tests(["-q", "-n", "0", "tests/house/test_house.py", "-k", "nosuchname"]) == 5
    assert "start.py: no test was run: none matches" in capsys.readouterr().err


SHARED_TESTS = """
import os
import pytest

@pytest.mark.parametrize("text", ["one", "two\\nlines", "back\\\\slash", "\u00e9"])
def test_passes(text): pass

def test_fails(): assert "EXTRA" in os.environ

@pytest.mark.skipif("EXTRA" not in os.environ, reason="needs the extra")
def test_needs_the_extra(): pass

@pytest.mark.slow
def test_is_slow(): pass
"""
NEEDS_THE_EXTRA = """
import os
import pytest

if "EXTRA" not in os.environ:
    pytest.skip("needs the extra", allow_module_level=True)

def test_in_a_module_that_needs_it(): pass
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_two_calls_run_each_test_once(tmp_path: Path, workers: str) -> None:
    """What was skipped or deselected by the first call is run by the second, also what could not be imported."""
    project, ran = tmp_path / "project", tmp_path / "ran"
    project.mkdir()
    (project / "conftest.py").write_bytes((ROOT / "tests" / "conftest.py").read_bytes())
    (project / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    (project / "test_shared.py").write_text(SHARED_TESTS)
    for name in ("test_one.py", "test_other.py"):
        (project / name).write_text(NEEDS_THE_EXTRA)

    def run(*options: str, **environment: str) -> str:
        command = [sys.executable, "-m", "pytest", "-n", workers, f"--once={ran}", *options]
        done = subprocess.run(
            command, cwd=project, env=os.environ | environment, capture_output=True, text=True, timeout=300
        )
        return done.stdout.splitlines()[-1]

    assert "1 failed, 4 passed" in run("-m", "not slow")
    names = ran.read_text().splitlines()
    assert len(names) == 5 and "test_shared.py::test_fails" in names
    assert "4 passed" in run(EXTRA="1")
    assert "passed" not in run(EXTRA="1")
    assert len(set(ran.read_text().splitlines())) == 9


START = r'''
import pathlib, sys
line = {second!r} if "--slow" in sys.argv else {first!r}
python = pathlib.Path(".venv/bin/python")
if "--slow" not in sys.argv:
    assert not python.exists()
    python.parent.mkdir(parents=True)
    python.write_text("""#!/bin/sh\ncase "$*" in *'{broken}'*) exit 1;; esac\n""")
    python.chmod(0o755)
print(line)
sys.exit("failed" in line)
'''
FIRST, SECOND = "4000 passed, 99 skipped, 12 warnings in 300.00s (0:05:00)", "100 passed, 7 skipped in 60.12s (0:01:00)"


@pytest.mark.parametrize(
    ("first", "second", "broken", "line", "code"),
    [
        (FIRST, SECOND, "nothing", "4100 passed, 0 failed, 7 skipped", 0),
        ("2 failed, " + FIRST, SECOND + "\nsomebody said goodbye", "nothing", "4100 passed, 2 failed, 7 skipped", 1),
        (FIRST, "3 failed, 100 passed, 2 errors in 9.99s", "nothing", "4100 passed, 5 failed, 0 skipped", 1),
        (FIRST, "Killed", "nothing", "4000 passed, 1 failed, 0 skipped", 1),
        (FIRST, SECOND, "mypy", "4100 passed, 0 failed, 7 skipped", 1),
        (FIRST, SECOND, "ruff format --check", "4100 passed, 0 failed, 7 skipped", 1),
        (FIRST, SECOND, "pip install", "4100 passed, 0 failed, 7 skipped", 1),
    ],
)
def test_the_whole_check_counts_both_halves(
    tmp_path: Path, first: str, second: str, broken: str, line: str, code: int
) -> None:
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "run").write_bytes((ROOT / ".ci" / "run").read_bytes())
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").write_text("an old environment")
    (tmp_path / "start.py").write_text(START.format(first=first, second=second, broken=broken))
    done = subprocess.run(["bash", ".ci/run"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[-1] == line, done.stdout + done.stderr
    assert done.returncode == code


def test_pins_name_torch_and_every_core_dependency() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {line.partition("==")[0].lower() for line in lines if "==" in line and not line.startswith("#")}
    assert "torch==2.13.0" in lines, "without a local version: either build fits"
    assert {
        "numpy",
        "numba",
        "scipy",
        "scikit-learn",
        "pyarrow",
        "safetensors",
        "typer",
        "rich",
        "matplotlib",
    } <= pinned


def test_who_looks_at_the_cache_of_kernels_does_not_fix_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or `doctor` under a bad ANY2VEC_CACHE would spoil whatever this process compiles later."""
    for name in ("one", "other"):
        monkeypatch.setenv("ANY2VEC_CACHE", str(tmp_path / name))
        assert cache_folder().is_relative_to(tmp_path / name)
