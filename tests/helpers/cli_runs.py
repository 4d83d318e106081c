"""Commands run in this process, and what they are expected to say."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner, Result

from any2vec.cli import main
from any2vec.cli.app import app


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def called(arguments: list[str]) -> int:
    """The exit code of a command that is run as the program runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["any2vec", *arguments])
        try:
            main()
        except SystemExit as ended:
            return int(ended.code or 0)
    return 0


def done(*arguments: str) -> str:
    """Standard output of a command that ends well."""
    found = run(*arguments)
    assert found.exit_code == 0, found.output
    return str(found.stdout)


def refused(*arguments: str) -> str:
    """The one sentence of a command that is refused: exit code 2, nothing on standard output."""
    found = run(*arguments)
    assert found.exit_code == 2, found.output
    assert not found.stdout and found.stderr.startswith("Error: ") and found.stderr.count("\n") == 1
    return str(found.stderr)
