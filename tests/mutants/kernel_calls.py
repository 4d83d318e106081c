"""A plugin of pytest: which compiled kernels each test ran, which no tracer of Python sees, and how long it took.

    pytest -p mutants.kernel_calls --kernel-calls FOLDER

A kernel that another kernel calls counts as run with it. Every process writes a file of its own.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from numba._dispatcher import Dispatcher as CompiledDispatcher
from numba.core.dispatcher import Dispatcher

_running: set[str] = set()
_callees: dict[str, set[str]] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kernel-calls", type=Path, metavar="FOLDER", help="write here which kernels each test ran")


def pytest_configure(config: pytest.Config) -> None:
    if folder := config.getoption("--kernel-calls"):
        config.pluginmanager.register(KernelCalls(folder))


class KernelCalls:
    """Records by test: its kernels, as module:function, its seconds, and whether it failed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.tests: dict[str, dict[str, Any]] = {}

        def call(self: Any, *arguments: Any, **named: Any) -> Any:
            _running.update(reached(self))
            return CompiledDispatcher.__call__(self, *arguments, **named)

        Dispatcher.__call__ = call

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        _running.clear()
        result = yield
        self.tests.setdefault(item.nodeid, {"seconds": 0.0})["kernels"] = sorted(_running)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        record = self.tests.setdefault(report.nodeid, {"seconds": 0.0, "kernels": []})
        record["seconds"] += report.duration
        record["has_failed"] = record.get("has_failed", False) or report.failed

    def pytest_sessionfinish(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}.json"
        path.write_text(json.dumps(self.tests), encoding="utf-8")


def reached(kernel: Dispatcher) -> set[str]:
    """The kernel and all that it calls."""
    name = name_of(kernel)
    if name not in _callees:
        _callees[name] = {name}
        code, globals_ = kernel.py_func.__code__, kernel.py_func.__globals__
        for called in code.co_names:
            if isinstance(other := globals_.get(called), Dispatcher):
                _callees[name] |= reached(other)
    return _callees[name]


def name_of(kernel: Dispatcher) -> str:
    return f"{kernel.py_func.__module__}:{kernel.py_func.__name__}"
