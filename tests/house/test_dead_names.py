"""What texts name is there: modules and what is in them, and files; so nothing that moves leaves a dead name behind."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
PACKAGE = SRC / "any2vec"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md", *ROOT.glob("docs/*.md")]
ROOMS = sorted(path.stem for path in PACKAGE.iterdir() if path.is_dir() and (path / "__init__.py").exists())
FOLDERS = ("src", "tests", "benchmarks")
DOTTED = re.compile(rf"(?<![\w./-])(any2vec(?:\.\w+)+|(?:{'|'.join(ROOMS)})(?:\.\w+){{2,}})(?![\w/])")
"""ROOM.MODULE.NAME, with any2vec before it or without"""
FOLDER = re.compile(r"(?<![\w./<~-])((?:src/any2vec|any2vec|tests|benchmarks|docs)(?:/\w+)+)(?![\w.*/{-])")
FILES = re.compile(r"(?<![\w./*{-])((?:[\w*-]+/)*[\w*]+\.py)\b")
GROUPS = re.compile(r"any2vec\.(tasks|rules|residencies|freshness|models\.\w+)")
"""of entry points, which are no modules"""


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of the comments and docstrings of a file, bare strings beneath fields among them."""
    source = path.read_text(encoding="utf-8")
    for line, text in enumerate(source.splitlines(), 1):
        if "# " in text:
            yield line, text.partition("# ")[2]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


@cache
def modules() -> tuple[Path, ...]:
    return tuple(sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")))


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """(where, text) of all that people read: comments, docstrings, pages."""
    pages = ((path.name, path.read_text(encoding="utf-8")) for path in PAGES)
    own = ((f"{path.relative_to(ROOT)}:{line}", text) for path in modules() for line, text in texts_of(path))
    return (*pages, *own)


@cache
def members(path: Path) -> set[str]:
    """Names at the top of a module, and those of its classes as Class.name, also what methods assign to self."""
    found: set[str] = set()

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            match node:
                case ast.ClassDef(name=name, body=inner):
                    found.add(prefix + name)
                    collect(inner, f"{prefix}{name}.")
                case ast.FunctionDef(name=name):
                    found.add(prefix + name)
                    if prefix:
                        found.update(prefix + one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute))
                case ast.Import(names=names) | ast.ImportFrom(names=names):
                    found.update(alias.asname or alias.name for alias in names)
                case ast.If(body=inner, orelse=other) | ast.Try(body=inner, orelse=other):
                    collect([*inner, *other], prefix)
                case ast.Assign() | ast.AnnAssign():
                    found.update(prefix + one.id for one in ast.walk(node) if isinstance(one, ast.Name))

    collect(ast.parse(path.read_text(encoding="utf-8")).body, "")
    return found


def is_there(name: str) -> bool:
    """Whether a dotted name leads to a module, to what is in it, or to what a class in it has."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        path, rest = SRC.joinpath(*parts[:length]), ".".join(parts[length:])
        if path.is_dir():  # a package may import names when they are asked for
            return (
                not rest
                or re.search(rf"\b{parts[length]}\b", (path / "__init__.py").read_text(encoding="utf-8")) is not None
            )
        if path.with_suffix(".py").is_file():
            return not rest or rest in members(path.with_suffix(".py"))
    return False


@cache
def is_file(name: str) -> bool:
    """Whether a path, perhaps with stars, is the end of one of a module, or of start.py."""
    return any(path.match(name) for path in (*modules(), ROOT / "start.py"))


def is_folder(name: str) -> bool:
    return any((root / name).with_suffix(suffix).exists() for root in (ROOT, SRC) for suffix in ("", ".py"))


def test_dotted_names_lead_somewhere() -> None:
    found = ((where, name) for where, text in texts() for name in DOTTED.findall(text) if not GROUPS.fullmatch(name))
    dead = [f"{where}: {name}" for where, name in found if not is_there("any2vec." + name.removeprefix("any2vec."))]
    assert dead == []


def test_files_that_are_named_are_there() -> None:
    dead = [f"{where}: {name}" for where, text in texts() for name in FILES.findall(text) if not is_file(name)]
    dead += [f"{where}: {name}" for where, text in texts() for name in FOLDER.findall(text) if not is_folder(name)]
    assert dead == []


def test_scripts_that_benchmarks_start_are_there() -> None:
    """Names of files in strings, such as those of the scripts in benchmarks/peers."""
    found = []
    for path in (path for path in modules() if "benchmarks" in path.parts):
        strings = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
        found += [(path.name, text) for text in strings if isinstance(text, str) and FILES.fullmatch(text)]
    assert len(found) > 10
    assert [f"{name}: {text}" for name, text in found if not is_file(text)] == []


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("any2vec.train.loop.run", True), ("any2vec.fit", True), ("any2vec.tables.disk", True),
        ("any2vec.train.loop.LocalDriver.after", True), ("any2vec.train.loop.LocalDriver.before_all", False),
        ("any2vec.train.loop.walk", False), ("any2vec.tables.disc", False), ("any2vec.no_such", False),
    ],
)  # fmt: skip
def test_what_is_there(name: str, known: bool) -> None:
    assert is_there(name) == known
