"""The true sets of rows of a round, found by the inspection pass on real or planted tokens: no row is trained.

And what agreeing on them takes a host: rank 0 alone runs the agreement's own code on those rows, with messages of the
others made up beforehand. Pieces of work for threads run one after the other, each timed, so that one core can tell of
many: T threads take as long as the longest piece, or all of them over T. What stands outside of such pieces, and
handing them out, is one thread's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from any2vec.sync.base.pool import Item, Result, ThreadPool

if TYPE_CHECKING:
    from any2vec.plan.cost.volume import RoundSets


@dataclass(frozen=True)
class Inspected:
    """What the hosts read of one round."""

    by_label: RoundSets
    """rows of each label apart: for RepModel-Opt (as if all that is read changed) and PullModel-Opt"""
    by_word: RoundSets
    """rows that are read under either label: for PullModel-Base"""
    items: int
    """in-vocabulary words of the round, all hosts"""
    seconds: float
    """of inspection, one thread, all hosts one after the other"""
    first: np.ndarray
    """uint8 (2, V): the rows of each label that rank 0 reads"""
    asked: list[list[np.ndarray]]
    """by label and host: slots of rank 0's block that it reads"""

    def of(self, scheme: str) -> RoundSets:
        return self.by_word if scheme == "pull-base" else self.by_label


@dataclass(frozen=True)
class Setting:
    """A model and the tokens that it reads, with an epoch's counts."""

    model: Any
    tokens: np.ndarray
    """int32; -1 ends a sentence"""
    counts: np.ndarray
    """int64 (V,), of a whole epoch"""
    positions: int
    """of a whole epoch, ends of sentences included"""
    seed: int = 1


def inspect_round(setting: Setting, parts: list[tuple[int, int]]) -> Inspected:
    """The rows that each host reads where host h works on the tokens [start, stop) = parts[h]."""
    from any2vec.plan.cost.volume import RoundSets
    from any2vec.plan.sharding.sharding import Striped, contiguous_bounds

    learner = _learner(setting)
    cuts, hosts = contiguous_bounds(len(setting.counts), len(parts))[:-1], len(parts)
    order = Striped(len(setting.counts), hosts).rows(np.arange(len(setting.counts)))
    label, word = np.zeros((2, hosts, hosts), np.int64), np.zeros((1, hosts, hosts), np.int64)
    any_host = np.zeros((2, len(setting.counts)), bool)
    first = np.empty((2, 0), np.uint8)
    seconds, asked, block = 0.0, [[], []], contiguous_bounds(len(setting.counts), hosts)[1]  # type: ignore[var-annotated]
    learner.inspect(0, 0, 0, dict.fromkeys(("input", "output"), np.zeros(len(setting.counts), np.uint8)))
    for host, (found, took) in enumerate(_marks(learner, parts, len(setting.counts))):
        marks = found[:, order]
        seconds += took
        label[:, host] = np.add.reduceat(marks, cuts, axis=1, dtype=np.int64)
        word[0, host] = np.add.reduceat(marks.any(0), cuts, dtype=np.int64)
        any_host |= marks > 0
        first = found.copy() if host == 0 else first
        for slots, mark in zip(asked, marks[:, :block], strict=True):
            slots.append(np.flatnonzero(mark))
    merged = np.add.reduceat(any_host, cuts, axis=1, dtype=np.int64)
    items = sum(int((setting.tokens[start:stop] >= 0).sum()) for start, stop in parts)
    by_word = RoundSets(np.repeat(word, 2, axis=0), merged)
    return Inspected(RoundSets(label, merged), by_word, items, seconds, first, asked)


def parts_of_round(setting: Setting, boundary: Any, hosts: int, rounds: int, number: int) -> list[tuple[int, int]]:
    """Where each host works in round `number` of an epoch over all tokens: a part of its own chunk."""
    from any2vec.plan.order.epochs import EpochSchedule
    from any2vec.plan.order.shares import chunk_bounds

    unit = block_of(setting)
    found = chunk_bounds(setting.positions, hosts, boundary)
    parts = []
    for rank in range(hosts):
        schedule = EpochSchedule(bounds=found, rank=rank, epochs=1, unit=unit, piece=unit, rounds=rounds)
        rounds_ = [round_ for _, round_ in schedule.rounds_ahead()]
        span = rounds_[number].spans[0]
        parts.append((span.start, span.stop))
    return parts


def planted_setting(
    model: Any, rows: int, epoch_tokens: int, tokens: int, sentence: int = 10_000, seed: int = 1
) -> Setting:
    """`tokens` words in random order by Zipf's law (rank r as often as 1 / r), a -1 after each `sentence` of them.

    The counts, and what follows from them, are those of an epoch of `epoch_tokens` words.
    """
    law = 1 / np.arange(1, rows + 1)
    law /= law.sum()
    random, steps = np.random.default_rng(seed), np.cumsum(law)
    stream = np.empty(tokens + tokens // sentence, np.int32)
    step = sentence + 1
    for at in range(0, len(stream), 64 * step):  # piece by piece: the float64 draws would take twice the memory
        piece = stream[at : at + 64 * step]
        piece[:] = np.minimum(np.searchsorted(steps, random.random(len(piece))), rows - 1)
        piece[sentence::step] = -1
    counts = np.maximum(1, np.rint(epoch_tokens * law)).astype(np.int64)
    return Setting(model, stream, counts, epoch_tokens + epoch_tokens // sentence, seed)


def block_of(setting: Setting) -> int:
    """Positions of a block, as training has them."""
    from any2vec.models.words.learner import block_positions

    kept = float((_keep(setting) * setting.counts).sum())
    return block_positions(setting.model, kept / setting.positions)


def _keep(setting: Setting) -> np.ndarray:
    from any2vec.data.vocab.vocabulary import keep_probabilities

    return keep_probabilities(setting.counts, setting.model.subsample)


def _learner(setting: Setting) -> Any:
    from any2vec.models.words.learner import SequenceLearner
    from any2vec.models.words.source import StoredTokens
    from any2vec.plan.order.epochs import piece_positions

    block = block_of(setting)
    return SequenceLearner(
        setting.model, setting.counts, _keep(setting), StoredTokens(setting.tokens, block), {},
        block=block, piece=piece_positions(block, setting.model.cost), threads=1, seed=setting.seed,
    )  # fmt: skip


def _marks(learner: Any, parts: list[tuple[int, int]], num_rows: int) -> Iterator[tuple[np.ndarray, float]]:
    """(marks uint8 (2, V), seconds) of each host; one array serves all."""
    marks = np.empty((2, num_rows), np.uint8)
    for start, stop in parts:
        marks[:] = 0
        began = time.perf_counter()
        learner.inspect(0, start, stop, {"input": marks[0], "output": marks[1]})
        yield marks, time.perf_counter() - began


TOUCHED = 26
"""bytes of memory that agreeing moves for each number of a row that a host pulls, in 8 bits: 2 where it is packed, 9
where it is restored (the line of the target is read before it is written), 14 where what became of it is rounded (now,
start, what is owed, and its code), and 1 where it is merged. In 32 bits they are as many"""
LATEST = 3
"""rounds that are timed; the fastest counts"""


class TimedPool(ThreadPool):
    """Does what threads would do side by side one after the other, and tells how long so many threads would take."""

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self.took: list[list[float]] = []
        """seconds of the pieces of each call; of processor time, so that whoever shares the core does not count"""

    def each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        results, took = [], []
        for item in items:
            began = time.thread_time()
            results.append(work(item))
            took.append(time.thread_time() - began)
        self.took.append(took)
        return results

    def seconds(self, rounds: list[list[list[float]]]) -> float:
        """What so many threads take of a round, from all rounds: of each piece the fastest."""
        calls = [np.min(call, axis=0) for call in zip(*rounds, strict=True)]
        return float(sum(max(took.sum() / self.threads, took.max(initial=0.0)) for took in calls))


class Others:
    """A transport whose other hosts have said already what they will say."""

    rank = 0

    def __init__(self, found: Inspected, dim: int, bits: int) -> None:
        self.found, self.dim, self.bits = found, dim, bits
        self.hosts = len(found.asked[0])
        self.seconds = 0.0
        self.mine: list[list[np.ndarray]] = []
        self.sums: list[Any] = []
        """of the curvature, by host; none: nobody asks for it"""
        self._random = np.random.default_rng(7)

    def exchange(self, outgoing: dict[int, Any], phase: str, channel: str = "") -> dict[int, tuple[Any, ...]]:
        from any2vec.cluster.codec import pack_ids
        from any2vec.plan.sharding.sharding import contiguous_bounds

        began, size = time.thread_time(), contiguous_bounds(self.found.first.shape[1], self.hosts)[1]
        said: dict[int, tuple[Any, ...]] = {}
        for host in range(1, self.hosts):
            told = [pack_ids(by_host[host], size) for by_host in self.found.asked]
            lists = {"inspect": [], "pull": self.mine, "reduce": self.found.asked}[phase]
            rows = [part for by_host in lists for part in self._rows(len(by_host[host]))]
            curved = [self.sums[0] if phase == "pull" else self.sums[host]] if self.sums and phase != "inspect" else []
            said[host] = (*rows, *(told if phase != "pull" else []), *curved)
        self.seconds += time.thread_time() - began
        return said

    def _rows(self, count: int) -> list[Any]:
        from any2vec.cluster.codec import pack_rows

        small = self._random.normal(0, 1e-3, (1, self.dim)).astype(np.float32)
        return pack_rows(np.repeat(small, count, axis=0), self.bits)


@dataclass(frozen=True)
class Agreed:
    """Seconds that a round's agreement takes rank 0, beside inspection and messages."""

    one_thread: float
    """all of it, measured"""
    side_by_side: float
    """what threads share, as so many threads take it: modeled of the pieces, and no faster than memory"""
    alone: float
    """what one thread does meanwhile, handing out pieces included; measured"""


def agreement_of(found: Inspected, rule: str, dim: int, bits: int, threads: int, bandwidth: float) -> Agreed:
    """What agreeing on the rows of a round takes by PullModel-Opt; bandwidth: bytes/s of a host's memory."""
    from any2vec.cluster.message import Part
    from any2vec.sync.base.curvature import PairSteps
    from any2vec.sync.base.host_rows import RoundRows
    from any2vec.sync.exchange.pulled import Tracker
    from any2vec.sync.options.rules import rule_class
    from any2vec.sync.rules.block import Rules, compile_merges
    from any2vec.types import ProgressLine, Round, Span

    compile_merges(dim, bits)
    names, size, random = ("input", "output"), found.first.shape[1], np.random.default_rng(3)
    others, pool = Others(found, dim, bits), TimedPool(threads)

    class Read:
        def inspect(self, epoch: int, start: int, stop: int, marks: Any) -> None:
            for mark, own in zip(marks.values(), found.first, strict=True):
                mark |= own

    def start(name: str, ids: np.ndarray) -> np.ndarray:
        return random.normal(0, 0.1, (len(ids), dim)).astype(np.float32)

    law = 1 / np.arange(1, size + 1)
    even = dict.fromkeys(names, law / law.sum())
    steps = PairSteps(dict(zip(names, reversed(names), strict=True)), even, even, lambda number: 1e4)
    counts = dict.fromkeys(names, (1e8 * law).astype(np.int64))
    rows = RoundRows(dict.fromkeys(names, size), dim, start)
    rules = Rules(rule_class(rule, has_curvature=True), counts, lambda: steps)
    tracker: Any = Tracker(others, rows, rules, bits, True, Read())  # type: ignore[arg-type]
    tracker.pool = tracker._curvatures._pool = pool
    span = Span(0, 1, ProgressLine(0, 1, 0.0, 1.0))
    round_ = Round(0, (span,))
    needed = tracker.needed(0, round_)
    others.mine = list(needed.mine.values())
    if tracker._curvatures.are_asked_for:
        others.sums = [Part("dense", part.array) for part in tracker._curvatures.slices()]
    tracked = tracker.ask(needed)
    spent, alone, took = [], [], []
    for _ in range(LATEST + 1):
        others.seconds, pool.took, began = 0.0, [], time.thread_time()
        with threadpool_limits(limits=1, user_api="blas"):  # as runs have it
            tracked = tracker.pull(tracked)
            tracker.put(tracked)
            outgoing = tracker.packed_changes(tracked) if bits < 32 else tracker.packed_values(tracked)
            tracked = tracker.push(tracked, outgoing, bits < 32, tracker.needed(0, round_))
        spent.append(time.thread_time() - began - others.seconds)
        alone.append(spent[-1] - sum(map(sum, pool.took)))
        took.append(pool.took)
    pulled = sum(len(ids) for by_host in others.mine for ids in by_host)
    shared = max(pool.seconds(took[1:]), TOUCHED * dim * pulled / bandwidth)  # the first round meets new memory
    pieces = sum(map(len, pool.took))
    return Agreed(min(spent[1:]), shared, min(alone[1:]) + pieces * _hand_out(threads))


def _hand_out(threads: int, pieces: int = 500) -> float:
    """Seconds of the interpreter, which serves one thread at a time, that handing out a piece of work takes."""
    pool = ThreadPool(threads)
    pool.each(abs, range(pieces))
    began = time.process_time()
    pool.each(abs, range(pieces))
    return (time.process_time() - began) / pieces
