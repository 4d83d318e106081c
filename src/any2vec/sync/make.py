"""From the options to the agreement that they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from any2vec.cluster.transport import Transport
from any2vec.sync.drivers.lone import LoneHost
from any2vec.sync.drivers.rounds import Agreement
from any2vec.sync.exchange.elastic import ElasticAveraging
from any2vec.sync.exchange.gaia import ApproximatelySynchronous
from any2vec.sync.exchange.groups import DivideAndShuffle
from any2vec.sync.exchange.leader import LeaderSgd
from any2vec.sync.exchange.overlapped import Overlapped
from any2vec.sync.exchange.pulled import Pulled
from any2vec.sync.exchange.replicated import Replicated
from any2vec.sync.exchange.tracking import Inspector
from any2vec.sync.options.names import Elastic, Frequent, Gaia, Groups, Leader, Merge, Server, ServerMean
from any2vec.sync.options.rounds import RoundAgreement
from any2vec.sync.options.row_cache import CachedRows
from any2vec.sync.options.rules import RULES
from any2vec.sync.rules.block import Rules
from any2vec.types import Round


def make_agreement(
    options: RoundAgreement | CachedRows,
    transport: Transport,
    tables: dict[str, np.ndarray],
    inspector: Inspector,
    counts: Mapping[str, np.ndarray] | None = None,
    coming: Iterator[tuple[int, Round]] | None = None,
    threads: int = 1,
) -> Agreement:
    """The agreement of one host; tables: name -> float32 (V, D), trained in place; counts: table -> occurrences of its
    rows in an epoch, (V',) with V' <= V; coming: (epoch, round) after round of this host, for agreements that look
    ahead; threads: of this host.

    Raises:
        InputError: it does not go with this number of hosts.
    """
    if isinstance(options, CachedRows):
        from any2vec.sync.exchange.cached import Cached

        return Cached(transport, tables, options, inspector, counts or {}, coming or iter(()))
    match options.agreement:
        case sync if transport.hosts == 1 and not sync.has_scheme:
            return LoneHost(tables)
        case Merge(rule=name):
            rules = Rules(RULES.named(name), counts or {})
            model, _, form = str(options.form(transport.hosts)).partition("-")
            if options.overlap:
                return Overlapped(transport, tables, rules, options.bits, inspector, coming or iter(()), threads)
            if model == "rep":
                return Replicated(transport, tables, rules, options.bits, form == "opt", threads)
            return Pulled(transport, tables, rules, options.bits, form == "opt", inspector, threads)
        case Groups() as how:
            return DivideAndShuffle(transport, tables, how)
        case Leader() as how:
            return LeaderSgd(transport, tables, how)
        case Elastic() as how:
            return ElasticAveraging(transport, tables, how, options.bits)
        case Gaia() as how:
            return ApproximatelySynchronous(transport, tables, how, options.bits)
        case Server() | ServerMean() as how:
            from any2vec.sync.exchange import server

            return server.make(how, options, transport, tables, inspector)
        case Frequent() as how:
            from any2vec.sync.exchange import frequent

            occurrences = None if counts is None else counts["input"]
            return frequent.make(how, options, transport, tables, inspector, occurrences)
    raise AssertionError(options.sync)
