"""The kind of machine: what, beside the program, decides the bits of a run with one thread.

Golden runs use of a processor what each one of the last ten years has (`processor/sitecustomize.py`, `ONE_PROCESSOR`),
so that hashes made on one machine hold on the next.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from importlib import metadata, util
from pathlib import Path
from typing import Any

PROCESSOR = Path(__file__).resolve().with_name("processor")
DISTRIBUTIONS = ("numpy", "scipy", "numba", "llvmlite")
HIDDEN = ("NUMBA_", "OPENBLAS_", "MKL_", "OMP_", "ATEN_", "DNNL_", "ONEDNN_", "TORCH_", "CUDA_", "NPY_")
"""beginnings of variables that change how numbers are computed"""

ONE_PROCESSOR = {
    "OPENBLAS_CORETYPE": "Haswell", "MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2", "NPY_DISABLE_CPU_FEATURES": "X86_V4,AVX512_ICL,AVX512_SPR",
}  # fmt: skip
"""by which libraries use no more than AVX2, and sum in the same order on processors of different makers"""


def describe() -> dict[str, Any]:
    """The kind of this machine, without the distributions that only some runs need. Loads NumPy and SciPy."""
    import llvmlite.binding
    import scipy.linalg  # noqa: F401 (loads the library that is to be described)
    from threadpoolctl import threadpool_info

    features = sorted(name for name, has in llvmlite.binding.get_host_cpu_features().items() if has)
    blas = {f"{pool['internal_api']} {pool['version']} {pool.get('architecture')}" for pool in threadpool_info()}
    return {
        "target": llvmlite.binding.get_host_cpu_name(),
        "features": hashlib.sha256(",".join(features).encode()).hexdigest()[:12],
        "system": f"{platform.system()} {platform.machine()} {' '.join(platform.libc_ver())}".strip(),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "blas": sorted(blas),
        "versions": {name: metadata.version(name) for name in DISTRIBUTIONS},
    }


def kind_of(machine: dict[str, Any], needs: tuple[str, ...] | list[str]) -> dict[str, Any]:
    """The kind that counts for a run: the machine, and the versions of what the run needs beside the core."""
    more = {name: metadata.version(name) for name in needs if name != "linux"}
    return machine | {"versions": machine["versions"] | more}


def key_of(kind: dict[str, Any]) -> str:
    """A short name of a kind of machine."""
    return hashlib.sha256(json.dumps(kind, sort_keys=True).encode()).hexdigest()[:12]


def missing(needs: tuple[str, ...] | list[str]) -> str | None:
    """The first of these that is not here."""
    for name in needs:
        if sys.platform != "linux" if name == "linux" else util.find_spec(name) is None:
            return name
    return None


def environment(*paths: Path) -> dict[str, str]:
    """The variables of a process that runs what lies in these folders: one thread, no accelerator, nothing special.

    Kernels are compiled into a cache of their own: numba may inline what it has just compiled, and not what it loads,
    so the last bit of a float kernel can depend on which others were compiled in the same process.
    """
    cache = Path(os.environ.get("ANY2VEC_CACHE") or Path.home() / ".cache" / "any2vec") / "golden"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(HIDDEN)}
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    search = os.pathsep.join(map(str, (*paths, PROCESSOR)))
    return kept | one | ONE_PROCESSOR | {"CUDA_VISIBLE_DEVICES": "", "ANY2VEC_CACHE": str(cache), "PYTHONPATH": search}
