"""The names of agreements of click models on the command line, `NAME[:VALUE...]`. Light: no numba, no NumPy.

A value belongs to the first option that takes it, or to the one that it names: `fr-easgd:5:0.3`,
`shadow-bmuf:0.5:momentum=0.9`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from any2vec.checks import check_number, check_whole
from any2vec.errors import InputError
from any2vec.sync.options.names import Sync, reported
from any2vec.sync.options.rules import RULES

MOST_ITERATIONS = 1_000_000


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
    """Replicas are synchronized by a thread behind the workers (any2vec.sync.drivers.shadow)."""


@dataclass(frozen=True)
class ShadowEasgd(Shadow):
    """Elastic averaging with a center on servers (any2vec.sync.rules.elastic_replica)."""

    name: ClassVar[str] = "shadow-easgd"
    is_served: ClassVar[bool] = True
    alpha: float = 0.5
    """part of their difference by which replica and center move in a sync, (0, 0.5]; 0.5: both to the middle"""
    least: int = 1
    """iterations of a trainer from one sync to the next, at least"""

    def __post_init__(self) -> None:
        check_number(f"alpha of {self.name}", self.alpha, 0, 0.5, open_low=True)
        check_whole(f"least of {self.name}", self.least, 1, MOST_ITERATIONS)


@dataclass(frozen=True)
class ShadowMa(Shadow):
    """Averages of the replicas, without a server (any2vec.sync.rules.averaged_replica)."""

    name: ClassVar[str] = "shadow-ma"
    alpha: float = 0.5
    """how far a replica goes over to the mean in a sync, (0, 1]"""
    merge: Literal["shift", "blend"] = "shift"
    """shift: keep all that workers did while the sync ran; blend: but for a share of alpha, as published; with alpha 1
    that is overwriting"""
    least: int = 1
    """iterations of a trainer from one sync to the next, at least"""

    def __post_init__(self) -> None:
        check_number(f"alpha of {self.name}", self.alpha, 0, 1, open_low=True)
        check_whole(f"least of {self.name}", self.least, 1, MOST_ITERATIONS)


@dataclass(frozen=True)
class ShadowBmuf(Shadow):
    """A global model that follows the mean, without a server (any2vec.sync.rules.block_momentum).

    With an eta of 1 and no momentum the global model is the last mean: the steps are those of shadow-ma, and only the
    model that is kept differs. Momentum sets the two apart.
    """

    name: ClassVar[str] = "shadow-bmuf"
    alpha: float = 0.5
    """how far a replica goes over to the global model in a sync, (0, 1]"""
    merge: Literal["shift", "blend"] = "shift"
    """shift: keep all that workers did while the sync ran; blend: but for a share of alpha, as published; with alpha 1
    that is overwriting"""
    eta: float = 1.0
    """how far the global model goes towards the mean, (0, 2]"""
    momentum: float = 0.0
    """share of the last step of the global model that it takes again, [0, 0.99]"""
    least: int = 1
    """iterations of a trainer from one sync to the next, at least"""

    def __post_init__(self) -> None:
        check_number(f"alpha of {self.name}", self.alpha, 0, 1, open_low=True)
        check_number(f"eta of {self.name}", self.eta, 0, 2, open_low=True)
        check_number(f"momentum of {self.name}", self.momentum, 0, 0.99)
        check_whole(f"least of {self.name}", self.least, 1, MOST_ITERATIONS)


@dataclass(frozen=True)
class ShadowMerge(Shadow):
    """A registered merge rule, for what replicas have changed (any2vec.sync.rules.merged_replica; abstract)."""

    rule: ClassVar[str]
    least: int = 1
    """iterations of a trainer from one sync to the next, at least"""

    def __post_init__(self) -> None:
        check_whole(f"least of {self.name}", self.least, 1, MOST_ITERATIONS)


@dataclass(frozen=True)
class Fixed(ClickSync):
    """The same rules in the foreground, every so many iterations of a trainer (any2vec.sync.drivers.fixed_rate)."""

    every: int = 5
    """iterations of a trainer from one sync to the next"""

    def __post_init__(self) -> None:
        check_whole(f"every of {self.name}", self.every, 1, MOST_ITERATIONS)


@dataclass(frozen=True)
class FixedEasgd(Fixed):
    """Elastic averaging with a center on servers."""

    name: ClassVar[str] = "fr-easgd"
    is_served: ClassVar[bool] = True
    alpha: float = 0.5
    """part of their difference by which replica and center move in a sync, (0, 0.5]; 0.5: both to the middle"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(f"alpha of {self.name}", self.alpha, 0, 0.5, open_low=True)


@dataclass(frozen=True)
class FixedMa(Fixed):
    """Replicas become their mean."""

    name: ClassVar[str] = "fr-ma"


@dataclass(frozen=True)
class FixedBmuf(Fixed):
    """Replicas become the global model, which follows their mean."""

    name: ClassVar[str] = "fr-bmuf"
    eta: float = 1.0
    """how far the global model goes towards the mean, (0, 2]"""
    momentum: float = 0.0
    """share of the last step of the global model that it takes again, [0, 0.99]"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(f"eta of {self.name}", self.eta, 0, 2, open_low=True)
        check_number(f"momentum of {self.name}", self.momentum, 0, 0.99)


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
    bound: int = 1
    """steps that a trainer may be ahead of the slowest"""

    def __post_init__(self) -> None:
        check_whole("bound of bounded", self.bound, 0, MOST_ITERATIONS)


@dataclass(frozen=True)
class Async(ClickSync):
    """Gradients count as they come."""

    name: ClassVar[str] = "async"
    is_served: ClassVar[bool] = True


@dataclass(frozen=True)
class MOfN(ClickSync):
    """A step takes the first gradients of so many trainers; the others are backup, and theirs are dropped."""

    name: ClassVar[str] = "m-of-n"
    is_served: ClassVar[bool] = True
    count: int | None = None
    """trainers whose gradients count, 1 or more; by default all but one"""

    def __post_init__(self) -> None:
        check_whole("count of m-of-n", 1 if self.count is None else self.count, 1, 4096)


_KINDS: dict[str, type[ClickSync]] = {
    kind.name: kind
    for kind in (
        NoSync, ShadowEasgd, ShadowMa, ShadowBmuf, FixedEasgd, FixedMa, FixedBmuf, Bsp, Bounded, Async, MOfN,
    )
}  # fmt: skip
CLICK_SYNCS = tuple(_KINDS)
"""legal names, beside those of merge rules"""
SERVED_SYNCS = tuple(name for name, kind in _KINDS.items() if kind.is_served)
"""those of agreements that have servers of dense layers"""


def parse_click_sync(text: str) -> ClickSync:
    """The agreement that a name such as "shadow-bmuf:0.5:momentum=0.9" stands for.

    A merge rule, RULE, is one every so many iterations (fr-RULE, or RULE alone), or behind the workers (shadow-RULE).

    Raises:
        InputError: the name is not known, or does not take what follows it.
    """
    name, *values = text.split(":") if isinstance(text, str) else [""]
    kind = _KINDS.get(name) or _merging(name)
    if kind is None:
        rules = f"{', '.join(RULES.names())}, fr-RULE or shadow-RULE"
        raise InputError(f"sync of a click model must be one of {', '.join(CLICK_SYNCS)}, {rules}, got {text!r}.")
    found: ClickSync = reported(kind, values, text)
    return found


def _merging(name: str) -> type[ClickSync] | None:
    """The agreement of replicas by a merge rule that a name stands for, if it does."""
    parent: type[ClickSync] = ShadowMerge if name.startswith("shadow-") else FixedMerge
    rule = name.removeprefix("shadow-").removeprefix("fr-")
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
