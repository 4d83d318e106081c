"""Facts about the machine, by the standard library alone: processor, usable cores, memory, disk, versions."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from any2vec.errors import InputError

VERSIONS = (
    "numpy",
    "numba",
    "scipy",
    "scikit-learn",
    "pyarrow",
    "safetensors",
    "usearch",
    "matplotlib",
    "typer",
    "rich",
)
"""distributions of the core, as they are named on the package index"""

_COMPILER = 100 << 20
"""bytes of what kernels, libraries and threads will yet take"""
_LIBRARIES = 150 << 20
"""bytes of mapped files that are code, at most"""
_KERNELS = 200 << 20
"""bytes of a process that has loaded kernels, the compiler's code and data among them"""
OWN_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""by which programs of this machine call a server on it"""


def cache_root(cache_dir: Path | str | None = None) -> Path:
    """`cache_dir`, or `$ANY2VEC_CACHE`, or `$XDG_CACHE_HOME/any2vec`, or `~/.cache/any2vec`; not created here.

    Raises:
        InputError: it is below a home folder that nobody knows.
    """
    if cache_dir is None:
        cache_dir = os.environ.get("ANY2VEC_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "any2vec")
    try:
        return Path(cache_dir).expanduser()
    except RuntimeError as error:
        raise InputError(
            f"The cache would be {cache_dir}, and there is no home folder; name a folder in the variable ANY2VEC_CACHE."
        ) from error


def usable_cores() -> int:
    """Cores that this process may use: its affinity, at most the quota of its container, rounded up. At least 1."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS has no affinity
        allowed = os.cpu_count() or 1
    quota = cpu_quota()
    return max(1, allowed if quota is None else min(allowed, int(-(-quota // 1))))


def cpu_quota() -> float | None:
    """Cores that the container (cgroup, version 2 or 1) grants; None without a limit."""
    text = _read("/sys/fs/cgroup/cpu.max").split()
    if len(text) == 2 and text[0] != "max":
        return int(text[0]) / int(text[1])
    share, period = _read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), _read("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
    if share.isdigit() and period.isdigit() and int(period) > 0:
        return int(share) / int(period)
    return None


def memory_bytes() -> int:
    """Memory of the machine, or the limit of its container where that is smaller; 0 if unknown."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        total = 0
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        limit = _read(path)
        if limit.isdigit():
            return min(total, int(limit)) if total else int(limit)
    return total


def available_bytes() -> int:
    """Memory that a new job can have without swapping; 0 if unknown (macOS)."""
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
            limit, used = _read("/sys/fs/cgroup/memory.max"), _read("/sys/fs/cgroup/memory.current")
            if not (limit.isdigit() and used.isdigit()):
                return free
            return min(free, max(0, int(limit) - int(used) + _given_back()))
    return 0


def _given_back() -> int:
    """Bytes of files that count as used in the container, and go when their room is wanted."""
    for line in _read("/sys/fs/cgroup/memory.stat").splitlines():
        if line.startswith("inactive_file "):
            return int(line.split()[1])
    return 0


def cpu_model() -> str:
    """The processor's name, as the system gives it."""
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith(("model name", "Model")):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def free_disk_bytes(folder: Path) -> int:
    """Free bytes of the file system that holds `folder`, or the nearest parent that exists."""
    parent = _there(folder)
    return 0 if parent is None else shutil.disk_usage(parent).free


def is_one_disk(folder: Path, other: Path) -> bool:
    """Whether two folders, or the nearest parents that exist, are of one file system."""
    places = [_there(folder), _there(other)]
    return None not in places and len({place.stat().st_dev for place in places if place is not None}) == 1


def _there(folder: Path) -> Path | None:
    return next((parent for parent in (folder, *folder.parents) if parent.exists()), None)


def versions(names: Iterable[str] = VERSIONS) -> dict[str, str | None]:
    """Installed version of each distribution, None for those that are missing. Imports nothing."""
    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def describe() -> dict[str, Any]:
    """What a run's record says of its machine, JSON-ready. Names no host and no folder."""
    return {
        "system": f"{platform.system()} {platform.release()} ({platform.machine()})",
        "cpu": cpu_model(),
        "cores": os.cpu_count() or 1,
        "usable_cores": usable_cores(),
        "memory_bytes": memory_bytes(),
        "python": sys.version.split()[0],
        "versions": versions(("numpy", "numba", "scipy", "scikit-learn")),
    }


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def resident_bytes() -> tuple[int, int]:
    """(anonymous, mapped) resident memory of this process; where /proc is missing (macOS) the peak so far and 0."""
    sizes = {}
    for line in _read("/proc/self/status").splitlines():
        name, _, rest = line.partition(":")
        if name in ("RssAnon", "RssFile", "RssShmem"):
            sizes[name] = int(rest.split()[0]) * 1024
    if "RssAnon" not in sizes:
        return peak_resident_bytes(), 0
    return sizes["RssAnon"], sizes.get("RssFile", 0) + sizes.get("RssShmem", 0)


def process_bytes() -> int:
    """What the process has now, or will have as soon as it loads kernels, and what compiling and libraries will take.

    So a command that has loaded them to read its data says no more than one that has yet to load them.
    """
    anonymous, mapped = resident_bytes()
    return max(anonymous + min(mapped, _LIBRARIES), _KERNELS) + _COMPILER  # mapped data go when their room is wanted


def peak_resident_bytes() -> int:
    """The largest resident memory of this process so far, mapped pages counted; 0 where it cannot be asked."""
    for line in _read("/proc/self/status").splitlines():
        if line.startswith("VmHWM:"):  # of this program alone; getrusage begins with the peak of whoever started it
            return 1024 * int(line.split()[1])
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    from ipaddress import ip_address

    if host == "localhost":
        return True
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return False


def keep_freed_memory() -> None:
    """Let the C library keep what is freed for the next array, where it is glibc's; elsewhere nothing.

    Arrays of a round are as large as those of the last. Given back to the system between rounds, their pages would have
    to be made, zeroed and mapped anew each time, which took a quarter of the time of an agreement.
    """
    import ctypes

    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD, at its most
        mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD


def ask_for_huge_pages() -> None:
    """Have torch's large arrays on pages of 2 MB where the system gives them, unless `THP_MEM_ALLOC_ENABLE` says no.

    Pages of 4 KB that are made, zeroed and mapped one by one took half of the time of what goes over a whole graph's
    rows once. torch looks when it first makes an array; later nothing changes.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
