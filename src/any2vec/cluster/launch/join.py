"""How a process becomes a host: it joins the others, runs, and ends so that whoever started it learns why.

The contract of a child that `run_processes` (or torchrun) starts: its exit code is 0 when it is done, 2 after an error,
3 (REFUSED) after one that another try would meet again (bad input, data that cannot be read) and 130 when it was asked
to stop; the last line on its standard error is the error, one sentence; the lines that rank 0 writes to standard output
are for the parent. It keeps its hands off standard input, whose end tells it that the parent is gone. `run_child` keeps
the contract for it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from any2vec import machine
from any2vec._version import __version__
from any2vec.checks import check_number, check_whole, parse_json
from any2vec.cluster import message
from any2vec.cluster.launch.ending import REFUSED
from any2vec.cluster.launch.processes import FOLDER, MOST_PROCESSES, RENDEZVOUS, run_processes
from any2vec.cluster.launch.rendezvous import barrier, variable
from any2vec.cluster.link import LinkModel
from any2vec.cluster.torch_transport import SILENCE, TorchTransport
from any2vec.cluster.transport import PATIENCE
from any2vec.errors import Any2VecError, DataError, FormatError, HostError, InputError, Interrupted, JobError
from any2vec.signals import on_stops
from any2vec.units import visible

__all__ = ["JOINING", "check_torch", "is_first", "join", "joined", "restarts", "run_child", "run_processes"]
JOINING = 120.0
"""seconds that a host waits for the others to come, unless its patience is less"""
_LIMIT = 10.0
_NO_TORCH = (
    '{} need PyTorch; in a clone: pip install -e ".[torch]" -c constraints.txt (the README says how to spare '
    "gigabytes of CUDA on Linux)."
)
_LASTING = (InputError, DataError, FormatError, JobError)


def joined() -> bool:
    """Whether torchrun or `run_processes` made this process, so that it is to `join` others."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def is_first() -> bool:
    """Whether this process speaks for the run: it is alone, or rank 0."""
    return not joined() or os.environ["RANK"] == "0"


def restarts() -> tuple[int, int]:
    """(how often torchrun's agent on this machine says that it has started hosts again, how often it may)."""
    return variable("TORCHELASTIC_RESTART_COUNT", "0"), variable("TORCHELASTIC_MAX_RESTARTS", "0")


def join(
    job: str, link: LinkModel | None = None, patience: float = PATIENCE, silence: float = SILENCE
) -> TorchTransport:
    """This process's end of the transport between all hosts, once they are there and run the same job.

    Args:
        job: fingerprint of what is to be run (config, data); it must be the same on all hosts. Of a JSON object, the
            error names the first key that differs.
        link: emulated links, see Transport.
        patience: seconds (> 0) to wait for a message of a host that is alive.
        silence: seconds (> 0) after which a host that shows no life counts as lost.

    Raises:
        HostError: hosts did not come or cannot be reached; or they differ in job or versions (raised on each of them).
        InputError: torch is missing; the variables that torchrun sets are missing or wrong; the port is in use.
    """
    check_number("patience", patience, 0, 1e9, open_low=True)
    check_number("silence", silence, 0, 1e9, open_low=True)
    rank, hosts = _place()
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # its warnings come with a C++ stack; ours say the same
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise InputError(_NO_TORCH.format("Hosts as processes")) from error
    _watch_parent()
    attempt = barrier(rank, hosts, min(patience, JOINING))
    mine = metadata(job)
    every = _all_metadata(rank, hosts, mine | attempt.said(restarts()[0]))
    compare([{name: value for name, value in theirs.items() if name in mine} for theirs in every])
    attempt.agree(every)
    return TorchTransport(rank, hosts, link, patience, silence, attempt).start()


def check_torch(what: str = "Hosts as processes") -> None:
    """Raise InputError unless PyTorch is installed; it is looked up and not imported."""
    if importlib.util.find_spec("torch") is None:
        raise InputError(_NO_TORCH.format(what))


def run_child(work: Callable[[], None]) -> NoReturn:
    """Run `work`, then end this process as the contract says. Signals that stop raise Interrupted in `work`."""
    code, last = 0, ""
    on_stops(_stop)
    try:
        work()
    except Interrupted as error:
        code, last = 130, str(error)
    except KeyboardInterrupt:
        code, last = 130, "Stopped by SIGINT."
    except Any2VecError as error:
        code, last = REFUSED if isinstance(error, _LASTING) else 2, str(error)
    except SystemExit as error:
        code, last = (
            (error.code, "") if isinstance(error.code, int) else (2 if error.code else 0, str(error.code or ""))
        )
    except BaseException:
        code, last = 2, traceback.format_exc().rstrip()
    # Not sys.exit: threads that wait for a lost host would hang or crash the interpreter's end.
    _leave(code, last)


def metadata(job: str) -> dict[str, str]:
    """What must be the same on all hosts, name to value."""
    versions = {name: str(value) for name, value in machine.versions(["numpy", "numba", "torch"]).items()}
    return {"any2vec": __version__, **versions, "message format": str(message.VERSION), "job": job}


def compare(every: list[dict[str, str]]) -> None:
    """Raise JobError unless the facts of all hosts, by rank, are the same."""
    for rank, theirs in enumerate(every):
        for name, value in every[0].items():
            other = theirs.get(name)
            if other == value:
                continue
            if name == "job":
                raise JobError(
                    f"Rank {rank} has {_first_difference(str(other), value)}; give all hosts the same command."
                )
            raise JobError(
                f"Rank {rank} has {name} {other!r} and rank 0 has {value!r}; start all hosts with the same versions."
            )


def _first_difference(other: str, job: str) -> str:
    """`NAME = VALUE and rank 0 has VALUE` of the first setting in which two jobs, JSON objects, differ."""
    try:
        theirs, ours = _leaves(dict(parse_json(other))), _leaves(dict(parse_json(job)))
    except (ValueError, TypeError):
        theirs, ours = {}, {}
    for path in [*ours, *theirs]:
        if (path in ours, ours.get(path)) != (path in theirs, theirs.get(path)):
            found, expected = ("none" if one.get(path) is None else repr(one[path]) for one in (theirs, ours))
            return f"{path[-1]} = {found} and rank 0 has {expected}"
    return f"job {other!r} and rank 0 has {job!r}"


def _leaves(settings: dict[str, Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Path of names -> value, of an object with objects in it."""
    found: dict[tuple[str, ...], Any] = {}
    for name, value in settings.items():
        found.update(_leaves(value, (*path, name)) if isinstance(value, dict) else {(*path, name): value})
    return found


def _place() -> tuple[int, int]:
    """(rank, hosts) that the environment says."""
    rank, hosts = variable("RANK"), variable("WORLD_SIZE")
    check_whole("WORLD_SIZE", hosts, 1, MOST_PROCESSES)
    check_whole("RANK", rank, 0, hosts - 1)
    return rank, hosts


def _all_metadata(rank: int, hosts: int, mine: dict[str, str]) -> list[dict[str, str]]:
    """The facts of every host, by rank. By a collective of torch: hosts may differ in our message format."""
    import torch
    import torch.distributed as dist

    text = bytearray(json.dumps(mine).encode())
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(hosts)]
    try:
        dist.all_gather(sizes, torch.tensor([len(text)], dtype=torch.int64))
        longest = max(int(size) for size in sizes)
        texts = [torch.zeros(longest, dtype=torch.uint8) for _ in range(hosts)]
        dist.all_gather(texts, torch.frombuffer(text.ljust(longest), dtype=torch.uint8))
    except RuntimeError as error:
        raise HostError(f"Rank {rank} lost another host while they joined; look at the others' errors.") from error
    return [parse_json(bytes(text.tolist())) for text in texts]


def _watch_parent() -> None:
    """End when the process that made this one is gone, and leave nothing behind; only with our own launcher."""
    if not os.environ.get(RENDEZVOUS, "").startswith("file://"):
        return
    rendezvous = Path(os.environ[RENDEZVOUS].removeprefix("file://"))

    def watch() -> None:
        while os.read(0, 1):
            pass
        if rendezvous.parent.name.startswith(FOLDER):  # which the launcher has made
            shutil.rmtree(rendezvous.parent, ignore_errors=True)  # another child may be at it, too
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_LIMIT)
        _leave(130, "The process that started this host is gone.")

    threading.Thread(target=watch, name="any2vec-parent", daemon=True).start()


def _stop(number: int, _: FrameType | None) -> NoReturn:
    raise Interrupted(f"Stopped by {signal.Signals(number).name}.")


def _leave(code: int, last: str) -> NoReturn:
    """End the process at once, after its last words."""
    try:
        sys.stdout.flush()
        if last:
            print(visible(last), file=sys.stderr)
        sys.stderr.flush()
    except (OSError, ValueError):  # whoever read them is gone
        pass
    finally:
        os._exit(code)
