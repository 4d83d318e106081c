"""One host of a measured run of DLRM, a trainer or a server, as the environment says: one JSON line of its figures.

A trainer's clock runs from the end of its warm-up, where all trainers meet, to the end of its last batch: neither the
end of a run nor the last agreement belongs to it. What is counted (bytes, syncs, waits) is counted between the same two
moments. Batches come from a pool of files, so that no host spends time on making them.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from benchmarks.clicks.pool import Pool

from any2vec.cluster.launch.join import join, run_child
from any2vec.cluster.link import LinkModel
from any2vec.cluster.transport import Transport
from any2vec.machine import keep_freed_memory
from any2vec.models.clicks.config import DLRM
from any2vec.models.clicks.nets import make_net, start_values
from any2vec.models.clicks.worker import ClickWorker, predict
from any2vec.models.torch_threads import torch_threads
from any2vec.plan.order.epochs import EpochSchedule
from any2vec.plan.order.roles import Roles
from any2vec.sync.base.group import ProcessGroup
from any2vec.sync.options.trainers import TrainerAgreement
from any2vec.tables.batch_rows import BatchRows
from any2vec.tables.row_table import MemoryRows
from any2vec.tasks.clicks.dense import HostDense, make_dense
from any2vec.tasks.clicks.rows import ServedRows, fresh_rows, row_optimizer

SEED = 1
_LOOK = 0.05
"""seconds between two looks at the kernel's counters of a link"""
_NO_BANDWIDTH = 1e15
"""bits/s: the link's real bandwidth is what tbf leaves of it"""


class Watched:
    """Something whose calls are timed, by name."""

    def __init__(self, inner: Any, seconds: Counter[str]) -> None:
        self._inner, self._seconds = inner, seconds

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)

        def timed(*arguments: Any) -> Any:
            begun = time.perf_counter()
            try:
                return found(*arguments)
            finally:
                self._seconds[name] += time.perf_counter() - begun

        if not callable(found):
            return found
        setattr(self, name, timed)
        return timed


class Line:
    """What the kernel has counted at this host's end of its link, and this process's time on processors, over time."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float, int, int]] = []
        """(moment of the monotonic clock, seconds on processors, bytes received, bytes sent)"""
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        folder = Path("/sys/class/net/eth0/statistics")
        while folder.exists():
            received, sent = (int((folder / name).read_text()) for name in ("rx_bytes", "tx_bytes"))
            self.seen.append((time.monotonic(), time.process_time(), received, sent))
            time.sleep(_LOOK)


class Trainer:
    """Trains, and measures.

    rows: None: it has a table of its own, of which no other host knows.
    """

    def __init__(
        self, options: argparse.Namespace, model: DLRM, pool: Pool, schedule: EpochSchedule, trainers: int,
        transport: Transport, rows: ServedRows | None, net: Any, dense: HostDense, sums_gradients: bool,
    ) -> None:  # fmt: skip
        self.options, self.schedule, self.pool, self.transport = options, schedule, pool, transport
        self.rows, self.dense = rows, dense
        self.group = ProcessGroup(transport, trainers, "bench")
        self.calls: Counter[str] = Counter()
        """seconds in calls of the rows' access and of the dense agreement"""
        if rows is None:
            self.access: Any = MemoryRows(fresh_rows(model, np.arange(pool.num_rows), SEED), row_optimizer(model))
        else:
            self.access = rows.accesses[0]
        self.worker = ClickWorker(
            0, net, dense.replica.value, Watched(self.access, self.calls), Watched(dense.agreement, self.calls),
            pool.is_mean_F, 1.0 / trainers if sums_gradients else 1.0, None if rows is None else rows.place,
        )  # fmt: skip
        self.index = 0
        """of the next batch"""

    def measure(self) -> dict[str, Any]:
        for _ in range(self.options.warm):
            self._step()
        self.group.barrier()
        before, moment = self._state(), time.monotonic()
        ends = [moment]
        worker_cpu = time.thread_time()
        while self._goes_on(len(ends) - 1, moment):
            self._step()
            ends.append(time.monotonic())
        worker_cpu = time.thread_time() - worker_cpu
        found = difference(self._state(), before)
        step_N = np.diff(ends)
        return found | {
            "from": moment, "to": ends[-1], "seconds": ends[-1] - moment, "batches": len(step_N),
            "examples": len(step_N) * self.options.batch, "worker_cpu_seconds": worker_cpu,
            "step_seconds": {str(q): float(np.percentile(step_N, q)) for q in (10, 50, 90, 99)},
        }  # fmt: skip

    def loss(self, first: int, stop: int) -> float | None:
        """Mean log-loss of examples that nobody has trained on, at rank 0; all hosts have come to the end."""
        table_VC = None if self.rows is None else self.rows.gather_result()
        if self.dense.gather_result() is None or table_VC is None or first == stop:
            return None
        losses = []
        for start in range(first, stop, self.options.batch):
            batch = self.pool.batch(start, min(start + self.options.batch, stop))
            rows = BatchRows.of(batch.id_M, batch.start_P)
            sums_PW = rows.pool(table_VC[rows.row_U], self.options.dim)
            chance_B = predict(self.worker.net, batch, sums_PW, self.pool.is_mean_F)
            losses.append(-np.log(np.where(batch.label_B > 0, chance_B, 1 - chance_B)))
        return float(np.concatenate(losses).mean())

    def give_up(self) -> None:
        """What runs behind this trainer ends, whatever is left to do."""
        for one, name in ((self.access, "end"), (self.dense.agreement, "abandon")):
            if hasattr(one, name):
                getattr(one, name)()

    def _goes_on(self, done: int, begun: float) -> bool:
        if self.options.seconds:
            return time.monotonic() - begun < self.options.seconds
        return done < self.options.steps

    def _step(self) -> None:
        span = self.schedule.span_at(self.index)
        batch = self.pool.batch(span.start, span.stop)
        self.worker.train(batch, self.index)
        self.index += 1

    def _state(self) -> dict[str, Any]:
        """All that is counted, up to now."""
        counters = self.transport.counters
        return {
            "calls": dict(self.calls), "dense": self.dense.metrics(), "cpu_seconds": time.process_time(),
            "rows": {} if self.rows is None else self.rows.backend.metrics(),
            "bytes_by_kind": counters.bytes_by_kind(), "bytes_by_phase": counters.bytes_by_phase(),
        }  # fmt: skip


def difference(after: Any, before: Any) -> Any:
    """Numbers less those of before, through dictionaries; what is a mean or a share already stays as it is."""
    if isinstance(after, dict):
        known = before if isinstance(before, dict) else {}
        return {
            name: value if name.endswith(("_mean", "_share")) else difference(value, known.get(name, 0))
            for name, value in after.items()
        }
    return after - before if isinstance(after, int | float) and isinstance(before, int | float) else after


def measure(options: argparse.Namespace, transport: Transport) -> dict[str, Any]:
    """What this host has to say."""
    pool = Pool(options.pool)
    model = DLRM(dim=options.dim, bottom=options.bottom, top=options.top, batch_size=options.batch)
    roles = Roles.of(transport.hosts, options.servers, options.sync_servers)
    # The roles alone say who serves dense layers: a run without agreement has that host, too, with nothing to do.
    agree = TrainerAgreement(servers=options.servers, sync=options.sync, cache=options.cache, rounds_per_epoch=1)
    each = options.batches * options.batch
    bounds = [rank * each for rank in range(roles.trainers + 1)]
    bounds += bounds[-1:] * (roles.ranks - roles.trainers)
    epochs = 1 << 20 if options.seconds else 1  # a run against the clock takes the same batches round and round
    schedule = EpochSchedule(
        bounds=bounds, rank=transport.rank, epochs=epochs, unit=options.batch, piece=options.batch, in_lockstep=True
    )
    is_trainer = roles.is_trainer(transport.rank)
    rows = None
    if not options.local_rows:
        rows = ServedRows(model, pool, SEED, None, int(is_trainer), transport, roles, agree, schedule)
    net = make_net(model, len(pool.dense_names), len(pool.columns))
    on_held = None if rows is None else rows.backend.on_held
    value_Q = start_values(net, SEED)
    dense = make_dense(model, value_Q, transport, roles, agree, on_held, lambda index: options.batch)
    if rows is not None:
        rows.start()
    dense.start()
    found: dict[str, Any] = {"rank": transport.rank, "parameters": len(value_Q)}
    line, trainer = Line(), None
    if is_trainer:
        trainer = Trainer(
            options, model, pool, schedule, roles.trainers, transport, rows, net, dense, agree.sums_gradients
        )
        found |= trainer.measure()
    if options.cut:
        if trainer is not None:
            trainer.give_up()
        transport.barrier("cut")
        return found | {"line": line.seen}
    assert rows is not None
    end(rows, dense)
    found["loss"] = None if trainer is None else trainer.loss(pool.num_examples - options.held_out, pool.num_examples)
    if trainer is None:
        rows.gather_result()
    found["metrics"] = dense.metrics()
    dense.close()
    rows.close()
    return found | {"line": line.seen}


def end(rows: ServedRows, dense: HostDense) -> None:
    """As every run ends: no batch follows, and all is where it belongs."""
    for access in rows.accesses:
        access.close()
    if dense.agreement is not None:
        dense.agreement.close()
    rows.quiesce()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pool", type=Path, required=True)
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--bottom", default=DLRM.bottom)
    parser.add_argument("--top", default=DLRM.top)
    parser.add_argument("--batch", type=int, default=DLRM.batch_size)
    parser.add_argument("--servers", type=int, default=0)
    parser.add_argument("--sync-servers", type=int, default=0)
    parser.add_argument("--sync", default="none")
    parser.add_argument("--cache", default="none")
    parser.add_argument("--local-rows", action="store_true", help="each trainer has a table of its own")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds, emulated")
    parser.add_argument("--batches", type=int, required=True, help="of each trainer in the pool")
    parser.add_argument("--warm", type=int, default=10, help="batches before the clock runs")
    parser.add_argument("--steps", type=int, default=0, help="batches while it runs")
    parser.add_argument("--seconds", type=float, default=0.0, help="instead: how long it runs")
    parser.add_argument(
        "--held-out", type=int, default=0, help="examples at the pool's end that the model is judged by"
    )
    parser.add_argument("--cut", action="store_true", help="end behind the last batch, with nothing brought to an end")
    options = parser.parse_args()
    keep_freed_memory()
    link = LinkModel(bandwidth=_NO_BANDWIDTH, latency=options.latency) if options.latency else None
    with torch_threads(1):
        with join(json.dumps(vars(options), default=str), link, patience=300.0, silence=120.0) as transport:
            found = measure(options, transport)
        print(json.dumps(found))


if __name__ == "__main__":
    run_child(main)
