"""`python -m any2vec.tasks.words.metis_process INDPTR INDICES MADE PARTS`: METIS in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack

import numpy as np

from any2vec.cluster.launch.ending import REFUSED, Ending
from any2vec.cluster.launch.join import run_child
from any2vec.data.io.storage import storage_errors
from any2vec.errors import HostError, InputError
from any2vec.plan.sharding.graph import metis_partition
from any2vec.types import Csr

_KEPT = 20  # lines of standard error


def metis_in_process(csr: Csr, parts: int) -> np.ndarray:
    """`plan.sharding.graph.metis_partition`, int32 (N,), in another process of this one's group.

    METIS holds Python's lock for as long as it works, which is minutes for millions of edges. In a host's own process
    no thread could show the other hosts meanwhile that it is alive, and they would give it up.

    Raises:
        InputError: as there.
        HostError: the process was killed, perhaps for memory, or failed.
        StorageError: the temporary folder has no room for 8 bytes a node and 4 an entry.
    """
    with ExitStack() as stack:
        with storage_errors(tempfile.gettempdir()):
            # Files without names: whatever ends this process, nothing stays.
            indptr, indices, made = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
            for file, array in ((indptr, csr.indptr), (indices, csr.indices)):
                np.save(file, array)
                file.flush()
                file.seek(0)
        given = [str(file.fileno()) for file in (indptr, indices, made)]
        process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "any2vec.tasks.words.metis_process", *given, str(parts)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[int(number) for number in given],
            )
        )
        stack.callback(process.kill)  # where it is stopped: METIS would hear of nothing before its end
        assert process.stderr is not None
        lines = process.stderr.read().decode(errors="replace").splitlines()[-_KEPT:]
        if process.wait() == REFUSED:
            raise InputError(lines[-1])
        if process.returncode:
            error = HostError(Ending(rank=0, code=process.returncode, lines=tuple(lines)).reason())
            for line in lines:
                error.add_note(line)
            raise error
        made.seek(0)
        return np.asarray(np.load(made, allow_pickle=False))


def main() -> None:
    """Cut the graph that lies in two files, given by their descriptors, and write the parts into a third."""
    given, parts = sys.argv[1:4], int(sys.argv[4])
    with ExitStack() as stack:
        files = [
            stack.enter_context(os.fdopen(int(number), mode))
            for number, mode in zip(given, ("rb", "rb", "wb"), strict=True)
        ]
        indptr, indices = (np.load(file, allow_pickle=False) for file in files[:2])
        np.save(files[2], metis_partition(Csr(indptr, indices, np.empty(0, np.float32)), parts))


if __name__ == "__main__":
    run_child(main)
