"""Rows about what a stream's statistics keep and forget: words that change their company, memory, speed of encoding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from benchmarks.bench import Bench
from benchmarks.table import Measure, Reading, Row

DRIFTERS, TOPICS, NEIGHBORS = 10, 40, 10
WORDS_PER_LINE = 20
SEEDS = (1, 2, 3)


@dataclass(frozen=True)
class _Size:
    """Words of the stream."""

    before: int
    """a word's company changes"""
    step: int
    """between two looks"""
    most: int
    """given up behind the change"""

    @property
    def half_life(self) -> int:
        """Of counts that fade: short beside what was seen before the change."""
        return self.before // 8


FULL, QUICK = _Size(1_000_000, 25_000, 2_000_000), _Size(100_000, 20_000, 160_000)


def drift(bench: Bench) -> list[Reading]:
    """Words behind the change until more of a drifter's neighbors are its new topic's words than its old one's."""
    size, seeds = (QUICK, SEEDS[:1]) if bench.quick else (FULL, SEEDS)
    found: dict[str, list[dict[str, Any]]] = {"kept": [], "fading": []}
    for seed in seeds:
        for name, half_life in (("kept", None), ("fading", size.half_life)):
            found[name].append(_followed(size, half_life, seed))
    bench.runs["followed"] = found
    return [
        _warned([run[side] for run in found[name]], size, side)
        for side in ("vectors", "pairs")
        for name in ("kept", "fading")
    ]


def _warned(runs: list[dict[str, Any]], size: _Size, side: str) -> Reading:
    values = [run["words"] for run in runs]
    if any(value is None for value in values):
        return Reading(value=float("nan"), text=f"more than {size.most:,} words")
    middle = median(values)
    spread = f" ({min(values):,} .. {max(values):,})" if len(values) > 1 else ""
    return Reading(value=middle, text=f"{middle:,.0f} words{spread} after {size.before:,}")


@dataclass
class _Watch:
    """Which share of the neighbors follows, look by look."""

    words: int | None = None
    """behind the change, at the first look at which most follow"""
    curve: list[tuple[int, float, float]] = field(default_factory=list)
    """(words behind the change, share of neighbors that are the old topic's words, the new one's)"""

    def look(self, words: int, shares: tuple[float, float]) -> None:
        self.curve.append((words, *shares))
        if self.words is None and words > 0 and shares[1] > shares[0]:
            self.words = words


def _followed(size: _Size, half_life: int | None, seed: int) -> dict[str, Any]:
    from any2vec.data.stream.pairs import StreamPairs
    from any2vec.data.stream.vocabulary import StreamVocabulary
    from any2vec.kernels.common.rng import PURPOSE_TOKEN, stream_key
    from any2vec.models.stream.config import StreamSkipGram
    from any2vec.models.stream.skipgram import StreamedSkipGram
    from any2vec.sources.base.inflow import Inflow
    from any2vec.tasks.stream.batches import Limits, TokenBatches
    from any2vec.testing.planted_stream import PlantedSource, PlantedStream

    lines = size.before // WORDS_PER_LINE
    stream = PlantedStream(
        seed=seed, words_per_line=WORDS_PER_LINE, topics=TOPICS, drifters=DRIFTERS, drift_at=lines, drift_share=0.05
    )
    config = StreamSkipGram(dim=50, subsample=1e-3)
    rows = 1 << 16
    vocabulary = StreamVocabulary(max_types=1 << 18, max_rows=rows, half_life=half_life)
    pairs = StreamPairs(max_rows=rows, budget_bytes=1 << 28, window=config.window, half_life=half_life)
    learner = StreamedSkipGram(config, max_rows=rows, threads=1, seed=seed)
    key = stream_key(seed, PURPOSE_TOKEN)
    vectors, counts = _Watch(), _Watch()
    with Inflow([PlantedSource(stream, number=0)]) as inflow:
        batches = TokenBatches(
            inflow, None, vocabulary, subsample=config.subsample, batch_bytes=1 << 16, linger=0,
            limits=Limits(words=size.before + size.most), keeps_ids=False, prepare=learner.prepare,
        )  # fmt: skip
        due = size.before - 2 * size.step
        batches.rest()
        for batch in (work.payload for work in batches):
            batches.rest()  # so that the vocabulary is as the next batch leaves it
            if batch.is_idle:
                continue
            learner.run(batch.work)
            pairs.add(batch.tokens, batch.keep_V, key, batch.offset, vocabulary.birth_V)
            words = batch.words_before + batch.words
            if words < due:
                continue
            due = words + size.step
            names = list(vocabulary.keys(vocabulary.rows()))
            row_of = dict(zip(names, vocabulary.rows().tolist(), strict=True))
            behind = words - size.before
            vectors.look(behind, _shares(stream, row_of, lines, lambda *rows: _cosines(learner.input_VD, *rows)))
            counts.look(behind, _shares(stream, row_of, lines, lambda *rows: _information(pairs, *rows)))
            if vectors.words is not None and counts.words is not None:
                break
    learner.close()
    assert pairs.is_exact
    return {"vectors": vars(vectors), "pairs": vars(counts)}


def _shares(
    stream: Any, row_of: dict[str, int], lines: int, nearness: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> tuple[float, float]:
    """Shares of the drifters' neighbors, among all topics' words, that are words of their (old, new) topics."""
    topic_words = [[row_of[word] for word in stream.topic_words(topic) if word in row_of] for topic in range(TOPICS)]
    row_N = np.concatenate([np.array(words, np.int64) for words in topic_words])
    topic_N = np.repeat(np.arange(TOPICS), [len(words) for words in topic_words])
    numbers = [number for number in range(DRIFTERS) if stream.drifter(number) in row_of]
    if not numbers or len(row_N) < NEIGHBORS:
        return 0.0, 0.0
    near_XN = nearness(np.array([row_of[stream.drifter(number)] for number in numbers]), row_N)
    nearest = topic_N[np.argsort(-near_XN, axis=1, kind="stable")[:, :NEIGHBORS]]
    old, new = (
        float(
            np.mean(
                [row == stream.topic_of_drifter(number, line) for number, row in zip(numbers, nearest, strict=True)]
            )
        )
        for line in (lines - 1, lines)
    )
    return old, new


def _cosines(vector_VD: np.ndarray, row_X: np.ndarray, row_N: np.ndarray) -> np.ndarray:
    norm_N = np.maximum(np.linalg.norm(vector_VD[row_N], axis=1), 1e-12)
    return vector_VD[row_X] @ vector_VD[row_N].T / norm_N


def _information(pairs: Any, row_X: np.ndarray, row_N: np.ndarray) -> np.ndarray:
    """Pointwise mutual information, up to a constant in each row; -inf where a pair never came."""
    weight_XN = pairs.weights(np.repeat(row_X, len(row_N)), np.tile(row_N, len(row_X))).reshape(len(row_X), -1)
    with np.errstate(divide="ignore"):
        return np.log(weight_XN) - np.log(np.maximum(pairs.sum_V[row_N], 1e-300))


_WORDS = "words of the stream until most neighbors follow: "
ROWS = (
    Row(
        name="drift",
        measures=(
            Measure(name=_WORDS + "vectors, counts kept", relation=""),
            Measure(name=_WORDS + "vectors, counts fading", relation=""),
            Measure(name=_WORDS + "pair counts kept", relation=""),
            Measure(name=_WORDS + "pair counts fading", relation=""),
        ),
        run=drift,
        minutes=4,
    ),
)
