"""One-line faults of Python source: where one can be put, and the line that it makes."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr,
}  # fmt: skip
_CALLS = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "floor": "ceil", "ceil": "floor",
          "any": "all", "all": "any", "zeros": "ones", "argmax": "argmin", "argmin": "argmax"}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """A line of a file with a fault in it."""

    line: int
    """of the file, from 1"""
    column: int
    kind: str
    before: str
    """the line as it is"""
    after: str


def faults_of(source: str) -> list[Fault]:
    """All faults of a file that this module knows, in the order of their places.

    None in texts, annotations, decorators, asserts and what is raised: a fault there changes no result.
    """
    lines = source.encode().splitlines()
    found = []
    for node, others in _places(ast.parse(source)):
        if node.lineno != node.end_lineno:
            continue
        line = lines[node.lineno - 1]
        for kind, other in others:
            words = ast.unparse(other)
            if isinstance(other, (ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.UnaryOp)):
                words = f"({words})"  # it may stand inside a larger expression
            after = line[: node.col_offset] + words.encode() + line[node.end_col_offset :]
            found.append(Fault(node.lineno, node.col_offset, kind, line.decode(), after.decode()))
    return sorted(found, key=lambda fault: (fault.line, fault.column, fault.kind))


def with_fault(source: str, fault: Fault) -> str:
    """The file with the fault in its line."""
    lines = source.split("\n")
    lines[fault.line - 1] = fault.after
    return "\n".join(lines)


def _places(tree: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, list[tuple[str, ast.AST]]]]:
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            child = copy.copy(child)
            child.decorator_list = []
            if isinstance(child, ast.FunctionDef):
                child.returns = None
        if isinstance(child, (ast.arg, ast.AnnAssign)):
            child = copy.copy(child)
            child.annotation = ast.Name("Any")  # type: ignore[assignment]
        if isinstance(child, (ast.expr, ast.stmt)) and hasattr(child, "lineno"):
            yield child, list(_others(child))
        yield from _places(child)


def _others(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What may stand in the place of a node, with the name of the change."""
    other: ast.AST = copy.deepcopy(node)
    match node, other:
        case ast.Compare(ops=[operator]), ast.Compare() if type(operator) in _COMPARISONS:
            other.ops = [_COMPARISONS[type(operator)]()]
            yield "comparison", other
        case ast.BinOp(op=operator), ast.BinOp() if type(operator) in _OPERATORS and not _is_text(node):
            other.op = _OPERATORS[type(operator)]()
            yield "operator", other
        case ast.AugAssign(op=operator), ast.AugAssign() if type(operator) in _OPERATORS:
            other.op = _OPERATORS[type(operator)]()
            yield "operator", other
        case ast.BoolOp(op=ast.And() | ast.Or() as operator), ast.BoolOp():
            other.op = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield "and or", other
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand), _ if not isinstance(operand, ast.Constant):
            yield "sign", operand
        case ast.IfExp(body=body, orelse=orelse), ast.IfExp():
            other.body, other.orelse = orelse, body
            yield "branches", other
        case ast.Constant(value=bool(value)), ast.Constant():
            other.value = not value
            yield "constant", other
        case ast.Constant(value=int(value) | float(value)), ast.Constant():
            other.value = value + 1 if isinstance(value, int) else value * 2 or 1.0
            yield "constant", other
        case ast.Call(func=ast.Name(id=name)), ast.Call(func=ast.Name()) if name in _CALLS:
            other.func.id = _CALLS[name]  # type: ignore[attr-defined]
            yield "call", other
        case ast.Call(func=ast.Attribute(attr=name)), ast.Call(func=ast.Attribute()) if name in _CALLS:
            other.func.attr = _CALLS[name]  # type: ignore[attr-defined]
            yield "call", other
        case ast.Expr(value=ast.Call()), _:
            yield "call left out", ast.Pass()
        case ast.Continue(), _:
            yield "loop", ast.Break()
        case ast.Break(), _:
            yield "loop", ast.Continue()


def _is_text(node: ast.BinOp) -> bool:
    """Whether texts are joined, or types in an annotation."""
    sides = (node.left, node.right)
    constants = [side.value for side in sides if isinstance(side, ast.Constant)]
    return any(isinstance(side, ast.JoinedStr) for side in sides) or any(
        isinstance(value, str | None) for value in constants
    )
