"""What every transport keeps to: a class to inherit, with a way to run a function as each of several hosts."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport, control
from any2vec.errors import HostError


class TransportTests(ABC):
    """Order, phases, counters and failures. All hosts of a subclass are threads of this process."""

    @abstractmethod
    def run(self, hosts: int, work: Callable[[Transport], Any]) -> list[Any]:
        """What each host returns, by rank; raises what the first to fail raised."""

    def test_exchange_gather_share(self) -> None:
        def work(transport: Transport) -> tuple[dict[int, list[float]], dict[int, float], float]:
            rank = transport.rank
            outgoing = {peer: (control(10 * rank + peer),) for peer in range(4) if peer != rank and peer != 2}
            found = transport.exchange(outgoing, "exchange")
            gathered = transport.gather((control(rank),), "gather", root=1)
            shared = transport.share((control(rank),), "share", root=3)
            return (
                {peer: [float(part.array[0]) for part in parts] for peer, parts in found.items()},
                {peer: float(parts[0].array[0]) for peer, parts in gathered.items()},
                float(shared[0].array[0]),
            )

        for rank, (found, gathered, shared) in enumerate(self.run(4, work)):
            others = [peer for peer in range(4) if peer != rank]
            assert list(found) == others  # ascending, whoever was first
            assert found == {peer: [10.0 * peer + rank] if rank != 2 else [] for peer in others}
            assert list(gathered.items()) == ([(peer, float(peer)) for peer in range(4)] if rank == 1 else [])
            assert shared == 3.0

    def test_one_host_needs_no_peer(self) -> None:
        def work(transport: Transport) -> None:
            transport.barrier()
            assert transport.exchange({}, "x") == {}
            assert transport.counters.bytes_sent() == 0

        self.run(1, work)

    def test_nobody_leaves_a_barrier_before_all_have_come(self) -> None:
        come: list[int] = []

        def work(transport: Transport) -> None:
            for number in range(20):
                come.append(number)
                transport.barrier()
                assert come.count(number) == 5

        self.run(5, work)

    def test_what_is_sent_is_what_is_received(self) -> None:
        """Arrays by bit; bytes by peer, kind and phase."""

        def work(transport: Transport) -> tuple[dict[tuple[Any, ...], int], dict[tuple[Any, ...], int]]:
            rank, rng = transport.rank, np.random.default_rng(transport.rank)
            for phase in ("first", "second"):
                outgoing = {
                    peer: (Part("rows", rng.random((rank + 1, peer + 2), np.float32)),)
                    for peer in range(4)
                    if peer != rank
                }
                found = transport.exchange(outgoing, phase)
                for peer, parts in found.items():
                    assert parts[0].array.shape == (peer + 1, rank + 2) and parts[0].array.dtype == np.float32
            counters = transport.counters
            return dict(counters.sent), dict(counters.received)

        sent: dict[tuple[Any, ...], int] = {}
        received: dict[tuple[Any, ...], int] = {}
        for rank, (out, into) in enumerate(self.run(4, work)):
            sent |= {(rank, peer, kind, phase): size for (kind, peer, phase), size in out.items()}
            received |= {(peer, rank, kind, phase): size for (kind, peer, phase), size in into.items()}
        assert sent == received and sum(sent.values()) > 0

    def test_channels_do_not_disturb_each_other(self) -> None:
        def work(transport: Transport) -> list[float]:
            if transport.rank == 0:
                for number in range(3):
                    transport.send(1, (control(number),), "a", "first")
                    transport.send(1, (control(10 + number),), "b", "second")
                return []
            names = ["second"] * 3 + ["first"] * 3
            return [float(transport.recv(None, channel=name).parts[0].array[0]) for name in names]

        assert self.run(2, work)[1] == [10, 11, 12, 0, 1, 2]

    def test_hosts_out_of_step_are_noticed(self) -> None:
        def work(transport: Transport) -> None:
            transport.exchange({}, "rows" if transport.rank else "ids")

        with pytest.raises(HostError, match="do not run the same job"):
            self.run(2, work)

    @pytest.mark.parametrize("failing", [0, 2])
    def test_a_failing_host_wakes_the_others(self, failing: int) -> None:
        woken: dict[int, str] = {}

        def work(transport: Transport) -> None:
            if transport.rank == failing:
                raise ZeroDivisionError("no more rows")
            try:
                transport.barrier("never")
                transport.barrier("never")
            except HostError as error:
                woken[transport.rank] = str(error)
                raise

        with pytest.raises(ZeroDivisionError, match="no more rows"):
            self.run(4, work)
        assert woken.keys() == {0, 1, 2, 3} - {failing}
        assert all(f"host {failing} " in text for text in woken.values())
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("host-")]

    def test_waiting_for_a_host_that_has_ended_or_is_deaf(self) -> None:
        def ended(transport: Transport) -> None:
            if transport.rank == 0:
                transport.recv(1)

        def deaf(transport: Transport) -> None:
            transport.recv(1 - transport.rank, timeout=0.05)

        with pytest.raises(HostError, match="host 1 has ended"):
            self.run(2, ended)
        with pytest.raises(HostError, match=r"waited 0\.05 s .* deadlock"):
            self.run(2, deaf)

    def test_nobody_sends_to_nowhere(self) -> None:
        for peer in (0, 2, -1):
            with pytest.raises(ValueError, match="cannot send"):
                self.run(2, partial(_send, peer))


def _send(peer: int, transport: Transport) -> None:
    """From rank 0; the other host sends to it."""
    transport.send(0 if transport.rank else peer, (), "x")
