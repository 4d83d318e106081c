"""Arrays in .npy files that anybody may have written. Nothing is unpickled."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path
from typing import Literal

import numpy as np

_READING_HEADER = threading.Lock()
"""NumPy parses the head of a file as Python, and CPython 3.11's parser counts its depth wrongly in two threads at once
(python/cpython#106905): logical hosts that open their parts take turns"""


def load_npy(path: Path, mmap: Literal["r", "c"] | None = None) -> np.ndarray:
    """The array in a file, mapped into memory where asked.

    Raises:
        OSError: it cannot be opened. ValueError: it is damaged, cut short, or no array of numbers.
    """
    try:
        with _READING_HEADER, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a header that looks like Python 2's
            with path.open("rb") as file:
                is_zip = file.read(2) == b"PK"
            array = None if is_zip else np.load(path, mmap_mode=mmap, allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # NumPy raises a dozen kinds for a damaged header
        reason = str(error).strip().split("\n")[0] or "no reason given"
        raise ValueError(f"{path.name}: {type(error).__name__}: {reason}") from error
    if array is None:  # NumPy leaves a damaged one open
        raise ValueError(f"{path.name} is a zip of arrays")
    return np.asanyarray(array)
