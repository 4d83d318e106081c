"""How processes that know one address or one file become a group of torch.distributed."""

from __future__ import annotations

import errno
import os
import re
import socket
import time
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

from any2vec.cluster.attempt import Attempt
from any2vec.cluster.launch.processes import RENDEZVOUS
from any2vec.errors import Any2VecError, HostError, InputError

if TYPE_CHECKING:
    from torch.distributed import Store

_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_LOOK = 0.02
_BACKLOG = 1024


def variable(name: str, default: str = "") -> int:
    """The number that a launcher has set in the environment. InputError: it is none, or is not written as one is."""
    text = os.environ.get(name) or default
    if not _NUMBER.fullmatch(text):
        raise InputError(f"The variable {name} must be a whole number, as torchrun sets it (0, 1, ...); got {text!r}.")
    return int(text)


def barrier(rank: int, hosts: int, seconds: float) -> Attempt:
    """Make torch.distributed's default group, of gloo: where `run_processes` says, otherwise where torchrun says.

    Returns what this host knows of attempts before this one.

    Raises:
        HostError: not all came within about so many seconds, or rank 0 cannot be reached.
        InputError: the address is missing or wrong, the port is in use, or the network interface is not there.
    """
    import torch.distributed as dist

    limit = timedelta(seconds=seconds)
    try:
        if RENDEZVOUS in os.environ:
            method = os.environ[RENDEZVOUS]
            dist.init_process_group("gloo", init_method=method, rank=rank, world_size=hosts, timeout=limit)
            return Attempt()
        _check_port(rank, hosts)
        common = _common_store(rank, hosts, limit)
        common.set_timeout(limit)
        attempt = Attempt(common if rank == 0 and _is_kept() else None)
        store = fresh(common, rank, hosts, seconds)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=hosts, timeout=limit)
        return attempt
    except (RuntimeError, ValueError) as error:
        raise error if isinstance(error, Any2VecError) else _explain(str(error), rank, hosts, seconds) from error


def _is_kept() -> bool:
    """Whether torchrun's agent serves the store, and may keep it for attempts after this one."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _check_port(rank: int, hosts: int) -> None:
    """Raise InputError unless MASTER_PORT is one at which others find rank 0; torch would listen at another, or wait.

    Who is alone may leave the choice to the system: 0.
    """
    port = os.environ.get("MASTER_PORT", "")
    if not _NUMBER.fullmatch(port) or not (hosts > 1) <= int(port) < 1 << 16:
        raise _no_address(rank)


def _common_store(rank: int, hosts: int, limit: timedelta) -> Store:
    """The store at MASTER_ADDR and MASTER_PORT, which torchrun serves, or rank 0: at that address alone if it can."""
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    listener = _listener() if rank == 0 else None
    if listener is None:
        common, _, _ = next(rendezvous("env://", rank, hosts, timeout=limit))
        return common
    address, port = os.environ["MASTER_ADDR"], listener.getsockname()[1]
    return dist.TCPStore(address, port, hosts, True, limit, master_listen_fd=listener.detach())


def _listener() -> socket.socket | None:
    """What listens at MASTER_ADDR; by itself torch's store would at every address of the machine, and asks nobody who
    he is. None: torchrun serves the store, or the name may mean another address to hosts on other machines. localhost
    (RFC 6761) does not; a machine's own name does, though many a machine resolves it to its loopback.
    """
    address, port = os.environ.get("MASTER_ADDR", ""), os.environ["MASTER_PORT"]
    is_local = f".{address.lower()}".endswith(".localhost")
    is_one_machine = is_local or os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE")
    if _is_kept():
        return None
    try:
        flags = 0 if is_one_machine else socket.AI_NUMERICHOST
        family, _, _, _, place = socket.getaddrinfo(address, int(port), type=socket.SOCK_STREAM, flags=flags)[0]
        return socket.create_server(place[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise RuntimeError("EADDRINUSE") from error
        return None


def fresh(common: Store, rank: int, hosts: int, seconds: float) -> Store:
    """A corner of a store in which nobody has written yet, the same for all hosts of this attempt.

    `torchrun --max-restarts` may give a restarted job the store of the attempt before, with the addresses of processes
    that are gone. How often a host was restarted is no common number: agents count each for itself, and a process may
    die before it comes here. So every host calls with a word of its own, and rank 0 answers each call with the name of
    the corner until all have said that they know it.
    """
    import torch.distributed as dist

    if rank:
        word = uuid.uuid4().hex
        common.set(f"any2vec/call/{rank}", word)
        name = common.get(f"any2vec/answer/{word}").decode()
        common.set(f"any2vec/{name}/{rank}", "knows")
        return dist.PrefixStore(name, common)
    name = uuid.uuid4().hex
    waiting = set(range(1, hosts))
    deadline = time.monotonic() + seconds
    while waiting:
        for peer in sorted(waiting):
            if common.check([f"any2vec/{name}/{peer}"]):
                waiting.remove(peer)
            elif common.check([f"any2vec/call/{peer}"]):
                common.set(f"any2vec/answer/{common.get(f'any2vec/call/{peer}').decode()}", name)
        if time.monotonic() > deadline:
            raise HostError(f"Rank {min(waiting)} did not come within {seconds:g} s; look at its own errors.")
        time.sleep(_LOOK)
    return dist.PrefixStore(name, common)


def _explain(text: str, rank: int, hosts: int, seconds: float) -> Any2VecError:
    """One sentence about what torch.distributed said when hosts could not meet."""
    address, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    if "EADDRINUSE" in text:
        return InputError(f"Port {port} (MASTER_PORT) is in use on the machine of rank {rank}; choose another one.")
    if "variable" in text:
        return _no_address(rank)
    if "Unable to find address" in text:
        return InputError(f"GLOO_SOCKET_IFNAME={os.environ.get('GLOO_SOCKET_IFNAME')!r} is no network interface here.")
    if "client socket" in text or "Ping failed" in text or "ECONN" in text:
        return HostError(
            f"Rank {rank} could not reach rank 0 at {address}:{port} in {seconds:g} s: "
            "it is not running, the address is wrong, or a firewall is between them."
        )
    if "imed out" in text or "timeout" in text.lower():
        return HostError(f"Rank {rank} waited {seconds:g} s and not all of the {hosts} hosts came; look at the others.")
    return HostError(
        f"Rank {rank} could not join the other hosts: {text.splitlines()[0] if text else 'no reason given'}"
    )


def _no_address(rank: int) -> InputError:
    address, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    return InputError(
        f"Rank {rank} has no valid rendezvous address (MASTER_ADDR={address!r}, MASTER_PORT={port!r}); "
        "start it by torchrun, or set them to the address and a free port of rank 0's machine."
    )
