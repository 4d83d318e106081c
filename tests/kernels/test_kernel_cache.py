"""The cache of compiled kernels, code that is run: a folder that others may write to is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from any2vec.errors import StorageError
from any2vec.kernels.common.jit import check_own


@pytest.mark.parametrize(
    ("mode", "group", "is_own"),
    [(0o755, None, True), (0o775, "own", True), (0o775, "other", False), (0o757, None, False), (0o1777, None, False)],
)
def test_a_folder_that_others_may_write_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, group: str | None, is_own: bool
) -> None:
    tmp_path.chmod(mode)
    about = tmp_path.stat()
    number = about.st_uid if group == "own" else about.st_uid + 1
    found = os.stat_result((*about[:5], number if group else about.st_gid, *about[6:]))
    monkeypatch.setattr(Path, "stat", lambda path, **_: found)
    if is_own:
        check_own(tmp_path)
    else:
        with pytest.raises(StorageError, match="Others may write"):
            check_own(tmp_path)


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_own(tmp_path)
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(StorageError, match="folder of your own"):
        check_own(tmp_path)


def test_a_command_says_so_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a b\n" * 50)
    kernels = tmp_path / "cache" / "kernels"
    kernels.mkdir(parents=True)
    kernels.chmod(0o777)
    command = [sys.executable, "-m", "any2vec", "train", "skipgram", "a.txt", "--out", "run", "--quiet"]
    environment = os.environ | {"ANY2VEC_CACHE": str(tmp_path / "cache")}
    found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert found.returncode == 2 and not found.stdout
    assert found.stderr.startswith("Error: Others may write to ") and found.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists() and not list(kernels.rglob("*.nbi"))
