"""What went over the transport of one host: bytes by kind, by peer, by phase, and messages."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence

from any2vec.cluster.message import KINDS, Part, overhead


class Counters:
    """Adds up what one host sends and receives. Counts are of bytes on the wire, heads included (as control)."""

    def __init__(self) -> None:
        self.sent: Counter[tuple[str, int, str]] = Counter()
        """bytes by (kind, peer, phase)"""
        self.received: Counter[tuple[str, int, str]] = Counter()
        self.messages_sent: Counter[str] = Counter()
        """by phase"""
        self._lock = threading.Lock()

    def count_sent(self, peer: int, phase: str, parts: Sequence[Part]) -> None:
        with self._lock:
            self.messages_sent[phase] += 1
            _add(self.sent, peer, phase, parts)

    def count_received(self, peer: int, phase: str, parts: Sequence[Part]) -> None:
        with self._lock:
            _add(self.received, peer, phase, parts)

    def bytes_by_kind(self) -> dict[str, int]:
        """Bytes sent, kind to integer."""
        with self._lock:
            return {kind: sum(value for key, value in self.sent.items() if key[0] == kind) for kind in KINDS}

    def bytes_by_phase(self) -> dict[str, int]:
        """Bytes sent, phase to integer."""
        with self._lock:
            total: Counter[str] = Counter()
            for (_, _, phase), value in self.sent.items():
                total[phase] += value
            return dict(total)

    def bytes_sent(self) -> int:
        with self._lock:
            return sum(self.sent.values())

    def bytes_received(self) -> int:
        with self._lock:
            return sum(self.received.values())


def summed(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    """The sum of several counts."""
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)


def _add(total: Counter[tuple[str, int, str]], peer: int, phase: str, parts: Sequence[Part]) -> None:
    total["control", peer, phase] += overhead(len(parts))
    for part in parts:
        total[part.kind, peer, phase] += part.array.nbytes
