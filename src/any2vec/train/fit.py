"""`any2vec.fit`: one call from data to embeddings, with records, checkpoints and a clean stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from any2vec.checks import check_run
from any2vec.cluster.link import parse_link
from any2vec.cluster.lone import LoneTransport
from any2vec.cluster.threads import run_logical
from any2vec.data.storage import RESULT_FORMAT, check_folder_free
from any2vec.embeddings import Embeddings
from any2vec.errors import InputError
from any2vec.machine import usable_cores
from any2vec.models.config import SequenceModel
from any2vec.sync.options import HostOptions
from any2vec.train.host import Host, Made, Request
from any2vec.train.prepare import Prepared, Stage, prepare
from any2vec.train.run_folder import is_finished, open_finished
from any2vec.train.start import start_digest
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
    on_epoch: Callable[[int, Embeddings], None] | None = None,
    stage: Stage | None = None,
    checkpoint_seconds: float = 300.0,
    text: TextOptions | None = None,
    graph: GraphOptions | None = None,
    cache_dir: str | Path | None = None,
    hosts: HostOptions | int | None = None,
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
        on_epoch: called at the end of each epoch with (its number from 1, the vectors so far); they change when it
            returns.
        stage: hears how far reading is: (name, bytes done, bytes in all or None).
        checkpoint_seconds: between checkpoints, more than 0.
        text, graph: reading options.
        cache_dir: where encoded data are kept.
        hosts: over how many hosts the run is spread and how they agree; a number: so many processes of this machine.

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
    spread = HostOptions(hosts=hosts) if isinstance(hosts, int) else hosts or HostOptions()
    folder = None if out is None else Path(out)
    if folder is not None:
        check_folder_free(folder, overwrite or resume, RESULT_FORMAT)
        _check_apart(init, folder)
    given = init if init is None or isinstance(init, Embeddings) else Embeddings.load(init)
    prepared = prepare(
        model, data, threads=threads or usable_cores(), seed=int(seed), text=text, graph=graph,
        cache_dir=None if cache_dir is None else Path(cache_dir), stage=stage,
    )  # fmt: skip
    settings: dict[str, Any] = {
        "model": model.as_dict(), "epochs": model.default_epochs if epochs is None else int(epochs), "seed": int(seed),
        "data": prepared.facts, "init": None if given is None else start_digest(given),
    }  # fmt: skip
    if resume and folder is not None and is_finished(folder):
        return FitResult(*open_finished(folder, settings), [], folder)
    num_hosts = spread.logical_hosts or 1
    request = Request(
        model=model, epochs=settings["epochs"], threads=int(threads) or max(1, usable_cores() // num_hosts),
        seed=int(seed), out=folder, resume=resume, checkpoint_seconds=checkpoint_seconds, callback=callback,
        stage=stage, on_epoch=on_epoch, agree=spread if spread.is_spread else None, settings=settings, started=started,
    )  # fmt: skip
    with _single_blas_thread():
        made = _train(request, prepared, given, spread)
    return FitResult(made.embeddings, made.summary, made.records, folder)


def _train(request: Request, prepared: Prepared, init: Embeddings | None, spread: HostOptions) -> Made:
    """Train on the hosts that are asked for; what rank 0 made."""
    if not spread.is_spread:
        made = Host(request, prepared, init, LoneTransport()).train()
    else:
        link = None if spread.link is None else parse_link(spread.link)
        hosts = spread.logical_hosts or 1
        made = run_logical(hosts, lambda transport: Host(request, prepared, init, transport).train(), link)[0]
    assert made is not None
    return made


def _check_apart(init: Any, out: Path) -> None:
    """A run removes what stands in its folder before it ends: it cannot start from vectors in there."""
    if isinstance(init, str | Path) and Path(init).resolve().is_relative_to(out.resolve()):
        raise InputError(f"The vectors to start from lie in {out}, which the run writes; choose another folder for it.")


def _single_blas_thread() -> Any:
    """The kernels multiply small matrices on each of our own threads; BLAS threads of its own would fight them."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=1, user_api="blas")
