"""`any2vec doctor`: what this machine and this installation offer, and what stands in the way."""

from __future__ import annotations

import os
import sys
import tempfile
from importlib import util
from pathlib import Path
from typing import Any

from any2vec import machine
from any2vec._version import __version__

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_CORE_VARIABLE = "OPENBLAS_CORETYPE"
_VARIABLES = ("ANY2VEC_CACHE", "ANY2VEC_DATA", "NUMBA_DISABLE_JIT", "NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS",
              "CUDA_VISIBLE_DEVICES", "TMPDIR", _CORE_VARIABLE, *_THREAD_VARIABLES)  # fmt: skip
_EXTRAS = {"torch": ("torch",), "ray": ("ray", "torch"), "pyg": ("torch", "torch_geometric"),
           "partition": ("pymetis",), "streams": ("httpx", "feedparser", "confluent_kafka", "redis"),
           "crawl": ("httpx", "protego", "resiliparse"), "serve": ("fastapi", "uvicorn"), "faiss": ("faiss",),
           "tensorboard": ("tensorboardX",), "mlflow": ("mlflow",), "wandb": ("wandb",),
           "bench": ("gensim", "implicit")}  # fmt: skip
"""extra of pyproject.toml -> the modules that it brings"""
_LOW_MEMORY = 1_000_000_000
_LOW_DISK = 2_000_000_000


def diagnose() -> dict[str, Any]:
    """Facts about versions, cores, memory, linear algebra, caches and variables, and `warnings`: sentences to act on.

    JSON-ready; takes about a second, most of it the import of numba. Optional packages are looked up, never imported.
    """
    cache = machine.cache_root()
    details: dict[str, Any] = {
        "any2vec": __version__,
        "python": sys.version.split()[0],
        "versions": machine.versions(),
        "extras": {name: all(map(util.find_spec, modules)) for name, modules in _EXTRAS.items()},
        "machine": _hardware(),
        "gpu": _gpu(),
        "linear_algebra": _linear_algebra(),
        "kernels": _kernels(),
        "cache": {"folder": str(cache), "writable": _is_writable(cache), "free_bytes": machine.free_disk_bytes(cache)},
        "data_folder": os.environ.get("ANY2VEC_DATA"),
        "temporary_free_bytes": machine.free_disk_bytes(Path(tempfile.gettempdir())),
        "environment": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }
    details["warnings"] = _warnings(details)
    return details


def _gpu() -> dict[str, Any]:
    """Whether there is one, and which models would train on it: those of the rest compute on cores."""
    is_there = _has_nvidia()
    return {"present": is_there, "used_by": ["char-lstm"] if is_there and util.find_spec("torch") else []}


def _hardware() -> dict[str, Any]:
    details = machine.describe()
    details.pop("versions")
    details.pop("python")
    affinity = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return details | {
        "affinity": affinity,
        "cpu_quota": machine.cpu_quota(),
        "available_bytes": machine.available_bytes(),
    }


def _has_nvidia() -> bool:
    return any(Path(path).exists() for path in ("/dev/nvidiactl", "/proc/driver/nvidia/version"))


def _linear_algebra() -> list[dict[str, Any]]:
    """The thread pools that NumPy brought along: library, version, the processor that its kernels are for, threads."""
    import numpy  # noqa: F401  (loads the library that is to be described)
    from threadpoolctl import threadpool_info

    return [
        {
            "library": one.get("internal_api"),
            "version": one.get("version"),
            "kernels": one.get("architecture"),
            "threads": one.get("num_threads"),
        }
        for one in threadpool_info()
    ]


def _kernels() -> dict[str, Any]:
    """Where numba keeps the compiled kernels, and how many are there (0: the first run compiles them)."""
    from any2vec.kernels.common.jit import cache_folder

    folder = cache_folder()
    return {
        "folder": str(folder),
        "compiled": len(list(folder.rglob("*.nbc"))) if folder.is_dir() else 0,
        "is_disabled": os.environ.get("NUMBA_DISABLE_JIT", "0") not in {"", "0"},
    }


def _is_writable(folder: Path) -> bool:
    """True if files can be made in the folder, or it can be made."""
    for parent in (folder, *folder.parents):
        if parent.exists():
            return parent.is_dir() and os.access(parent, os.W_OK | os.X_OK)
    return False


def _warnings(details: dict[str, Any]) -> list[str]:
    hardware, cache, kernels = details["machine"], details["cache"], details["kernels"]
    missing = [name for name, version in details["versions"].items() if version is None]
    threads = [name for name in _THREAD_VARIABLES if name in details["environment"]]
    data = details["data_folder"]
    checks = [
        (missing, f"Missing packages: {', '.join(missing)}; install any2vec again with pip."),
        (not cache["writable"], "The cache folder cannot be written; set ANY2VEC_CACHE to a folder that can."),
        (cache["free_bytes"] < _LOW_DISK, "Less than 2 GB are free for the cache; set ANY2VEC_CACHE to a larger disk."),
        (0 < hardware["available_bytes"] < _LOW_MEMORY, "Less than 1 GB of memory is free; large tables will swap."),
        (kernels["is_disabled"], "NUMBA_DISABLE_JIT is set: training runs in plain Python, hundreds of times slower."),
        (not kernels["compiled"], "No kernels are compiled yet: the first run takes some seconds longer."),
        (hardware["usable_cores"] < hardware["cores"],
         f"This process may use {hardware['usable_cores']} of {hardware['cores']} cores (affinity or quota)."),
        (threads, f"{', '.join(threads)} is set: it limits NumPy's threads, not those of training (--threads)."),
        (_CORE_VARIABLE in details["environment"],
         f"{_CORE_VARIABLE} is set: it holds NumPy's matrix products to the kernels of one kind of processor; on a "
         "newer one, models of triples take up to twice as long."),
        (data is not None and not Path(data).is_dir(), f"ANY2VEC_DATA names {data}, which is not a folder."),
    ]  # fmt: skip
    return [sentence for is_true, sentence in checks if is_true]
