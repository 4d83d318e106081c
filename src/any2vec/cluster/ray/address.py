"""Addresses of Ray clusters: what they look like, whether somebody is there, and how to connect."""

from __future__ import annotations

import logging
import re
import socket
from typing import Any

from any2vec.errors import Any2VecError, HostError, InputError

STORE = 80 << 20
"""bytes of a local cluster's object store, about the least that Ray allows: no matrix goes there"""
_CONNECT_SECONDS = 10.0
_VERSIONS = re.compile(r"Ray: (\S+)\s+Python: (\S+)")


def is_local(address: str) -> bool:
    """Whether the address asks for a cluster of our own on this machine."""
    return address in ("", "local")


def parse_address(address: str) -> tuple[str, int] | None:
    """(host, port) of HOST:PORT; None for local and auto, which have none.

    Raises:
        InputError: it is no address of a Ray cluster.
    """
    if is_local(address) or address == "auto":
        return None
    found = re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[^\s:/\[\]]+):(\d{1,5})", address)
    if found is None or not 0 < int(found[2]) < 1 << 16:
        raise InputError(
            f"The address of a Ray cluster is local, auto or HOST:PORT of its head, got {address!r}; run any2vec on "
            "one of the cluster's nodes (from outside: ray job submit)."
        )
    return found[1].strip("[]"), int(found[2])


def connect(address: str, cpus: int, patience: float, folder: str) -> None:
    """Make this process a driver of a cluster, or of a new local one with so many CPUs and its files in `folder`.

    Raises:
        InputError: not the versions of the cluster, or no address.
        HostError: nobody is there, or Ray refuses.
    """
    import ray

    place = parse_address(address)
    if place is not None:
        _check_reachable(address, place, min(patience, _CONNECT_SECONDS))
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "logging_level": logging.CRITICAL}
    own: dict[str, Any] = {"num_cpus": cpus, "include_dashboard": False, "object_store_memory": STORE}
    try:
        if is_local(address):
            ray.init("local", **own, **quiet, _temp_dir=folder)
        else:
            ray.init(address, **quiet)
    except Exception as error:
        raise _explain(error, address) from error


def _check_reachable(address: str, place: tuple[str, int], seconds: float) -> None:
    """HostError unless somebody listens there: Ray itself would ask for many minutes."""
    try:
        socket.create_connection(place, seconds).close()
    except OSError as error:
        raise HostError(
            f"No Ray cluster can be reached at {address}: {error.strerror or error}; start one by "
            "`ray start --head` or correct the address."
        ) from error


def _explain(error: BaseException, address: str) -> Any2VecError:
    """One sentence for what Ray said when it could not connect."""
    texts, link = [], error
    while link is not None:
        texts.append(str(link).strip())
        link = link.__cause__  # type: ignore[assignment]
    versions = _VERSIONS.findall("\n".join(texts))
    if "ersion mismatch" in "\n".join(texts) and len(versions) >= 2:
        (their_ray, their_python), (our_ray, our_python) = versions[:2]
        return InputError(
            f"The Ray cluster at {address} runs Ray {their_ray} with Python {their_python}, and this process Ray "
            f"{our_ray} with Python {our_python}; use the same versions of both."
        )
    what = "A local Ray cluster cannot be started" if is_local(address) else f"Ray cannot connect to {address}"
    said = texts[-1].splitlines()[0] if texts[-1] else type(error).__name__
    said = re.split(r"\.?\s+Last connection error|\s*Traceback", said)[0]  # what Ray quotes there has many lines
    return HostError(f"{what}: {said}; look at the cluster (ray status), or correct the address.")
