"""`any2vec.fit`: one call from data to embeddings, with records, checkpoints and a clean stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from any2vec.checks import check_run
from any2vec.data.storage import RESULT_FORMAT, check_folder_free
from any2vec.embeddings import Embeddings
from any2vec.errors import FormatError, InputError
from any2vec.machine import peak_resident_bytes, resident_bytes, usable_cores
from any2vec.models.config import SequenceModel
from any2vec.models.learner import SequenceLearner
from any2vec.plan.schedule import EpochSchedule
from any2vec.tables.memory import MemoryTable
from any2vec.train.checkpoint import FILE, load_checkpoint
from any2vec.train.keeper import Keeper, stop_signals
from any2vec.train.loop import Alone, run
from any2vec.train.prepare import Prepared, Stage, prepare, remarks
from any2vec.train.progress import Recorder, cut_log
from any2vec.train.run_folder import is_finished, open_finished, run_folder, write_result
from any2vec.train.start import carry_over, fresh_tables, start_digest
from any2vec.types import Progress

if TYPE_CHECKING:
    from any2vec.data.edges import GraphOptions
    from any2vec.data.text import TextOptions


@dataclass(frozen=True)
class FitResult:
    """What a run made."""

    embeddings: Embeddings
    summary: dict[str, Any]
    """items, items_per_s, seconds, train_seconds, compile_seconds, loss, peak_rss_bytes, rows, dim, ..."""
    progress: list[Progress]
    path: Path | None
    """the run folder, if one was asked for"""


@dataclass(frozen=True, kw_only=True)
class _Request:
    model: SequenceModel
    epochs: int
    threads: int
    seed: int
    out: Path | None
    checkpoint_seconds: float
    callback: Callable[[Progress], None] | None
    stage: Stage | None


def fit(
    model: SequenceModel,
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
    stage: Stage | None = None,
    checkpoint_seconds: float = 300.0,
    text: TextOptions | None = None,
    graph: GraphOptions | None = None,
    cache_dir: str | Path | None = None,
) -> FitResult:
    """Train `model` on `data`.

    Args:
        model: SkipGram, CBOW, DeepWalk or Node2Vec.
        data: for words: a path, glob, folder, "-" (standard input), list of those, iterable of sentences (strings,
            lists of strings or of integers) or an opened `Corpus`; for nodes: an edge list and its kin, a SciPy,
            NetworkX or PyG graph, an opened `Graph`, or walks that `any2vec walk` stored.
        epochs: passes over the data, 1 or more; None: 5 for words, 1 for nodes.
        threads: training threads; 0 = all usable cores. One thread: the same seed gives the same bits; several:
            Hogwild (Recht et al. 2011), statistically equal.
        seed: of every random draw, 0 or more.
        out: run folder to write; None keeps the result in memory alone, without checkpoints.
        overwrite: replace the run that is in `out`.
        resume: go on from the checkpoint in `out`, or start afresh if there is none; a finished run stands as it is.
        init: vectors to start from, matched by key; keys that the data lack are kept.
        callback: hears every progress record.
        stage: hears how far reading is: (name, bytes done, bytes in all or None).
        checkpoint_seconds: between checkpoints, more than 0.
        text, graph: reading options.
        cache_dir: where encoded data are kept.

    Returns:
        The result; its embeddings have the input rows as `vectors` and the output rows as `output`.

    Raises:
        InputError: an option is not legal, or does not go with the data or the checkpoint.
        DataError: the data cannot be read.
        StorageError: `out` is taken or cannot be written, or the disk is full.
        Interrupted: Ctrl-C or SIGTERM; the work so far is in `out`/checkpoint.safetensors.

    Memory: two float32 tables of rows x dim, plus the vocabulary; data are memory-mapped.
    """
    started = time.perf_counter()
    if not isinstance(model, SequenceModel):
        raise InputError(f"model must be SkipGram(...), CBOW(...), DeepWalk(...) or Node2Vec(...), got {model!r}.")
    check_run(epochs, threads, seed, checkpoint_seconds)
    request = _Request(
        model=model,
        epochs=model.default_epochs if epochs is None else int(epochs),
        threads=int(threads) or usable_cores(),
        seed=int(seed),
        out=None if out is None else Path(out),
        checkpoint_seconds=checkpoint_seconds,
        callback=callback,
        stage=stage,
    )
    if request.out is not None:
        check_folder_free(request.out, overwrite or resume, RESULT_FORMAT)
        _check_apart(init, request.out)
    given = init if init is None or isinstance(init, Embeddings) else Embeddings.load(init)
    prepared = prepare(
        model, data, threads=request.threads, seed=request.seed, text=text, graph=graph,
        cache_dir=None if cache_dir is None else Path(cache_dir), stage=stage,
    )  # fmt: skip
    settings = {
        "model": model.as_dict(), "epochs": request.epochs, "seed": request.seed, "data": prepared.facts,
        "init": None if given is None else start_digest(given),
    }  # fmt: skip
    if resume and request.out is not None and is_finished(request.out):
        return FitResult(*open_finished(request.out, settings), [], request.out)
    with _single_blas_thread():
        return _train(request, settings, prepared, given, resume, started)


def _check_apart(init: Any, out: Path) -> None:
    """A run removes what stands in its folder before it ends: it cannot start from vectors in there."""
    if isinstance(init, str | Path) and Path(init).resolve().is_relative_to(out.resolve()):
        raise InputError(f"The vectors to start from lie in {out}, which the run writes; choose another folder for it.")


def _train(
    request: _Request, settings: dict[str, Any], prepared: Prepared, init: Embeddings | None, resume: bool,
    started: float,
) -> FitResult:  # fmt: skip
    model, source = request.model, prepared.source
    keys, counts = prepared.keys, prepared.counts
    if init is None:
        tables = fresh_tables(len(keys), model, request.seed)
    else:
        tables, keys, counts = carry_over(init, keys, counts, model, request.seed)
    file = None if request.out is None else request.out / FILE
    log = None if request.out is None else request.out / "progress.jsonl"
    first, items, seconds = (0, 0), 0, 0.0
    if resume and file is not None and file.exists():
        first, items, seconds = _restore(tables, file, settings)
    schedule = EpochSchedule.plan(source.num_positions, request.epochs, source.unit, request.threads, first, model.cost)
    learner = SequenceLearner(
        model, prepared.counts, prepared.keep, source, tables,
        block=prepared.block, piece=schedule.piece, threads=request.threads, seed=request.seed,
    )  # fmt: skip
    tell = request.stage or (lambda name, done, total: None)
    tell("kernels (compiled once)", 0, 1)
    compile_seconds = learner.compile()
    tell("kernels (compiled once)", 1, 1)
    # From here on the folder changes: whatever could be wrong with the request would have been said by now.
    with run_folder(request.out, resume, settings):
        if log is not None:
            cut_log(log, items)
        recorder = Recorder(request.epochs, learner.learning_rate, log, request.callback, items, seconds)
        keeper = Keeper(file, learner, recorder, settings, request.checkpoint_seconds)
        # The output rows of hierarchical softmax belong to the inner nodes of its tree, not to keys: they stay here.
        output = tables["output"].rows if model.objective == "negative" else None
        with stop_signals(keeper):  # while the result is written, too: a run that is done is not lost
            try:
                run(schedule, learner, Alone(), keeper.heard, epochs=request.epochs)
            finally:
                learner.close()
            summary = _summary(request, prepared, recorder, len(keys), compile_seconds, started)
            embeddings = Embeddings(keys, tables["input"].rows, output, counts, meta={"model": model.as_dict()})
            if request.out is not None:
                write_result(request.out, embeddings, summary, settings)
    return FitResult(embeddings, summary, recorder.records, request.out)


def _restore(
    tables: dict[str, MemoryTable], path: Path, settings: dict[str, Any]
) -> tuple[tuple[int, int], int, float]:
    """Fill the tables from a checkpoint; ((epoch, position) to go on from, items and seconds so far)."""
    checkpoint = load_checkpoint(path, settings)
    for name, table in tables.items():
        rows = checkpoint.state.get(name)
        if rows is None or rows.shape != table.rows.shape:
            raise FormatError(f"{path} does not hold the rows of this run; start again with --overwrite.")
        table.rows[:] = rows
    totals = checkpoint.totals
    return (checkpoint.epoch, checkpoint.position), totals["items"], totals["seconds"]


def _single_blas_thread() -> Any:
    """The kernels multiply small matrices on each of our own threads; BLAS threads of its own would fight them."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=1, user_api="blas")


def _summary(
    request: _Request, prepared: Prepared, recorder: Recorder, rows: int, compile_seconds: float, started: float
) -> dict[str, Any]:
    losses = [record.loss for record in recorder.records if record.loss is not None]
    last = recorder.records[-1] if recorder.records else None
    train_seconds = last.seconds if last is not None else 0.0
    return {
        "model": request.model.name,
        "rows": rows,
        "dim": request.model.dim,
        "epochs": request.epochs,
        "threads": request.threads,
        "seed": request.seed,
        "items": recorder.items,
        "items_per_s": recorder.items / max(train_seconds, 1e-9),
        "loss": losses[-1] if losses else None,
        "train_seconds": train_seconds,
        "compile_seconds": compile_seconds,
        "seconds": time.perf_counter() - started,
        "peak_rss_bytes": peak_resident_bytes(),
        "peak_anon_bytes": max(recorder.peak_anonymous, resident_bytes()[0]),
        "warnings": remarks(prepared.facts),
        "data": prepared.facts,
    }
