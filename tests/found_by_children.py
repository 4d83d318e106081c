"""Where the processes that tests start find their modules."""

from __future__ import annotations

import os
from pathlib import Path

import any2vec


def python_path(*folders: Path) -> str:
    """PYTHONPATH of these folders, and of the any2vec that is tested: what is installed may be another checkout."""
    return os.pathsep.join(map(str, (*folders, Path(any2vec.__file__).parent.parent)))
