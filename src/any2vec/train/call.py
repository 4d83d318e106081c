"""A checked call of `fit`, carried out here: on one host, on logical hosts, or as one of several processes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from any2vec.cluster.counters import Counters
from any2vec.cluster.launch.join import join, joined
from any2vec.cluster.link import LinkModel, parse_link
from any2vec.cluster.lone import LoneTransport
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import LONG_WORK, Transport, control
from any2vec.embeddings import Embeddings
from any2vec.errors import JobError
from any2vec.machine import keep_freed_memory, usable_cores
from any2vec.models.clicks.config import ClickModel
from any2vec.models.layers.ga_mlp import GAMLP
from any2vec.models.triples.config import TripleModel
from any2vec.models.words.config import SequenceModel
from any2vec.sync.options.hosts import HostOptions
from any2vec.sync.options.run_hosts import RunHosts
from any2vec.sync.options.trainers import TrainerOptions
from any2vec.train.host import FitRequest, Host, Made, first_other
from any2vec.train.out_of_core.table_options import TableOptions
from any2vec.train.run_folder import is_finished, open_finished, own_folder, remove_table
from any2vec.train.words.host import SequenceHost
from any2vec.train.words.parts import prepare_part
from any2vec.train.words.prepare import Prepared, Stage, graph_facts, open_graph, prepare, prepare_travelling
from any2vec.train.words.start import start_digest
from any2vec.train.words.table import sequence_host
from any2vec.types import Progress

if TYPE_CHECKING:
    from any2vec.data.clicks.schema import ClickSchema
    from any2vec.data.graph.graph import Graph
    from any2vec.data.graph.node_options import NodeOptions
    from any2vec.data.graph.options import GraphOptions
    from any2vec.data.text.text import TextOptions
    from any2vec.data.triples.options import TripleOptions
    from any2vec.train.clicks.prepare import PreparedClicks
    from any2vec.train.layers.prepare import PreparedNodes
    from any2vec.train.out_of_core.shared_table import SharedTable
    from any2vec.train.out_of_core.table_host import TableHost
    from any2vec.train.triples.prepare import PreparedTriples


Found = TypeVar("Found")


@dataclass(frozen=True, kw_only=True)
class Call:
    """The arguments of `fit`."""

    model: SequenceModel | ClickModel | TripleModel | GAMLP
    data: Any
    epochs: int
    threads: int
    """of each host; 0 = this machine's cores, shared out over the hosts that are on it"""
    seed: int
    out: Path | None
    resume: bool
    init: Embeddings | str | Path | None
    callback: Callable[[Progress], None] | None
    on_epoch: Callable[[int, Embeddings], None] | None
    stage: Stage | None
    checkpoint_seconds: float
    text: TextOptions | None
    graph: GraphOptions | None
    schema: ClickSchema | None = None
    triples: TripleOptions | None = None
    nodes: NodeOptions | None = None
    table: TableOptions = field(default_factory=TableOptions)
    cache_dir: Path | None
    hosts: RunHosts
    started: float
    """moment of `time.perf_counter` at which the call came"""

    def run(self) -> Made:
        """Train in this process, on one host or on several logical ones."""
        num_logical = self.hosts.num_ranks or 1
        init = self._init()
        if self.hosts.holds_parts:
            graph = self._graph()

            def host(transport: Transport) -> Made | None:
                return self._run_part(transport, init, num_logical, graph)

        else:
            prepared = self._prepared()
            request = self._request(prepared.facts, init, num_logical, num_logical)
            if (finished := _finished(request)) is not None:
                return finished

            def host(transport: Transport) -> Made | None:
                return self._host(request, prepared, init, transport).train()

        with self._single_threads():
            if self.hosts.logical_hosts is None:
                made = host(LoneTransport())
            else:
                made = run_logical(num_logical, host, self._link())[0]
        assert made is not None
        return made

    def run_joined(self) -> Made | None:
        """Train as one of the processes that torchrun, Ray or a parent has started; None on ranks other than 0.

        Raises:
            HostError: another host is lost, or was asked for something else, or sees other data.
        """
        local_hosts = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
        keep_freed_memory()
        with join(self._fingerprint(), self._link(), silence=self.hosts.host_timeout) as transport:
            if self.hosts.holds_parts:
                graph = self._read_in_turn(transport, self._graph)
                with self._single_threads():
                    return self._run_part(transport, self._init(), local_hosts, graph)
            prepared, init = self._read_in_turn(transport, lambda: (self._prepared(), self._init()))
            request = self._request(prepared.facts, init, local_hosts, transport.hosts)
            is_over, finished = _settled(request, transport)
            if is_over:
                return finished
            transport.counters = Counters()  # what follows is the run, counted alike on any transport
            with self._single_threads():
                return self._host(request, prepared, init, transport).train()

    def _run_part(
        self, transport: Transport, init: Embeddings | None, local_hosts: int, graph: Graph | None
    ) -> Made | None:
        """Take this host's own part of the data and train on it; what the hosts count together is counted as bytes."""
        transport.counters = Counters()
        assert isinstance(self.model, SequenceModel) and isinstance(self.hosts, HostOptions)
        if graph is None:
            prepared = prepare_part(
                self.model, self.data, transport, text=self.text, cache_dir=self.cache_dir, stage=self.stage
            )
            facts = prepared.facts
        else:  # prepared when there is something left to do, for that takes walks through all of the graph
            facts = graph_facts(self.model, graph)
        request = self._request(facts, init, local_hosts, transport.hosts)
        is_over, finished = _settled(request, transport)
        if is_over:
            return finished
        if graph is not None:
            assert self.hosts.partition is not None
            prepared = prepare_travelling(self.model, graph, facts, transport, self.hosts.partition, self.seed)
        return SequenceHost(request, prepared, init, transport).train()

    def _read_in_turn(self, transport: Transport, read: Callable[[], Found]) -> Found:
        """The first host of each machine reads the data, the others find them cached."""
        is_first = os.environ.get("LOCAL_RANK", "0") == "0"
        if not is_first:
            transport.barrier("read", timeout=LONG_WORK)
        found = read()
        if is_first:
            transport.barrier("read", timeout=LONG_WORK)
        return found

    def _prepared(self) -> Prepared | PreparedClicks | PreparedTriples | PreparedNodes:
        """Read the data, whole."""
        if isinstance(self.model, ClickModel):
            from any2vec.train.clicks.prepare import prepare_clicks

            return prepare_clicks(self.data, self.schema, self.cache_dir, self.stage)
        if isinstance(self.model, TripleModel):
            from any2vec.train.triples.prepare import prepare_triples

            return prepare_triples(self.data, self.triples, self.stage, self.cache_dir)
        if isinstance(self.model, GAMLP):
            from any2vec.train.layers.prepare import prepare_nodes

            return prepare_nodes(self.model, self.data, self.nodes, self.graph, self.cache_dir, self.stage)
        return prepare(
            self.model, self.data, threads=self.threads or usable_cores(), seed=self.seed, text=self.text,
            graph=self.graph, cache_dir=self.cache_dir, stage=self.stage,
        )  # fmt: skip

    def _host(
        self, request: FitRequest, prepared: Any, init: Embeddings | None, transport: Transport
    ) -> Host | TableHost | SharedTable:
        if isinstance(self.model, ClickModel):
            from any2vec.train.clicks.host import ClickHost

            return ClickHost(request, prepared, transport)
        if isinstance(self.model, TripleModel):
            from any2vec.train.triples.table import triple_host

            return triple_host(request, prepared, transport)
        if isinstance(self.model, GAMLP):
            from any2vec.train.layers.host import node_host

            return node_host(request, prepared, transport)
        return sequence_host(request, prepared, init, transport)

    def _graph(self) -> Graph | None:
        """The graph that is to be cut into parts, if one is: mapped from the cache, where it comes from a file."""
        if not isinstance(self.hosts, HostOptions) or self.hosts.partition is None:
            return None
        return open_graph(self.data, self.graph, self.cache_dir, self.stage)

    def _init(self) -> Embeddings | None:
        """The start vectors, if there are any."""
        return self.init if self.init is None or isinstance(self.init, Embeddings) else Embeddings.load(self.init)

    def _request(self, facts: dict[str, Any], init: Embeddings | None, local_hosts: int, hosts: int) -> FitRequest:
        """What is asked of one of so many hosts. facts: of the data; local_hosts: those that share this machine."""
        settings = {
            "model": self.model.as_dict(), "epochs": self.epochs, "seed": self.seed, "data": facts,
            "init": None if init is None else start_digest(init), **self.table.settings(self.model),
            **({"hosts": hosts} if isinstance(self.model, TripleModel) and hosts > 1 else {}),
        }  # fmt: skip
        return FitRequest(
            model=self.model, epochs=self.epochs, threads=self.threads or own_threads(self.hosts, local_hosts),
            seed=self.seed, out=self.out, resume=self.resume, checkpoint_seconds=self.checkpoint_seconds,
            callback=self.callback, stage=self.stage, on_epoch=self.on_epoch,
            agree=self.hosts if self.hosts.is_spread or joined() else None, settings=settings, started=self.started,
            table=self.table,
        )  # fmt: skip

    @contextmanager
    def _single_threads(self) -> Iterator[None]:
        """Kernels and workers multiply small matrices on each of our own threads, which others' would fight."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(limits=1, user_api="blas"), ExitStack() as stack:
            if isinstance(self.model, ClickModel) or (isinstance(self.model, GAMLP) and self.model.trainer != "pdadmm"):
                from any2vec.models.clicks.nets import single_thread

                stack.enter_context(single_thread())
            yield

    def _link(self) -> LinkModel | None:
        return None if self.hosts.link is None else parse_link(self.hosts.link)

    def _fingerprint(self) -> str:
        """What all hosts must have been asked for alike; data and start vectors are compared when they are read."""
        run = {"epochs": self.epochs, "threads": self.threads, "seed": self.seed, "resume": self.resume}
        reading = {} if self.text is None else asdict(self.text)
        reading |= {} if self.graph is None else asdict(self.graph)
        reading |= {} if self.schema is None else {"schema": self.schema.to_dict()}
        reading |= {} if self.triples is None else asdict(self.triples)
        reading |= {} if self.table.memory is None else asdict(self.table)
        return json.dumps(self.model.as_dict() | run | asdict(self.hosts) | reading)


def _settled(request: FitRequest, transport: Transport) -> tuple[bool, Made | None]:
    """(whether there is nothing left to do, what rank 0 then returns): a collective call.

    Raises:
        JobError: not all hosts see the same data and start vectors.
    """
    other = first_other(transport, json.dumps(request.settings, sort_keys=True), "settings")
    if other >= 0:
        raise JobError(
            f"Rank {other} has read other data, or other start vectors, than rank 0; give all hosts the same files."
        )
    finished = _finished(request) if transport.rank == 0 else None
    return bool(transport.share([control(finished is not None)], "finished")[0].array[0]), finished


def _finished(request: FitRequest) -> Made | None:
    """What a former run has left in the folder, where this one is to go on from it and nothing is left to do."""
    if not request.resume or request.out is None or not is_finished(request.out):
        return None
    made = Made(*open_finished(request.out, request.settings), [])
    if isinstance(request.model, ClickModel):
        from any2vec.models.clicks.scorer import ClickScorer

        return replace(made, scorer=ClickScorer.load(request.out))
    if request.table.memory is not None:
        with own_folder(request.out):
            remove_table(request.out)  # of a run that was killed behind its result
    if isinstance(request.model, TripleModel):
        from any2vec.models.triples.scorer import TripleScorer

        return replace(made, scorer=TripleScorer.load(request.out))
    if isinstance(request.model, GAMLP):
        from any2vec.models.layers.classifier import NodeClassifier

        return replace(made, scorer=NodeClassifier.load(request.out))
    return made


def own_threads(hosts: RunHosts, local_hosts: int) -> int:
    """Threads of a host that nobody gave a number; local_hosts share this machine's cores."""
    if isinstance(hosts, TrainerOptions) and hosts.is_in_step:
        return 1
    return max(1, usable_cores() // local_hosts)
