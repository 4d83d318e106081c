"""A model of the links between hosts: bandwidth, latency, sites; and how long bytes take over them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from any2vec.errors import InputError

_UNITS = {"": "e0", "k": "e3", "M": "e6", "G": "e9", "T": "e12"}
_TIMES = {"ns": "e-9", "us": "e-6", "ms": "e-3", "s": "e0"}  # as exponents: 50us is 5e-05 and not its neighbor
_BANDWIDTH = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT]?)bit(?:/s)?")
_LATENCY = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|ms|s)")

SLOWEST, LONGEST = 1e3, 60.0
"""bits/s and seconds of latency: slower links would outlast any run, and in the end what a clock can count"""


@dataclass(frozen=True, kw_only=True)
class LinkModel:
    """Every host has one full-duplex line of `bandwidth` to a switch that is never the bottleneck.

    With `num_sites` > 1 the hosts stand in so many sites of equal size, by rank, and bytes between two sites go at
    `site_bandwidth` and `site_latency`.
    """

    bandwidth: float
    """bits/s of a host's line, in either direction"""
    latency: float = 0.0
    """seconds from a host to another"""
    num_sites: int = 1
    site_bandwidth: float = 0.0
    """bits/s of a host's share of the lines between sites"""
    site_latency: float = 0.0

    def line(self, src: int, dst: int, hosts: int) -> tuple[float, float]:
        """(bits/s, seconds of latency) from host src to host dst."""
        if self.num_sites > 1 and src * self.num_sites // hosts != dst * self.num_sites // hosts:
            return self.site_bandwidth, self.site_latency
        return self.bandwidth, self.latency

    def seconds(self, num_bytes: int, src: int, dst: int, hosts: int) -> float:
        """Time that `num_bytes` keep the line between two hosts busy; latency apart."""
        return 8 * num_bytes / self.line(src, dst, hosts)[0]


def parse_link(text: str) -> LinkModel:
    """LinkModel of "100Gbit", "50Mbit/s,20us", or "10Gbit,50us;2:100Mbit,30ms" (two sites, and the lines between them).

    Raises:
        InputError: it is not written like that, or slower than 1 kbit/s, or has more than a minute of latency.
    """
    inner, semicolon, outer = text.partition(";")
    bandwidth, latency = _parse_line(inner, text)
    if not semicolon:
        return LinkModel(bandwidth=bandwidth, latency=latency)
    count, colon, line = outer.partition(":")
    if not colon or not count.strip().isdecimal() or int(count) < 2:
        raise _unclear(text)
    site_bandwidth, site_latency = _parse_line(line, text)
    return LinkModel(
        bandwidth=bandwidth, latency=latency, num_sites=int(count), site_bandwidth=site_bandwidth,
        site_latency=site_latency,
    )  # fmt: skip


def _parse_line(text: str, whole: str) -> tuple[float, float]:
    first, comma, second = (part.strip() for part in text.partition(","))
    bandwidth, latency = _BANDWIDTH.fullmatch(first), _LATENCY.fullmatch(second)
    if bandwidth is None or float(bandwidth[1]) == 0 or bool(comma) != (latency is not None):
        raise _unclear(whole)
    seconds = float(latency[1] + _TIMES[latency[2]]) if latency else 0.0
    bits = float(bandwidth[1] + _UNITS[bandwidth[2]])
    if bits < SLOWEST or seconds > LONGEST:
        raise InputError(f"A link has a bandwidth of 1kbit or more, and a latency of 60s or less; got {whole!r}.")
    return bits, seconds


def _unclear(text: str) -> InputError:
    return InputError(
        f"A link is a bandwidth and, behind a comma, a latency, like 100Gbit or 50Mbit,20us; with sites "
        f"10Gbit,50us;2:100Mbit,30ms. Got {text!r}."
    )
