"""One host of a run of a model of clicks: a trainer, or a server of rows or of dense layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from any2vec.cluster.counters import summed
from any2vec.cluster.transport import LONG_WORK, Transport
from any2vec.embeddings import Embeddings
from any2vec.errors import HostError, InputError
from any2vec.models.clicks.learner import ClickLearner, chunks_of
from any2vec.models.clicks.nets import make_net, start_values
from any2vec.models.clicks.scorer import DENSE, ClickScorer
from any2vec.models.clicks.worker import ClickWorker
from any2vec.plan.order.epochs import EpochSchedule
from any2vec.plan.order.roles import Roles
from any2vec.tasks.clicks.dense import make_dense
from any2vec.tasks.clicks.planning import warm_up
from any2vec.tasks.clicks.prepare import PreparedClicks
from any2vec.tasks.clicks.rows import HostRows, LocalRows, ServedRows, row_optimizer
from any2vec.train.checkpoint import FILE, note_loss, updates_lost
from any2vec.train.in_memory.hosts import gather_numbers
from any2vec.train.in_memory.program import InMemoryProgram, states_by_rank
from any2vec.train.loop import LocalDriver
from any2vec.train.progress import Recorder, mean_loss
from any2vec.train.result import Result, histogram, remarks
from any2vec.train.spec import Request
from any2vec.types import Span, State, Stats, Work

_USELESS = 1.5
"""normalized entropy of a model that says less than the share of clicks does, with some room"""


@dataclass
class RoundBarrier(LocalDriver):
    """Workers fetch rows themselves; where a round ends all stand still, and checkpoints and stops are possible."""

    program: ClickProgram
    is_alone: bool

    def after(self, work: Work[Any], stats: Stats) -> None:
        if self.is_settled(work) and not self.is_alone:
            self.program.quiesce()

    def is_settled(self, work: Work[Any]) -> bool:
        return self.is_alone or work.ends_round


class IdleLearner:
    """A server learns nothing: its works are empty."""

    def run(self, work: Work[Span]) -> Stats:
        return Stats(0, 0.0, 0)

    def learning_rate(self, progress: float) -> float:
        return 0.0

    def close(self) -> None:
        """It has no threads."""


class ClickProgram(InMemoryProgram):
    """Its rows, its dense layers, its workers."""

    def __init__(self, request: Request, prepared: PreparedClicks, transport: Transport) -> None:
        super().__init__(request, transport)
        self.data = data = prepared.clicks
        self.metadata = prepared.metadata
        model, options, rank = request.spec.model, request.agreement, transport.rank
        servers, sync_servers = (0, 0) if options is None else (options.servers, options.sync_servers)
        self.roles = Roles.of(transport.hosts, servers, sync_servers)
        if prepared.num_examples < self.roles.trainers:
            raise InputError(f"{prepared.num_examples} examples are too few for {self.roles.trainers} trainers.")
        workers = request.threads if self.roles.is_trainer(rank) else 0
        trainers = self.roles.trainers
        bounds = chunks_of(prepared.num_examples, trainers, transport.hosts - trainers, model.batch_size)
        self.schedule = self._schedule(bounds)
        given = model, data, request.spec.run.seed, self._stored(), workers
        self.rows: HostRows = (
            LocalRows(*given) if options is None else ServedRows(*given, transport, self.roles, options, self.schedule)
        )
        nets = [make_net(model, len(data.dense_names), len(data.columns)) for _ in range(max(1, workers))]
        self._net = nets[0]
        on_held = None if self.rows.backend is None else self.rows.backend.on_held
        value_Q = start_values(nets[0], request.spec.run.seed)
        self.dense = make_dense(model, value_Q, transport, self.roles, options, on_held, self._examples)
        if self.checkpoint is not None:
            self.dense.load_state_dict(states_by_rank(self.checkpoint.state), self._agreed_parameters(), rank)
        self.learner = self._learner(nets) if workers else IdleLearner()
        self.driver = RoundBarrier(self, options is None)
        self._kept_updates = self._collected_updates = 0
        """of rows, by this trainer, that are in a checkpoint, and in what was collected for one last"""
        self._has_ended = False

    def compile(self) -> None:
        if isinstance(self.learner, ClickLearner):
            warm_up(self.request.spec.model, len(self.data.dense_names), len(self.data.columns))
        self.rows.start()
        self.dense.start()

    def close(self, error: BaseException | None = None) -> None:
        if error is None:
            self.dense.close()
            self.rows.close()
            return
        self.rows.close(error)
        self.dense.close(error)
        if isinstance(error, HostError):
            self._note_loss()

    def _note_loss(self) -> None:
        """Leave word of the updates that are in no checkpoint, for whoever goes on."""
        out = self.request.spec.run.out
        if out is None or not isinstance(self.learner, ClickLearner):
            return
        if (out / FILE).exists():  # else the run begins anew, in a folder that must be as it was
            note_loss(out, self.transport.rank, self.learner.updates - self._kept_updates)

    def quiesce(self) -> None:
        """All hosts stand still: rows first, for what they tell may decide the rest."""
        self._kept_updates = self._collected_updates  # what was collected where hosts met before is stored by now
        for access in self.rows.accesses:
            access.quiesce()
        self.dense.quiesce()

    def end(self) -> None:
        for access in self.rows.accesses:
            access.close()
        if self.dense.agreement is not None:
            self.dense.agreement.close()
        self._has_ended = True

    def agreed(self) -> dict[str, np.ndarray] | None:
        for access in () if self._has_ended else self.rows.accesses:
            access.flush()
        self.rows.quiesce()
        table, dense = self.rows.gather_result(), self.dense.gather_result()
        return None if table is None or dense is None else {"rows": table, "dense": dense}

    def state(self) -> State | None:
        found = super().state()
        # Nobody trains on, and changes rows of others, before all have copied theirs.
        self.transport.barrier("state", timeout=LONG_WORK)
        if isinstance(self.learner, ClickLearner):
            self._collected_updates = self.learner.updates
        return found

    @property
    def memory(self) -> State:
        return self.dense.state_dict()

    def result(self, agreed: dict[str, np.ndarray]) -> Result:
        model, table = self.request.spec.model, agreed["rows"]
        dim = model.vector_dim
        vectors = np.ascontiguousarray(table[:, : max(1, dim)])
        weights = table[:, dim].copy() if dim and model.has_weights else None
        dense, at = {}, 0
        for name, parameter in self._net.named_parameters():
            dense[name] = agreed["dense"][at : at + parameter.numel()].reshape(tuple(parameter.shape)).copy()
            at += parameter.numel()
        counts = np.asarray(self.data.counts_V)
        embeddings = Embeddings(self.data.key_of_rows(), vectors, None, counts, meta={"model": model.as_dict()})
        scorer = ClickScorer(model, self.data.encoder, vectors, weights, dense)
        return Result(embeddings, scorer=scorer, parts={DENSE: scorer, **self.data.encoder.parts()})

    def gather_metrics(self, recorder: Recorder) -> dict[str, Any]:
        loss, rate = mean_loss(recorder.epoch), self.metadata["num_clicks"] / self.metadata["num_examples"]
        entropy = -(rate * math.log(rate) + (1 - rate) * math.log1p(-rate)) if 0 < rate < 1 else 0.0
        judged: dict[str, Any] = {}
        if loss is not None and entropy:
            judged["normalized_entropy"] = loss / entropy
            if doubt := _doubt(loss, loss / entropy):
                judged["warnings"] = [*remarks(self.metadata), doubt]
        if self.request.agreement is None:
            return judged
        by_host = gather_numbers(self.transport, {"rows": self.rows.metrics(), "dense": self.dense.metrics()})
        if not by_host:
            return {}
        options, out = self.request.agreement, self.request.spec.run.out
        lost = 0 if out is None else updates_lost(out)
        return judged | ({"updates_lost": lost} if lost else {}) | {
            "hosts": self.roles.trainers, "servers": self.roles.servers, "sync_servers": self.roles.sync_servers,
            "sync": options.sync, "cache": options.cache, "rounds": self.schedule.rounds * self.request.spec.run.epochs,
            "bytes_by_kind": summed([host["bytes_by_kind"] for host in by_host]),
            "bytes_by_phase": summed([host["bytes_by_phase"] for host in by_host]),
            "rows_of_hosts": _added([host["rows"] for host in by_host]),
            "dense_of_hosts": _added([host["dense"] for host in by_host]),
        }  # fmt: skip

    def _learner(self, nets: list[Any]) -> ClickLearner:
        agreement, options, model = self.dense.agreement, self.request.agreement, self.request.spec.model
        assert agreement is not None
        share = 1.0 / self.roles.trainers
        scale = share if options is not None and options.sums_gradients else 1.0
        row_scale = share / scale if options is not None and options.sums_rows else 1.0
        value_Q, is_mean_F, place = self.dense.replica.value, self.data.is_mean_F, self.rows.place
        workers = [
            ClickWorker(number, net, value_Q, access, agreement, is_mean_F, scale, place, row_scale)
            for number, (net, access) in enumerate(zip(nets, self.rows.accesses, strict=True))
        ]
        fills_steps = options is not None and options.row_cache.kind == "bagpipe"
        steps = self.schedule.steps_per_epoch if fills_steps else 0
        return ClickLearner(self.data, workers, model.batch_size, model.learning_rate, steps)

    def _stored(self) -> np.ndarray | None:
        """The table of the checkpoint, if there is one.

        Raises:
            FormatError: it is not of this model and schema.
        """
        if self.checkpoint is None:
            return None
        return self.checkpoint.array("rows", (self.data.num_rows, row_optimizer(self.request.spec.model).num_columns))

    def _agreed_parameters(self) -> np.ndarray:
        """Those of the checkpoint's dense layers, float32 (Q,).

        Raises:
            FormatError: they are not of this model.
        """
        assert self.checkpoint is not None
        return self.checkpoint.array("dense", self.dense.replica.value.shape, "dense layers")

    def _examples(self, index: int) -> int:
        """Examples of this trainer's batch `index`."""
        span = self.schedule.span_at(index)
        return span.stop - span.start

    def _schedule(self, bounds: Sequence[int]) -> EpochSchedule:
        """This trainer's batches; a server's works are empty.

        Raises:
            InputError: cache bagpipe cannot go on from there.
        """
        batch, options = self.request.spec.model.batch_size, self.request.agreement
        schedule = EpochSchedule(
            bounds=bounds, rank=self.transport.rank, epochs=self.request.spec.run.epochs, unit=batch, piece=batch,
            in_lockstep=True, boundary=lambda at: min(-(-at // batch) * batch, bounds[-1]),
        )  # fmt: skip
        if options is not None:
            # No more than batches: then all trainers have the same number in each round but the last of an epoch.
            rounds = min(options.rounds(self.transport.hosts), schedule.steps_per_epoch)
            schedule = replace(schedule, rounds=rounds)
        self._resumed(schedule, self.roles.trainers)
        if options is not None and options.row_cache.kind == "bagpipe" and not schedule.is_whole:
            raise InputError(
                "A run with cache bagpipe goes on from the middle of an epoch with as many trainers, servers and "
                "rounds as before; resume with those, or with cache none."
            )
        return schedule


def _doubt(loss: float, entropy: float) -> str:
    """A sentence if a model with this loss, and this normalized entropy, is of no use; else nothing."""
    if entropy <= _USELESS:
        return ""
    # A model that has learned nothing says 0.5, a loss of log 2: beyond that training has done harm.
    has_diverged = loss > _USELESS * math.log(2)
    why = (
        "the training has diverged; lower learning_rate."
        if has_diverged
        else "it has learned too little; train longer."
    )
    shown = f"{entropy:,.0f}" if 100 <= entropy < 1e12 else f"{entropy:.3g}".replace("e+", "e")
    return f"The model is worse than knowing the share of clicks alone (normalized entropy {shown}): {why}"


def _added(metrics: list[dict[str, Any]]) -> dict[str, Any]:
    """Numbers added up over hosts, histograms too."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for host in metrics for name in host):
        values = [host[name] for host in metrics if name in host]
        if isinstance(values[0], dict):
            found[name] = histogram(values)
        elif isinstance(values[0], int | float):
            is_mean = name.endswith(("_mean", "_share")) or name.startswith("lost_")
            found[name] = sum(values) / len(values) if is_mean else sum(values)
        else:
            found[name] = values
    return found
