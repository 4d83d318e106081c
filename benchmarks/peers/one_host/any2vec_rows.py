"""Click models in any2vec beside dlrm_peer's: rows alone, whole steps, whole steps with free rows. One JSON line.

Each thread is a Hogwild worker with batches of its own, of `--batch` examples, or of `--worker-batch`: two workers
change rows and layers under each other's hands, and learn more where fewer examples are under way. Seconds are those of
`--batch` examples.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "others"))

from dlrm_peer import BOTTOM, TOP, Examples, parse

STRETCH = 10
"""batches that are timed at once, each thread's share; steps with and without rows are timed in turn"""


class Problem:
    """The examples as any2vec has them, and new tables and layers for them."""

    def __init__(self, args: argparse.Namespace) -> None:
        from any2vec.models.clicks.config import DLRM

        self.args, self.examples = args, Examples(args)
        self.size = args.worker_batch or args.batch
        """examples of a worker's batch"""
        self.num_columns, self.num_dense = self.examples.ids.shape[1], self.examples.dense.shape[1]
        self.start_P1 = np.arange(self.size * self.num_columns + 1)
        self.model = DLRM(
            dim=args.dim, bottom="-".join(map(str, BOTTOM)), top="-".join(map(str, TOP)), batch_size=self.size,
            learning_rate=args.learning_rate, dense_learning_rate=args.dense_learning_rate,
        )  # fmt: skip

    def batch(self, start: int) -> Any:
        from any2vec.data.clicks.rows import ClickBatch

        part = slice(start, start + self.size)
        ids = self.examples.ids[part] + np.arange(self.num_columns) * self.args.rows
        return ClickBatch(
            np.array(self.examples.labels[part]), np.array(self.examples.dense[part]), ids.reshape(-1), self.start_P1
        )

    def batches(self, first: int, count: int) -> list[Any]:
        """Of steps; after the last whole one the first comes again."""
        whole = self.examples.num_train // self.size
        return [self.batch(step % whole * self.size) for step in range(first, first + count)]

    def new_rows(self) -> Any:
        from any2vec.tables.row_table import MemoryRows
        from any2vec.tasks.clicks.rows import fresh_rows, row_optimizer

        numbers = np.arange(self.num_columns * self.args.rows)
        return MemoryRows(fresh_rows(self.model, numbers, self.args.seed), row_optimizer(self.model))

    def new_workers(self, kind: Any, rows: Any) -> list[Any]:
        import torch

        from any2vec.models.clicks.nets import make_net
        from any2vec.sync.base.dense import NoAgreement
        from any2vec.tables.replica import Replica

        torch.manual_seed(self.args.seed)
        nets = [make_net(self.model, self.num_dense, self.num_columns) for _ in range(self.args.threads)]
        # The layers start as PyTorch makes them, as those of the peers do.
        value_Q = np.concatenate([parameter.detach().numpy().ravel() for parameter in nets[0].parameters()])
        agreement = NoAgreement(Replica(value_Q, "adagrad", self.model.dense_rate))
        no_means = np.zeros(self.num_columns, bool)
        return [kind(number, net, value_Q, rows, agreement, no_means) for number, net in enumerate(nets)]

    def log_loss(self, worker: Any, rows: Any) -> float:
        """Mean log-loss over the whole batches of the last `--test` examples."""
        from any2vec.models.clicks.worker import predict
        from any2vec.tables.batch_rows import BatchRows

        losses, first, size = [], self.examples.num_train, self.size
        for start in range(first, first + self.args.test - size + 1, size):
            batch = self.batch(start)
            sums_PW = rows.pool(BatchRows.of(batch.id_M, batch.start_P), 0)
            p = predict(worker.net, batch, sums_PW, np.zeros(self.num_columns, bool))
            losses.append(float(-np.where(batch.label_B == 1, np.log(p), np.log1p(-p)).mean()))
        return statistics.fmean(losses)


def free_worker(problem: Problem) -> Any:
    """A class of workers whose rows cost nothing: sums that are there, gradients that are made and dropped."""
    import torch

    from any2vec.models.clicks.worker import ClickWorker

    shape = (problem.size, problem.num_columns, problem.args.dim)
    fixed_BFD = (np.random.default_rng(problem.args.seed).standard_normal(shape) * 0.01).astype(np.float32)

    class FreeWorker(ClickWorker):
        def train(self, batch: Any, index: int) -> float:
            step = self.agreement.begin(self.number, index)
            pooled_BFD = torch.from_numpy(fixed_BFD).requires_grad_()
            self._gradient_Q[:] = 0.0
            logit_B = self.net(torch.from_numpy(batch.dense_BX), pooled_BFD)
            label_B = torch.from_numpy(batch.label_B)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logit_B, label_B, reduction="sum")
            loss.backward(torch.tensor(self._scale / len(label_B)))
            self.agreement.apply(self.number, step, self._gradient_Q)
            return float(loss.detach())

    return FreeWorker


class Team:
    """Threads that take batches in turn."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.pool = ThreadPoolExecutor(threads)

    def seconds(self, work: Callable[[int, Any], Any], batches: Sequence[Any]) -> float:
        """Seconds of a batch, over all threads; work(thread, batch) does one."""
        left, lock = iter(batches), threading.Lock()

        def take(thread: int) -> None:
            while True:
                with lock:
                    batch = next(left, None)
                if batch is None:
                    return
                work(thread, batch)

        began = time.perf_counter()
        list(self.pool.map(take, range(self.threads)))
        return (time.perf_counter() - began) / len(batches)


def main() -> None:
    args = parse(__doc__)
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker-batch", type=int, default=0, help="examples of a worker's batch; 0: --batch")
    parser.parse_known_args(namespace=args)

    import torch

    from any2vec.models.clicks.worker import ClickWorker
    from any2vec.tables.batch_rows import BatchRows

    torch.set_num_threads(1)  # threads are workers
    problem, team = Problem(args), Team(args.threads)
    parts = args.batch // problem.size
    size = STRETCH * parts
    rows = problem.new_rows()
    shape = (problem.size * problem.num_columns, args.dim)
    gradient_PW = (torch.randn(shape, generator=torch.Generator().manual_seed(args.seed)) * 1e-3).numpy()

    def rows_alone(thread: int, batch: Any) -> None:
        grouped = BatchRows.of(batch.id_M, batch.start_P)
        rows.pool(grouped, 0)
        rows.apply_pooled(grouped, gradient_PW, 0)

    free, whole = problem.new_workers(free_worker(problem), rows), problem.new_workers(ClickWorker, rows)
    works: dict[str, Callable[[int, Any], Any]] = {
        "rows": rows_alone,
        "free_step": lambda thread, batch: free[thread].train(batch, 0),
        "step": lambda thread, batch: whole[thread].train(batch, 0),
    }
    found: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        team.seconds(work, problem.batches(0, max(args.warm, size)))
    for stretch in range(max(1, args.steps // STRETCH)):
        batches = problem.batches((stretch + 1) * size, size)
        for name, work in works.items():
            found[name].append(team.seconds(work, batches))
    result: dict[str, Any] = {f"{name}_seconds": parts * statistics.median(times) for name, times in found.items()}
    result["free_over_whole"] = statistics.median(
        free / whole for free, whole in zip(found["free_step"], found["step"], strict=True)
    )
    result |= {"stretches": found, "engine": "any2vec", "threads": args.threads, "torch": torch.__version__}
    if args.train_steps and args.test >= args.batch:
        rows = problem.new_rows()
        workers = problem.new_workers(ClickWorker, rows)
        steps = args.train_steps * parts
        for first in range(0, steps, size):
            batches = problem.batches(first, min(size, steps - first))
            team.seconds(lambda thread, batch: workers[thread].train(batch, 0), batches)
        result |= {"train_steps": args.train_steps, "test_log_loss": problem.log_loss(workers[0], rows)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
