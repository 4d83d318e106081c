"""`any2vec.fit`: one call from data to embeddings, with records, checkpoints and a clean stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from any2vec.callbacks.base import Callback, Told
from any2vec.callbacks.progress_line import ProgressLine
from any2vec.checks import plain_number
from any2vec.cluster.launch.join import check_torch, is_first, joined, restarts
from any2vec.cluster.launch.rendezvous import variable
from any2vec.embeddings import Embeddings
from any2vec.errors import InputError
from any2vec.options.given import check_called, given_options, given_path, given_readings
from any2vec.options.hosts import HostOptions
from any2vec.options.named import named_options
from any2vec.options.run import RunOptions
from any2vec.options.storage import StorageOptions
from any2vec.options.sync import SyncOptions
from any2vec.train.launch import train_in_processes
from any2vec.train.registry import model_named, task_named, task_of
from any2vec.train.result import Result
from any2vec.train.run import run_here, run_joined
from any2vec.train.run_folder import check_resumable, has_table
from any2vec.train.spec import Hooks, RunSpec
from any2vec.train.task import Task, check_spread, check_validation, refuse_absent
from any2vec.types import Progress, Stage

if TYPE_CHECKING:
    from any2vec.data.clicks.schema import ClickSchema
    from any2vec.data.interactions.options import InteractionOptions
    from any2vec.data.options import GraphOptions, NodeOptions, TripleOptions
    from any2vec.data.text.text import TextOptions


@dataclass(frozen=True)
class FitResult:
    """What a run made."""

    embeddings: Embeddings
    """None on ranks other than 0 of a run under torchrun, which the type leaves out"""
    summary: dict[str, Any]
    """items, items_per_s, seconds (of the whole call; in the files of the run until they were written), train_seconds,
    compile_seconds, loss, peak_rss_bytes, rows, dim, ..."""
    progress: list[Any]
    """records: `Progress`, of streams the newest thousand `StreamProgress`"""
    path: Path | None
    """the run folder, if one was asked for"""
    scorer: Any = None
    """of a model of clicks its `ClickScorer`, of triples its `TripleScorer`, of interactions its `Recommender`, of
    nodes its `NodeClassifier`, or `NetworkClassifier`"""

    def __repr__(self) -> str:
        said = [str(self.summary.get("model", "")), repr(self.embeddings)]
        said += [f"loss {self.summary['loss']:.4g}"] if isinstance(self.summary.get("loss"), float) else []
        said += [f"{self.summary['seconds']:.1f} s"] if "seconds" in self.summary else []
        said += [] if self.scorer is None else [type(self.scorer).__name__]
        said += [] if self.path is None else [repr(str(self.path))]
        return f"FitResult({', '.join(filter(None, said))})"


@named_options(lambda name: model_named(name)())
def fit(
    model: Any,
    data: Any,
    *,
    epochs: int | None = None,
    threads: int = 0,
    seed: int = 1,
    out: str | Path | None = None,
    overwrite: bool = False,
    resume: bool = False,
    init: Embeddings | FitResult | str | Path | None = None,
    callback: Callable[[Progress], None] | None = None,
    callbacks: Sequence[Callback] | Callback = (),
    progress: bool = False,
    on_epoch: Callable[[int, Embeddings], None] | None = None,
    stage: Stage | None = None,
    checkpoint_seconds: float = 300.0,
    validate: Any = None,
    patience: int = 0,
    text: TextOptions | None = None,
    graph: GraphOptions | None = None,
    schema: ClickSchema | Mapping[str, Any] | str | Path | None = None,
    triples: TripleOptions | None = None,
    interactions: InteractionOptions | None = None,
    nodes: NodeOptions | None = None,
    reading: Mapping[str, Any] | None = None,
    cache_dir: str | Path | None = None,
    hosts: HostOptions | int | None = None,
    sync: SyncOptions | str | None = None,
    storage: StorageOptions | str | int | None = None,
) -> FitResult:
    """Train `model` on `data`.

    Args:
        model: the config of a model: SkipGram, CBOW, NGram, DeepWalk or Node2Vec; DLRM, DeepFM, FactorizationMachine
            or LogisticRegression; BPR, ALS or Item2Vec; ComplEx, DistMult, TransE, RotatE or DotProduct; GAMLP;
            GraphSAGE, GCN, GAT, GATv2, GIN, GINE, APPNP or SGC; or its name on the command line ("skipgram") for its
            defaults.
        data: for words: a path, glob, folder, "-" (standard input), list of those, iterable of sentences (strings,
            lists of strings or of integers) or an opened `Corpus`; for nodes: an edge list or other graph file, a table
            (pandas, Polars, Arrow), a SciPy, NetworkX or PyG graph, an opened `Graph`, or walks that `any2vec walk`
            stored; for clicks: files (TSV, CSV, Parquet ...), a table, or opened `Clicks`; for triples: any input of
            `read_triples`; for BPR, ALS and Item2Vec: any input of `read_interactions`; for GAMLP and graph
            networks: a graph, and for graph networks also an `AttributedGraph`.
        epochs: passes over the data, 1 or more; None: 5 for words, 1 for nodes and clicks, 24 for triples, 60, 15
            and 20 for BPR, ALS and Item2Vec, 200 for GAMLP, 100 for SGC, 50 for other graph networks.
        threads: training threads; 0 = all usable cores. One thread: the same seed gives the same bits; several:
            Hogwild (Recht et al. 2011), statistically equal.
        seed: of every random draw, 0 or more.
        out: run folder to write; None keeps the result only in memory, without checkpoints.
        overwrite: replace the run in `out`; its result stays until the new one is complete.
        resume: continue from the checkpoint in `out`, or start a new run if there is none; a finished run is kept.
        init: vectors, or the result of a run, to start from, matched by key: known keys continue from their vectors,
            new keys start from random values, keys absent from the data are kept, and counts are added up. For words
            and nodes.
        callback: called with every progress record.
        callbacks: one or several, are told of the start, the records, the validations and the end (`Callback`): those
            of TensorBoard, MLflow, Weights & Biases, or your own.
        progress: show the progress of the run: one line in a notebook or a terminal, otherwise an occasional line.
        on_epoch: called at the end of each epoch with (its number from 1, the vectors so far); the vectors change
            after it returns. Under torchrun only rank 0's is called; other ranks need none.
        stage: called with the progress of reading: (name, bytes done, total bytes or None).
        checkpoint_seconds: seconds between checkpoints, more than 0.
        validate: data to score each epoch on, in any form that `data` can have: triples (filtered MRR, hits; a sample
            if there are very many) or rows of clicks (AUC, log-loss); for words, files, a table or a list of
            (word, word, score) with human similarity scores (Spearman). Or the share of triples or clicks, between 0
            and 1, to hold out. The result is the best epoch, of which memory holds a second copy; metrics are in the
            records and in `summary["validation"]`. Graph networks validate on the split of their nodes.
        patience: stop after this many epochs without improvement; 0: never.
        text, graph, triples, interactions: reading options, or a dict of them; likewise nodes, hosts, sync, storage.
        nodes: for GAMLP and graph networks: features, labels and split of the graph's nodes.
        schema: the roles of click columns: a `ClickSchema`, a dict of its fields, criteo, avazu, or a TOML file.
        reading: reading options of a task from another package, by their kind.
        cache_dir: folder for encoded data; triples are not cached.
        hosts: the number of hosts and their roles; a number: that many processes of this machine.
        sync: how the hosts synchronize; a string: the name of the method.
        storage: where rows are kept: a size (2_000_000_000, "2GB") limits the memory of the process; a table that does
            not fit is trained from disk, in `out`. For triples, and for skip-gram over words and nodes.

    Returns:
        The result; its embeddings have the input rows as `vectors` and the output rows as `output`. For clicks, these
        are the rows of all columns, with a `scorer`; for triples, the rows of entities, and a `scorer` with those of
        relations.

    Raises:
        InputError: an option is not legal, or does not go with the data or the checkpoint.
        DataError: the data cannot be read.
        StorageError: `out` is taken or cannot be written, or the disk is full.
        HostError: a host was lost, hosts do not run the same job, or one of several processes failed: its sentence.
        Interrupted: Ctrl-C, SIGTERM or SIGHUP; the work so far is in `out`/checkpoint.safetensors.

    Memory: for words and nodes two float32 tables of rows x dim, plus the vocabulary; data are memory-mapped. For other
    models see `any2vec estimate`.
    """
    started = time.perf_counter()
    check_called(callback=callback, on_epoch=on_epoch, stage=stage)
    config = model_named(model)() if isinstance(model, str) else model
    task = task_of(config)
    given: dict[str, Any] = {
        "text": text, "graph": graph, "triples": triples, "interactions": interactions, "nodes": nodes,
    }  # fmt: skip
    if schema is not None:
        from any2vec.data.clicks.schema import ClickReading, ClickSchema

        given["clicks"] = ClickReading(schema=ClickSchema.of(schema))  # type: ignore[arg-type]
    spec = RunSpec(
        task=task.name, model=config, data=data,
        reading=given_readings(task.reading, given, reading),
        run=RunOptions(
            epochs=epochs, threads=threads, seed=seed, out=given_path("out", out), resume=resume,
            overwrite=overwrite, init=_start_of(init), checkpoint_seconds=checkpoint_seconds,
            cache_dir=given_path("cache_dir", cache_dir), validate=validate, patience=patience,
        ),
        hosts=options_of("hosts", hosts), sync=options_of("sync", sync), storage=options_of("storage", storage),
    )  # fmt: skip
    told = Told(callbacks)
    if progress:
        told.callbacks.insert(0, ProgressLine())
    hooks = Hooks(progress=told.with_record(callback), stage=stage, on_epoch=on_epoch)
    if not is_first():
        return train(spec, hooks, started)
    told.check_apart(spec.run.out)
    run = spec.run
    options = {"task": task.name, **config.as_dict(), "epochs": run.epochs or config.default_epochs, "seed": run.seed}
    with told.run(options | {"threads": run.threads, "out": None if out is None else str(out)}):
        found = train(spec, hooks, started)
        told.summary = found.summary
        return found


_SHORT: Mapping[str, tuple[Any, str, tuple[type, ...], str]] = {
    "hosts": (HostOptions, "hosts", (int,), "a number"),
    "sync": (SyncOptions, "sync", (str,), "the name of an agreement"),
    "storage": (StorageOptions, "memory", (int, str), "a size such as 2GB"),
}
"""argument -> its class, the field that may be given instead, its types, what it is"""


def options_of(argument: str, given: Any) -> Any:
    """The options that an argument (hosts, sync, storage) stands for.

    Raises:
        InputError: it is neither the options, nor a dict of them, nor the field that may be given instead.
    """
    (kind, field, types, what), given = _SHORT[argument], plain_number(given)
    if given is None:
        return kind()
    if isinstance(given, Mapping):
        return given_options(argument, given, kind)
    if isinstance(given, types) and not isinstance(given, bool):
        return kind(**{field: given})
    if not isinstance(given, kind):
        raise InputError(f"{argument} must be {kind.__name__}(...) or {what}, got {given!r}.")
    return given


def _start_of(init: Any) -> Any:
    """Vectors to start from, or the path where they lie. InputError: it is neither."""
    if init is None or isinstance(init, Embeddings):
        return init
    if isinstance(init, str | Path):
        return Path(init)
    if isinstance(made := getattr(init, "embeddings", None), Embeddings):  # of a result
        return made
    raise InputError(
        f"init takes Embeddings, a result of fit or the path of one, got {type(init).__name__}; make them by "
        "Embeddings.from_gensim(vectors), or of an array by Embeddings(keys, array)."
    )


def train(spec: RunSpec, hooks: Hooks, started: float, is_worker: bool = False) -> FitResult:
    """Carry a run out: here, or in processes that are started for it. Raises what `fit` raises.

    started: moment of `time.perf_counter` at which the run was asked for; is_worker: our own launcher made this
    process, by the options of hosts.
    """
    task = task_named(spec.task)
    refuse_absent(task, spec)
    restarts()  # a count that is none is told now, and not where the summary has it
    if not joined():
        check_spread(spec)
    elif not is_worker:
        _check_joined(task, spec)
    if task.ends:
        check_validation(spec, "validate" in task.options_of(spec.model.name).get("run", ()))
    task.check(spec, hooks)
    if task.ends:
        spec = _with_epochs(_with_folder(task, spec))
    hosts = spec.hosts
    is_several = hosts.hosts is not None and ((task.num_ranks(spec) or 1) > 1 or hosts.restarts > 0)
    if (is_several or hosts.ray is not None) and not joined():
        if hooks.on_epoch is not None:
            raise InputError("on_epoch is called where training happens: use logical_hosts, or start with torchrun.")
        check_torch()
        made: Result | None = train_in_processes(spec, hooks)
    else:
        made = run_joined(spec, hooks, started) if joined() else run_here(spec, hooks, started)
    if made is None:  # this is another rank
        return FitResult(None, {}, [], None)  # type: ignore[arg-type]
    # With processes that are started and files that are written; of a run that was finished before, what it took then.
    made.summary["seconds"] = max(made.summary["seconds"], time.perf_counter() - started)
    return FitResult(made.embeddings, made.summary, made.records, spec.run.out, made.scorer)


def _check_joined(task: Task, spec: RunSpec) -> None:
    """Raise InputError for options that start hosts, where torchrun has: they would do nothing."""
    hosts, found = spec.hosts, variable("WORLD_SIZE")
    fix = {"logical_hosts": "unset these two", "ray": "unset these two", "restarts": "say torchrun --max-restarts"}
    for name, instead in fix.items():
        if getattr(hosts, name):
            raise InputError(
                f"--{name.replace('_', '-')} ({name} = {getattr(hosts, name)!r}) does nothing where torchrun, or who "
                f"set RANK and WORLD_SIZE, has started the hosts; leave it out, or {instead}."
            )
    if hosts.hosts is not None and task.num_ranks(spec) != found:
        raise InputError(
            f"--hosts {hosts.hosts} is for {task.num_ranks(spec):,} processes, and torchrun, or who set WORLD_SIZE, "
            f"has started {found:,}; start as many, or leave --hosts out."
        )


def _with_folder(task: Task, spec: RunSpec) -> RunSpec:
    """The spec, whose run folder may be written; hosts that are to join claim it once they have, together."""
    folder = spec.run.out
    if folder is not None and spec.run.resume and spec.storage.memory is None and has_table(folder):
        raise InputError(  # in memory its work would be done again
            f"{folder} holds an unfinished run with its table on disk: go on with the memory (--memory) that it began "
            "with, or start again with overwrite (--overwrite)."
        )
    if folder is not None and not joined():
        task.claim(spec, may_start_again=False)
    if folder is None and (spec.run.resume or spec.run.overwrite):
        name = "resume" if spec.run.resume else "overwrite"
        raise InputError(f"{name} is of a run folder: say which, out, or leave it away.")
    if spec.hosts.restarts and folder is None:
        raise InputError("Restarts go on from checkpoints: say where the run keeps them, out.")
    return spec


def _with_epochs(spec: RunSpec) -> RunSpec:
    """The spec, whose epochs are known; a run that goes on had as many."""
    epochs = spec.model.default_epochs if spec.run.epochs is None else int(spec.run.epochs)
    if spec.run.out is not None and spec.run.resume and not joined():  # hosts that have joined look at it together
        settings = {"model": spec.model.as_dict(), "epochs": epochs, "seed": int(spec.run.seed)}
        check_resumable(spec.run.out, settings)
    return replace(spec, run=replace(spec.run, epochs=epochs))
