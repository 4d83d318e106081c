"""What ran in this process: files of the project that it imported, and the functions of them that it called."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]


class CalledFunctions:
    """Notes every call of a Python function, in all threads: a context, or from `start` to `stop`."""

    def __init__(self) -> None:
        self._called: set[CodeType] = set()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def stop(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def names(self) -> set[tuple[str, str]]:
        """(file of the project, qualified name) of what was called; kernels with all that they may call."""
        codes = self._called | {kernel.py_func.__code__ for kernel in _with_callees(_compiled_kernels())}
        named = ((_own(code.co_filename), code.co_qualname) for code in codes)
        return {(path, name.partition(".<")[0]) for path, name in named if path and name != "<module>"}

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            self._called.add(frame.f_code)


def imported() -> set[str]:
    """Files of the project that this process has imported, or that it runs."""
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    files += sys.orig_argv[1:2]  # a script that has ended: its module knows its file no more
    return {path for name in files if name and name.endswith(".py") and (path := _own(name))}


def _own(name: str) -> str | None:
    """A file's path below the project."""
    path = Path(name).resolve()
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) and path.suffix == ".py" else None


def _compiled_kernels() -> list[Any]:
    """Kernels of numba that were compiled here, or came from the cache: no call of theirs is seen."""
    module = sys.modules.get("numba.core.dispatcher")
    if module is None:
        return []
    found = (item for item in gc.get_objects() if issubclass(type(item), module.Dispatcher))
    return [kernel for kernel in found if kernel.overloads]


def _with_callees(kernels: list[Any]) -> list[Any]:
    """Those that these name, and so on: one that comes from the cache brings its callees within."""
    found, known = list(kernels), {id(kernel) for kernel in kernels}
    for kernel in found:
        for other in _named(kernel.py_func):
            if hasattr(other, "py_func") and id(other) not in known:
                known.add(id(other))
                found.append(other)
    return found


def _named(function: Any) -> Iterator[Any]:
    """Globals, attributes of modules, and variables of functions around it that a function names."""
    names = function.__code__.co_names
    for name in names:
        item = function.__globals__.get(name)
        yield item
        if isinstance(item, ModuleType):
            yield from (getattr(item, attribute, None) for attribute in names)
    yield from (cell.cell_contents for cell in function.__closure__ or ())
