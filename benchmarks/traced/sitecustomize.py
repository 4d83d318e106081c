"""Python imports this at its start where PYTHONPATH names this folder: at its end a process says what it has imported.

The files of the project, a path a line, in a file of its own in the folder that ANY2VEC_BENCH_TRACE names.
"""

import atexit
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _write(folder: str) -> None:
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    paths = {Path(name).resolve() for name in files if name and name.endswith(".py")}
    own = sorted(path.relative_to(ROOT).as_posix() for path in paths if path.is_relative_to(ROOT))
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".txt", delete=False) as file:
        file.write("\n".join(own))


if "ANY2VEC_BENCH_TRACE" in os.environ:
    atexit.register(_write, os.environ["ANY2VEC_BENCH_TRACE"])
