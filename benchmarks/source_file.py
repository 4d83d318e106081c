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
from typing import TypeGuard

_KERNELS = "src/any2vec/kernels/"
_JIT = {"jit", "fast_jit"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Part:
    """A function with its decorators, or an import."""

    names: tuple[str, ...]
    """the function's qualified name, or what an import binds"""
    rows: range
    """of the file, from 0"""
    uses: frozenset[str] = frozenset()
    """names that stand in a function"""
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
        apart = {row for part in (*self._functions, *self._imports) for row in part.rows}
        self._uses = frozenset(_names(tree, apart))

    def digest(self, ran: Collection[str] | None = None, called: Collection[str] = ()) -> str:
        """Twelve letters, the same by any version of Python.

        Args:
            ran: qualified names of the functions that count; None: all, and all imports.
            called: names without their class of all functions that ran anywhere; a method that comes to bear one, in a
                class that was used, may stand in for the one that ran.
        """
        lines, more = self._lines, list[str]()
        if ran is not None:
            idle = [part for part in self._functions if part.names[0] not in ran]
            uses = self._uses.union(*(part.uses for part in self._functions if part.names[0] in ran))
            for part in (*idle, *self._imports):
                lines = _without(lines, part.rows)
            used = {name.rpartition(".")[0] for name in ran} - {""}
            owned = (part.names[0].rpartition(".") for part in idle)
            more = sorted(f"{owner}.{name}" for owner, _, name in owned if owner in used and name in called)
            bound = (pair for part in self._imports for pair in zip(part.names, part.says, strict=True))
            more += sorted(said for name, said in bound if name in uses)
        kept = [*filter(None, map(str.rstrip, lines)), *more]
        return hashlib.sha256("\n".join(kept).encode()).hexdigest()[:12]


@cache
def source_file(path: Path) -> SourceFile | None:
    """The file, read once; None where there is none."""
    return SourceFile(path) if path.exists() else None


def _without(lines: list[str], rows: Iterable[int]) -> list[str]:
    left = list(lines)
    for row in rows:
        left[row] = ""
    return left


def _rows(node: ast.stmt) -> range:
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
    return range(first - 1, node.end_lineno or node.lineno)


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


def _import(node: ast.Import | ast.ImportFrom) -> Part:
    origin = "." * node.level + (node.module or "") if isinstance(node, ast.ImportFrom) else ""
    bound = tuple(alias.asname or alias.name.partition(".")[0] for alias in node.names)
    return Part(bound, _rows(node), says=tuple(f"{origin} {alias.name} {alias.asname}" for alias in node.names))


def _names(tree: ast.AST, without: Collection[int] = ()) -> Iterator[str]:
    """Names that stand in it, but for some rows."""
    return (
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.lineno - 1 not in without
    )  # fmt: skip
