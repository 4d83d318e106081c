"""Agreements of logical hosts with and without an emulated link: one JSON line with seconds a round."""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from any2vec.cluster.link import LinkModel, parse_link
from any2vec.cluster.transport import Transport
from any2vec.sync.drivers.rounds import Agreement


class Watch:
    """The time of agreements that all hosts begin together, and the bytes of each phase, by host."""

    def __init__(self, hosts: int) -> None:
        self.meeting = threading.Barrier(hosts)
        self.seconds = 0.0
        self.steps = 0
        self.modeled = 0.0
        self._hosts = hosts
        self._moved: dict[str, dict[int, int]] = {}
        """phase -> host -> bytes over its busier direction, in the step at hand"""
        self._lock = threading.Lock()

    def step(self, transport: Transport, link: LinkModel, act: Callable[[], None]) -> None:
        """All hosts begin `act` together, and end when the last one does."""
        before = _moved(transport)
        self.meeting.wait()
        began = time.perf_counter()
        act()
        self.meeting.wait()
        seconds = time.perf_counter() - began
        with self._lock:
            for phase, size in _moved(transport).items():
                own = max(now - old for now, old in zip(size, before.get(phase, (0, 0)), strict=True))
                self._moved.setdefault(phase, {})[transport.rank] = own
        if self.meeting.wait() == 0:
            self.seconds += seconds
            self.steps += 1
            busiest = [max(by_host.values()) for by_host in self._moved.values()]
            self.modeled += sum(link.latency + 8 * size / link.bandwidth for size in busiest if size)
            self._moved = {}
        self.meeting.wait()


class Watched:
    """An agreement under watch."""

    def __init__(self, agreement: Agreement, transport: Transport, watch: Watch, link: LinkModel) -> None:
        self._agreement, self._transport, self._watch, self._link = agreement, transport, watch, link

    def begin_round(self, work: Any) -> None:
        self._watch.step(self._transport, self._link, lambda: self._agreement.begin_round(work))

    def end_round(self) -> None:
        self._watch.step(self._transport, self._link, self._agreement.end_round)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agreement, name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", required=True)
    parser.add_argument("--hosts", type=int, required=True)
    parser.add_argument("--link", required=True)
    parser.add_argument("--scheme", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()

    import any2vec
    import any2vec.sync.make
    from any2vec.options.hosts import HostOptions
    from any2vec.options.sync import SyncOptions
    from any2vec.sync.options.rounds import RoundAgreement

    link, make = parse_link(args.link), any2vec.sync.make.make_agreement
    watches = []
    for emulated in (None, args.link):
        watch = Watch(args.hosts)

        def watched(options: RoundAgreement, transport: Transport, *rest: Any, watch: Watch = watch) -> Any:
            return Watched(make(options, transport, *rest), transport, watch, link)

        any2vec.sync.make.make_agreement = watched
        hosts = HostOptions(logical_hosts=args.hosts, link=emulated)
        sync = SyncOptions(scheme=args.scheme, rounds_per_epoch=args.rounds)
        any2vec.fit(any2vec.SkipGram(), args.text, epochs=1, threads=1, hosts=hosts, sync=sync)
        watches.append(watch)
    bare, slow = watches
    found = {
        "compute": bare.seconds, "measured": slow.seconds, "link": slow.modeled,
        "modeled": slow.modeled + bare.seconds,
    }  # fmt: skip
    print(json.dumps({name: seconds / args.rounds for name, seconds in found.items()}))


def _moved(transport: Transport) -> dict[str, tuple[int, int]]:
    """phase -> (bytes sent, bytes received) so far."""
    counters = transport.counters
    return {
        phase: (_sum(counters.sent.items(), phase), _sum(counters.received.items(), phase))
        for phase in ("inspect", "pull", "reduce", "broadcast")
    }


def _sum(counted: Iterable[tuple[tuple[str, int, str], int]], phase: str) -> int:
    return sum(size for key, size in list(counted) if key[2] == phase)


if __name__ == "__main__":
    main()
