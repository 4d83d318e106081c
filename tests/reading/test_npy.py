"""Arrays in .npy files of anybody."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from any2vec.data.io.npy import load_npy


@pytest.mark.parametrize("mmap", ["r", None])
@pytest.mark.parametrize("data", [b"PK", b"PK\3\4" + b"x" * 40, b"\x93NUMPY", b""])
def test_what_is_none_is_refused_and_closed(data: bytes, mmap: Literal["r"] | None, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"a\.npy"):
            load_npy(path, mmap)
        gc.collect()


def test_an_archive_is_no_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", one=np.arange(3))
    with pytest.raises(ValueError, match=r"a\.npz is a zip of arrays"):
        load_npy(tmp_path / "a.npz")
    np.save(tmp_path / "b.npy", np.arange(3))
    assert isinstance(load_npy(tmp_path / "b.npy", "r"), np.memmap)
    assert load_npy(tmp_path / "b.npy").tolist() == [0, 1, 2]
