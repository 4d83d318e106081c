"""`any2vec.fit`: one call from data to embeddings, with records, checkpoints and a clean stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from any2vec.checks import check_run
from any2vec.cluster.launch.join import check_torch, is_first, joined, restarts
from any2vec.data.io.storage import RESULT_FORMAT, check_folder_free
from any2vec.embeddings import Embeddings
from any2vec.errors import InputError
from any2vec.models.clicks.config import ClickModel
from any2vec.models.layers.ga_mlp import GAMLP
from any2vec.models.layers.options import LayerOptions
from any2vec.models.triples.config import TripleModel
from any2vec.models.words.config import SequenceModel
from any2vec.models.words.ngram import NGram
from any2vec.sync.options.hosts import HostOptions
from any2vec.sync.options.run_hosts import TableHosts
from any2vec.sync.options.trainers import TrainerOptions
from any2vec.train.call import Call
from any2vec.train.clicks.prepare import check_clicks, schema_of
from any2vec.train.job import TrainJob
from any2vec.train.out_of_core.table_options import TableOptions
from any2vec.train.run_folder import check_not_begun, check_resumable, make_way, own_folder
from any2vec.train.spread import train_in_processes
from any2vec.train.triples.prepare import check_triples
from any2vec.train.words.parts import check_parts
from any2vec.train.words.prepare import Stage, check_partition
from any2vec.train.words.table import check_table
from any2vec.types import Progress

if TYPE_CHECKING:
    from any2vec.data.clicks.schema import ClickSchema
    from any2vec.data.graph.node_options import NodeOptions
    from any2vec.data.graph.options import GraphOptions
    from any2vec.data.text.text import TextOptions
    from any2vec.data.triples.options import TripleOptions

SpreadHosts = HostOptions | TrainerOptions | TableHosts | LayerOptions
"""how a run is spread: models of sequences, of clicks, of triples, of classes of nodes"""
_KINDS: dict[type, type[SpreadHosts]] = {
    SequenceModel: HostOptions, ClickModel: TrainerOptions, TripleModel: TableHosts, GAMLP: LayerOptions,
}  # fmt: skip


@dataclass(frozen=True)
class FitResult:
    """What a run made."""

    embeddings: Embeddings
    """None on ranks other than 0 of a run under torchrun"""
    summary: dict[str, Any]
    """items, items_per_s, seconds, train_seconds, compile_seconds, loss, peak_rss_bytes, rows, dim, ..."""
    progress: list[Progress]
    path: Path | None
    """the run folder, if one was asked for"""
    scorer: Any = None
    """of a model of clicks its `ClickScorer`, of triples its `TripleScorer`, of nodes its `NodeClassifier`"""


def fit(
    model: SequenceModel | ClickModel | TripleModel | GAMLP,
    data: Any,
    *,
    epochs: int | None = None,
    threads: int = 0,
    seed: int = 1,
    out: str | Path | None = None,
    overwrite: bool = False,
    resume: bool = False,
    init: Embeddings | str | Path | None = None,
    callback: Callable[[Progress], None] | None = None,
    on_epoch: Callable[[int, Embeddings], None] | None = None,
    stage: Stage | None = None,
    checkpoint_seconds: float = 300.0,
    text: TextOptions | None = None,
    graph: GraphOptions | None = None,
    schema: ClickSchema | str | Path | None = None,
    triples: TripleOptions | None = None,
    nodes: NodeOptions | None = None,
    cache_dir: str | Path | None = None,
    hosts: SpreadHosts | int | None = None,
    memory: str | int | None = None,
    order: str | None = None,
    staleness_bound: int | None = None,
) -> FitResult:
    """Train `model` on `data`.

    Args:
        model: SkipGram, CBOW, NGram, DeepWalk or Node2Vec; DLRM, DeepFM, FactorisationMachine or LogisticRegression;
            ComplEx, DistMult, TransE, RotatE or DotProduct; GAMLP.
        data: for words: a path, glob, folder, "-" (standard input), list of those, iterable of sentences (strings,
            lists of strings or of integers) or an opened `Corpus`; for nodes: an edge list and its kin, a SciPy,
            NetworkX or PyG graph, an opened `Graph`, or walks that `any2vec walk` stored; for clicks: TSV, CSV,
            Parquet or Arrow files, or opened `Clicks`; for triples: whatever `read_triples` reads; for GAMLP a graph.
        epochs: passes over the data, 1 or more; None: 5 for words, 1 for nodes and clicks, 24 for triples, 200 for
            GAMLP.
        threads: training threads; 0 = all usable cores. One thread: the same seed gives the same bits; several:
            Hogwild (Recht et al. 2011), statistically equal.
        seed: of every random draw, 0 or more.
        out: run folder to write; None keeps the result in memory alone, without checkpoints.
        overwrite: replace the run that is in `out`; its result stays until the new one is whole.
        resume: go on from the checkpoint in `out`, or start afresh if there is none; a finished run stands as it is.
        init: vectors to start from, matched by key; keys that the data lack are kept. For words and nodes.
        callback: hears every progress record.
        on_epoch: called at the end of each epoch with (its number from 1, the vectors so far); they change when it
            returns. Under torchrun rank 0's is called, and no other need be given.
        stage: hears how far reading is: (name, bytes done, bytes in all or None).
        checkpoint_seconds: between checkpoints, more than 0.
        text, graph, triples: reading options.
        nodes: of GAMLP: features, labels and split of the graph's nodes.
        schema: which columns of clicks are what: a `ClickSchema`, criteo, avazu, or a TOML file.
        cache_dir: where encoded data are kept; triples are not.
        hosts: over how many hosts the run is spread and how they agree (`TrainerOptions` for clicks, `TableHosts` for
            triples, `LayerOptions` for GAMLP); a number: so many processes of this machine.
        memory, order, staleness_bound: of models of triples and of skip-gram over words and nodes, as `TableOptions`
            has them: bytes (2_000_000_000, "2GB") that the process may have; a table that does not fit is trained from
            the disk, in `out`.

    Returns:
        The result; its embeddings have the input rows as `vectors` and the output rows as `output`. Of clicks, the rows
        of all columns, and a `scorer`; of triples, the rows of entities, and a `scorer` that has those of relations.

    Raises:
        InputError: an option is not legal, or does not go with the data or the checkpoint.
        DataError: the data cannot be read.
        StorageError: `out` is taken or cannot be written, or the disk is full.
        HostError: a host was lost, hosts do not run the same job, or one of several processes failed: its sentence.
        Interrupted: Ctrl-C or SIGTERM; the work so far is in `out`/checkpoint.safetensors.

    Memory: two float32 tables of rows x dim, plus the vocabulary; data are memory-mapped.
    """
    started = time.perf_counter()
    check_run(epochs, threads, seed, checkpoint_seconds)
    spread = _hosts_of(model, hosts)
    if isinstance(model, ClickModel):
        check_clicks(model, spread, threads, text, graph, init, on_epoch)
    elif schema is not None:
        raise InputError(f"schema is for clicks, and {model.name} reads none; leave it out.")
    if isinstance(model, TripleModel):
        check_triples(spread, memory, order, text=text, graph=graph, init=init, cache_dir=cache_dir)
    elif triples is not None:
        raise InputError(f"triples is for models of triples, not {model.name}; leave it out.")
    if isinstance(model, NGram):
        _check_ngram(spread, memory, init)
    if memory is not None and not isinstance(model, TripleModel):
        check_table(model, spread, init)
    if isinstance(model, GAMLP):
        from any2vec.train.layers.prepare import check_nodes

        assert isinstance(spread, LayerOptions)
        check_nodes(model, spread, threads, nodes, text=text, init=init, on_epoch=on_epoch)
        threads = 1
    elif nodes is not None:
        raise InputError(f"nodes is for ga-mlp, not {model.name}; leave it out.")
    wanted = None if schema is None else schema_of(schema)
    bytes_ = None if memory is None else str(memory)
    table = TableOptions(memory=bytes_, order=cast(Any, order), staleness_bound=staleness_bound)
    if isinstance(spread, HostOptions) and isinstance(model, SequenceModel):
        if spread.read == "parts":
            check_parts(model, data)
        if spread.partition is not None:
            check_partition(model, data)
    if isinstance(model, ClickModel):
        check_torch("Models of clicks")  # after all refusals that hold whatever is installed
    folder, resume = _folder_of(out, overwrite, resume, spread, init)
    epochs = model.default_epochs if epochs is None else int(epochs)
    if folder is not None and resume and not joined():  # hosts that have joined look at it together
        check_resumable(folder, {"model": model.as_dict(), "epochs": epochs, "seed": int(seed)})
    is_several = spread.hosts is not None and ((spread.num_ranks or 1) > 1 or spread.restarts > 0)
    if (is_several or spread.ray is not None) and not joined():
        if on_epoch is not None:
            raise InputError("on_epoch is called where training happens: use logical_hosts, or start with torchrun.")
        check_torch()
        job = TrainJob(
            model=model, data=[], text=text, graph=graph, schema=wanted, hosts=spread, triples=triples, nodes=nodes,
            arguments={
                "epochs": epochs, "threads": threads, "seed": seed, "out": folder, "overwrite": overwrite,
                "resume": resume, "init": init, "checkpoint_seconds": checkpoint_seconds, "cache_dir": cache_dir,
                **({} if memory is None else asdict(table)),
            },
        )  # fmt: skip
        embeddings, summary, records, scorer = train_in_processes(job, data, callback, stage)
        return FitResult(embeddings, summary, records, folder, scorer)
    call = Call(
        model=model, data=data, epochs=epochs, threads=int(threads), seed=int(seed), out=folder, resume=resume,
        init=init, callback=callback, on_epoch=on_epoch, stage=stage, checkpoint_seconds=checkpoint_seconds,
        text=text, graph=graph, schema=wanted, triples=triples, nodes=nodes, table=table,
        cache_dir=None if cache_dir is None else Path(cache_dir), hosts=spread, started=started,
    )  # fmt: skip
    made = call.run_joined() if joined() else call.run()
    if made is None:  # this is another rank
        return FitResult(None, {}, [], None)  # type: ignore[arg-type]
    return FitResult(made.embeddings, made.summary, made.records, folder, made.scorer)


def _hosts_of(model: Any, hosts: SpreadHosts | int | None) -> SpreadHosts:
    """The hosts of a run of a model, checked; InputError where they, or the model, are no such thing."""
    kind = next((kind for base, kind in _KINDS.items() if isinstance(model, base)), None)
    if kind is None:
        raise InputError(
            "model must be SkipGram(...), CBOW(...), NGram(...), DeepWalk(...), Node2Vec(...), DLRM(...), DeepFM(...), "
            "FactorisationMachine(...), LogisticRegression(...), ComplEx(...), DistMult(...), TransE(...), "
            f"RotatE(...), DotProduct(...) or GAMLP(...), got {model!r}."
        )
    spread = kind(hosts=hosts) if isinstance(hosts, int) else hosts or kind()
    if not isinstance(spread, kind):
        raise InputError(f"hosts of {model.name} are {kind.__name__}(...), got {spread!r}.")
    if not joined():
        spread.check_alone()
    return spread


def _check_ngram(hosts: SpreadHosts, memory: Any, init: Any) -> None:
    """Raise InputError for an argument that does not go with words made of n-grams."""
    if hosts.is_spread or hosts.ray is not None or joined():
        raise InputError("ngram trains on one host; leave out the hosts, or take skipgram.")
    for name, value, why in (
        ("memory", memory, "its rows are all in memory"),
        ("init", init, "its vectors are means of rows, which no vectors tell"),
    ):
        if value is not None:
            raise InputError(f"{name} does not apply to ngram: {why}; leave it out.")


def _folder_of(
    out: str | Path | None, overwrite: bool, resume: bool, spread: SpreadHosts, init: Any
) -> tuple[Path | None, bool]:
    """The run folder, which may be written, and whether the run goes on from what is in it."""
    again, allowed = restarts()  # by torchrun: the hosts then go on from the last checkpoint
    folder, resume = None if out is None else Path(out), resume or again > 0
    if folder is not None and is_first():
        if not (overwrite or resume):
            check_not_begun(folder)
        check_folder_free(folder, overwrite or resume, RESULT_FORMAT)
        _check_apart(init, folder)
        with own_folder(folder):  # who may not have it hears so before data are read
            if not resume and (spread.restarts or allowed):
                make_way(folder)  # now, or a restart would take the former result for its own
    if spread.restarts and folder is None:
        raise InputError("Restarts go on from checkpoints: say where the run keeps them, out.")
    return folder, resume


def _check_apart(init: Any, out: Path) -> None:
    """A run replaces what stands in its folder: it cannot start from vectors in there."""
    if isinstance(init, str | Path) and Path(init).resolve().is_relative_to(out.resolve()):
        raise InputError(f"The vectors to start from lie in {out}, which the run writes; choose another folder for it.")
