"""An option by which two calls of pytest share the tests: none runs twice, none is lost. Each draws alike."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--once", type=Path, metavar="FILE", help="leave out the tests that FILE names; add those that ran"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--once"):
        config.pluginmanager.register(Once(config.getoption("--once"), hasattr(config, "workerinput")))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Weights that a test draws from torch's own generator are the same in each run, whatever ran before it."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


class Once:
    """Leaves out what ran in an earlier call. What was skipped or deselected there did not run.

    A test of a module that could not be imported for want of a library never ran either, so the next call has it.
    """

    def __init__(self, path: Path, is_worker: bool) -> None:
        self.path = path.absolute()
        self.is_worker = is_worker
        """of pytest-xdist: all workers must see the same tests, so that the controller alone writes, at the end"""
        text = self.path.read_text(encoding="ascii") if self.path.exists() else ""
        self.before = frozenset(text.splitlines())
        self.now: dict[str, None] = {}

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        done = [item for item in items if line(item.nodeid) in self.before]
        if done:
            config.hook.pytest_deselected(items=done)
            items[:] = [item for item in items if line(item.nodeid) not in self.before]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or (report.when == "call" and report.passed):
            self.now[line(report.nodeid)] = None

    def pytest_sessionfinish(self) -> None:
        if not self.is_worker:
            with self.path.open("a", encoding="ascii") as file:
                file.writelines(name + "\n" for name in self.now)


def line(nodeid: str) -> str:
    """The name of a test as one line of text: an id of a case may hold any character."""
    return nodeid.encode("unicode_escape").decode("ascii")
