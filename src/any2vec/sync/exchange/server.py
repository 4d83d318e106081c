"""Parameter servers: hosts pull rows, train, and push what changed; the servers add it up."""

from __future__ import annotations

import numpy as np

from any2vec.cluster.transport import Transport
from any2vec.sync.exchange.served import Served
from any2vec.sync.exchange.server_mean import AveragingServer
from any2vec.sync.exchange.tracking import Inspector
from any2vec.sync.options import names
from any2vec.sync.options.hosts import HostOptions


class ParameterServer(Served):
    """`server:async` (bound None) and `server:bounded:S` (stale synchronous parallel, Ho et al. 2013).

    Bound 0 is bulk-synchronous: the pushes of a round take effect together, added up in rank order, which gives the
    same bits as the merge rule "sum". Otherwise changes are added as they come. Arguments as `Served`.
    """

    def _push_round(self) -> None:
        for name, ids in self._needed.items():
            now = self.tables[name][ids]
            if self._in_step and self.bits == 32:  # start + (now - start) is not now in floating point
                self.client.push(name, self._places[name], now, self.clock, is_delta=False)
            else:
                self._push_change(name, now - self._start[name])


def make(
    how: names.Server | names.ServerMean,
    options: HostOptions,
    transport: Transport,
    tables: dict[str, np.ndarray],
    inspector: Inspector,
) -> Served:
    """The agreement that a name stands for."""
    if isinstance(how, names.ServerMean):
        return AveragingServer(transport, tables, options.bits, inspector)
    bound = how.bound if how.mode == "bounded" else None
    return ParameterServer(transport, tables, options.bits, inspector, bound)
