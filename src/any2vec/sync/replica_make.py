"""The agreement of dense replicas that a name stands for."""

from __future__ import annotations

from any2vec.errors import InputError
from any2vec.sync.base.circle import Circle
from any2vec.sync.drivers.fixed_rate import FixedRate
from any2vec.sync.drivers.shadow import ShadowSync
from any2vec.sync.options import replica_names as names
from any2vec.sync.rules.averaged_replica import ModelAveraging
from any2vec.sync.rules.block_momentum import BlockMomentum
from any2vec.sync.rules.centre import Centre
from any2vec.sync.rules.elastic_replica import ElasticReplica
from any2vec.sync.rules.replica_rule import ReplicaRule
from any2vec.tables.replica import Replica


def make_rule(how: names.Shadow | names.Fixed, replica: Replica, circle: Circle, centre: Centre | None) -> ReplicaRule:
    """A trainer's side of the rule; in the foreground replicas are overwritten, behind workers they interpolate.

    centre: for the rules that `needs_centre`.
    """
    if isinstance(how, names.ShadowEasgd | names.FixedEasgd):
        if centre is None:
            raise InputError(f"sync {how.name} needs a centre, on one server for it or more.")
        return ElasticReplica(replica, circle, centre)
    share, merge = (how.alpha, how.merge) if isinstance(how, names.ShadowMa | names.ShadowBmuf) else (1.0, "blend")
    if isinstance(how, names.ShadowBmuf | names.FixedBmuf):
        return BlockMomentum(replica, circle, share, merge, how.eta, how.momentum)
    return ModelAveraging(replica, circle, share, merge)


def make_replicated(
    how: names.Shadow | names.Fixed, replica: Replica, circle: Circle, centre: Centre | None = None,
    is_watched: bool = True,
) -> ShadowSync | FixedRate:  # fmt: skip
    """A trainer's `DenseAgreement`. centre: this host's, for the names that `needs_centre`; the caller starts it."""
    rule = make_rule(how, replica, circle, centre)
    if isinstance(how, names.Fixed):
        return FixedRate(rule, how.every, is_watched)
    least = how.least if isinstance(how, names.ShadowEasgd | names.ShadowMa | names.ShadowBmuf) else 1
    return ShadowSync(rule, least, is_watched)


def needs_centre(how: names.ClickSync) -> bool:
    """Whether a `ServedCentre` is part of it, with the share `alpha` of the name."""
    return isinstance(how, names.ShadowEasgd | names.FixedEasgd)
