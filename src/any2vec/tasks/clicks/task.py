"""The task of clicks: models that predict clicks from categories and numbers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from any2vec.cluster.launch.join import check_torch
from any2vec.data.clicks.schema import ClickReading
from any2vec.errors import InputError
from any2vec.models.clicks.config import CLICK_MODELS
from any2vec.options.planning import ColumnShape, ItemShape, Machines
from any2vec.sync.options.trainers import TrainerAgreement
from any2vec.train.task import HOSTS, RUN, VALIDATION, Nouns, Task

if TYPE_CHECKING:
    from any2vec.cluster.transport import Transport
    from any2vec.plan.cost.size import Forecast, Size
    from any2vec.tasks.clicks.prepare import PreparedClicks
    from any2vec.train.in_memory.validation import Validator
    from any2vec.train.spec import Hooks, Request, RunSpec
    from any2vec.types import Stage


class Clicks(Task):
    """DLRM, DeepFM, factorization machines, logistic regression."""

    name = "clicks"
    title = "clicks"
    rank = 30
    models: ClassVar = CLICK_MODELS
    about: ClassVar = {
        "dlrm": "probability of a click, by dot products of all pairs of fields and two dense networks",
        "deepfm": "probability of a click, by a factorization machine and a dense network",
        "fm": "probability of a click, by a factorization machine",
        "logistic": "probability of a click, by logistic regression",
    }
    reading: ClassVar = {"clicks": "any2vec.data.clicks.schema:ClickReading"}
    has: ClassVar = {
        "run": (*RUN, *VALIDATION, "cache_dir"),
        "hosts": (*HOSTS, "servers", "sync_servers"),
        "sync": ("sync", "cache", "cache_rows", "rounds_per_epoch"),
    }
    lacks: ClassVar = {
        "init": "its rows belong to categories of a schema, which other vectors do not know",
        "read": "hosts share the encoded examples",
        "partition": "it reads no graph",
        "scheme": "rows travel as each batch needs them",
        "bits": "its rows and gradients travel in 32 bits",
        "overlap": "its agreements behind the training are called shadow-...",
        "dual": "it has no layers on different hosts",
        "credits": "trainers take their own part of the data and get no batches from a work queue",
        "staleness_bound": "the bound stands in sync bounded:S and cache het:BOUND",
        "memory": "rows of clicks are held in memory, over as many servers as it takes",
        "order": "rows of clicks are held in memory, over as many servers as it takes",
    }
    help: ClassVar = {
        "sync": "of dense layers: shadow-easgd, shadow-ma or shadow-bmuf in the background; fr-easgd:K, fr-ma:K or "
        "fr-bmuf:K every K batches; bsp, m-of-n:M, bounded:S, async or ds-sync[:random|butterfly|topology][:SIZE] at "
        "each batch; RULE, fr-RULE:K or shadow-RULE by a merge rule (adasum, adasum-symmetric, blend, mean, sum); or "
        "none [default shadow-easgd]",
        "rounds_per_epoch": "times per epoch for records, checkpoints and stops, 1..1,000,000; by default 8",
    }
    planning: ClassVar = ("any2vec.options.planning:ColumnShape", "any2vec.options.planning:Machines")
    warns_always: ClassVar = True
    input: ClassVar = "logs of clicks (TSV, CSV, Parquet, Arrow, JSON Lines): files, folders, globs, - (standard input)"

    def nouns(self, model: Any) -> Nouns:
        return Nouns("values", "examples")

    def check(self, spec: RunSpec, hooks: Hooks) -> None:
        agreement, model, threads = self.agreement(spec), spec.model, spec.run.threads
        if hooks.on_epoch is not None:
            raise InputError("on_epoch does not apply to models of clicks; leave it out.")
        agreement.check_trainers(spec.hosts.trainers)
        if agreement.is_in_step and threads > 1:
            raise InputError(
                f"sync {agreement.sync} with cache {agreement.cache} goes step by step, with one thread a trainer, got "
                f"threads = {threads}; start more hosts instead."
            )
        if agreement.row_cache.kind == "het" and model.optimizer == "adam":
            raise InputError(
                f"cache {agreement.cache} adds up what trainers change in a row, and moments of adam do not add up; "
                "train with optimizer adagrad or sgd, or with cache none."
            )
        if agreement.row_cache.kind == "bagpipe" and spec.run.patience:
            raise InputError(
                f"cache {agreement.cache} fetches rows of steps ahead, all of which must come; leave out patience (the "
                "best epoch's state is kept all the same), or the cache."
            )
        self._reading(spec).resolved()
        check_torch("Models of clicks")

    def agreement(self, spec: RunSpec) -> TrainerAgreement:
        return TrainerAgreement.of(spec.hosts, spec.sync)

    def threads(self, spec: RunSpec, local_hosts: int) -> int:
        in_step = self.agreement(spec).is_in_step
        return int(spec.run.threads) or (1 if in_step else super().threads(spec, local_hosts))

    def read(self, spec: RunSpec, hooks: Hooks) -> PreparedClicks:
        from any2vec.tasks.clicks.prepare import prepare_clicks

        schema, share = self._reading(spec).resolved(), spec.run.validation_share
        return prepare_clicks(spec.data, schema, spec.run.cache_dir, hooks.stage, share)

    def validator(self, spec: RunSpec, data: PreparedClicks) -> Validator | None:
        if spec.run.validate is None:
            return None
        from any2vec.tasks.clicks.validation import click_validator

        return click_validator(data.clicks, data.num_examples, spec.run.validate)

    @contextmanager
    def limits(self, spec: RunSpec) -> Iterator[None]:
        from any2vec.models.torch_threads import torch_threads

        with super().limits(spec), torch_threads(1):
            yield

    def program(self, request: Request, data: Any, transport: Transport) -> Any:
        from any2vec.tasks.clicks.program import ClickProgram

        return ClickProgram(request, data, transport)

    def scorer(self, folder: Path) -> Any:
        from any2vec.models.clicks.scorer import ClickScorer

        return ClickScorer.load(folder)

    def size(self, spec: RunSpec, metadata: Mapping[str, Any]) -> Size:
        from any2vec.tasks.clicks.planning import size_of_clicks

        return size_of_clicks(spec, metadata, self.threads(spec, 1))

    def metadata_of(self, spec: RunSpec, shape: ItemShape) -> Mapping[str, Any]:
        """As the logs of Criteo have them."""
        columns = ColumnShape()
        return {
            "columns": range(columns.columns), "dense": range(columns.numbers), "num_rows": shape.num_rows,
            "num_examples": shape.num_items(10),
        }  # fmt: skip

    def estimate(self, spec: RunSpec, shape: ItemShape, hooks: Hooks) -> dict[str, Any]:
        check_torch("Models of clicks")
        return super().estimate(spec, shape, hooks)

    def plan(self, spec: RunSpec, shape: ColumnShape, machines: Machines, stage: Stage) -> Forecast:
        pace = machines.pace
        check_torch("Models of clicks")
        from any2vec.tasks.clicks.planning import plan_clicks

        return plan_clicks(spec, shape, pace, stage)

    def next_step(self, model: Any, folder: Path, keys: Sequence[str]) -> str:
        return f"To score other rows:  {shlex.join(['any2vec', 'score', str(folder), 'ROWS.tsv'])}"

    def _reading(self, spec: RunSpec) -> ClickReading:
        found: ClickReading = spec.reading.get("clicks", ClickReading())
        return found
