"""Where the processes that tests start find their modules."""

from __future__ import annotations

import os
from pathlib import Path

import any2vec

TESTS = Path(__file__).parents[1]


def python_path(*folders: Path) -> str:
    """PYTHONPATH of these, the tests' own folders, and the any2vec that is tested: another one may be installed."""
    own = (TESTS, TESTS / "helpers", TESTS / "programs", Path(any2vec.__file__).parent.parent)
    return os.pathsep.join(map(str, (*folders, *own)))
