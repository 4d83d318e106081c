"""No committed file tells of the machine on which it was made: no folder of one, no home."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = re.compile(r"(?<![\w.])/(?:work|root|srv|mnt|home/\w[\w.-]*|Users/\w[\w.-]*|tmp/\w[\w.-]*|var/folders)/")


def announces(text: str) -> list[str]:
    """What in a text is of a machine: absolute paths below its folders, this checkout's folder, this host's name."""
    found = FOLDERS.findall(text)
    found += [str(ROOT)] if str(ROOT.parent) != "/" and str(ROOT) in text else []
    host = platform.node()
    # A name that is a word may stand for the word.
    found += [] if host.isalpha() or not host else re.findall(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", text)
    return found


def test_committed_files_name_no_machine() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no checkout of git")
    names = [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    assert len(names) > 100
    texts = {name: (ROOT / name).read_bytes() for name in names}
    found = {name: announces(text.decode(errors="replace")) for name, text in texts.items() if b"\0" not in text}
    assert {name: reported for name, reported in found.items() if reported} == {}


@pytest.mark.parametrize("folder", ["work", "root", "home/somebody", "Users/somebody", "tmp/x"])
def test_folders_are_seen(folder: str) -> None:
    assert announces(f'"out": "/{folder}/runs/out"')
    assert announces(f"in {ROOT}/runs") and not announces("a /tmp of its own, and https://example.org/home/page")
