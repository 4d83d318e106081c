"""Work that is dealt out with credits: how much is under way, who gets it, standing still, time limits."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from any2vec.cluster.message import Part
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport, control
from any2vec.cluster.work_queue import ASSIGN, END, QueueWorker, WorkQueue
from any2vec.errors import HostError


def work_on(transport: Transport, seconds: float = 0.0) -> list[float]:
    """A peer that sends back what it gets, and lists it."""
    queue_worker, got = QueueWorker(transport, 0), []
    while True:
        phase, parts = queue_worker.take()
        if phase == END:
            return got
        if phase == ASSIGN:
            time.sleep(seconds)
            got.append(float(parts[0].array[0]))
        queue_worker.report(parts)


@pytest.mark.parametrize("credits", [1, 3])
def test_every_piece_is_worked_on_once_and_no_peer_holds_more_than_its_credit(credits: int) -> None:
    pieces, peers = 40, 3

    def host(transport: Transport) -> Any:
        if transport.rank:
            return work_on(transport)
        work_queue, reported, most = WorkQueue(transport, range(1, peers + 1), credits), [], 0
        for piece in range(pieces):
            assert work_queue.assign([control(piece)]) == piece
            most = max(most, work_queue.under_way)
            reported += work_queue.done()
        reported += work_queue.quiesce([control(-7)])
        assert work_queue.under_way == 0 and work_queue.done() == []
        work_queue.close()
        return reported, most, work_queue.assigned

    (reported, most, assigned), *got = run_logical(peers + 1, host, patience=20.0)
    assert most <= peers * credits and sum(assigned.values()) == pieces
    assert sorted(done.number for done in reported if done.number >= 0) == list(range(pieces))
    assert all(done.parts[0].array[0] == done.number for done in reported if done.number >= 0)
    assert sorted(done.peer for done in reported if done.number < 0) == [1, 2, 3]  # each rested, and heard with what
    assert all(done.parts[0].array[0] == -7 for done in reported if done.number < 0)
    for rank, pieces_of in enumerate(got, start=1):
        assert pieces_of == sorted(pieces_of) and len(pieces_of) == assigned[rank]


def test_who_is_slow_gets_less() -> None:
    # The peer that holds its pieces is dealt two, the other one all that follow.
    def host(transport: Transport) -> Any:
        if transport.rank == 0:
            work_queue = WorkQueue(transport, (1, 2), patience=20.0)
            for piece in range(20):
                work_queue.assign([control(piece)])
            assigned = dict(work_queue.assigned)
            transport.send(1, (), "go", "go")
            work_queue.quiesce()
            work_queue.close()
            return assigned
        if transport.rank == 2:
            return work_on(transport)
        queue_worker = QueueWorker(transport, 0)
        queue_worker.take()
        transport.recv(0, "go", "go")
        queue_worker.report(())
        return work_on(transport)

    assigned, _, _ = run_logical(3, host, patience=20.0)
    assert assigned == {1: 2, 2: 18}


def test_a_peer_that_announces_nothing_is_given_up_in_time() -> None:
    def host(transport: Transport) -> None:
        if transport.rank == 0:
            work_queue = WorkQueue(transport, (1,), credits=1, patience=0.2)
            work_queue.assign([Part("ids", np.zeros(3, np.int32))])
            work_queue.assign([])
        else:
            QueueWorker(transport, 0).take()
            transport.recv(0, timeout=20.0)

    with pytest.raises(HostError, match=r"waited 0\.2 s"):
        run_logical(2, host)


def test_a_peer_that_is_lost_ends_the_dealing() -> None:
    def host(transport: Transport) -> None:
        if transport.rank == 0:
            work_queue = WorkQueue(transport, (1, 2), credits=1)
            for piece in range(5):
                work_queue.assign([control(piece)])
        elif transport.rank == 1:
            QueueWorker(transport, 0).take()
            raise HostError("Rank 1 failed: planted.")
        else:
            work_on(transport)

    with pytest.raises(HostError, match="planted"):
        run_logical(3, host)
