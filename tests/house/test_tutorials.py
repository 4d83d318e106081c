"""Each tutorial is followed from its first line to its last, in an empty folder."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
NEEDS_TORCH = {"clicks", "graph-networks", "layers"}
LEARNED: dict[str, Callable[[str, dict[str, Any]], bool]] = {
    "words": lambda said, names: "height" in said and "width" in names["again"],
    "nodes": lambda said, names: names["accuracy"] > 0.85 and len(names["found"].vectors) == 1797,
    "knowledge-graphs": lambda said, names: "object" in dict(names["scorer"].tails("OrderedDict", "is_a", k=20)),
    "streams": lambda said, names: (
        after(said, "nearest to disk", 4) == {"full", "volume", "quota", "block"}
        and after(said, "nearest to sensor", 3) < set(names["TOPICS"]["heat"])
        and names["result"].summary["words"] == 16000
    ),
    "clicks": lambda said, names: names["result"].summary["loss"] < 0.6,
    "recommend": lambda said, names: min(names["scores"].values()) > 0.15 and "recall" in said,
    "graph-networks": lambda said, names: names["result"].summary["test_accuracy"] > 0.85,
    "layers": lambda said, names: names["accuracy"] > 0.85,
}  # fmt: skip
"""tutorial -> whether it has shown what it says, by what its commands print and its Python leaves"""


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(TUTORIALS.glob("*.md")), ids=lambda page: page.stem)
def test_a_tutorial_is_followed(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page.stem in NEEDS_TORCH:
        pytest.importorskip("torch", reason='needs pip install "any2vec[torch]"')
    monkeypatch.chdir(tmp_path)
    said, names = io.StringIO(), dict[str, Any]()
    with contextlib.redirect_stdout(said):
        for language, text in re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
            if language == "python":
                exec(compile(text, page.name, "exec"), names)
            else:
                said.write("".join(map(run, text.splitlines())))
    assert LEARNED[page.stem](said.getvalue(), names), said.getvalue()


def after(said: str, title: str, rows: int) -> set[str]:
    """The first words of the rows of the table with that title."""
    lines = said.splitlines()
    first = lines.index(title) + 3  # its head and a rule
    return {line.split()[0] for line in lines[first : first + rows]}


def run(command: str) -> str:
    """What a command line prints; it ends well."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    done = subprocess.run(shlex.split(command), env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
