"""Python imports this at its start where PYTHONPATH names this folder: at its end a process says what ran in it.

A file of its own in the folder that ANY2VEC_BENCH_TRACE names has a line for each file of the project that it imported;
with ANY2VEC_BENCH_FUNCTIONS also a line for each function called: file, tab, qualified name (none: the file itself).
"""

import atexit
import os
import tempfile

from ran import CalledFunctions, imported


def _write(folder: str, called: CalledFunctions | None) -> None:
    lines = imported()
    if called is not None:
        called.stop()
        lines = {f"{path}\t" for path in lines} | {f"{path}\t{name}" for path, name in called.names()}
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".txt", delete=False) as file:
        file.write("\n".join(sorted(lines)))


if "ANY2VEC_BENCH_TRACE" in os.environ:
    _called = CalledFunctions() if "ANY2VEC_BENCH_FUNCTIONS" in os.environ else None
    atexit.register(_write, os.environ["ANY2VEC_BENCH_TRACE"], _called)
    if _called is not None:
        _called.start()
