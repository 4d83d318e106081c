"""robots.txt (RFC 9309): what a site lets a crawler ask for, and how often."""

from __future__ import annotations

import math
from typing import Any

ROBOT = "any2vec"
"""the name that groups of rules call us by"""
MOST_ROBOTS = 500 << 10
"""bytes of robots.txt that are read (RFC 9309, 2.5); what stands behind them is not"""
_MOST_DELAY = 3600.0
"""seconds; who asks for longer pauses wants no crawler"""


class Rules:
    """The rules of one origin.

    Args:
        text: of its robots.txt; None: it has none, and all is allowed (RFC 9309, 2.3.1.3).
    """

    def __init__(self, text: str | None) -> None:
        from protego import Protego

        self._rules: Any = Protego.parse(text or "")

    def allows(self, url: str) -> bool:
        return self.delay <= _MOST_DELAY and bool(self._rules.can_fetch(url, ROBOT))

    @property
    def delay(self) -> float:
        """Seconds between two requests that it asks for (Crawl-delay, Request-rate); 0: none."""
        asked = [self._rules.crawl_delay(ROBOT) or 0.0]
        rate = self._rules.request_rate(ROBOT)
        if rate is not None and rate.requests > 0:
            asked.append(rate.seconds / rate.requests)
        return max((one for one in asked if math.isfinite(one)), default=0.0)
