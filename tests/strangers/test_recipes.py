"""The recipes of docs/extending.md, carried out outside src: files of this folder, and commands."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from stranger_packages import STRANGERS, install, run

from any2vec.testing.planted_triples import PlantedTriples

PAGE = (STRANGERS.parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```\n", PAGE, re.DOTALL)
RECIPES: dict[str, tuple[str, str]] = {}
"""module -> (its entry points as TOML, its commands)"""
for (kind, text), (_, points), (_, commands) in zip(BLOCKS, BLOCKS[1:], BLOCKS[2:], strict=False):
    if kind == "python" and (found := re.match(r"# (\w+)\.py\n", text)):
        RECIPES[found[1]] = points, commands


def test_the_page_has_its_recipes() -> None:
    assert {"trimmed_mean", "tucker", "bag_means"} == RECIPES.keys()


@pytest.mark.parametrize("module", RECIPES)
def test_the_page_shows_the_files(module: str) -> None:
    shown = next(text for kind, text in BLOCKS if kind == "python" and text.startswith(f"# {module}.py\n"))
    assert shown.partition("\n")[2] == (STRANGERS / f"{module}.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("module", RECIPES)
def test_its_commands_run(module: str, tmp_path: Path) -> None:
    points, commands = RECIPES[module]
    groups = tomllib.loads(points)["project"]["entry-points"]
    package = install(
        tmp_path, module,
        {f"{group}:{name}": where for group, names in groups.items() for name, where in names.items()},
    )  # fmt: skip
    triples = (f"e{a}\tr{b}\te{c}\n" for a, b, c in PlantedTriples(60, 2, 10).triples(0, 4000).tolist())
    (package / "triples.tsv").write_text("".join(triples))
    (package / "bags.txt").write_text("".join(f"i{n % 9},i{(n + 1) % 9},i{(n * n) % 9}\n" for n in range(200)))
    lines = commands.splitlines()
    assert lines and all(line.startswith("any2vec ") for line in lines)
    for line in lines:
        done = run(package, "-m", *shlex.split(line))
        assert done.returncode == 0, f"{line}: {done.stderr}"
