"""`python -m any2vec.cluster.ray.driver`: the process that speaks to Ray for one job, started by `ray_hosts.run_ray`.

It is a process of its own because a driver of Ray writes to standard error, takes over SIGTERM, waits without limit
for an address that does not answer, and is ended by Ray's C++ part when it loses its cluster. It reads a JSON order and
then "stop" lines from standard input, whose end says that its parent is gone; it writes JSON lines to standard output.
"""

from __future__ import annotations

import shutil
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from any2vec._version import __version__
from any2vec.cluster.launch.ending import Ending, cause
from any2vec.cluster.ray.actor import HostActor
from any2vec.cluster.ray.address import connect
from any2vec.cluster.ray.parent import GoneError, Lines, Parent
from any2vec.errors import Any2VecError, HostError, InputError, Interrupted

_LOOK = 1.0
_GRACE = 3.0  # seconds for the others to notice a failure by themselves, and again to obey SIGTERM
_STOPPING = 60.0  # seconds for the others to write a checkpoint, when one has stopped as it was asked to


def main() -> None:
    """Do the order, and say how it ended."""
    parent = Parent()
    try:
        _drive(parent)
        parent.say(end=True)
    except (Any2VecError, Interrupted) as error:
        parent.say(error=type(error).__name__, text=str(error), notes=getattr(error, "__notes__", []))
    except GoneError:  # it was killed, and cannot remove its folder
        shutil.rmtree(parent.order["folder"], ignore_errors=True)
    except Exception as error:
        text = f"The driver of the hosts on Ray failed: {str(error).strip() or type(error).__name__}"
        parent.say(error="HostError", text=text, notes=traceback.format_exc().splitlines())


def _drive(parent: Parent) -> None:
    """Connect, run the job, and leave nothing behind."""
    import ray

    order = parent.order
    try:
        connect(order["address"], order["hosts"] * order["cpus_per_host"], order["patience"], order["folder"])
        parent.say(connected=True)
        _run(parent)
    finally:
        ray.shutdown()


def _run(parent: Parent) -> None:
    """All hosts, from their placement to their end."""
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    order = parent.order
    cpus = order["cpus_per_host"]
    # SPREAD: a host is worth a machine's memory and memory bandwidth, so two share a node only if there are too few.
    group = placement_group([{"CPU": cpus}] * order["hosts"], strategy="SPREAD")
    actors: list[Any] = []
    try:
        _await_group(parent, group)
        for bundle in range(order["hosts"]):
            place = PlacementGroupSchedulingStrategy(
                placement_group=group, placement_group_bundle_index=bundle, placement_group_capture_child_tasks=False
            )
            options = {"num_cpus": cpus, "max_restarts": 0, "max_concurrency": 3, "scheduling_strategy": place}
            actors.append(ray.remote(HostActor).options(**options).remote())
        actors = _start(parent, actors)
        lines = Lines(lambda line: parent.say(line=line))
        _watch(parent, actors, lines)
        lines.end()
    finally:
        _end(actors)
        remove_placement_group(group)
        _until(lambda: ray.util.placement_group_table(group).get("state") in ("REMOVED", None), 10.0)


def _await_group(parent: Parent, group: Any) -> None:
    """Wait until every host has its place. InputError: the cluster has not enough CPUs."""
    import ray

    order = parent.order

    def is_ready() -> bool:
        _beat_until_stopped(parent)
        return bool(group.wait(_LOOK))

    if not _until(is_ready, order["patience"]):
        hosts, cpus = order["hosts"], order["cpus_per_host"]
        total, free = (int(found.get("CPU", 0)) for found in (ray.cluster_resources(), ray.available_resources()))
        raise InputError(
            f"{hosts} hosts of {cpus} CPUs each want {hosts * cpus} CPUs, and the Ray cluster has {total}, of which "
            f"{free} were free after {order['patience']:g} s; use fewer hosts or CPUs per host, or add nodes."
        )


def _start(parent: Parent, actors: list[Any]) -> list[Any]:
    """Start the host of every actor; the actors by rank: those of one node stand together."""
    order = parent.order
    hosts = len(actors)
    metrics = _answers(parent, [actor.describe.remote() for actor in actors], range(hosts))
    for rank, (_, address, version, _) in enumerate(metrics):
        if version != __version__:
            raise HostError(
                f"The node {address} has any2vec {version} and this process {__version__}; "
                f"install the same version on every node of the Ray cluster (host {rank})."
            )
    nodes = [node for node, _, _, _ in metrics]
    ranks = sorted(range(hosts), key=lambda bundle: (nodes.index(nodes[bundle]), bundle))
    _, address, _, port = metrics[ranks[0]]
    calls, local = [], Counter[str]()
    for rank, bundle in enumerate(ranks):
        node = nodes[bundle]
        variables = [
            f"RANK={rank}", f"WORLD_SIZE={hosts}", f"LOCAL_RANK={local[node]}", f"LOCAL_WORLD_SIZE={nodes.count(node)}",
            f"MASTER_ADDR={address}", f"MASTER_PORT={port}",
        ]  # fmt: skip
        local[node] += 1
        calls.append(actors[bundle].start.remote(order["module"], order["argument"], order["cwd"], variables))
    _answers(parent, calls, range(hosts))
    return [actors[bundle] for bundle in ranks]


def _answers(parent: Parent, calls: list[Any], ranks: range) -> list[Any]:
    """What the calls return, in order. HostError names the one that failed or did not answer in time."""
    import ray

    waiting = list(calls)

    def is_done() -> bool:
        _beat_until_stopped(parent)
        ready, waiting[:] = ray.wait(waiting, num_returns=len(waiting), timeout=_LOOK)
        for call in ready:
            try:
                ray.get(call)
            except ray.exceptions.RayError as error:
                raise HostError(
                    f"Rank {ranks[calls.index(call)]} could not start on its Ray node, which needs the same any2vec "
                    f"as this process: {_last_line(str(error))}"
                ) from error
        return not waiting

    if not _until(is_done, parent.order["patience"]):
        rank = ranks[calls.index(waiting[0])]
        raise HostError(f"Rank {rank} did not start on its Ray node in {parent.order['patience']:g} s.")
    return list(ray.get(calls))


def _watch(parent: Parent, actors: list[Any], lines: Lines) -> None:
    """Pass on lines until every host has ended well. HostError: one has not. Interrupted: they were asked to stop."""
    import ray

    order, stops, deadline = parent.order, 0, float("inf")
    ended: dict[int, Ending] = {}
    calls = {actor.follow.remote(_LOOK): rank for rank, actor in enumerate(actors)}
    asked = dict.fromkeys(range(len(actors)), time.monotonic())
    while calls and time.monotonic() < deadline:
        parent.beat()
        if parent.stops > stops:
            stops = parent.stops
            for actor in actors:
                actor.send_signal.remote(signal.SIGTERM if stops == 1 else signal.SIGKILL)
        ready, _ = ray.wait(list(calls), timeout=_LOOK)
        for call in ready:
            rank = calls.pop(call)
            ending = _receive(call, rank, lines)
            if ending:
                ended[rank] = ending
            else:
                calls[actors[rank].follow.remote(_LOOK)] = rank
                asked[rank] = time.monotonic()
        for call, rank in list(calls.items()):
            if time.monotonic() > asked[rank] + order["patience"]:
                del calls[call]
                text = f"has not answered for {order['patience']:g} s: its node is stopped, overloaded or cut off."
                ended[rank] = Ending(rank=rank, code=None, lines=(f"Rank {rank} {text}",))
        for end in ended.values():
            if end.code != 0:
                deadline = min(deadline, time.monotonic() + (_STOPPING if stops and end.code == 130 else _GRACE))
    failed = [end for end in ended.values() if end.code != 0]
    if failed and stops:
        raise Interrupted(
            next((end.lines[-1] for end in failed if end.code == 130 and end.lines), "Stopped by a signal.")
        )
    if failed:
        raise cause(failed)


def _receive(call: Any, rank: int, lines: Lines) -> Ending | None:
    """Take one answer of a host; its ending, if it has ended."""
    import ray

    try:
        data, code, errors = ray.get(call)
    except ray.exceptions.RayError as error:
        text = f"Rank {rank} was lost: its Ray actor is gone (killed, out of memory, or its node is down)."
        return Ending(rank=rank, code=None, lines=(*str(error).splitlines(), text))
    lines.add(data)
    return None if code is None else Ending(rank=rank, code=code, lines=tuple(errors))


def _end(actors: list[Any]) -> None:
    """End the hosts, then their actors."""
    import ray

    calls = [actor.end.remote(_GRACE) for actor in actors]
    if calls:
        ray.wait(calls, num_returns=len(calls), timeout=2 * _GRACE)
    for actor in actors:
        with suppress(Exception):  # it may be gone
            ray.kill(actor)


def _beat_until_stopped(parent: Parent) -> None:
    """While no host runs that could stop in good order. Interrupted: a stop was asked for."""
    parent.beat()
    if parent.stops:
        raise Interrupted("Stopped by a signal before all hosts had started.")


def _until(is_done: Callable[[], bool], seconds: float) -> bool:
    """Ask again and again until it is done; False if it is not in time."""
    deadline = time.monotonic() + seconds
    while not is_done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no reason given")


if __name__ == "__main__":
    main()
