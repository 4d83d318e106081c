"""The agreement by gradients that a name stands for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from any2vec.cluster.transport import Transport
from any2vec.sync.drivers.served_gradients import ServedGradients, as_they_come, first_of
from any2vec.sync.drivers.summed_gradients import SummedGradients
from any2vec.sync.options.names import Async, Bounded, Bsp, MOfN, needed_of
from any2vec.sync.rules.first_gradients import OnHeld
from any2vec.tables.replica import Replica


def make_gradients(
    how: Bsp | Bounded | Async | MOfN, transport: Transport, replica: Replica, trainers: Sequence[int],
    servers: Sequence[int], reported: OnHeld | None = None, examples: Callable[[int], int] | None = None,
) -> SummedGradients | ServedGradients:  # fmt: skip
    """This host's `DenseAgreement`: of a trainer, and of each server of dense parameters (bsp: trainers alone).

    Rows that go with it: bsp and bounded `ClockedRows`, m-of-n `HeldRows`, async `RemoteRows`. Where trainers meet,
    rows rest before the agreement settles, and finish before it finishes.

    Args:
        replica, examples: as for `ServedGradients`.
        servers: ranks that may hold the parameters; m-of-n uses the first alone, bsp none.
        reported: m-of-n, on the first server's host: who holds the rows' gradients (`HeldRowsNotices`).
    """
    if isinstance(how, Bsp):
        return SummedGradients(transport, replica, trainers)
    if isinstance(how, MOfN):
        rule = first_of(trainers, needed_of(how, len(trainers)), reported)
        return ServedGradients(transport, replica, trainers, servers[:1], rule, True, examples)
    bound = how.bound if isinstance(how, Bounded) else None
    return ServedGradients(transport, replica, trainers, servers, as_they_come(trainers, bound), bound is not None)
