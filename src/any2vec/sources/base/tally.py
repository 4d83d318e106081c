"""What one source has given so far: counted by its reader, read by whoever reports."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

State = Literal["starting", "reading", "waiting", "retrying", "ended", "given up", "closed"]


class Tally:
    """Counters of one source. Its reader writes; others read, at any time."""

    def __init__(self) -> None:
        self.state: State = "starting"
        self.lines = 0
        self.bytes = 0
        """as they came, what was skipped too"""
        self.reconnects = 0
        self.trouble: str | None = None
        """the last thing that went wrong, in a sentence"""
        self._bad: Counter[str] = Counter()

    def bad(self, why: str, count: int = 1) -> None:
        """Something was skipped (or, not UTF-8: taken as it is)."""
        if count:
            self._bad[why] += count

    def facts(self) -> dict[str, Any]:
        """state, lines, bytes, reconnects, trouble (None: none), bad (things in all) and bad_by (what -> how many)."""
        by = dict(self._bad.copy())
        return {
            "state": self.state,
            "lines": self.lines,
            "bytes": self.bytes,
            "bad": sum(by.values()),
            "bad_by": by,
            "reconnects": self.reconnects,
            "trouble": self.trouble,
        }
