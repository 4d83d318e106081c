"""What a source file does, whole or by the functions of it that ran."""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TypeGuard

_KERNELS = "src/any2vec/kernels/"
_JIT = {"jit", "fast_jit"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_PARSES = Lock()
"""Python 3.11 counts the depth of all threads that parse together, and may say that it does not come out even."""


@dataclass(frozen=True)
class Part:
    """A function with its decorators, a class without its functions, or an import."""

    names: tuple[str, ...]
    """the function's qualified name, the class's, or what an import binds"""
    rows: tuple[int, ...]
    """of the file, from 0; of a class without its functions"""
    uses: frozenset[str] = frozenset()
    """names that stand there"""
    says: tuple[str, ...] = ()
    """of an import, for each name: from where"""


class SourceFile:
    """A file without its comments and docstrings."""

    def __init__(self, path: Path) -> None:
        source = path.read_text(encoding="utf-8")
        self._lines = source.splitlines()
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                self._lines[row - 1] = self._lines[row - 1][:column]
        tree = ast.parse(source)
        for node in filter(_is_text, ast.walk(tree)):
            self._lines = _without(self._lines, _rows(node))
        functions = list(_functions(tree))
        is_kernel = _KERNELS in path.as_posix()
        self._functions = [
            Part((name,), _rows(function), frozenset(_names(function)))
            for name, function in functions
            # numba may call others of kernels while it compiles, which the cache spares it
            if not (is_kernel and any(ast.unparse(one) not in _JIT for one in function.decorator_list))
        ]
        # Names that a package passes on stand nowhere else in it.
        self._imports = [] if path.name == "__init__.py" else [_import(node) for node in _imports(tree)]
        self.functions = frozenset(part.names[0] for part in self._functions)
        """by qualified name"""
        own = {row for part in self._functions for row in part.rows}
        self._classes = [_class(node, own) for node in tree.body if isinstance(node, ast.ClassDef)]
        apart = own.union(*(part.rows for part in (*self._classes, *self._imports)))
        self._uses, self._names = frozenset(_names(tree, apart)), frozenset(_names(tree))
        self.given = frozenset(_given(tree))
        """names of its constants and classes"""

    def uses(self, ran: Collection[str] | None, named: Collection[str]) -> frozenset[str]:
        """Names that stand in functions that ran (None: all), in classes that count, and outside of both."""
        return self._names if ran is None else self._uses.union(*(part.uses for part in self._counted(ran, named)))

    def digest(
        self, ran: Collection[str] | None = None, called: Collection[str] = (), named: Collection[str] = ()
    ) -> str:
        """Twelve letters, the same by any version of Python.

        Args:
            ran: qualified names of the functions that count; None: all, and all classes and imports.
            called: names without their class of all functions that ran anywhere; a method that comes to bear one, in a
                class that was used, may stand in for the one that ran.
            named: names that stand anywhere in what counts; a class that is not among them counts by its functions.
        """
        lines, more = self._lines, list[str]()
        if ran is not None:
            counted = self._counted(ran, named)
            for part in (*self._functions, *self._classes, *self._imports):
                lines = lines if part in counted else _without(lines, part.rows)
            used = {name.rpartition(".")[0] for name in ran} - {""}
            owned = (part.names[0].rpartition(".") for part in self._functions if part.names[0] not in ran)
            more = sorted(f"{owner}.{name}" for owner, _, name in owned if owner in used and name in called)
            uses = self.uses(ran, named)
            bound = (pair for part in self._imports for pair in zip(part.names, part.says, strict=True))
            more += sorted(said for name, said in bound if name in uses)
        kept = [*filter(None, map(str.rstrip, lines)), *more]
        return hashlib.sha256("\n".join(kept).encode()).hexdigest()[:12]

    def _counted(self, ran: Collection[str], named: Collection[str]) -> list[Part]:
        """Functions that ran, classes that are named or of which a function ran."""
        owners = {name.partition(".")[0] for name in ran if "." in name}
        classes = [part for part in self._classes if part.names[0] in owners or part.names[0] in named]
        return [part for part in self._functions if part.names[0] in ran] + classes


@cache
def source_file(path: Path) -> SourceFile | None:
    """The file, read once; None where there is none."""
    with _PARSES:
        return SourceFile(path) if path.exists() else None


def _without(lines: list[str], rows: Iterable[int]) -> list[str]:
    left = list(lines)
    for row in rows:
        left[row] = ""
    return left


def _rows(node: ast.stmt) -> tuple[int, ...]:
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
    return tuple(range(first - 1, node.end_lineno or node.lineno))


def _class(node: ast.ClassDef, functions: Collection[int]) -> Part:
    return Part(
        (node.name,), tuple(row for row in _rows(node) if row not in functions), frozenset(_names(node, functions))
    )


def _is_text(node: ast.AST) -> TypeGuard[ast.Expr]:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _functions(node: ast.AST, within: str = "") -> Iterator[tuple[str, _Function]]:
    """Functions of a module and methods of its classes, by qualified name; not what stands within one."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Function):
            yield within + child.name, child
        else:
            yield from _functions(child, f"{within}{child.name}." if isinstance(child, ast.ClassDef) else within)


def _imports(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Those outside functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif not isinstance(child, _Function):
            yield from _imports(child)


def _given(tree: ast.Module) -> Iterator[str]:
    """Names of the classes of a module, and of what it assigns outside functions."""
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            yield statement.name
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            yield from (one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name))


def _import(node: ast.Import | ast.ImportFrom) -> Part:
    origin = "." * node.level + (node.module or "") if isinstance(node, ast.ImportFrom) else ""
    bound = tuple(alias.asname or alias.name.partition(".")[0] for alias in node.names)
    return Part(bound, _rows(node), says=tuple(f"{origin} {alias.name} {alias.asname}" for alias in node.names))


def _names(tree: ast.AST, without: Collection[int] = ()) -> Iterator[str]:
    """Names that stand in it, but for some rows."""
    return (
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.lineno - 1 not in without
    )  # fmt: skip
