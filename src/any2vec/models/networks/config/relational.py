"""Options of networks whose edges have types, and fan-outs by type. Light: no NumPy, no PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Annotated, Any, ClassVar

from any2vec.checks import Whole
from any2vec.errors import InputError
from any2vec.models.networks.config.base import MAX_FANOUT, SUBGRAPHS, LayeredNetwork, fanout_numbers

_OTHERS = "*"
"""types of edges that fan-outs do not name"""
_INVERSE = "inverse of "
"""before the name of a relation: the other way, as `relational_csr` names it"""


@dataclass(frozen=True, kw_only=True)
class RGCN(LayeredNetwork):
    """Relational graph convolutional network (Schlichtkrull et al., ESWC 2018, equation 2): edges have types, nodes may
    have features, or a learned row each."""

    name: ClassVar[str] = "rgcn"

    num_bases: Annotated[int | None, Whole(1, 65_536)] = None
    """matrices that a layer's relations are mixtures of (equation 3); by default each relation has its own"""
    inverse: bool = True
    """add the inverse of each relation, of directed graphs"""
    fanouts: str | None = None
    """sampled neighbors by layer from the seeds, as 15,10; all: each; by default 10 a layer; or of each type of edge,
    as cites=10,5;writes=5,0;*=all, where * are types not named, 0 takes none, and -1 all (in Python also a dict)"""

    def __post_init__(self) -> None:
        given: object = self.fanouts
        if isinstance(given, Mapping):
            object.__setattr__(self, "fanouts", _plain(given))
        super().__post_init__()
        if self.residual:
            raise InputError("residual does nothing for rgcn, whose layers add the node's own row, times a matrix.")
        if self.node_order != "none":
            raise InputError("node_order is for edges without types; leave it out with rgcn.")
        for name, value in (("sampling", self.sampling), ("batch_order", self.batch_order)):
            if value in SUBGRAPHS:
                raise InputError(f"{name} {value} is for edges without types; leave it out with rgcn.")

    @property
    def fanouts_by_hop(self) -> tuple[int, ...]:
        """Of any type, the most; -1: all."""
        if not self._are_named:
            return super().fanouts_by_hop
        return tuple(-1 if -1 in hop else max(hop) for hop in zip(*self._named_fanouts.values(), strict=True))

    def fanouts_of(self, relations: Sequence[str]) -> tuple[tuple[int, ...], ...] | None:
        """By relation and hop from the seeds, where they are given so; -1: all, 0: none. An inverse one that is not
        named has its relation's.

        Raises:
            InputError: a relation is not named, and neither are others; or a name is no relation.
        """
        if not self._are_named:
            return None
        named = self._named_fanouts
        known = ", ".join(relations[:10]) + ", ..." * (len(relations) > 10)
        for name in named:
            if name != _OTHERS and name not in relations:
                raise InputError(f"fanouts name {name!r}, which is no type of the graph's edges; these are {known}.")
        found = []
        for name in relations:
            row = named.get(name, named.get(name.removeprefix(_INVERSE), named.get(_OTHERS)))
            if row is None:
                raise InputError(
                    f"fanouts do not name {name!r}, a type of the graph's edges; name it, or give others with *=5,5 "
                    "(of 0: none)."
                )
            found.append(row)
        return tuple(found)

    @property
    def _are_named(self) -> bool:
        return bool(self.fanouts) and (isinstance(self.fanouts, Mapping) or "=" in str(self.fanouts))

    @property
    def _named_fanouts(self) -> dict[str, tuple[int, ...]]:
        given: object = self.fanouts
        if isinstance(given, Mapping):
            return {name: self._row(name, row, f"{name!r}: {row!r}") for name, row in given.items()}
        found: dict[str, tuple[int, ...]] = {}
        for part in str(given).split(";"):
            name, _, text = (word.strip() for word in part.rpartition("="))
            found[name] = self._row("" if name in found else name, text, repr(part.strip()))
        return found

    def _row(self, name: str, given: object, shown: str) -> tuple[int, ...]:
        """Fan-outs by layer of a type, from a text or a list. InputError: they are none, or the type has no name."""
        row = [-1] * self.num_layers if given == "all" else fanout_numbers(given) if isinstance(given, str) else given
        if not name or not isinstance(row, list) or len(row) != self.num_layers or not all(map(_is_fanout, row)):
            example = ",".join(map(str, (10, 5, 5)[: self.num_layers]))
            raise InputError(
                f"fanouts by type of edge are NAME={example};*=all: each type once, {self.num_layers} whole "
                f"numbers from 0 to {MAX_FANOUT:,} (-1: all), one a layer, or all; got {shown}."
            )
        return tuple(row)


def _is_fanout(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -1 <= value <= MAX_FANOUT


def _plain(given: Mapping[Any, Any]) -> dict[str, Any]:
    """Fan-outs by type of edge as JSON holds them: PyG's types of three names are one name, rows are lists.

    Raises:
        InputError: a type is no name, or comes twice.
    """
    found: dict[str, Any] = {}
    for kind, row in given.items():
        name = "__".join(kind) if isinstance(kind, tuple) and all(isinstance(part, str) for part in kind) else kind
        if not isinstance(name, str) or name in found:
            raise InputError(f"fanouts name types of edges by texts, or by three names, each once; got {kind!r}.")
        row = row.tolist() if hasattr(row, "tolist") else row
        if isinstance(row, list | tuple):
            row = [int(one) if isinstance(one, Integral) and not isinstance(one, bool) else one for one in row]
        found[name] = row
    return found
