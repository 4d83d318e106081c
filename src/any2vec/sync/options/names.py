"""The names of agreements on the command line, `NAME[:VALUE...]`, and what each may be told. Light: no numba, no NumPy.

A value belongs to the first option that takes it, or to the one that it names: `ds-sync:butterfly:4`,
`gaia:0.05:sites=2`.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from any2vec.checks import MAX_SEED, check_number, check_whole
from any2vec.errors import InputError
from any2vec.sync.options.rules import RULES

ALL_BITS = (32, 16, 8)


@dataclass(frozen=True)
class Named:
    """What has a name on the command line, and options behind it."""

    name: ClassVar[str]


@dataclass(frozen=True)
class Sync(Named):
    """What an agreement is called and may be told; frozen, checked when it is made."""

    bits: ClassVar[tuple[int, ...]] = ALL_BITS
    """bits of a number that may travel; 32 alone where whole values travel, whose rounding nobody would make good"""
    has_scheme: ClassVar[bool] = False
    """whether `scheme` says what travels"""
    steps: ClassVar[int] = 1
    """pieces into which a round is cut, at the same places whatever the clock says"""


@dataclass(frozen=True)
class Merge(Sync):
    """GraphAny2Vec: owners merge what hosts made of a row, once a round."""

    has_scheme: ClassVar[bool] = True
    rule: str = "adasum"
    """name of a registered merge rule"""


@dataclass(frozen=True)
class Groups(Sync):
    """DS-Sync: averages in small groups, with other members each round (any2vec.sync.exchange.groups)."""

    name: ClassVar[str] = "ds-sync"
    bits: ClassVar[tuple[int, ...]] = (32,)
    schedule: Literal["random", "butterfly", "topology"] = "random"
    size: int | None = None
    """hosts of a group, 2 or more; by default the divisor of the number of hosts that is nearest to its root, or 2"""
    seed: int = 1
    """of the random schedule"""

    def __post_init__(self) -> None:
        check_whole("size of ds-sync", 2 if self.size is None else self.size, 2, 4096)
        check_whole("seed of ds-sync", self.seed, 0, MAX_SEED)


@dataclass(frozen=True)
class Leader(Sync):
    """Leader SGD on two levels (any2vec.sync.exchange.leader)."""

    name: ClassVar[str] = "leader"
    bits: ClassVar[tuple[int, ...]] = (32,)
    steps: ClassVar[int] = 4
    size: int | None = None
    """hosts of a group, 2 or more; by default as for ds-sync"""
    every: int = 4
    """rounds from a leader of all hosts to the next; groups have one each round"""
    c1: float = 0.1
    """share of the group's leader that others take when they hear from it, 0..1"""
    c2: float = 0.1
    """share of the leader of all, 0..1"""
    p1: float = 0.1
    """pull towards the group's last leader until the next one, 0..1"""
    p2: float = 0.1
    """pull towards the last leader of all until the next one, 0..1"""

    def __post_init__(self) -> None:
        check_whole("size of leader", 2 if self.size is None else self.size, 2, 4096)
        check_whole("every of leader", self.every, 1, 1_000_000)
        for option in ("c1", "c2", "p1", "p2"):
            check_number(f"{option} of leader", getattr(self, option), 0, 1)


@dataclass(frozen=True)
class Elastic(Sync):
    """Elastic averaging with a center (any2vec.sync.exchange.elastic)."""

    name: ClassVar[str] = "elastic"
    beta: float = 0.43
    """how far the center moves towards the mean of the hosts in a round, 0..1"""

    def __post_init__(self) -> None:
        check_number("beta of elastic", self.beta, 0, 1, open_low=True)


@dataclass(frozen=True)
class Gaia(Sync):
    """Gaia: hosts of a site agree each round, sites tell each other what is significant (sync.exchange.gaia)."""

    name: ClassVar[str] = "gaia"
    threshold: float = 0.05
    """a row is told when its change is more than so much of its size, 0..100; 0: every change"""
    sites: int | None = None
    """sites of equally many hosts, by rank; by default those of the link, or 2 (an odd number's least divisor)"""
    rule: Literal["adasum", "adasum-symmetric", "mean", "sum"] = "adasum"
    """how the hosts of a site merge"""
    filter: Literal["row", "element"] = "row"
    """what is significant or not: rows, or single numbers"""
    shrink: Literal["sqrt", "rate", "none"] = "sqrt"
    """the threshold of round t: over the root of t, along with the learning rate, or the same"""
    clock: int = 0
    """rounds that a site may be ahead of the slowest, 0..64; what others tell counts so many rounds later"""
    flush: int = 0
    """rounds from one telling of everything to the next; 0: at the end alone"""
    limit: int = 0
    """bytes that a host should send to other sites in a round: the threshold follows; 0: no limit"""

    def __post_init__(self) -> None:
        check_number("threshold of gaia", self.threshold, 0, 100)
        check_whole("sites of gaia", 1 if self.sites is None else self.sites, 1, 4096)
        check_whole("clock of gaia", self.clock, 0, 64)
        check_whole("flush of gaia", self.flush, 0, 1_000_000)
        check_whole("limit of gaia", self.limit, 0, 2**62)


@dataclass(frozen=True)
class Server(Sync):
    """A row server that answers pull and push, asynchronous or with bounded staleness (sync.exchange.server)."""

    name: ClassVar[str] = "server"
    mode: Literal["async", "bounded"] = "async"
    bound: int = 1
    """of bounded: rounds that a host may be ahead of the slowest"""

    def __post_init__(self) -> None:
        check_whole("bound of server", self.bound, 0, 1_000_000)


@dataclass(frozen=True)
class ServerMean(Sync):
    """A server that averages, as DMTK's does (any2vec.sync.exchange.server)."""

    name: ClassVar[str] = "server-mean"


@dataclass(frozen=True)
class Frequent(Sync):
    """Frequent rows agree more often, as in pWord2Vec (any2vec.sync.exchange.frequent)."""

    name: ClassVar[str] = "frequent"
    bits: ClassVar[tuple[int, ...]] = (32,)


MERGES: tuple[str, ...] = RULES.names()
"""those of registered merge rules"""
_KINDS: dict[str, type[Sync]] = {
    kind.name: kind for kind in (Groups, Leader, Elastic, Gaia, Server, ServerMean, Frequent)
}
SYNCS = (*MERGES, *_KINDS)
"""legal names"""


def parse_sync(text: str) -> Sync:
    """The agreement that a name such as "ds-sync:butterfly:4" stands for.

    Raises:
        InputError: the name is not known, or does not take what follows it.
    """
    if not isinstance(text, str):
        raise InputError(f"sync must be one of {', '.join(SYNCS)}, got {text!r}.")
    name, *values = text.split(":")
    if name in MERGES and not values:
        return Merge(rule=name)
    if name not in _KINDS:
        about = f"{name} takes nothing behind it" if name in MERGES else f"sync must be one of {', '.join(SYNCS)}"
        raise InputError(f"{about}, got {text!r}.")
    return reported(_KINDS[name], values, text)


def reported(kind: type[Named], values: Sequence[str], text: str) -> Any:
    """The frozen dataclass `kind` with the values behind its name: for the first option that takes one, or is named.

    Raises:
        InputError: an option does not take its value, or there is none for it; `text` is the whole that was given.
    """
    hints, known = get_type_hints(kind), [item.name for item in fields(kind)]
    found: dict[str, Any] = {}
    for value in values:
        key, is_named, written = value.rpartition("=")
        for option in [key] if is_named else known:
            if option in known and option not in found and (read := _read(hints[option], written)) is not None:
                found[option] = read
                break
        else:
            said = f"takes, behind colons, {', '.join(_usage(kind))}" if known else "takes nothing behind it"
            raise InputError(f"{kind.name} {said}; got {value!r} in {text!r}.")
    return kind(**found)


def _read(hint: Any, text: str) -> Any:
    """`text` as a value of an option, None where it is none."""
    if get_origin(hint) is Literal:
        return text if text in get_args(hint) else None
    kind = next(part for part in (get_args(hint) or (hint,)) if part is not types.NoneType)
    try:
        return kind(text)
    except ValueError:
        return None


def _usage(kind: type[Named]) -> list[str]:
    """Each option and its legal values."""
    said = []
    for option, hint in get_type_hints(kind).items():
        if get_origin(hint) is ClassVar:
            continue
        choices = get_args(hint) if get_origin(hint) is Literal else ()
        inner = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        said.append(f"{option}={'|'.join(choices) if choices else 'NUMBER' if float in inner else 'WHOLE'}")
    return said
