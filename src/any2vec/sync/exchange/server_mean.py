"""The baseline of DMTK's word embedding: an asynchronous server to which each host pushes its share of a mean."""

from __future__ import annotations

import numpy as np

from any2vec.sync.exchange.served import Served


class AveragingServer(Served):
    """`server-mean`: at the end of a round a host fetches its rows again and pushes (mine - server now) / hosts.

    Each push moves the server 1 / hosts of the way to this host's values, and so undoes as much of what others pushed
    meanwhile: the rule of Microsoft's DMTK word embedding, as GraphAny2Vec (IPDPS 2021) measured it. Arguments as
    `Served`, without a bound.
    """

    def _push_round(self) -> None:
        now = self.client.pull(self._places, bits=self.bits)
        share = np.float32(1 / self.transport.hosts)
        for name, ids in self._needed.items():
            self._push_change(name, (self.tables[name][ids] - now[name]) * share)
