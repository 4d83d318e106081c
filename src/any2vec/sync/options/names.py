"""The names of agreements on the command line, `NAME[:VALUE...]`, and their values. Light: no numba, no NumPy.

A value belongs to the first option that takes it, or to the one that it names: `ds-sync:butterfly:4`,
`gaia:0.05:sites=2`, `fr-easgd:5:0.3`, `shadow-bmuf:0.5:momentum=0.9`.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from any2vec.checks import MAX_SEED, Number, Whole, check_fields, nearest_names
from any2vec.errors import InputError
from any2vec.sync.options.rules import RULES, plain_rules

ALL_BITS = (32, 16, 8)
MOST_ITERATIONS = 1_000_000
QUARTERS = 4
"""pulls of a round of `Leader` where steps do not say when"""
Kind = TypeVar("Kind", bound="Sync")


@dataclass(frozen=True)
class Sync:
    """The name of an agreement and its values; frozen, checked when it is made."""

    name: ClassVar[str]
    bits: ClassVar[tuple[int, ...]] = ALL_BITS
    """bits of a number that may travel; 32 alone where whole values travel, whose rounding nobody would make good"""
    has_scheme: ClassVar[bool] = False
    """whether `scheme` says what travels"""

    def __post_init__(self) -> None:
        check_fields(self, f" of {self.name}")


@dataclass(frozen=True)
class Merge(Sync):
    """GraphAny2Vec: owners merge what hosts made of a row, once a round. On a command line its rule names it."""

    name: ClassVar[str] = "merge"
    has_scheme: ClassVar[bool] = True
    rule: str = "adasum"
    """name of a registered merge rule"""


@dataclass(frozen=True)
class Groups(Sync):
    """DS-Sync: averages in small groups, with other members each round (any2vec.sync.exchange.groups)."""

    name: ClassVar[str] = "ds-sync"
    bits: ClassVar[tuple[int, ...]] = (32,)
    schedule: Literal["random", "butterfly", "topology"] = "random"
    size: Annotated[int | None, Whole(2, 4096)] = None
    """hosts of a group, 2 or more; by default the divisor of the number of hosts that is nearest to its root, or 2"""
    seed: Annotated[int, Whole(0, MAX_SEED)] = 1
    """of the random schedule"""


@dataclass(frozen=True)
class Leader(Sync):
    """Leader SGD on two levels (any2vec.sync.exchange.leader)."""

    name: ClassVar[str] = "leader"
    bits: ClassVar[tuple[int, ...]] = (32,)
    size: Annotated[int | None, Whole(2, 4096)] = None
    """hosts of a group, 2 or more; by default as for ds-sync"""
    every: Annotated[int, Whole(1, 1_000_000)] = 4
    """rounds from a leader of all hosts to the next; groups have one each round"""
    c1: Annotated[float, Number(0, 1)] = 0.1
    """share of the leader's rows that others take when they receive them, 0..1"""
    c2: Annotated[float, Number(0, 1)] = 0.1
    """share of the leader of all, 0..1"""
    p1: Annotated[float, Number(0, 1)] = 0.1
    """pull towards the group's last leader until the next one, 0..1"""
    p2: Annotated[float, Number(0, 1)] = 0.1
    """pull towards the last leader of all until the next one, 0..1"""
    pulls: Literal["step", "quarter"] = "step"
    """when hosts are pulled: after each batch of each thread (of words each piece of some 16,384, and at the quarters
    of a round), or at the quarters of a round alone"""


@dataclass(frozen=True)
class Elastic(Sync):
    """Elastic averaging with a center (any2vec.sync.exchange.elastic)."""

    name: ClassVar[str] = "elastic"
    beta: Annotated[float, Number(0, 1, open_low=True)] = 0.43
    """how far the center moves towards the mean of the hosts in a round, 0..1"""


@dataclass(frozen=True)
class Gaia(Sync):
    """Gaia: hosts of a site agree each round, sites tell each other what is significant (sync.exchange.gaia)."""

    name: ClassVar[str] = "gaia"
    threshold: Annotated[float, Number(0, 100)] = 0.05
    """what is sent to other sites changed by more than so much of its size, 0..100; 0: every change"""
    sites: Annotated[int | None, Whole(1, 4096)] = None
    """sites of equally many hosts, by rank; by default those of the link, or 2 (an odd number's least divisor)"""
    rule: Literal["adasum", "adasum-symmetric", "mean", "sum"] = "adasum"
    """how the hosts of a site merge"""
    filter: Literal["element", "row"] = "element"
    """what is significant or not: single numbers, as published, or rows"""
    shrink: Literal["sqrt", "rate", "none"] = "sqrt"
    """the threshold of round t: over the root of t, along with the learning rate, or the same"""
    clock: Annotated[int, Whole(0, 64)] = 0
    """rounds that a site may be ahead of the slowest, 0..64; what others send counts so many rounds later"""
    barrier: Literal["selective", "late"] = "selective"
    """with a clock: rows that a round reads wait for what other sites have announced of them, or nothing counts before
    its time"""
    flush: Annotated[int, Whole(0, 1_000_000)] = 0
    """rounds from one telling of everything to the next; 0: at the end alone"""
    limit: Annotated[int, Whole(0, 2**62)] = 0
    """bytes that a host should send to other sites in a round: the threshold follows; 0: no limit"""


@dataclass(frozen=True)
class Server(Sync):
    """A row server that answers pull and push, asynchronous or with bounded staleness (sync.exchange.served)."""

    name: ClassVar[str] = "server"
    mode: Literal["async", "bounded"] = "async"
    bound: Annotated[int, Whole(0, 1_000_000)] = 1
    """of bounded: rounds that a host may be ahead of the slowest"""


@dataclass(frozen=True)
class ServerMean(Sync):
    """A server that averages, as DMTK's does (any2vec.sync.exchange.served)."""

    name: ClassVar[str] = "server-mean"


@dataclass(frozen=True)
class Frequent(Sync):
    """Frequent rows agree more often, as in pWord2Vec (any2vec.sync.exchange.frequent)."""

    name: ClassVar[str] = "frequent"
    bits: ClassVar[tuple[int, ...]] = (32,)


@dataclass(frozen=True)
class ClickSync(Sync):
    """How replicas of trainers agree, such as a click model's dense layers; frozen, checked when it is made."""

    bits: ClassVar[tuple[int, ...]] = (32,)
    is_served: ClassVar[bool] = False
    """whether servers hold a common copy of the dense layers"""


@dataclass(frozen=True)
class NoSync(ClickSync):
    """Every trainer for itself; the model is rank 0's."""

    name: ClassVar[str] = "none"


@dataclass(frozen=True)
class Shadow(ClickSync):
    """Replicas are synchronized by a thread behind the workers (any2vec.sync.drivers.replicas)."""


@dataclass(frozen=True)
class ShadowEasgd(Shadow):
    """Elastic averaging with a center on servers (any2vec.sync.rules.elastic_replica)."""

    name: ClassVar[str] = "shadow-easgd"
    is_served: ClassVar[bool] = True
    alpha: Annotated[float, Number(0, 0.5, open_low=True)] = 0.5
    """part of their difference by which replica and center move in a sync, (0, 0.5]; 0.5: both to the middle"""
    least: Annotated[int, Whole(1, MOST_ITERATIONS)] = 1
    """iterations of a trainer from one sync to the next, at least"""


@dataclass(frozen=True)
class ShadowMa(Shadow):
    """Averages of the replicas, without a server (any2vec.sync.rules.averaged_replica)."""

    name: ClassVar[str] = "shadow-ma"
    alpha: Annotated[float, Number(0, 1, open_low=True)] = 0.5
    """how far a replica goes over to the mean in a sync, (0, 1]"""
    merge: Literal["shift", "blend"] = "shift"
    """shift: keep all that workers did while the sync ran; blend: but for a share of alpha, as published, which learns
    less; with alpha 1 that is overwriting"""
    least: Annotated[int, Whole(1, MOST_ITERATIONS)] = 1
    """iterations of a trainer from one sync to the next, at least"""


@dataclass(frozen=True)
class ShadowBmuf(Shadow):
    """A global model that follows the mean, without a server (any2vec.sync.rules.block_momentum)."""

    name: ClassVar[str] = "shadow-bmuf"
    alpha: Annotated[float, Number(0, 1, open_low=True)] = 0.5
    """how far a replica goes over to the global model in a sync, (0, 1]"""
    merge: Literal["shift", "blend"] = "shift"
    """shift: keep all that workers did while the sync ran; blend: but for a share of alpha, as published, which learns
    less; with alpha 1 that is overwriting"""
    eta: Annotated[float, Number(0, 2, open_low=True)] = 1.0
    """how far the global model goes towards the mean, (0, 2]"""
    momentum: Annotated[float, Number(0, 0.99)] = 0.5
    """share of the last step of the global model that it takes again, [0, 0.99]; without it the rule is ma's"""
    least: Annotated[int, Whole(1, MOST_ITERATIONS)] = 1
    """iterations of a trainer from one sync to the next, at least"""


@dataclass(frozen=True)
class ShadowMerge(Shadow):
    """A registered merge rule, for what replicas have changed (any2vec.sync.rules.merged_replica; abstract)."""

    rule: ClassVar[str]
    least: Annotated[int, Whole(1, MOST_ITERATIONS)] = 1
    """iterations of a trainer from one sync to the next, at least"""


@dataclass(frozen=True)
class Fixed(ClickSync):
    """The same rules in the foreground, every so many iterations of a trainer (any2vec.sync.drivers.replicas)."""

    every: Annotated[int, Whole(1, MOST_ITERATIONS)] = 5
    """iterations of a trainer from one sync to the next"""


@dataclass(frozen=True)
class FixedEasgd(Fixed):
    """Elastic averaging with a center on servers."""

    name: ClassVar[str] = "fr-easgd"
    is_served: ClassVar[bool] = True
    alpha: Annotated[float, Number(0, 0.5, open_low=True)] = 0.5
    """part of their difference by which replica and center move in a sync, (0, 0.5]; 0.5: both to the middle"""


@dataclass(frozen=True)
class FixedMa(Fixed):
    """Replicas become their mean."""

    name: ClassVar[str] = "fr-ma"


@dataclass(frozen=True)
class FixedBmuf(Fixed):
    """Replicas become the global model, which follows their mean."""

    name: ClassVar[str] = "fr-bmuf"
    eta: Annotated[float, Number(0, 2, open_low=True)] = 1.0
    """how far the global model goes towards the mean, (0, 2]"""
    momentum: Annotated[float, Number(0, 0.99)] = 0.5
    """share of the last step of the global model that it takes again, [0, 0.99]; without it the rule is ma's"""


@dataclass(frozen=True)
class FixedMerge(Fixed):
    """A registered merge rule, for what replicas have changed (any2vec.sync.rules.merged_replica; abstract)."""

    rule: ClassVar[str]


@dataclass(frozen=True)
class Bsp(ClickSync):
    """Bulk-synchronous: gradients of a step are added up in rank order, and all step together."""

    name: ClassVar[str] = "bsp"


@dataclass(frozen=True)
class Bounded(ClickSync):
    """Stale synchronous parallel."""

    name: ClassVar[str] = "bounded"
    is_served: ClassVar[bool] = True
    bound: Annotated[int, Whole(0, MOST_ITERATIONS)] = 1
    """steps that a trainer may be ahead of the slowest"""


@dataclass(frozen=True)
class Async(ClickSync):
    """Gradients count as they come."""

    name: ClassVar[str] = "async"
    is_served: ClassVar[bool] = True


@dataclass(frozen=True)
class StepGroups(ClickSync):
    """DS-Sync: averages in small groups after each step, with other members each time (sync.drivers.grouped_steps)."""

    name: ClassVar[str] = "ds-sync"
    schedule: Literal["random", "butterfly", "topology"] = "random"
    size: Annotated[int | None, Whole(2, 4096)] = None
    """trainers of a group, 2 or more; by default as for `Groups`"""
    seed: Annotated[int, Whole(0, MAX_SEED)] = 1
    """of the random schedule"""


@dataclass(frozen=True)
class MOfN(ClickSync):
    """A step takes the first gradients of so many trainers; the others are backup, and theirs are dropped."""

    name: ClassVar[str] = "m-of-n"
    is_served: ClassVar[bool] = True
    count: Annotated[int | None, Whole(1, 4096)] = None
    """trainers whose gradients count, 1 or more; by default all but one"""


MERGES: tuple[str, ...] = RULES.names()
"""those of registered merge rules"""
_KINDS: dict[str, type[Sync]] = {
    kind.name: kind for kind in (Groups, Leader, Elastic, Gaia, Server, ServerMean, Frequent)
}
SYNCS = (*MERGES, *_KINDS)
"""legal names of agreements between rounds"""
_CLICK_KINDS: dict[str, type[ClickSync]] = {
    kind.name: kind
    for kind in (
        NoSync, ShadowEasgd, ShadowMa, ShadowBmuf, FixedEasgd, FixedMa, FixedBmuf, Bsp, Bounded, Async, MOfN,
        StepGroups,
    )
}  # fmt: skip
CLICK_SYNCS = tuple(_CLICK_KINDS)
"""legal names, beside those of merge rules"""
SERVED_SYNCS = tuple(name for name, kind in _CLICK_KINDS.items() if kind.is_served)
"""those of agreements that have servers of dense layers"""


def parse_sync(text: str) -> Sync:
    """The agreement between rounds that a name such as "ds-sync:butterfly:4" stands for.

    Raises:
        InputError: the name is not known, or does not take what follows it.
    """
    name, *values = text.split(":") if isinstance(text, str) else [""]
    if name in RULES.names():
        if values:
            raise InputError(f"{name} takes nothing behind it, got {text!r}.")
        return Merge(rule=name)
    if name not in _KINDS:
        known = (*RULES.names(), *_KINDS)
        raise InputError(f"sync must be one of {', '.join(known)}, got {text!r}{_near(name, known)}")
    return _with_options(_KINDS[name], values, text)


def parse_click_sync(text: str, whose: str = "a click model") -> ClickSync:
    """The agreement that a name such as "shadow-bmuf:0.5:momentum=0.9" stands for; whose: in messages.

    A merge rule, RULE, is one every so many iterations (fr-RULE, or RULE alone), or behind the workers (shadow-RULE).

    Raises:
        InputError: the name is not known, or does not take what follows it.
    """
    name, *values = text.split(":") if isinstance(text, str) else [""]
    kind = _CLICK_KINDS.get(name) or _merging(name)
    if kind is None:
        known = (*CLICK_SYNCS, *plain_rules())
        offered = f"{', '.join(known)}, fr-RULE or shadow-RULE"
        raise InputError(f"sync of {whose} must be one of {offered}, got {text!r}{_near(name, known)}")
    return _with_options(kind, values, text)


@cache
def _merging(name: str) -> type[ClickSync] | None:
    """The agreement of replicas by a merge rule that a name stands for, if it does."""
    parent: type[ClickSync] = ShadowMerge if name.startswith("shadow-") else FixedMerge
    rule = name.removeprefix("shadow-" if parent is ShadowMerge else "fr-")
    return type(parent.__name__, (parent,), {"name": name, "rule": rule}) if rule in RULES.names() else None


def needed_of(how: MOfN, trainers: int) -> int:
    """How many gradients a step takes: by default those of all trainers but one.

    Raises:
        InputError: more than there are trainers.
    """
    needed = max(1, trainers - 1) if how.count is None else how.count
    if needed > trainers:
        raise InputError(
            f"sync m-of-n:{needed} takes {needed} gradients a step, of {trainers} trainers; ask for fewer."
        )
    return needed


def _near(name: str, known: Sequence[str]) -> str:
    """The end of a sentence about a name that is not known: the nearest one, if there is one."""
    near = nearest_names(name, known)
    return f"; did you mean {near[0]!r}?" if near else "."


def _with_options(kind: type[Kind], values: Sequence[str], text: str) -> Kind:
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


def _usage(kind: type[Sync]) -> list[str]:
    """Each option and its legal values."""
    said = []
    for option, hint in get_type_hints(kind).items():
        if get_origin(hint) is ClassVar:
            continue
        choices = get_args(hint) if get_origin(hint) is Literal else ()
        inner = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        said.append(f"{option}={'|'.join(choices) if choices else 'NUMBER' if float in inner else 'WHOLE'}")
    return said
