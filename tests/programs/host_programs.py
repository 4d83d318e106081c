"""Programs that tests run as hosts: `python -m host_programs SETTINGS`, by the contract of cluster/launch/join.py.

SETTINGS is JSON: `program` names a function below, the other settings are its arguments. Rank 0 prints JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.cluster import torch_transport
from any2vec.cluster.launch import join as launch
from any2vec.cluster.message import Message, Part, encode
from any2vec.cluster.torch_transport import FIRST
from any2vec.cluster.transport import Transport, control
from any2vec.errors import HostError

ROUNDS = 5


def bsp(transport: Transport) -> list[np.ndarray]:
    """A little program in rounds over every operation: what this host holds at its end, each array after its last."""
    rank, hosts = transport.rank, transport.hosts
    rng = np.random.default_rng(rank)
    mine = rng.standard_normal((30, 7)).astype(np.float32)
    for number in range(ROUNDS):
        rows = rng.choice(30, size=rank + number + 1, replace=False)
        outgoing = {
            peer: (Part("ids", rows + peer), Part("rows", mine[rows]), Part("dense", np.arange(peer, dtype=np.int8)))
            for peer in range(hosts)
            if peer != rank and (peer + number) % 3
        }
        for ids, values, _ in (parts for parts in transport.exchange(outgoing, "exchange").values() if parts):
            mine[ids.array % 30] += values.array
        found = transport.gather((control(float(mine.sum())),), "gather", root=number % hosts)
        total = control(sum(parts[0].array[0] for parts in found.values()))
        (total,) = transport.share((total,), "share", root=number % hosts)
        mine *= np.float32(np.tanh(total.array[0]))
        transport.barrier()
        if hosts > 1:
            transport.send((rank + 1) % hosts, (Part("rows", mine[:2].copy()),), "ring", "aside")
            mine[:2] += transport.recv((rank - 1) % hosts, "ring", "aside").parts[0].array
    return [mine, total.array]


def summary(transport: Transport, arrays: list[np.ndarray]) -> dict[str, Any]:
    """What two transports must agree on."""
    counters = transport.counters
    return {
        "arrays": [array.tobytes().hex() for array in arrays],
        "kinds": counters.bytes_by_kind(),
        "phases": counters.bytes_by_phase(),
        "sent": sorted([*key, value] for key, value in counters.sent.items()),
        "received": sorted([*key, value] for key, value in counters.received.items()),
        "messages": dict(counters.messages_sent),
    }


def run_bsp() -> None:
    with launch.join("bsp") as transport:
        mine = json.dumps(summary(transport, bsp(transport)))
        found = transport.gather((Part("control", np.frombuffer(mine.encode(), np.uint8)),), "report")
        if transport.rank == 0:
            print(json.dumps([json.loads(parts[0].array.tobytes()) for parts in found.values()]))


def run_large(size: int) -> None:
    """A message of one array of many chunks, and of others that do or do not travel with its head, to everyone."""
    sizes = (5, size, 0, FIRST - 200, 100, FIRST, 7)
    with launch.join("large", silence=5) as transport:
        parts = {
            peer: [
                Part("rows", np.empty((0, 3), np.float32)),
                *(Part("dense", np.full(size, peer + place, np.uint8)) for place, size in enumerate(sizes)),
            ]
            for peer in range(transport.hosts)
        }
        for phase in ("large", "again"):  # nothing of the first message is left on the way
            found = transport.exchange(parts, phase)
            for received in found.values():
                for part, sent in zip(received, parts[transport.rank], strict=True):
                    assert part.array.shape == sent.array.shape and np.array_equal(part.array, sent.array)
        if transport.rank == 0:
            print(json.dumps(sorted(found)))


def run_fault(fault: str, silence: float = 60.0) -> None:
    """The last rank fails after two rounds, or when it joins. Who can notes what it learns in the file NOTES."""
    is_odd = int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1
    if fault == "version" and is_odd:
        launch.__version__ = "0.0.0"
    try:
        with launch.join("other" if fault == "job" and is_odd else "job", silence=silence) as transport:
            for number in range(1000):
                if is_odd and number == 2:
                    _fail(fault)
                transport.exchange(dict.fromkeys(range(transport.hosts), (control(1.0, 2.0),)), "round")
    except HostError as error:
        # Beside standard error, where the launcher reads the sentence of the first to fail alone.
        with open(os.environ["NOTES"], "a") as notes:  # noqa: PTH123
            notes.write(json.dumps([int(os.environ["RANK"]), type(error).__name__, str(error)]) + "\n")
        raise


def _fail(fault: str) -> None:
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault == "raise":
        raise ZeroDivisionError("no more rows")
    elif fault == "leave":
        os._exit(0)
    elif fault in ("head", "body"):
        torch_transport.encode = damaged_head if fault == "head" else damaged_body  # type: ignore[assignment]


def damaged_head(message: Message) -> tuple[bytes, list[np.ndarray]]:
    head, body = encode(message)
    return head[:30] + bytes([head[30] ^ 4]) + head[31:], body


def damaged_body(message: Message) -> tuple[bytes, list[np.ndarray]]:
    head, body = encode(message)
    last = body[-1].copy()
    last[-3:] ^= 1
    return head, [*body[:-1], last]


def run_again(out: str, task: str) -> None:
    """Hosts of which torchrun's agents have counted none, one, … restarts: what each then does with a folder, `out`."""
    from any2vec.train.registry import task_named
    from any2vec.train.run import _begun
    from any2vec.train.spec import RunSpec

    os.environ |= {"TORCHELASTIC_RESTART_COUNT": os.environ["RANK"], "TORCHELASTIC_MAX_RESTARTS": "3"}
    kind = task_named(task)
    options = kind.run_class()(out=Path(out), overwrite=True)
    spec = RunSpec(task=task, model=kind.model_class("skipgram")(), data=["text.txt"], run=options)
    with launch.join(spec.fingerprint()) as transport:
        run = _begun(kind, spec, transport.attempt).run
        found = transport.gather((control(run.resume, run.overwrite),), "run")
        if transport.rank == 0:
            print(json.dumps([[bool(one) for one in parts[0].array] for parts in found.values()]))


def run_sleep(seconds: float) -> None:
    """Two hosts or more that live until they are asked to stop."""
    with launch.join("sleep") as transport:
        transport.barrier()
        if transport.rank == 0:
            print("ready")
        time.sleep(seconds)


if __name__ == "__main__":
    settings = json.loads(sys.argv[1])
    work = globals()["run_" + settings.pop("program")]
    launch.run_child(lambda: work(**settings))
