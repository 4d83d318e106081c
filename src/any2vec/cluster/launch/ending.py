"""How the process of a host ended, and which of several failed hosts is the cause."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass

from any2vec.errors import HostError, JobError
from any2vec.signals import name_of

REFUSED = 3
"""exit code of a host that will fail again, however often it is started"""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """The end of one host."""

    rank: int
    code: int | None
    """exit code of its process, -N when signal N killed it; None: it is out of reach, and its last line says why"""
    lines: tuple[str, ...] = ()
    """what it wrote last to standard error; its last line is the error, one sentence"""

    def reason(self) -> str:
        """One sentence on why it failed; it names the rank."""
        last = self._last()
        if self.code is not None and self.code < 0:
            perhaps = ", perhaps for memory" if self.code == -signal.SIGKILL else ""
            return f"Rank {self.rank} was killed by {name_of(-self.code)}{perhaps}."
        if not last:
            return f"Rank {self.rank} ended with exit code {self.code} and did not say why."
        return last if last.startswith("Rank ") else f"Rank {self.rank} failed: {last}"

    def blames_another(self) -> bool:
        """Whether it failed because another host did."""
        last = self._last()
        return (self.code or 0) > 0 and last.startswith("Rank ") and not last.startswith(f"Rank {self.rank} ")

    def _last(self) -> str:
        return next((line for line in reversed(self.lines) if line.strip()), "").strip()


def cause(failed: Sequence[Ending]) -> HostError:
    """The error of a job, from the hosts that failed in the order in which that was noticed.

    A host that is out of reach or was killed is the cause of what the others say; then, who blames nobody else.
    """
    first = min(failed, key=lambda end: (end.code is not None and end.code > 0, end.blames_another()))
    error = (JobError if first.code == REFUSED else HostError)(first.reason())
    for line in first.lines:
        error.add_note(line)
    return error
