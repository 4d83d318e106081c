"""The one decorator of all kernels: compiled without the GIL, cached on disk by a hash of this folder's sources.

numba's own cache key is the file of the function alone, so an edit in a callee of another file would go unseen;
here every edit in `kernels/` opens a new cache folder.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import config

from any2vec.errors import StorageError
from any2vec.machine import cache_root

KERNELS = Path(__file__).parents[1]
"""the folder of all kernels"""


@cache
def sources_hash() -> str:
    """Hash of every source file in `kernels/` and of numba's version: the name of the cache folder."""
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(KERNELS.rglob("*.py")):
        digest.update(path.relative_to(KERNELS).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """Folder of the compiled kernels: `$ANY2VEC_CACHE/kernels/<hash>`, by default below `~/.cache/any2vec`."""
    return cache_root() / "kernels" / sources_hash()


@cache
def _writable_folder() -> str:
    """The cache folder, made. StorageError: it cannot be (numba's own word for that is a traceback), or is shared."""
    folder = cache_folder()
    try:
        folder.parent.parent.mkdir(parents=True, exist_ok=True)
        for own in (folder.parent, folder):
            own.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise StorageError(
            f"The compiled kernels cannot be kept in {folder} ({error.strerror}); set ANY2VEC_CACHE to a folder that "
            "you may write to."
        ) from error
    for own in (folder.parent, folder):
        check_own(own)
    return str(folder)


def check_own(folder: Path) -> None:
    """Raise StorageError where others may write: numba unpickles what lies there, and runs it.

    A group may that has its user's number: many systems give each user one of his own.
    """
    about = folder.stat()
    others = stat.S_IWOTH if about.st_gid == about.st_uid else stat.S_IWOTH | stat.S_IWGRP
    if about.st_uid != os.getuid() or about.st_mode & others:
        raise StorageError(
            f"Others may write to {folder}, and compiled kernels are code that is run from there; set ANY2VEC_CACHE to "
            "a folder of your own, or take their right to write (chmod go-w)."
        )


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    previous = config.CACHE_DIR  # type: ignore[attr-defined]
    config.CACHE_DIR = _writable_folder()  # type: ignore[attr-defined]
    try:
        return numba.njit(nogil=True, cache=True, error_model="numpy", boundscheck=False, **options)(function)
    finally:
        config.CACHE_DIR = previous  # type: ignore[attr-defined]


def jit(function: Callable[..., Any]) -> Any:
    """Exact kernels and small helpers, which LLVM inlines by itself: IEEE arithmetic."""
    return _compile(function)


def fast_jit(function: Callable[..., Any]) -> Any:
    """Float kernels: reassociation and contraction allowed, NaN and infinity still respected."""
    return _compile(function, fastmath={"reassoc", "contract", "nsz", "arcp"})
