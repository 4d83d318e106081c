"""The task of words and nodes: models of sequences, of text or of walks."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from any2vec.cluster.launch.join import joined
from any2vec.errors import DataError, InputError
from any2vec.sync.options.row_cache import CACHES, CachedRows, check_no_cache_rows
from any2vec.tasks.words.agreement import agreement_of
from any2vec.train.spec import Hooks
from any2vec.train.task import HOSTS, RUN, VALIDATION, Nouns, Task, file_names

if TYPE_CHECKING:
    from any2vec.cluster.transport import Transport
    from any2vec.data.graph.graph import Graph
    from any2vec.embeddings import Embeddings
    from any2vec.options.planning import HostMachines, ItemShape, Shape, TokenShape
    from any2vec.plan.cost.size import Forecast, Size
    from any2vec.sync.options.rounds import RoundAgreement
    from any2vec.tasks.words.prepare import Prepared
    from any2vec.train.in_memory.validation import Validator
    from any2vec.train.result import Result
    from any2vec.train.spec import Request, RunSpec
    from any2vec.types import Stage

TEXT_MODELS = ("skipgram", "cbow", "ngram")
_ROUNDS = ("sync", "scheme", "rounds_per_epoch", "bits", "overlap", "cache", "cache_rows")
_CACHED_ROUNDS = 200
"""of an epoch, where rows come through a cache: few enough words that rows are not old, enough that messages are"""
_DISK = ("memory", "order")


@dataclass(frozen=True)
class SequenceData:
    """What one host has of the data."""

    metadata: dict[str, Any]
    init: Embeddings | None
    """start vectors"""
    prepared: Prepared | None = None
    """None: a graph is to be cut first"""
    graph: Graph | None = None
    """to be cut into parts, if it is"""


class Words(Task):
    """Skip-gram and its kin over text, DeepWalk and node2vec over graphs."""

    name = "words"
    title = "words and nodes"
    rank = 10
    models: ClassVar = {
        "skipgram": "any2vec.models.words.config:SkipGram",
        "cbow": "any2vec.models.words.config:CBOW",
        "ngram": "any2vec.models.words.config:NGram",
        "deepwalk": "any2vec.models.words.config:DeepWalk",
        "node2vec": "any2vec.models.words.config:Node2Vec",
    }
    about: ClassVar = {
        "skipgram": "vectors of words by skip-gram (word2vec)",
        "cbow": "vectors of words by continuous bag of words (word2vec)",
        "ngram": "vectors of words and of their character n-grams (fastText)",
        "deepwalk": "vectors of graph nodes by uniform random walks",
        "node2vec": "vectors of graph nodes by second-order random walks",
    }
    reading: ClassVar = {
        "text": "any2vec.data.options:TextOptions", "graph": "any2vec.data.options:GraphOptions",
    }  # fmt: skip
    has: ClassVar = {"run": (*RUN, "init", "cache_dir"), "hosts": HOSTS, "sync": _ROUNDS, "storage": _DISK}
    lacks: ClassVar = {
        "servers": "rows lie on the hosts themselves, with sync server:... too",
        "sync_servers": "it has no dense layers",
        "dual": "it has no layers on different hosts",
        "credits": "hosts take their own part of the data and get no batches from a work queue",
    }
    help: ClassVar = {
        "sync": "blend, spectral, adasum, adasum-symmetric, mean, sum, leader, elastic, gaia[:THRESHOLD], frequent, "
        "ds-sync[:random|butterfly|topology][:SIZE], server:async, server:bounded:ROUNDS or server-mean "
        "[default spectral for text, blend for nodes]",
        "rounds_per_epoch": "rounds per epoch, 1..1,000,000; default 1.5 per host, with a cache 200",
        "cache": CACHES,
        "staleness_bound": "batches by which rows may be stale with --memory, 1 or more; by default 1 with one "
        "thread, else 2 per thread",
        "order": "order of partitions [default beta]",
        "validate": "file of judged pairs of words: score each epoch by it, and keep the best one",
    }

    planning = ("any2vec.options.planning:TokenShape", "any2vec.options.planning:HostMachines")

    def reading_of(self, model: str) -> tuple[str, ...]:
        return ("text",) if model in TEXT_MODELS else ("graph",)

    def options_of(self, model: str) -> Mapping[str, tuple[str, ...]]:
        if model == "ngram":
            return {"run": (*RUN, *VALIDATION, "cache_dir")}
        own = "read" if model in TEXT_MODELS else "partition"
        found = {**self.has, "hosts": (*HOSTS, own)}
        if model in TEXT_MODELS:
            found["run"] = (*self.has["run"], *VALIDATION)
        if model == "cbow":
            return {**found, "storage": ()}
        return {**found, "sync": (*_ROUNDS, "staleness_bound")}

    def why_not(self, model: str, option: str) -> str:
        if option == "read":
            return "it reads a graph, and read parts is for text"
        if option in VALIDATION:
            return "nodes are judged by classes or links, with `any2vec evaluate`"
        if option == "partition":
            return "it reads text, and partition is for graphs"
        if model == "ngram":
            if option == "init":
                return "its vectors are means of rows, which no vectors tell"
            return "its rows are all in memory" if option in _DISK else "it trains on one host (skipgram on several)"
        if option in (*_DISK, "staleness_bound"):
            return "tables larger than memory are for skip-gram with negative sampling (skipgram, deepwalk, node2vec)"
        return super().why_not(model, option)

    def nouns(self, model: Any) -> Nouns:
        return Nouns("nodes", "steps") if model.is_graph else Nouns("words", "words")

    def check(self, spec: RunSpec, hooks: Hooks) -> None:
        from any2vec.tasks.words.prepare import stored_corpus

        model, hosts = spec.model, spec.hosts
        self.agreement(spec)
        if "hosts" not in self.options_of(model.name) and joined():
            raise InputError(f"{model.name} trains on one host; start it without torchrun, or take skipgram.")
        if spec.storage.memory is not None:
            if (model.architecture, model.objective, model.kernel) != ("skipgram", "negative", "block"):
                raise InputError(
                    "memory is for skip-gram with negative sampling by blocks (objective negative, kernel block), not "
                    f"with objective {model.objective} and kernel {model.kernel}; leave it out."
                )
            if hosts.is_distributed or hosts.ray is not None or joined():
                raise InputError(
                    "Words and nodes with a budget of memory train on one host; leave out memory, or the hosts."
                )
            if spec.run.init is not None:
                raise InputError("Start vectors are held in memory whole; leave out init, or memory.")
        elif spec.sync.staleness_bound is not None:
            raise InputError(
                "staleness_bound is for tables larger than memory; give a memory budget, like --memory 2GB."
            )
        if spec.sync.staleness_bound == 0:
            raise InputError("staleness_bound of a table larger than memory must be 1 or more, got 0.")
        if (corpus := stored_corpus(spec.data)) is not None:
            if hosts.read == "parts":
                raise InputError(f"{corpus.path} is encoded already, and hosts share its pages; leave out read parts.")
            if hosts.partition is not None:
                raise InputError(
                    f"partition cuts a graph, and {corpus.path} holds walks that are made already; leave it out."
                )

    def agreement(self, spec: RunSpec) -> RoundAgreement | CachedRows:
        if spec.sync.cache == "none":
            check_no_cache_rows(spec.sync)
            return agreement_of(spec)
        if spec.hosts.partition is not None:
            raise InputError(
                f"partition does not go with cache {spec.sync.cache}, in which hosts do not wait for each other: all "
                "of them walk together before each round; leave one of the two out."
            )
        return CachedRows.of(spec.sync, _CACHED_ROUNDS)

    def read(self, spec: RunSpec, hooks: Hooks) -> SequenceData | None:
        from any2vec.data.graph.reader import open_graph
        from any2vec.embeddings import Embeddings
        from any2vec.machine import usable_cores
        from any2vec.tasks.words.prepare import graph_metadata, prepare

        start, graph, model = spec.run.start, spec.reading.get("graph"), spec.model
        init = start if start is None or isinstance(start, Embeddings) else Embeddings.load(start)
        if spec.hosts.partition is not None:  # mapped from the cache, where it comes from a file
            whole = open_graph(spec.data, graph, spec.run.cache_dir, hooks.stage)
            return SequenceData(graph_metadata(model, whole, graph), init, graph=whole)
        if spec.hosts.read == "parts":
            return SequenceData({}, init)
        prepared = prepare(
            model, spec.data, threads=spec.run.threads or usable_cores(), seed=spec.run.seed,
            text=spec.reading.get("text"), graph=graph, cache_dir=spec.run.cache_dir, stage=hooks.stage,
        )  # fmt: skip
        return SequenceData(prepared.metadata, init, prepared)

    def validator(self, spec: RunSpec, data: SequenceData) -> Validator | None:
        if spec.run.validate is None:
            return None
        from any2vec.evaluate.words.similarity import check_covered, pairs_of, similarity_of

        if spec.run.validation_share is not None:
            raise InputError("Words are validated by pairs that people have judged, not by a share of the text.")
        given = pairs_of(spec.run.validate)
        if spec.model.name != "ngram":  # which makes vectors of any word
            assert data.prepared is not None
            check_covered(given, {*data.prepared.keys, *(() if data.init is None else data.init.keys.names)})

        def validate(result: Result) -> Mapping[str, float]:
            mean = similarity_of(result.embeddings, given).mean
            if mean is None:
                raise DataError(
                    "The judged pairs have no Spearman correlation: fewer than two have vectors for both words, or all "
                    "their cosines are equal; give other pairs."
                )
            return {"spearman": mean}

        return validate

    def shares_reading(self, spec: RunSpec) -> bool:
        return spec.hosts.read == "parts" or spec.hosts.partition is not None

    def share(self, spec: RunSpec, hooks: Hooks, data: Any, transport: Transport) -> SequenceData:
        from any2vec.tasks.words.parts import prepare_part

        found: SequenceData = data
        if spec.hosts.read != "parts":
            return found
        prepared = prepare_part(
            spec.model, spec.data, transport, text=spec.reading.get("text"), cache_dir=spec.run.cache_dir,
            stage=hooks.stage,
        )  # fmt: skip
        return replace(found, metadata=prepared.metadata, prepared=prepared)

    def settings(self, spec: RunSpec, data: Any, hosts: int) -> dict[str, Any]:
        from any2vec.tasks.words.start import start_digest

        return spec.settings(data.metadata) | {"init": None if data.init is None else start_digest(data.init)}

    def program(self, request: Request, data: Any, transport: Transport) -> Any:
        from any2vec.tasks.words.prepare import prepare_distributed
        from any2vec.tasks.words.program import SequenceProgram
        from any2vec.tasks.words.table import sequence_program

        if data.graph is None:
            return sequence_program(request, data.prepared, data.init, transport)
        # Prepared now that there is something left to do, for that takes walks through all of the graph.
        spec = request.spec
        assert spec.hosts.partition is not None
        prepared = prepare_distributed(
            spec.model, data.graph, data.metadata, transport, spec.hosts.partition, spec.run.seed
        )
        return SequenceProgram(request, prepared, data.init, transport)

    def stored(self, spec: RunSpec, folder: Path, hooks: Hooks) -> RunSpec:
        from any2vec.data.graph.reader import open_graph
        from any2vec.embeddings import Embeddings

        if isinstance(spec.run.start, Embeddings):
            spec.run.start.save(folder / "init")
            spec = replace(spec, run=replace(spec.run, init=folder / "init"))
        try:
            return replace(spec, data=file_names(spec.data))
        except InputError:
            if not spec.model.is_graph:
                raise
        open_graph(spec.data, spec.reading.get("graph"), None, hooks.stage).save(folder / "graph")
        return replace(spec, data=str(folder / "graph"), reading={})  # the options have done their work

    def can(self, command: str, model: str) -> bool:
        return command == "estimate" or model != "ngram"

    def size(self, spec: RunSpec, metadata: Mapping[str, Any]) -> Size:
        from any2vec.tasks.words.budget import size_of_words

        rows = metadata["vocabulary"] if "vocabulary" in metadata else metadata["num_nodes"]
        items = metadata.get("tokens_in_vocabulary", metadata.get("visits_per_epoch", 0))
        return size_of_words(spec.model, rows, metadata.get("kept_per_epoch", items), items, metadata.get("grams"))

    def known(self, spec: RunSpec, shape: Shape, hooks: Hooks) -> Mapping[str, Any]:
        """As for all, and with the rows of n-grams: words share them, in other measure in each language."""
        if spec.model.name != "ngram" or shape.rows is not None:
            return super().known(spec, shape, hooks)
        from any2vec.data.vocab.vocabulary import Keys
        from any2vec.encoders.ngrams import used_buckets

        data, model = self.read(spec, hooks), spec.model
        assert data is not None and data.prepared is not None
        grams = used_buckets(Keys.of(data.prepared.keys), model.min_n, model.max_n, model.buckets)
        return {**data.metadata, "grams": len(grams)}

    def metadata_of(self, spec: RunSpec, shape: ItemShape) -> Mapping[str, Any]:
        return {"vocabulary": shape.num_rows, "tokens_in_vocabulary": shape.num_items(100)}

    def estimate(self, spec: RunSpec, shape: ItemShape, hooks: Hooks) -> dict[str, Any]:
        from any2vec.tasks.words.sizing import estimate_words

        if spec.model.name == "ngram":  # nobody has measured what it takes
            return super().estimate(spec, shape, hooks)
        return estimate_words(spec, shape, hooks.stage)

    def plan(self, spec: RunSpec, shape: TokenShape, machines: HostMachines, stage: Stage) -> Forecast:
        from any2vec.tasks.words.planning import plan_words

        self.check(spec, Hooks())
        return plan_words(spec, shape, machines, stage)

    def next_step(self, model: Any, folder: Path, keys: Sequence[str]) -> str:
        key = str(keys[min(len(keys) - 1, 300)]) if len(keys) else "KEY"  # neither the most frequent nor rare
        command = shlex.join(["any2vec", "nearest", str(folder), key])
        return f"To see the {self.nouns(model).rows} nearest to {key}:  {command}"
