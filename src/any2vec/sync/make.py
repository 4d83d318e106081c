"""From the options to the agreement that they name: between rounds, of replicas, by gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from any2vec.cluster.transport import Transport
from any2vec.errors import InputError
from any2vec.plan.order.groups import GroupSchedule
from any2vec.sync.base.curvature import PairSteps
from any2vec.sync.base.flat import Flat
from any2vec.sync.base.group import ProcessGroup
from any2vec.sync.base.host_rows import HostRows, WholeTables
from any2vec.sync.drivers.grouped_steps import GroupedSteps
from any2vec.sync.drivers.replicas import FixedRate, ShadowSync
from any2vec.sync.drivers.rounds import Agreement, SingleHost
from any2vec.sync.drivers.served_gradients import ServedGradients
from any2vec.sync.drivers.summed_gradients import SummedGradients
from any2vec.sync.exchange.cached import Cached
from any2vec.sync.exchange.elastic import ElasticAveraging
from any2vec.sync.exchange.frequent import FrequentRows
from any2vec.sync.exchange.gaia import ApproximatelySynchronous
from any2vec.sync.exchange.groups import DivideAndShuffle
from any2vec.sync.exchange.leader import LeaderSgd
from any2vec.sync.exchange.overlapped import Overlapped
from any2vec.sync.exchange.pulled import Inspector, Pulled
from any2vec.sync.exchange.replicated import Replicated
from any2vec.sync.exchange.served import AveragingServer, ParameterServer
from any2vec.sync.options.names import (
    Async,
    Bounded,
    Bsp,
    Elastic,
    Fixed,
    FixedBmuf,
    FixedEasgd,
    FixedMerge,
    Frequent,
    Gaia,
    Groups,
    Leader,
    Merge,
    MOfN,
    Server,
    ServerMean,
    Shadow,
    ShadowBmuf,
    ShadowEasgd,
    ShadowMa,
    ShadowMerge,
    StepGroups,
    needed_of,
)
from any2vec.sync.options.rounds import RoundAgreement
from any2vec.sync.options.row_cache import CachedRows
from any2vec.sync.options.rules import rule_class
from any2vec.sync.rules.averaged_replica import ModelAveraging
from any2vec.sync.rules.block import Rules
from any2vec.sync.rules.block_momentum import BlockMomentum
from any2vec.sync.rules.center import Center
from any2vec.sync.rules.elastic_replica import ElasticReplica
from any2vec.sync.rules.gradient_rules import AsyncGradients, FirstGradients, OnHeld
from any2vec.sync.rules.merged_replica import MergedReplica
from any2vec.sync.rules.replica_rule import ReplicaRule
from any2vec.tables.replica import Replica
from any2vec.types import Round


def make_agreement(
    options: RoundAgreement | CachedRows,
    transport: Transport,
    tables: dict[str, np.ndarray] | HostRows,
    inspector: Inspector,
    counts: Mapping[str, np.ndarray] | None = None,
    coming: Iterator[tuple[int, Round]] | None = None,
    threads: int = 1,
    steps: Callable[[], PairSteps] | None = None,
) -> Agreement:
    """The agreement of one host; tables: name -> float32 (V, D), trained in place, or, where rows are pulled, what
    holds those of a round; counts: table -> occurrences of its rows in an epoch, (V',) with V' <= V; coming: (epoch,
    round) after round of this host, for agreements that look ahead; threads: of this host; steps: gives those of the
    task's rows, where they are of that kind.

    Raises:
        InputError: it does not go with this number of hosts.
    """
    rows = tables if isinstance(tables, HostRows) else WholeTables(tables)
    tables = rows.tables
    if isinstance(options, CachedRows):
        return Cached(transport, tables, options, inspector, counts or {}, coming or iter(()))
    match options.agreement:
        case sync if transport.hosts == 1 and not sync.has_scheme:
            return SingleHost(tables)
        case Merge(rule=name):
            rules = Rules(rule_class(name, has_curvature=steps is not None), counts or {}, steps)
            model, _, form = str(options.form(transport.hosts)).partition("-")
            if options.overlap:
                return Overlapped(transport, rows, rules, options.bits, inspector, coming or iter(()), threads)
            if model == "rep":
                return Replicated(transport, tables, rules, options.bits, form == "opt", threads)
            return Pulled(transport, rows, rules, options.bits, form == "opt", inspector, coming, threads)
        case Groups() as how:
            return DivideAndShuffle(transport, tables, how)
        case Leader() as how:
            return LeaderSgd(transport, tables, how)
        case Elastic() as how:
            return ElasticAveraging(transport, tables, how, options.bits)
        case Gaia() as how:
            return ApproximatelySynchronous(transport, tables, how, options.bits, inspector)
        case Server(mode=mode, bound=bound):
            bounds = bound if mode == "bounded" else None
            return ParameterServer(transport, tables, options.bits, inspector, bounds)
        case ServerMean():
            return AveragingServer(transport, tables, options.bits, inspector)
        case Frequent():
            return FrequentRows(transport, tables, None if counts is None else counts["input"])
    raise AssertionError(options.sync)


def make_rule(
    how: Shadow | Fixed, replica: Replica, group: ProcessGroup, center: Center | None,
    flat: Flat | None = None,
    occurrences: Mapping[str, np.ndarray] | None = None,
) -> ReplicaRule:  # fmt: skip
    """A trainer's side of the rule; in the foreground replicas are overwritten, behind workers they interpolate.

    center: for elastic averaging; flat, occurrences: of the tables that the replica is, by default of none.
    """
    if isinstance(how, ShadowMerge | FixedMerge):
        kind, counts = rule_class(how.rule), occurrences or {}
        return MergedReplica(
            replica, group, flat or Flat.vector(len(replica.value)),
            lambda table, start, stop: kind(counts[table][start:stop].astype(np.float64) if table in counts else None),
        )  # fmt: skip
    if isinstance(how, ShadowEasgd | FixedEasgd):
        if center is None:
            raise InputError(f"sync {how.name} needs a center, on one server for it or more.")
        return ElasticReplica(replica, group, center)
    share, merge = (how.alpha, how.merge) if isinstance(how, ShadowMa | ShadowBmuf) else (1.0, "blend")
    if isinstance(how, ShadowBmuf | FixedBmuf):
        return BlockMomentum(replica, group, share, merge, how.eta, how.momentum)
    return ModelAveraging(replica, group, share, merge)


def make_replicated(
    how: Shadow | Fixed, replica: Replica, group: ProcessGroup, center: Center | None = None,
    is_watched: bool = True, flat: Flat | None = None, occurrences: Mapping[str, np.ndarray] | None = None,
) -> ShadowSync | FixedRate:  # fmt: skip
    """A trainer's `DenseAgreement`. center: this host's, for elastic averaging; the caller starts it."""
    rule = make_rule(how, replica, group, center, flat, occurrences)
    if isinstance(how, Fixed):
        return FixedRate(rule, how.every, is_watched)
    kinds = ShadowEasgd | ShadowMa | ShadowBmuf | ShadowMerge
    return ShadowSync(rule, how.least if isinstance(how, kinds) else 1, is_watched)


def make_grouped(how: StepGroups, replica: Replica, group: ProcessGroup) -> GroupedSteps:
    """A trainer's `DenseAgreement`. InputError: its groups do not go with the number of trainers.

    The sites of a topology are those of the link where all hosts train; servers among them leave sites of unequally
    many trainers, and then there are as many as groups.
    """
    transport = group.transport
    sites = 1 if transport.link is None or transport.hosts > group.trainers else transport.link.num_sites
    return GroupedSteps(replica, group, GroupSchedule.of(how.schedule, group.trainers, how.size, how.seed, sites))


def make_gradients(
    how: Bsp | Bounded | Async | MOfN, transport: Transport, replica: Replica, trainers: Sequence[int],
    servers: Sequence[int], on_held: OnHeld | None = None, examples: Callable[[int], int] | None = None,
) -> SummedGradients | ServedGradients:  # fmt: skip
    """This host's `DenseAgreement`: of a trainer, and of each server of dense parameters (bsp: trainers alone).

    Rows that go with it: bsp and bounded `ClockedRows`, m-of-n `HeldRows`, async `RemoteRows`. Where trainers meet,
    rows rest before the agreement settles, and finish before it finishes.

    Args:
        replica, examples: as for `ServedGradients`.
        servers: ranks that may hold the parameters; m-of-n uses the first alone, bsp none.
        on_held: m-of-n, on the first server's host: who holds the rows' gradients (`HeldRowsNotices`).
    """
    if isinstance(how, Bsp):
        return SummedGradients(transport, replica, trainers)
    if isinstance(how, MOfN):
        needed = needed_of(how, len(trainers))
        return ServedGradients(
            transport, replica, trainers, servers[:1],
            lambda held: FirstGradients(held, trainers, needed, on_held), True, examples,
        )  # fmt: skip
    bound = how.bound if isinstance(how, Bounded) else None
    return ServedGradients(
        transport, replica, trainers, servers, lambda held: AsyncGradients(held, trainers, bound),
        bound is not None,
    )  # fmt: skip
