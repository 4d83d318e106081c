"""What a run will need: its sizes are read off the input, its pace is measured on a sample, `plan` adds them up."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from any2vec.data.graph.reader import open_graph
from any2vec.data.text.corpus import Corpus, is_corpus
from any2vec.data.text.text import TextOptions, count_text
from any2vec.data.vocab.vocabulary import keep_probabilities
from any2vec.errors import DataError, InputError
from any2vec.kernels.skipgram.cbow import MAX_CENTERS as CBOW_CENTERS
from any2vec.kernels.skipgram.skipgram import MAX_CENTERS as SKIPGRAM_CENTERS
from any2vec.machine import process_bytes, usable_cores
from any2vec.models.words.config import SequenceModel, WalkModel
from any2vec.models.words.learner import SequenceLearner, block_positions, shared_negatives
from any2vec.models.words.source import StoredTokens, TokenSource, WalkedTokens
from any2vec.plan.cost.estimate import GRAPH_START_SECONDS, Rates, RunEstimate, RunShape
from any2vec.plan.cost.hosts import plan_run
from any2vec.plan.cost.occupancy import TEXT_CLUMP, Frequencies, Reading, blocks_per_kept, of_counts, zipf
from any2vec.plan.order.epochs import piece_positions
from any2vec.sampling.walks import Walker
from any2vec.tasks.words.budget import size_of_words, sweeps_of
from any2vec.tasks.words.prepare import check_vocabulary, walk_options
from any2vec.train.task import with_best
from any2vec.types import ProgressLine, Round, Span, Stage, Work, as_reading

if TYPE_CHECKING:
    from any2vec.options.planning import ItemShape
    from any2vec.options.run import RunOptions
    from any2vec.train.spec import RunSpec

TABLE_BYTES = 1 << 28
"""both tables together: far beyond every cache, far below what a large run needs"""
WARM_SECONDS = 0.3
"""until the rows are touched and the cores are at their pace"""
PIECES = 4
"""pieces of a thread in one work: short, so that slow settings end in time too"""


def measure_pace(
    model: SequenceModel,
    source: TokenSource,
    counts: np.ndarray,
    keep: np.ndarray,
    block: int,
    *,
    threads: int,
    seed: int = 1,
    seconds: float = 1.0,
) -> float:
    """Train on `source` again and again for `seconds` and throw the result away.

    Returns in-vocabulary items, before subsampling, per second of wall time.

    counts, keep: int64 and float64 (V,), V at most `row_limit(model.dim)`; block as for the learner.
    Memory: TABLE_BYTES at most. Not deterministic: it is a measurement. DataError when `source` holds no item of the
    vocabulary.
    """
    rng = np.random.default_rng(seed)
    shape = (len(counts), model.dim)
    tables: dict[str, np.ndarray] = {
        "input": (rng.random(shape, dtype=np.float32) - 0.5) / model.dim,
        "output": np.full(shape, 1e-3, np.float32),
    }
    piece = piece_positions(source.unit, model.cost)
    learner = SequenceLearner(model, counts, keep, source, tables, block=block, piece=piece, threads=threads, seed=seed)
    try:
        learner.compile()
        return _run(learner, source, seconds)
    finally:
        learner.close()


def row_limit(dim: int) -> int:
    """How many rows of `dim` numbers the two tables of a measurement may have."""
    return max(1000, TABLE_BYTES // (8 * dim))


def fold(tokens: np.ndarray, num_rows: int) -> np.ndarray:
    """int32 tokens with the ids at and above `num_rows` mapped into its upper half, as rare as they were; -1 stays."""
    half = num_rows // 2
    return np.where(tokens < num_rows, tokens, half + tokens % (num_rows - half)).astype(np.int32)


def _run(learner: SequenceLearner, source: TokenSource, seconds: float) -> float:
    """Items per second between the end of warming and the end; at least one piece of work is measured."""
    began = time.perf_counter()
    start, items, seen = None, 0, 0
    for work in _works(source.num_positions, learner.piece * learner.threads * PIECES):
        stats = learner.run(work)
        now, seen = time.perf_counter(), seen + stats.items
        if work.epoch > 0 and not seen:
            raise DataError("The sample of the input holds no item of the vocabulary, so the pace cannot be measured.")
        if start is not None:
            items += stats.items
            if now - start >= seconds and items:
                return items / (now - start)
        elif now - began >= min(WARM_SECONDS, seconds / 3):
            start = now
    raise AssertionError("an endless schedule has ended")


def _works(num_positions: int, size: int) -> Iterator[Work[Span]]:
    """Pieces of work over the source, again and again."""
    line = ProgressLine(0, num_positions, 0.0, 0.0)
    for epoch in itertools.count():
        for start in range(0, num_positions, size):
            stop = min(start + size, num_positions)
            yield Work(Span(start, stop, line), epoch, Round(epoch), 0.0)


WRITE_FACTOR = 1.5
"""encoding against counting: the tokens are also written, renamed by rank and synced"""
_SYNTHETIC_TOKENS = 1 << 20
_WALKS = 256


@dataclass(frozen=True, kw_only=True)
class Sized:
    """An estimate and what it rests on."""

    shape: RunShape
    rates: Rates
    estimate: RunEstimate
    found: Frequencies
    """how often rows occur in an epoch"""
    reading: Reading
    """what the model's kernel reads of them"""
    walker: Walker | None = None
    """on the graph that is the input, if one is"""

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        shape = asdict(self.shape)
        return self.estimate.as_dict() | {"items_per_s": self.rates.items_per_s, "shape": shape}


def reading_of(model: SequenceModel, block: int, keep_rate: float, clump: float = 1.0) -> Reading:
    """What a model's kernel reads: block, its positions; keep_rate, the share of positions that hold a kept token."""
    is_skipgram = model.architecture == "skipgram"
    if model.objective == "hierarchical":
        return Reading(subsample=model.subsample, draws=0.0, is_hierarchical=True, clump=clump)
    if model.kernel == "classic":  # windows are uniform on 1..window, on either side
        draws = float((model.window + 1 if is_skipgram else 1) * model.num_negatives)
    else:
        most = SKIPGRAM_CENTERS if is_skipgram else CBOW_CENTERS
        draws = shared_negatives(model) * blocks_per_kept(block, keep_rate, most)
    return Reading(subsample=model.subsample, draws=draws, clump=clump)


def size_of_input(
    model: SequenceModel,
    data: str | list[str],
    run: RunOptions,
    *,
    text: TextOptions | None = None,
    graph: Any = None,
    stage: Stage | None = None,
    pace: float | None = None,
) -> Sized:
    """Read `data` (a text is counted, not written; a graph is opened), and estimate `fit(model, data, ...)`.

    pace: items/s of training, all threads together; None: measured.

    Raises:
        InputError: standard input (it can be read only once), or options that do not go with the data.
        DataError: the data cannot be read, or too little is left of it.
    """
    if data == "-":
        raise InputError("Standard input can be read only once; give a file, or --rows and --items.")
    threads = run.threads or usable_cores()
    if model.is_graph and not (isinstance(data, str) and is_corpus(data)):
        assert isinstance(model, WalkModel)
        return _size_graph(model, data, run, graph, stage, threads, pace)
    return _size_text(model, data, run, text, stage, threads, pace)


def _size_text(
    model: SequenceModel,
    data: str | list[str],
    run: RunOptions,
    text: TextOptions | None,
    stage: Stage | None,
    threads: int,
    pace: float | None,
) -> Sized:
    count_text(["a b", "b a"])  # compiles, or loads, what reads: no part of the pace
    began = time.perf_counter()
    counts = count_text(data, text, cache_dir=run.cache_dir, progress=as_reading(stage))
    seconds = time.perf_counter() - began
    is_walks = isinstance(data, str) and is_corpus(data) and Corpus.open(data).kind == "walks"
    vocabulary = counts.vocabulary if is_walks else counts.vocabulary.truncate(model.min_count, model.max_vocab)
    check_vocabulary(vocabulary, len(counts.vocabulary), model)
    keep = vocabulary.subsample_keep(model.subsample)
    kept = float((keep * vocabulary.counts).sum())
    block = block_positions(model, kept / max(1, counts.num_slots))
    if pace is None:
        pace = _pace_of_tokens(model, counts.sample, vocabulary.counts, keep, block, threads)
    shape = RunShape(
        rows=len(vocabulary),
        dim=model.dim,
        items=int(vocabulary.counts.sum()),
        epochs=run.epochs or model.default_epochs,
        threads=threads,
        tokens=counts.num_slots,
        types=len(counts.vocabulary),
        key_bytes=int(counts.vocabulary.keys.offsets[-1]),
        source_bytes=counts.source_bytes,
        has_output=model.objective == "negative",
    )
    read = counts.source_bytes / (WRITE_FACTOR * seconds) if counts.source_bytes else 1e9
    reading = reading_of(model, block, kept / max(1, counts.num_slots), 1.0 if is_walks else TEXT_CLUMP)
    return _sized(shape, Rates(items_per_s=pace, read_bytes_per_s=read), of_counts(vocabulary.counts), reading)


def _size_graph(
    model: WalkModel, data: str | list[str], run: RunOptions, options: Any, stage: Stage | None, threads: int,
    pace: float | None,
) -> Sized:  # fmt: skip
    _load_graph_kernels()
    began = time.perf_counter()
    graph = open_graph(data, options, run.cache_dir, stage)
    seconds = time.perf_counter() - began
    walker = Walker(graph.csr, walk_options(model), run.seed)
    degrees = np.diff(graph.csr.indptr).astype(np.int64) + 1
    source = WalkedTokens(walker)
    walks_per_s, length = _walking(walker)
    walking = walks_per_s * length * threads
    if pace is None:
        pace = _pace_of_walks(model, source, degrees, threads, walking)
    shape = RunShape(
        rows=len(degrees),
        dim=model.dim,
        items=max(1, round(walker.num_walks * length)),
        epochs=run.epochs or model.default_epochs,
        threads=threads,
        key_bytes=sum(len(key) for key in graph.keys[:1000]) * len(degrees) // min(1000, len(degrees)),
        source_bytes=1,
        edges=len(graph.csr.indices),
        has_weights=len(graph.csr.weights) > 0,
        is_graph=True,
        has_output=model.objective == "negative",
    )
    read = 1 / max(seconds, 1e-3)  # of the one "byte" above: the graph was read, so the time is known
    rates = Rates(items_per_s=pace, read_bytes_per_s=read, walk_items_per_s=walking, start_seconds=GRAPH_START_SECONDS)
    sized = _sized(shape, rates, of_counts(degrees), reading_of(model, source.unit, length / source.unit))
    return replace(sized, walker=walker)


def _load_graph_kernels() -> None:
    """Compile, or load, what reads a graph, on a graph of one edge: it is no part of the pace."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "edges.txt"
        path.write_text("a b\n")
        open_graph(str(path), None, Path(folder), None)


def _walking(walker: Walker) -> tuple[float, float]:
    """(walks a second of one thread, over a fifth of a second; nodes of a walk, which dead ends make short)."""
    out = np.empty(_WALKS * walker.stride, np.int32)
    walker.sample(0, 1, 0, out[: walker.stride])  # compiles, or loads, the kernel: no part of the pace
    done, began = 0, time.perf_counter()
    while (seconds := time.perf_counter() - began) < 0.2:
        start = done % max(1, walker.num_walks - _WALKS)
        stop = min(start + _WALKS, walker.num_walks)
        walker.sample(start, stop, 0, out[: (stop - start) * walker.stride])
        done += stop - start
    return done / seconds, float((out[: (stop - start) * walker.stride] >= 0).sum()) / (stop - start)


def estimate_words(spec: RunSpec, shape: ItemShape, stage: Stage | None) -> dict[str, Any]:
    """What a run on one host needs, JSON-ready; within a budget too small for all rows without the time.

    Raises:
        InputError, DataError: as `size_of_input`; the budget is too small: it says the smallest one that works.
    """
    model, run = spec.model, spec.run
    if shape.rows is not None:
        sized = size_of_plan(model, shape.num_rows, shape.num_items(100), run)
    else:
        text, graph = spec.reading.get("text"), spec.reading.get("graph")
        sized = size_of_input(model, spec.data, run, text=text, graph=graph, stage=stage)
    rows, items, epochs = sized.shape.rows, sized.shape.items, sized.shape.epochs
    kept = sized.found.keep_rate(model.subsample) * items
    size = size_of_words(model, rows, kept, items)
    found = sized.as_dict() | {
        "tables": {table.name: {"rows": table.rows, "columns": table.columns} for table in size.tables},
        "items": items, "epochs": epochs,
    }  # fmt: skip
    process = process_bytes()
    fixed = process + size.fixed_bytes(run.threads)
    plan = size.within(spec.storage.memory_bytes, fixed)
    if plan is None:
        return with_best(found, found["tables"], spec)
    laid_out = size.as_dict(
        plan, spec.storage.order_of(model), process_bytes=process, threads=run.threads,
        sweeps=sweeps_of(model, kept, plan, epochs),
    )  # fmt: skip
    return laid_out | {"dim": model.dim, "epochs": epochs}


def size_of_plan(
    model: SequenceModel, rows: int, items: int, run: RunOptions, *, exponent: float = 1.0, pace: float | None = None
) -> Sized:
    """An estimate without data: `rows` vectors, `items` a pass, words as frequent as Zipf's law has them.

    exponent: of that law; the pace is measured, or given (items/s), at exponent 1. For graphs the time to walk is left
    out: it depends on the edges.
    """
    found = zipf(rows, items, exponent)
    threads = run.threads or usable_cores()
    most = min(rows, row_limit(model.dim))  # no array of `rows` numbers: a plan may be larger than the machine
    frequency = 1 / np.arange(1, most + 1) / (np.log(rows) + 0.5772)
    counts = np.maximum(1, items * frequency).astype(np.int64)
    rng = np.random.default_rng(run.seed)
    sample = np.minimum(np.exp(rng.random(_SYNTHETIC_TOKENS) * np.log(rows + 1)) - 1, rows - 1).astype(np.int64)
    sample = fold(sample, most)
    keep = keep_probabilities(counts, model.subsample)
    block = block_positions(model, float(keep[sample].mean()))
    if pace is None:
        pace = _pace_of_tokens(model, sample, counts, keep, block, threads)
    shape = RunShape(
        rows=rows,
        dim=model.dim,
        items=items,
        epochs=run.epochs or model.default_epochs,
        threads=threads,
        tokens=0 if model.is_graph else items,
        types=0 if model.is_graph else rows,
        key_bytes=8 * rows,
        is_graph=model.is_graph,
        has_output=model.objective == "negative",
    )
    reading = reading_of(model, block, found.keep_rate(model.subsample), 1.0 if model.is_graph else TEXT_CLUMP)
    return _sized(shape, Rates(items_per_s=pace, read_bytes_per_s=1e9), found, reading)


def _sized(shape: RunShape, rates: Rates, found: Frequencies, reading: Reading) -> Sized:
    return Sized(shape=shape, rates=rates, estimate=plan_run(shape, rates).host, found=found, reading=reading)


def _pace_of_tokens(
    model: SequenceModel, sample: np.ndarray, counts: np.ndarray, keep: np.ndarray, block: int, threads: int
) -> float:
    """The pace on a sample of tokens; ids beyond the vocabulary stay beyond it."""
    rows = min(len(counts), row_limit(model.dim))
    tokens = np.where(sample < len(counts), fold(sample, rows), np.int32(2**31 - 1))
    source = StoredTokens(tokens, block)
    return measure_pace(model, source, np.asarray(counts[:rows]), keep[:rows], block, threads=threads)


def _pace_of_walks(model: WalkModel, source: WalkedTokens, counts: np.ndarray, threads: int, walking: float) -> float:
    """The pace on real walks; where the graph is too large for the small tables, on as many rows of it.

    counts: degrees, which visits are nearly proportional to. walking: nodes a second of walking alone.
    """
    rows = row_limit(model.dim)
    keep = keep_probabilities(counts, model.subsample)
    if len(counts) <= rows:
        return measure_pace(model, source, counts, keep, source.unit, threads=threads)
    walked, begin, end, _ = source.piece(0, 0, min(source.num_positions, (1 << 20) // source.unit * source.unit))
    stored = StoredTokens(fold(walked[begin:end], rows), source.unit)
    trained = measure_pace(model, stored, counts[:rows], keep[:rows], source.unit, threads=threads)
    return 1 / (1 / trained + 1 / walking)
