"""Agreements driven without kernels: tiny tables, a learner of a convex problem, logical hosts. Shared by tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.cluster.codec import pack_state, unpack_state
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.formats.safetensors_file import read_arrays, write_arrays
from any2vec.sync.base.curvature import PairSteps
from any2vec.sync.drivers.rounds import Rounds
from any2vec.sync.exchange.pulled import Inspector
from any2vec.sync.make import make_agreement
from any2vec.sync.options.rounds import RoundAgreement
from any2vec.types import ProgressLine, Round, Span, Stats, Work

Tables = dict[str, np.ndarray]
Step = Callable[[Tables, int, int, int], float]
"""step(tables, rank, round, step of it): train in place; the loss"""
ROWS, DIM, STEPS = 23, 3, 4


class AllRows:
    """An inspector that knows nothing: every row may be read."""

    def inspect(self, epoch: int, start: int, stop: int, marks: Mapping[str, np.ndarray]) -> None:
        for mark_V in marks.values():
            mark_V[:] = 1


def start_tables(rows: int = ROWS, dim: int = DIM) -> Tables:
    rng = np.random.default_rng(5)
    return {name: rng.standard_normal((rows, dim)).astype(np.float32) for name in ("input", "output")}


def planted(rows: int = ROWS, dim: int = DIM) -> Tables:
    """The optimum that all hosts share."""
    rng = np.random.default_rng(6)
    return {name: 2 + rng.standard_normal((rows, dim)).astype(np.float32) for name in ("input", "output")}


def convex(tables: Tables, rank: int, number: int, step: int) -> float:
    """A step of SGD on sum of a |w - optimum|^2 / 2 over some rows; curvatures differ from host to host."""
    rng = np.random.default_rng((rank, number, step))
    loss = 0.0
    for name, optimum in planted(*tables["input"].shape).items():
        rows = np.flatnonzero(rng.random(len(optimum)) < 0.4)
        off = tables[name][rows] - optimum[rows]
        curvature = (0.5 + rng.random((len(rows), 1))).astype(np.float32)
        tables[name][rows] -= np.float32(0.15) * curvature * off
        loss += float((curvature * off**2).sum() / 2)
    return loss


def pair_steps(rows: int) -> PairSteps:
    """What rules that ask for curvature hear."""
    return PairSteps(
        meets={"input": "output", "output": "input"},
        weights=dict.fromkeys(("input", "output"), np.full(rows, 1 / rows)),
        updates=dict.fromkeys(("input", "output"), np.linspace(1, 100, rows)),
        rate=lambda number: 1 / (1 + number),
    )


def works(first: int, rounds: int, steps: int = STEPS) -> Iterator[Work[Span]]:
    for number in range(first, rounds):
        line = ProgressLine(number * steps, (number + 1) * steps, number / rounds, (number + 1) / rounds)
        whole = Round(number, (Span(line.start, line.stop, line),))
        for step in range(steps):
            at, last = line.start + step, step == steps - 1
            yield Work(Span(at, at + 1, line), 0, whole, line.progress(at + 1), step == 0, last, not last)


class Ran:
    """What one host has after a run."""

    def __init__(self, driver: Rounds, tables: Tables, transport: Transport) -> None:
        self.agreement: Any = driver.agreement
        self.tables = {name: table.copy() for name, table in tables.items()}
        self.collected: Tables = {}
        self.halfway: tuple[Tables, list[Tables]] | None = None
        self.transport = transport


def run_hosts(
    sync: str, hosts: int, rounds: int, step: Step = convex, *, tables: Callable[[int], Tables] | None = None,
    halfway: int = -1, resume: tuple[Tables, list[Tables]] | None = None, jitter: int = 0, bits: int = 32,
    first: int = 0, each_round: Callable[[int, int, Any], None] | None = None, inspector: Inspector | None = None,
) -> list[Ran]:  # fmt: skip
    """Drive an agreement over `hosts` logical hosts; what each has, by rank.

    halfway: round after which the run is photographed as a checkpoint does; resume: such a photograph to start from.
    jitter: seed of little random pauses. each_round: hears (round, rank, agreement) after each round.
    inspector: says which rows a round reads, by default all.
    """
    options = RoundAgreement(sync=sync, bits=bits)

    def host(transport: Transport) -> Ran:
        rank, pauses = transport.rank, np.random.default_rng((jitter, transport.rank))
        mine = start_tables() if tables is None else tables(rank)
        if resume is not None:
            mine = {name: np.array(resume[0][name]) for name in mine}
        agreement = make_agreement(
            options, transport, mine, inspector or AllRows(), steps=lambda: pair_steps(len(mine["input"]))
        )
        if resume is not None:
            agreement.load_state_dict(resume[1])
        driver, kept = Rounds(agreement), None
        for work in works(first, rounds):
            if jitter:
                time.sleep(float(pauses.random()) * 2e-3)
            driver.before(work)
            loss = step(mine, rank, work.round.number, work.payload.start - work.payload.line.start)
            driver.after(work, Stats(1, loss, 1))
            if work.ends_round and each_round is not None:
                each_round(work.round.number, rank, agreement)
            if work.ends_round and work.round.number == halfway:
                kept = photograph(transport, driver)
        ran = Ran(driver, mine, transport)
        ran.halfway = kept
        found = agreement.gather_result()
        ran.collected = {} if found is None else {name: np.array(table) for name, table in found.items()}
        transport.barrier()
        driver.close()
        return ran

    return run_logical(hosts, host, patience=30)


def photograph(transport: Transport, driver: Rounds) -> tuple[Tables, list[Tables]] | None:
    """What a checkpoint would hold, at rank 0: the agreed tables, and the states by rank."""
    agreed = driver.agreement.gather_result()
    agreed = None if agreed is None else {name: np.array(table) for name, table in agreed.items()}
    found = transport.gather(pack_state(driver.agreement.state_dict()), "photograph")
    if agreed is None:
        return None
    return agreed, [{name: array.copy() for name, array in unpack_state(parts).items()} for parts in found.values()]


def stored(kept: tuple[Tables, Sequence[Tables]], file: Path) -> tuple[Tables, list[Tables]]:
    """A photograph as it comes back from a file."""
    agreed, states = kept
    flat = agreed | {f"{name}@{host}": array for host, state in enumerate(states) for name, array in state.items()}
    with file.open("wb") as out:
        write_arrays(out, flat, {})
    read, _ = read_arrays(file)
    back = [{name: read[f"{name}@{host}"] for name in state} for host, state in enumerate(states)]
    return {name: read[name] for name in agreed}, back


def spread(ran: Sequence[Ran]) -> float:
    """Variance between the hosts' tables: squared distance from their mean, over all hosts and numbers."""
    every = np.stack([np.concatenate([table.ravel() for table in host.tables.values()]) for host in ran]).astype(float)
    return float(((every - every.mean(axis=0)) ** 2).sum())
