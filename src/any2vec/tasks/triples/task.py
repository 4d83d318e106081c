"""The task of triples: models of knowledge graphs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from any2vec.cluster.launch.join import joined
from any2vec.errors import InputError
from any2vec.models.triples.config import TRIPLE_MODELS
from any2vec.options.storage import StorageOptions
from any2vec.options.sync import SyncOptions
from any2vec.sync.options.names import MERGES, FixedBmuf, Frequent, Server, ServerMean, ShadowBmuf
from any2vec.sync.options.rounds import RoundAgreement
from any2vec.sync.options.row_cache import CACHES, CachedRows, check_no_cache_rows
from any2vec.train.spec import Hooks
from any2vec.train.task import HOSTS, RUN, VALIDATION, Nouns, Task

if TYPE_CHECKING:
    from any2vec.cluster.transport import Transport
    from any2vec.options.planning import ItemShape
    from any2vec.plan.cost.size import Forecast, Size
    from any2vec.tasks.triples.prepare import PreparedTriples
    from any2vec.train.in_memory.validation import Validator
    from any2vec.train.spec import Request, RunSpec
    from any2vec.types import Stage

_SYNC = "adasum-symmetric"
"""by default; chosen on planted triples (docs/log.md)"""
_ROUNDS = ("sync", "scheme", "rounds_per_epoch", "bits", "overlap")
_CACHE = ("cache", "cache_rows")
_SYNCS = (
    *MERGES,
    "leader",
    "elastic",
    "gaia",
    "ds-sync",
    "shadow-ma",
    "shadow-easgd",
    "shadow-RULE",
    "fr-ma",
    "fr-easgd",
    "fr-RULE",
)
_PLAN = "hosts exchange partitions of one table as a plan says, and agree on relations after each round"


class Triples(Task):
    """ComplEx, DistMult, TransE, RotatE, dot product."""

    name = "triples"
    title = "triples"
    rank = 20
    models: ClassVar = TRIPLE_MODELS
    about: ClassVar = {
        "complex": "vectors of entities and relations by ComplEx",
        "distmult": "vectors of entities and relations by DistMult",
        "transe": "vectors of entities and relations by TransE",
        "rotate": "vectors of entities and relations by RotatE",
        "dot": "vectors of entities by dot products, relations left out",
    }
    has: ClassVar = {
        "run": (*RUN, *VALIDATION), "hosts": HOSTS, "sync": (*_ROUNDS, *_CACHE, "staleness_bound"),
        "storage": ("memory", "order"),
    }  # fmt: skip
    reading: ClassVar = {"triples": "any2vec.data.options:TripleOptions"}
    lacks: ClassVar = {
        "init": "its rows have optimizer states, which other vectors lack",
        "cache_dir": "triples are read anew by each run",
        "servers": "rows lie on the hosts themselves",
        "sync_servers": "it has no dense layers",
        "read": "hosts share the file of triples",
        "partition": "hosts get partitions of the table, not of a graph",
        "dual": "it has no layers on different hosts",
        "credits": "hosts take their own buckets and get no batches from a work queue",
    }
    help: ClassVar = {
        "sync": "at rounds: blend, adasum, adasum-symmetric, mean, sum, leader, elastic, gaia[:THRESHOLD] or "
        "ds-sync[:random|butterfly|topology][:SIZE]; behind the training: shadow-ma, shadow-easgd or shadow-RULE; "
        "every so many batches: fr-ma, fr-easgd or fr-RULE, like fr-adasum:100; not with --memory "
        "[default adasum-symmetric]",
        "scheme": "rows that hosts send in a round; by default rep-opt, with --overlap pull-opt",
        "rounds_per_epoch": "1..1,000,000; default 1.5 per host, with a cache 8",
        "cache": CACHES,
        "staleness_bound": "batches by which rows may be stale with --memory, 1 or more; by default 1 with one "
        "thread, else 2 per thread",
        "order": "order of partitions [default comet]",
    }
    planning: ClassVar = ("any2vec.options.planning:ItemShape",)
    input: ClassVar = "triples (TSV, CSV, N-Triples, Parquet, JSON Lines): one file, or - for standard input"

    def nouns(self, model: Any) -> Nouns:
        return Nouns("entities", "triples")

    def check(self, spec: RunSpec, hooks: Hooks) -> None:
        hosts, storage = spec.hosts, spec.storage
        is_several = (hosts.num_ranks or 1) > 1 or hosts.ray is not None or joined()
        if storage.memory is None:
            self.agreement(spec)
        for option in (*_ROUNDS, *_CACHE) if storage.memory is not None else ():
            if getattr(spec.sync, option) != getattr(SyncOptions, option):
                raise InputError(
                    f"{option} is for hosts that hold all rows: with memory {_PLAN}; leave one of the two out."
                )
        if is_several and storage.order is not None:
            raise InputError(
                f"order {storage.order} is for one host; several hosts have a plan of their own, so leave it out."
            )
        bound = spec.sync.staleness_bound
        if bound is not None and storage.memory is None:
            raise InputError(
                "staleness_bound is for tables larger than memory; give a memory budget, like --memory 2GB."
            )
        if bound == 0:
            raise InputError("staleness_bound of a table larger than memory must be 1 or more, got 0.")

    def agreement(self, spec: RunSpec) -> RoundAgreement | CachedRows | None:
        if spec.storage.memory is not None:
            return None
        if spec.sync.cache != "none":
            if not spec.model.query:
                raise InputError(
                    f"{spec.model.name} has parameters beside its rows, which no cache holds; leave cache out."
                )
            return CachedRows.of(spec.sync)
        check_no_cache_rows(spec.sync)
        default = "pull-opt" if spec.sync.overlap else "rep-opt"
        found = RoundAgreement.of(spec.hosts, replace(spec.sync, sync=spec.sync.sync or _SYNC), has_replicas=True)
        if isinstance(found.agreement, Server | ServerMean | Frequent):
            raise InputError(f"sync {found.sync} is for words and nodes; triples have {', '.join(_SYNCS)}.")
        if isinstance(found.agreement, ShadowBmuf | FixedBmuf):
            raise InputError(
                f"sync {found.sync} is for dense layers: its momentum would take the squares of gradients that rows "
                "have with them below zero; take shadow-ma or fr-ma."
            )
        if found.scheme == "pull-base":
            raise InputError(
                "scheme pull-base tracks the rows of a word in two tables together, and entities and relations are no "
                "such pair; take pull-opt."
            )
        return replace(found, scheme=found.scheme or default) if found.agreement.has_scheme else found

    def read(self, spec: RunSpec, hooks: Hooks) -> PreparedTriples:
        from any2vec.tasks.triples.prepare import prepare_triples

        found = prepare_triples(spec.data, spec.reading.get("triples"), hooks.stage, spec.run.cache_dir)
        share = spec.run.validation_share
        return found if share is None else found.held_out(share, spec.run.seed)

    def validator(self, spec: RunSpec, data: PreparedTriples) -> Validator | None:
        if spec.run.validate is None:
            return None
        from any2vec.tasks.triples.validation import triple_validator

        options = spec.reading.get("triples")
        return triple_validator(data.triples, data.held_M3, spec.run.validate, options, spec.run.seed)

    def settings(self, spec: RunSpec, data: Any, hosts: int) -> dict[str, Any]:
        is_shared = hosts > 1 and spec.storage.memory is not None
        return spec.settings(data.metadata) | ({"hosts": hosts} if is_shared else {})

    def program(self, request: Request, data: Any, transport: Transport) -> Any:
        from any2vec.tasks.triples.table import triple_program

        return triple_program(request, data, transport)

    def scorer(self, folder: Path) -> Any:
        from any2vec.models.triples.scorer import TripleScorer

        return TripleScorer.load(folder)

    def score(self, folder: Path, data: Path, **options: Any) -> Iterator[str]:
        from any2vec.evaluate.triples import score_triple_file

        return score_triple_file(self.scorer(folder), data)

    def size(self, spec: RunSpec, metadata: Mapping[str, Any]) -> Size:
        from any2vec.tasks.triples.budget import size_of_triples

        return size_of_triples(spec.model, metadata)

    def metadata_of(self, spec: RunSpec, shape: ItemShape) -> Mapping[str, Any]:
        from any2vec.tasks.triples.budget import NAME_BYTES

        rows = shape.num_rows
        return {
            "num_triples": shape.num_items(20), "num_entities": rows, "num_relations": 1,
            "unread_bytes": NAME_BYTES * rows,
        }  # fmt: skip

    def plan(self, spec: RunSpec, shape: ItemShape, machines: None, stage: Stage) -> Forecast:
        from any2vec.tasks.triples.budget import forecast

        self.check(spec, Hooks())
        if (spec.hosts.trainers or 1) > 1 and spec.storage.memory is None:
            raise InputError(
                "What hosts that hold all rows send follows from the rows that their rounds change, which is not known "
                "before: give --memory, or plan one host."
            )
        metadata = self.known(spec, shape, Hooks(stage=stage))
        is_alone = (spec.hosts.trainers or 1) == 1
        return forecast(
            self.sized(spec if is_alone else replace(spec, storage=StorageOptions()), metadata), spec, metadata
        )

    def next_step(self, model: Any, folder: Path, keys: Sequence[str]) -> str:
        command = ["any2vec", "evaluate", str(folder), "--task", "triples", "--data", "TEST.tsv"]
        return f"To rank the answers of other triples:  {shlex.join(command)}"
