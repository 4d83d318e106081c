"""The agreement of dense replicas that a name stands for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from any2vec.errors import InputError
from any2vec.sync.base.flat import Flat
from any2vec.sync.base.group import ProcessGroup
from any2vec.sync.drivers.fixed_rate import FixedRate
from any2vec.sync.drivers.shadow import ShadowSync
from any2vec.sync.options import replica_names as names
from any2vec.sync.options.rules import RULES
from any2vec.sync.rules.averaged_replica import ModelAveraging
from any2vec.sync.rules.block_momentum import BlockMomentum
from any2vec.sync.rules.center import Center
from any2vec.sync.rules.elastic_replica import ElasticReplica
from any2vec.sync.rules.merged_replica import MergedReplica
from any2vec.sync.rules.replica_rule import ReplicaRule
from any2vec.tables.replica import Replica


def make_rule(
    how: names.Shadow | names.Fixed, replica: Replica, group: ProcessGroup, center: Center | None,
    flat: Flat | None = None,
    occurrences: Mapping[str, np.ndarray] | None = None,
) -> ReplicaRule:  # fmt: skip
    """A trainer's side of the rule; in the foreground replicas are overwritten, behind workers they interpolate.

    center: for the rules that `needs_center`; flat, occurrences: of the tables that the replica is, by default of none.
    """
    if isinstance(how, names.ShadowMerge | names.FixedMerge):
        kind, counts = RULES.named(how.rule), occurrences or {}
        return MergedReplica(
            replica, group, flat or Flat.vector(len(replica.value)),
            lambda table, start, stop: kind(counts[table][start:stop].astype(np.float64) if table in counts else None),
        )  # fmt: skip
    if isinstance(how, names.ShadowEasgd | names.FixedEasgd):
        if center is None:
            raise InputError(f"sync {how.name} needs a center, on one server for it or more.")
        return ElasticReplica(replica, group, center)
    share, merge = (how.alpha, how.merge) if isinstance(how, names.ShadowMa | names.ShadowBmuf) else (1.0, "blend")
    if isinstance(how, names.ShadowBmuf | names.FixedBmuf):
        return BlockMomentum(replica, group, share, merge, how.eta, how.momentum)
    return ModelAveraging(replica, group, share, merge)


def make_replicated(
    how: names.Shadow | names.Fixed, replica: Replica, group: ProcessGroup, center: Center | None = None,
    is_watched: bool = True, flat: Flat | None = None, occurrences: Mapping[str, np.ndarray] | None = None,
) -> ShadowSync | FixedRate:  # fmt: skip
    """A trainer's `DenseAgreement`. center: this host's, for the names that `needs_center`; the caller starts it."""
    rule = make_rule(how, replica, group, center, flat, occurrences)
    if isinstance(how, names.Fixed):
        return FixedRate(rule, how.every, is_watched)
    kinds = names.ShadowEasgd | names.ShadowMa | names.ShadowBmuf | names.ShadowMerge
    return ShadowSync(rule, how.least if isinstance(how, kinds) else 1, is_watched)


def needs_center(how: names.ClickSync) -> bool:
    """Whether a `ServedCenter` is part of it, with the share `alpha` of the name."""
    return isinstance(how, names.ShadowEasgd | names.FixedEasgd)
