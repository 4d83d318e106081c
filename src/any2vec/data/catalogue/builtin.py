"""Real data that ships with every Python: the language's help texts, and who imports whom in the standard library."""

from __future__ import annotations

import ast
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from any2vec.errors import DataError

_WORD = re.compile(r"[a-z_][a-z0-9_]*|[0-9]+")
_SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+|\n\s*\n")
_SKIPPED = {"__pycache__", "idlelib", "lib-dynload", "lib2to3", "site-packages", "test", "tests", "turtledemo"}


def demo_text() -> list[list[str]]:
    """The help texts of `pydoc_data.topics` as sentences of lower-case words: some 65 000 words, 4 900 sentences.

    A sentence ends at a full stop, a question or exclamation mark, a colon, a semicolon or an empty line; a word is an
    identifier or a number; sentences of one word are dropped. The text differs a little from Python to Python.

    Raises DataError where a Python was installed without `pydoc_data`.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise DataError("This Python came without its help texts (pydoc_data); install its full package.") from error
    sentences = []
    for name in sorted(topics):
        for sentence in _SENTENCE_END.split(topics[name].lower()):
            words = _WORD.findall(sentence)
            if len(words) > 1:
                sentences.append(words)
    return sentences


def import_graph() -> list[tuple[str, str]]:
    """Who imports whom in the standard library: sorted pairs (module, module that it imports), each once.

    A package counts as one module (`email.message` is `email`); imports inside functions count too; tests, demos and
    private modules (`_json`) are left out. Modules written in C appear as imported only. Takes 2 to 3 seconds.

    Raises DataError where the standard library has no sources to read.
    """
    folder = Path(sysconfig.get_paths()["stdlib"])
    sources: dict[str, list[Path]] = {}
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if path.suffix == ".py" and not path.stem.startswith("_sysconfigdata"):
                sources[path.stem] = [path]
            elif path.name not in _SKIPPED and (path / "__init__.py").is_file():
                sources[path.name] = [
                    file for file in sorted(path.rglob("*.py")) if _SKIPPED.isdisjoint(file.relative_to(folder).parts)
                ]
    public = {name for name in (*sources, *sys.stdlib_module_names) if not name.startswith("_")} - _SKIPPED
    edges = {
        (module, imported)
        for module, paths in sources.items()
        if module in public
        for path in paths
        for imported in _imported_modules(path)
        if imported != module and imported in public
    }
    if not edges:
        raise DataError(f"The standard library in {folder.name} has no sources to read; install Python's full package.")
    return sorted(edges)


def _imported_modules(path: Path) -> Iterator[str]:
    """Top-level names of the absolute imports in one file; nothing if the file does not parse."""
    try:
        statements: list[ast.AST] = list(ast.parse(path.read_bytes()).body)
    except (OSError, SyntaxError, ValueError):
        return
    while statements:
        node = statements.pop()
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0 and node.module:
                yield node.module.partition(".")[0]
        else:  # only statements hold statements: expressions need no visit
            for field in ("body", "orelse", "finalbody", "handlers", "cases"):
                inner = getattr(node, field, ())
                statements += inner if isinstance(inner, list) else ()
