"""The shape of the house: arrows point down, heavy libraries enter at their doors, and the door is light."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import any2vec

PACKAGE = Path(any2vec.__file__).parent
FLOORS = {
    "_version": 0, "background": 0, "errors": 0, "checks": 0.5, "units": 0.5, "registry": 0.6, "types": 0,
    "signals": 0, "standard_error": 0, "machine": 0.5,
    "kernels": 1, "cluster": 1.5,
    "data": 2, "plan": 2, "options": 2.1, "sources": 2.2,
    "formats": 2.4, "neighbors": 2.5, "encoders": 2.5, "embeddings": 2.6,
    "tables": 3, "sampling": 3,
    "sync": 4, "evaluate": 4, "nn": 4.1, "models": 4.2, "callbacks": 4.3,
    "train": 5, "tasks": 5.2, "report": 5.5,
    "any2vec": 6, "__main__": 8, "doctor": 6, "serve": 6, "testing": 6.2, "estimators": 6.5,
    "cli": 7,
}  # fmt: skip
"""room -> floor (CONTRIBUTING.md; halves order the rooms that share a storey)"""
DOORS = {
    "matplotlib": {"report"}, "PIL": {"report"},
    "typer": {"cli"}, "rich": {"cli"}, "click": {"cli"},
    "numba": {"kernels"}, "llvmlite": {"kernels"},
    "sklearn": {"evaluate", "report", "estimators"},
    "pyarrow": {"data", "formats"}, "zstandard": {"data"}, "safetensors": {"formats"},
    "usearch": {"formats"}, "gensim": {"formats"}, "networkx": {"data"},
    "torch_geometric": {"data", "nn", "sampling", "models"},
    "torch": {"cluster", "data", "formats", "models", "nn", "sampling"}, "ray": {"cluster"}, "pymetis": {"plan"},
    "pandas": {"formats"}, "faiss": {"formats"},
    "fastapi": {"serve"}, "starlette": {"serve"}, "pydantic": {"serve"}, "uvicorn": {"serve"},
    "httpx": {"sources"}, "feedparser": {"sources"}, "confluent_kafka": {"sources"}, "redis": {"sources"},
    "protego": {"sources"}, "resiliparse": {"sources"},
    "tensorboardX": {"callbacks"}, "mlflow": {"callbacks"}, "wandb": {"callbacks"},
}  # fmt: skip
ONE_DOOR = {"pyarrow": "data/io/arrow.py"}
"""library -> the one file that imports it"""
KNOTTED: set[str] = set()
"""rooms whose folders still lean on each other"""
HEAVY = (
    "torch",
    "ray",
    "numba",
    "llvmlite",
    "pyarrow",
    "sklearn",
    "matplotlib",
    "scipy",
    "gensim",
    "networkx",
    "usearch",
    "httpx",
    "feedparser",
    "confluent_kafka",
    "redis",
    "protego",
    "resiliparse",
    "fastapi",
    "uvicorn",
    "faiss",
)


def room_of(module: str) -> str:
    """any2vec.data.text.text -> data; any2vec -> any2vec."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "any2vec"


def is_module(name: str) -> bool:
    path = PACKAGE.parent / Path(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement below, but not those that only a type checker reads."""
    for node in body:
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            yield from statements(node.orelse)
            continue
        for field in ("body", "orelse", "finalbody"):
            yield from statements(getattr(node, field, []))
        for part in (*getattr(node, "handlers", []), *getattr(node, "cases", [])):
            yield from statements(part.body)


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, absolute module) of every import in the file, wherever it stands."""
    for node in statements(ast.parse(path.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: write the absolute import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield node.lineno, full if full.startswith("any2vec.") and is_module(full) else str(node.module)


def files() -> list[tuple[str, Path]]:
    """(room, file) of every source file."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found.append(("any2vec" if parts == ("__init__",) else parts[0], path))
    return found


def test_every_room_has_a_floor() -> None:
    assert {room for room, _ in files()} <= FLOORS.keys()


def test_a_room_imports_only_from_floors_below() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line}: {room} (floor {FLOORS[room]}) imports {module}"
        for room, path in files()
        for line, module in imports(path)
        if module.split(".")[0] == "any2vec"
        and room_of(module) != room
        and not (module == "any2vec._version" or FLOORS[room_of(module)] < FLOORS[room])
    ]
    assert not wrong, "\n".join(wrong)


def test_heavy_libraries_enter_at_their_doors() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line}: {module} belongs to {sorted(DOORS[module.split('.')[0]])}"
        for room, path in files()
        for line, module in imports(path)
        if module.split(".")[0] in DOORS and room not in DOORS[module.split(".")[0]]
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("library", ONE_DOOR)
def test_a_library_of_one_door_is_imported_by_one_file(library: str) -> None:
    named = [path for _, path in files() for _, module in imports(path) if module.split(".")[0] == library]
    assert {str(path.relative_to(PACKAGE)) for path in named} == {ONE_DOOR[library]}


def graph() -> dict[str, set[str]]:
    """module -> the modules of the package that it imports, wherever the import stands."""
    paths = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for _, path in files()}
    paths = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    return {name: {module for _, module in imports(path) if module in paths} - {name} for name, path in paths.items()}


def cycles(arrows: dict[str, set[str]]) -> list[str]:
    """What is left when whatever no arrow leads out of, or into, is taken away again and again."""
    left = {name: set(to) & arrows.keys() for name, to in arrows.items()}
    while True:
        into = set().union(*left.values())
        kept = {name for name, to in left.items() if to and name in into}
        if len(kept) == len(left):
            return sorted(left)
        left = {name: to & kept for name, to in left.items() if name in kept}


def test_cycles_are_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == ["b", "c"]


def test_no_cycle_of_modules() -> None:
    assert cycles(graph()) == []


def test_no_cycle_of_sub_rooms() -> None:
    """Below a room, folders are ordered, too; what a package's `__init__` brings together is above them."""

    def folder(module: str) -> str:
        return module.rpartition(".")[0] if module.count(".") > 1 else module

    packages = {".".join(path.parent.relative_to(PACKAGE.parent).parts) for _, path in files()}
    arrows: dict[str, set[str]] = {}
    for module, to in graph().items():
        if module not in packages:
            room = folder(module)
            arrows.setdefault(room, set()).update({folder(name) for name in to - packages} - {room})
    assert [room for room in cycles(arrows) if room.split(".")[1] not in KNOTTED] == []


def test_folders_stay_small() -> None:
    root = Path(__file__).parents[2]
    rooms = (PACKAGE, root / "tests", root / "benchmarks")
    counts = Counter(path.parent for room in rooms for path in room.rglob("*.py"))
    assert not {str(folder): count for folder, count in counts.items() if count > 15}


def test_files_stay_small() -> None:
    """About 400 lines a file; 600 is where it certainly holds two ideas."""
    long = {str(path.relative_to(PACKAGE)): len(path.read_text().splitlines()) for _, path in files()}
    assert not {name: lines for name, lines in long.items() if lines > 600}


LIGHT = [
    "import any2vec",
    "import any2vec; any2vec.__version__; dir(any2vec)",
    "import sys; sys.argv = ['any2vec', '--help']; from any2vec.cli import main; main()",
    "import sys; sys.argv = ['any2vec', '--version']; from any2vec.cli import main; main()",
    "import sys; sys.argv = ['any2vec', 'train', '--help']; from any2vec.cli import main; main()",
]


@pytest.mark.parametrize("code", LIGHT, ids=["import", "names", "--help", "--version", "train --help"])
def test_the_door_is_light(code: str) -> None:
    """What is imported, not how long it takes: no compiler, no torch, no plots."""
    script = (
        f"import atexit, json, sys\n"
        f"atexit.register(lambda: print('\\n' + json.dumps(sorted(set({HEAVY!r}) & set(sys.modules)))))\n{code}\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []
