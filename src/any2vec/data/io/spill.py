"""Arrays that lie in memory up to a budget, and in files mapped into memory beyond it."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import numpy as np

from any2vec.data.io.storage import storage_errors

BUDGET_BYTES = 1 << 29


class Spill:
    """A budget of memory, and a temporary folder for what is beyond it, gone when the `with` statement ends."""

    def __init__(self, budget_bytes: int = BUDGET_BYTES, folder: Path | None = None) -> None:
        """folder: where the temporary one is made; by default the system's place for temporary files."""
        self.budget_bytes = budget_bytes
        self.num_files = 0
        self._above = folder
        self._folder: Path | None = None
        self._kept_bytes = 0
        self._stack = ExitStack()

    def __enter__(self) -> Spill:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def keep(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """The arrays: as they are while they fit into the budget with those kept before, else from files.

        Raises:
            StorageError: the disk is full, or the folder cannot be written.
        """
        num_bytes = sum(array.nbytes for array in arrays)
        if self._kept_bytes + num_bytes > self.budget_bytes:
            return self.store(*arrays)
        self._kept_bytes += num_bytes
        return arrays

    def store(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """The arrays, from files. Raises StorageError as `keep` does."""
        if self._folder is None:
            with storage_errors(self._above or tempfile.gettempdir()):
                made = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="any2vec.", dir=self._above))
            self._folder = Path(made)
        return tuple(self._mapped(self._folder, array) for array in arrays)

    def _mapped(self, folder: Path, array: np.ndarray) -> np.ndarray:
        path = folder / f"{self.num_files}.npy"
        self.num_files += 1
        with storage_errors(path):
            np.save(path, array)
        return array if array.size == 0 else np.asarray(np.load(path, mmap_mode="r"))
