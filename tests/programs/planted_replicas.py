"""Least squares with a planted optimum, trained by replicas that synchronize: any rule in a second or two.

Legend: Q parameters, B examples of a batch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from any2vec.cluster.link import LinkModel
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import LONG_WORK, PATIENCE, Transport
from any2vec.sync.base.dense import DenseAgreement, NoAgreement
from any2vec.sync.base.group import ProcessGroup
from any2vec.sync.drivers.replicas import ShadowSync
from any2vec.sync.make import make_replicated
from any2vec.sync.options.names import Fixed, FixedEasgd, Shadow, ShadowEasgd, parse_click_sync
from any2vec.sync.rules.center import ServedCenter
from any2vec.tables.replica import Replica


@dataclass(frozen=True, kw_only=True)
class PlantedSquares:
    """y = x . optimum + noise, x and noise normal: the expected loss of w is (|w - optimum|^2 + noise^2) / 2."""

    size: int = 64
    """Q"""
    batch: int = 16
    noise: float = 0.1
    seed: int = 1

    def optimum(self) -> np.ndarray:
        """float64 (Q,)."""
        return np.random.default_rng((self.seed, 0)).standard_normal(self.size)

    def gradient(self, value_Q: np.ndarray, trainer: int, index: int) -> np.ndarray:
        """float32 (Q,), of batch `index` of a trainer; each batch has examples of its own."""
        rng = np.random.default_rng((self.seed, 1 + trainer, index))
        x_BQ = rng.standard_normal((self.batch, self.size))
        error_B = x_BQ @ (value_Q - self.optimum()) - self.noise * rng.standard_normal(self.batch)
        return (x_BQ.T @ error_B / self.batch).astype(np.float32)

    def excess(self, value_Q: np.ndarray) -> float:
        """Expected loss above that of the optimum."""
        return float(((value_Q - self.optimum()) ** 2).sum() / 2)


@dataclass(frozen=True)
class TrainedReplicas:
    """What came of it."""

    model: np.ndarray
    """float32 (Q,)"""
    replicas: list[np.ndarray]
    metrics: list[dict[str, Any]]
    """by trainer"""


def train_replicas(
    sync: str, trainers: int = 2, batches: int | Sequence[int] = 200, *, workers: int = 1, servers: int = 0,
    problem: PlantedSquares | None = None, kind: Any = "sgd", rate: float = 0.02, link: LinkModel | None = None,
    patience: float = PATIENCE, longest_gap: int | None = None,
) -> TrainedReplicas:  # fmt: skip
    """Train logical trainers on planted least squares by one of `none`, `shadow-...`, `fr-...`.

    Args:
        batches: of every trainer, or of each.
        workers: threads of a trainer, which share its replica.
        servers: logical hosts that own the center; 0: the trainers do.
        kind, rate: of the optimizer, as `Replica`.
        link, patience: as `run_logical`.
        longest_gap: iterations that a trainer makes at most before its shadow has synced, so that what is learnt does
            not depend on how busy the machine is; None: it never waits.
    """
    problem = problem or PlantedSquares()
    how = parse_click_sync(sync)
    counts = [batches] * trainers if isinstance(batches, int) else list(batches)

    def host(transport: Transport) -> tuple[np.ndarray | None, np.ndarray, dict[str, Any]]:
        center = None
        if isinstance(how, ShadowEasgd | FixedEasgd):
            owners = range(trainers, trainers + servers) if servers else range(trainers)
            center = ServedCenter(transport, problem.size, owners, trainers, how.alpha)
            center.start()
        if transport.rank >= trainers:
            assert center is not None
            center.close(timeout=LONG_WORK)
            return None, np.empty(0, np.float32), {}
        replica = Replica(np.zeros(problem.size, np.float32), kind, rate)
        agreement: DenseAgreement = NoAgreement(replica, transport.rank)
        if isinstance(how, Shadow | Fixed):
            agreement = make_replicated(how, replica, ProcessGroup(transport, trainers), center)
        agreement.start()
        _train(problem, replica, agreement, transport.rank, counts[transport.rank], workers, longest_gap)
        agreement.close()
        model = agreement.gather_result()
        if center is not None:
            center.close()
        return model, replica.value, agreement.metrics()

    servers *= isinstance(how, ShadowEasgd | FixedEasgd)
    found = run_logical(trainers + servers, host, link, patience)[:trainers]
    assert found[0][0] is not None
    return TrainedReplicas(found[0][0], [value for _, value, _ in found], [metrics for _, _, metrics in found])


def _train(
    problem: PlantedSquares, replica: Replica, agreement: DenseAgreement, rank: int, batches: int, workers: int,
    longest_gap: int | None,
) -> None:  # fmt: skip
    """Let worker threads take a trainer's batches in turns; the first error of any is raised."""
    errors: list[BaseException] = []

    def work(worker: int) -> None:
        try:
            for index in range(worker, batches, workers):
                step = agreement.begin(worker, index)
                while isinstance(agreement, ShadowSync) and longest_gap and agreement.syncing.gap >= longest_gap:
                    time.sleep(0.0005)
                    step = agreement.begin(worker, index)  # raises what the shadow has ended by
                agreement.apply(worker, step, problem.gradient(replica.value, rank, index))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(1, workers)]
    for thread in threads:
        thread.start()
    work(0)
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
