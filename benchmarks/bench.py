"""The workbench of one benchmark run: folders, data, subprocesses of both sides, memory sampling, what ran before."""

from __future__ import annotations

import gzip
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from benchmarks import environments, in_process, stand_ins
from benchmarks.kept import KeptRun, path_of
from benchmarks.source_code import (
    FUNCTIONS,
    TRACE,
    Code,
    Ran,
    code_of,
    joined,
    narrowed,
    ran_here,
    traced,
    tracing,
)
from benchmarks.table import NotMeasuredError, RowError
from benchmarks.traced.ran import CalledFunctions

ROOT = Path(__file__).resolve().parents[1]
PEERS = Path(__file__).resolve().parent / "peers"
Wrap = Callable[[list[str]], list[str]]
Item, Found = TypeVar("Item"), TypeVar("Found")
ONE_BLAS_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
HELD = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
"""variables that would hold OpenBLAS to the kernels of another processor than the one measured; not passed on"""


@dataclass(frozen=True)
class Done:
    """A subprocess that ended well."""

    result: dict[str, Any]
    """the JSON object that it printed"""
    seconds: float
    """wall time of the whole process"""
    peak_anon_bytes: int
    """peak of anonymous + shared resident memory, children included; 0 where the system does not tell"""


@dataclass
class Bench:
    """Everything that rows share."""

    quick: bool = False
    """little data, one repeat; verdicts are not judged"""
    tiny: bool = False
    """besides, planted stand-ins for all data, peers only where they are installed: does a row start?"""
    jobs: int = 1
    """kept runs that may go side by side (`each`)"""
    functions: bool = False
    """note which functions run: calls take longer, so that nothing is measured"""
    noted: Code = field(default_factory=dict)
    """what a quick run of the row that runs now has called"""
    folder: Path = field(
        default_factory=lambda: Path(os.environ.get("ANY2VEC_BENCH_DIR", ROOT / "runs" / "benchmarks"))
    )
    keep: Path | None = None
    """folder of kept runs, where they are to be committed; None: `folder`"""
    runs: dict[str, Any] = field(default_factory=dict)
    """raw results of the row that runs now, for the committed JSON"""
    commits: set[str] = field(default_factory=set)
    """at which the kept runs ran that the row that runs now has read"""
    confirmed: set[str] = field(default_factory=set)
    """commits at which some of them were begun again, and went as before"""
    processors: set[str] = field(default_factory=set)
    """on which they ran"""
    code: Code = field(default_factory=dict)
    """what the runs of the row that runs now have run"""
    _memo: dict[Any, Any] = field(default_factory=dict)
    _locks: dict[Any, threading.RLock] = field(default_factory=dict)
    _mine: threading.local = field(default_factory=threading.local)

    def __post_init__(self) -> None:
        self._lock, self._cores, self._slots = threading.Lock(), usable_cores(), queue.SimpleQueue[set[int]]()
        for job in range(self.jobs):
            self._slots.put(set(sorted(self._cores)[job :: self.jobs]) or self._cores)

    @classmethod
    def for_start(cls, folder: Path) -> Bench:
        """The workbench that only tells whether rows start, in an empty folder; compiled kernels are the user's."""
        from any2vec.machine import cache_root

        made = cls(quick=True, tiny=True, folder=folder)
        kernels = cache_root() / "kernels"
        kernels.mkdir(parents=True, exist_ok=True)
        made.cache.mkdir(parents=True)
        (made.cache / "kernels").symlink_to(kernels.resolve())
        return made

    @property
    def cache(self) -> Path:
        """Caches of any2vec itself (kernels, encoded text), apart from the user's."""
        return self.folder / "cache"

    @property
    def limit(self) -> float:
        """Seconds that a process of a row may take."""
        return 300 if self.tiny else 2700

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """The value of `key`, made at the first request: rows share expensive runs."""
        with self._lock_of(("once", key)):
            if key not in self._memo:
                self._memo[key] = make()
            return self._memo[key]

    def each(self, call: Callable[[Item], Found], items: Iterable[Item]) -> list[Found]:
        """`call` of each item, in their order; at the same time where several jobs are allowed, so for kept runs alone,
        whose seconds nobody reads."""
        given = list(items)
        if self.jobs == 1 or not given:
            return [call(item) for item in given]
        with ThreadPoolExecutor(len(given)) as pool:
            return list(pool.map(call, given))

    def any2vec(
        self, *arguments: object, watch: bool = False, wrap: Wrap | None = None, limit: float | None = None
    ) -> Done:
        """Run a command of any2vec with `--json`; limit: seconds that it may take, if not `Bench.limit`."""
        asked = [*map(str, arguments), "--json"]
        command = [sys.executable, "-m", "any2vec", *asked]
        if self.tiny and not watch and wrap is None and in_process.fits(asked):
            code, out, err, seconds = in_process.run_here(asked, self._ours)
            return Done(_ended(command, code, out, err), seconds, 0)
        return run(command, self._ours, watch, limit or self.limit, wrap)

    def ours(self, script: str, *arguments: object, watch: bool = False, wrap: Wrap | None = None) -> Done:
        """Run a script of peers/ in any2vec's own environment."""
        asked = [str(script_of(script)), *map(str, arguments)]
        command = [sys.executable, *asked]
        if self.tiny and not watch and wrap is None and in_process.fits_script(asked):
            code, out, err, seconds = in_process.run_script_here(asked, self._ours)
            return Done(_ended(command, code, out, err), seconds, 0)
        return run(command, self._ours, watch, self.limit, wrap)

    @contextmanager
    def job(
        self, arguments: Sequence[object], launcher: Sequence[object] = ()
    ) -> Iterator[tuple[subprocess.Popen[str], Path]]:
        """A running command of any2vec and the file of its standard error; nothing of it stays behind.

        launcher: what `python -m` is given before any2vec.
        """
        command = [sys.executable, "-m", *map(str, launcher), "any2vec", *map(str, arguments)]
        with tempfile.TemporaryDirectory() as folder:
            errors = Path(folder) / "errors.txt"
            with errors.open("w") as file:
                job = subprocess.Popen(
                    command, cwd=ROOT, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=file,
                    env=_environment(self._ours),
                )  # fmt: skip
                try:
                    yield job, errors
                finally:
                    for pid in reversed(family(job.pid)):
                        with suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                    job.wait()

    def peer(self, environment: str, script: str, *arguments: object, watch: bool = False) -> Done:
        """Run a script of peers/ in a peer's environment, made first if need be (not where rows only start)."""
        find = environments.installed if self.tiny else environments.python
        python = self.once(("environment", environment), lambda: find(environment))
        command = [str(python), str(script_of(script)), *map(str, arguments)]
        return run(command, ONE_BLAS_THREAD | self._traces, watch, self.limit)

    def forget_input(self) -> None:
        """Remove any2vec's encoded corpora and graphs (not its kernels), so that the next run reads the input again."""
        for name in ("corpora", "graphs"):
            shutil.rmtree(self.cache / name, ignore_errors=True)

    @contextmanager
    def row(self) -> Iterator[None]:
        """Around a row: what it leaves in `runs`, `commits` and `code` is its own."""
        self.runs, self.commits, self.confirmed, self.processors, self.code = {}, set(), set(), set(), {}
        before = dict(os.environ)
        os.environ.update(tracing(self._trace))
        try:
            with CalledFunctions() if self.functions else nullcontext() as called:
                yield
            own = self._code(traced(self._trace)) or ({} if self.code else self._code(ran_here(called)))
            self.code = joined(self.code, own)
        finally:
            os.environ.clear()
            os.environ.update(before)

    def _code(self, ran: Ran) -> Code:
        """Of what ran, by the functions that were noted."""
        code = code_of(ran)
        return narrowed(code, self.noted) if code and self.noted else code

    @property
    def _trace(self) -> Path:
        """Where processes say what they have imported: a kept run's in a folder of its own."""
        return getattr(self._mine, "trace", self.folder / "trace")

    @property
    def _ours(self) -> dict[str, str]:
        """Variables of any2vec's own processes."""
        noting = {FUNCTIONS: "1"} if self._traces and self.functions else {}
        return {"ANY2VEC_CACHE": str(self.cache)} | ONE_BLAS_THREAD | self._traces | noting

    @property
    def _traces(self) -> dict[str, str]:
        """The variable by which a process, a peer's too, says what it has imported."""
        return {TRACE: str(self._trace)} if TRACE in os.environ else {}

    @contextmanager
    def _slot(self) -> Iterator[None]:
        """One of the jobs, on cores of its own: processes inherit those of the thread that starts them, so the
        threads of their logical hosts, which hand one lock on, do not wander over those of other jobs."""
        cores = self._slots.get()
        try:
            use_cores(cores)
            yield
        finally:
            use_cores(self._cores)
            self._slots.put(cores)

    def _lock_of(self, key: Any) -> threading.RLock:
        with self._lock:
            return self._locks.setdefault(key, threading.RLock())

    def scratch(self, name: str) -> Path:
        """A path for an output; its folder exists."""
        folder = self.folder / "out"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / name

    def data(self, name: str) -> Path:
        """A file of the data folder that `ANY2VEC_DATA` names, or its stand-in."""
        if self.tiny:
            return stand_ins.path(self.folder / "data", name)
        folder = Path(os.environ.get("ANY2VEC_DATA") or ROOT.parent / "shared" / "data")
        if not (folder / name).exists():
            raise NotMeasuredError(f"the data folder (ANY2VEC_DATA) has no {name}")
        return folder / name

    def words(self) -> Path:
        """The corpus text-enwiki2015, unpacked once; its first 1.5 MB for a quick run."""
        packed = self.data("text-enwiki2015/enwiki2015.clean.txt.zst")
        text = self.made("enwiki2015.clean.txt", lambda target: _unzstd(packed, target))
        return self.made("enwiki2015.quick.txt", lambda target: _head(text, target, 1_500_000)) if self.quick else text

    def edges(self, graph: str) -> Path:
        """The plain edge list of a graph set ('blogcatalog', 'ppi'), unpacked once."""
        packed = self.data(f"graph-{graph}/{graph}.edges.txt.gz")
        return self.made(f"{graph}.edges.txt", lambda target: target.write_bytes(gzip.decompress(packed.read_bytes())))

    def made(self, name: str, write: Callable[[Path], Any]) -> Path:
        """A generated file, written once by `write(path)`."""
        path = self.folder / name
        with self._lock_of(path):
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                temporary = path.with_suffix(".tmp")
                write(temporary)
                temporary.replace(path)
        return path

    def kept(
        self, name: str, request: Any, make: Callable[[], dict[str, Any]],
        goes_as: Callable[[dict[str, Any]], bool] = lambda run: False,
    ) -> dict[str, Any]:  # fmt: skip
        """The numbers of an expensive run, from its file where it ran before and none of the code that it ran does
        something else by now, or where the run, begun again, goes as it went.

        name: of the kind of run; request: all that it was asked, JSON; goes_as: begins it again and compares.
        """
        path = path_of(self.keep or self.folder, name, request)
        with self._lock_of(path):
            found = KeptRun.read(path)
            if found and found.is_old:
                found = self._again(path, found, goes_as)
                path.unlink()
                if found:
                    self.made(str(path), found.write)
            if not found:
                self.made(str(path), partial(self._write_kept, request, make))
                found = KeptRun.read(path)
        assert found is not None
        with self._lock:
            self.commits.add(found.commit)
            self.confirmed.update({found.confirmed} if found.confirmed else ())
            self.processors.add(found.processor)
            self.code = joined(self.code, found.code)
        return dict(found.run)

    def _again(self, path: Path, found: KeptRun, goes_as: Callable[[dict[str, Any]], bool]) -> KeptRun | None:
        """A run whose code has changed, where it goes as it went."""
        is_same, code = self._traced_run(path, lambda: bool(found.code) and goes_as(found.run))
        return found.again(code) if is_same else None

    def _write_kept(self, request: Any, make: Callable[[], dict[str, Any]], target: Path) -> None:
        found, code = self._traced_run(target, make)
        KeptRun.made_now(request, found, code).write(target)

    def _traced_run(self, path: Path, make: Callable[[], Found]) -> tuple[Found, Code]:
        """What it makes in one of the slots, and the code that ran; path: of the file that is to keep it."""
        self._mine.trace = trace = self.folder / f"{path.stem}.trace"
        trace.mkdir(parents=True, exist_ok=True)
        started = time.time() - 0.05  # file systems look at a coarser clock
        try:
            with self._slot():
                found = make()
            code = self._code(traced(trace) or ran_here())
            if any((ROOT / path).stat().st_mtime > started for path in code):
                raise RowError("a file that a kept run imported was changed while it ran")
        finally:
            del self._mine.trace
            shutil.rmtree(trace)
        return found, code


def script_of(name: str) -> Path:
    """Where a script of peers/ stands, by its name."""
    return next(PEERS.glob(f"*/{name}"))


def run(
    command: list[str], environment: Mapping[str, str], watch: bool = False, timeout: float = 2700,
    wrap: Wrap | None = None,
) -> Done:  # fmt: skip
    """Run a command, without the variables `HELD`, and parse the JSON object on its standard output.

    wrap: makes of it the command that runs it where it is to run.

    Raises RowError with the last line of standard error when it fails or runs past `timeout` seconds.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        started = time.perf_counter()
        process = subprocess.Popen(
            wrap(command) if wrap else command,
            env=_environment(environment),
            stdout=out,
            stderr=err,
            text=True,
            cwd=ROOT,
        )
        watcher = MemoryWatcher(process.pid) if watch else None
        try:
            code = waited(process, timeout)
            seconds = time.perf_counter() - started
        except subprocess.TimeoutExpired:
            raise RowError(f"{_named(command)} ran past {timeout:.0f} s") from None
        finally:
            peak = watcher.stop() if watcher else 0
        out.seek(0)
        err.seek(0)
        return Done(_ended(command, code, out.read(), err.read()), seconds, peak)


def _ended(command: Sequence[str], code: int, out: str, err: str) -> dict[str, Any]:
    """The JSON object that a command printed; RowError where it failed."""
    if code:
        lines = err.strip().splitlines() or ["no message"]
        raise RowError(f"{_named(command)} ended with code {code}: {lines[-1][:300]}")
    return _last_object(out, command)


def waited(process: subprocess.Popen[Any], timeout: float) -> int:
    """The exit code of a process, at the moment when it ends: `wait` with a timeout looks every 50 ms.

    Raises TimeoutExpired, and whatever else ends the wait, with the process killed.
    """
    late = threading.Event()
    timer = threading.Timer(timeout, lambda: (late.set(), process.kill()))
    timer.daemon = True
    timer.start()
    try:
        code = process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        timer.cancel()
    if late.is_set():
        raise subprocess.TimeoutExpired(process.args, timeout)
    return code


class MemoryWatcher:
    """Samples the anonymous and shared resident memory of a process and its children every 20 ms (Linux)."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._peak = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """Peak in bytes."""
        self._stopped.set()
        self._thread.join()
        return self._peak

    def _watch(self) -> None:
        while not self._stopped.wait(0.02):
            self._peak = max(self._peak, sum(anonymous_bytes(pid) for pid in family(self._pid)))


def anonymous_bytes(pid: int) -> int:
    """RssAnon + RssShmem of a process, in bytes; 0 when it is gone or the system has no /proc."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    """Ours, without the variables `HELD`, and more."""
    return {name: text for name, text in os.environ.items() if name not in HELD} | dict(more)


def usable_cores() -> set[int]:
    """Numbers of the cores that this thread may use; none where the system does not tell."""
    return set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set()


def use_cores(cores: set[int]) -> None:
    """Keep this thread, and processes that it starts, to these cores, where the system can."""
    if cores:
        os.sched_setaffinity(0, cores)


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found = [pid]
    for one in found:
        try:
            tasks = list(Path(f"/proc/{one}/task").iterdir())
            found += [int(child) for task in tasks for child in (task / "children").read_text().split()]
        except OSError:
            continue
    return found


def _last_object(text: str, command: Sequence[str]) -> dict[str, Any]:
    for candidate in (text, text.strip().rsplit("\n", 1)[-1]):
        try:
            found = json.loads(candidate)
        except json.JSONDecodeError:
            continue
        if isinstance(found, dict):
            return found
    raise RowError(f"{_named(command)} printed no JSON object")


def _named(command: Sequence[str]) -> str:
    """Script or command without paths: these words go into committed results."""
    script = Path(command[1]).name
    return f"any2vec {command[3]}" if script == "-m" else script


def _unzstd(source: Path, target: Path) -> None:
    import zstandard

    with source.open("rb") as packed, target.open("wb") as plain:
        zstandard.ZstdDecompressor(max_window_size=2**27).copy_stream(packed, plain)


def _head(source: Path, target: Path, size: int) -> None:
    with source.open("rb") as text:
        target.write_bytes(text.read(size).rsplit(b"\n", 1)[0] + b"\n")
