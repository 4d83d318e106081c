"""Rows about words: any2vec beside gensim on text-enwiki2015 (speed, quality, the whole command, reading)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.table import Measure, Reading, Row, quality_readings, ratio_reading

SEEDS = (1, 2, 3)
EPOCHS = 3
DIM, WINDOW, NUM_NEGATIVES, MIN_COUNT, SUBSAMPLE = 100, 5, 5, 5, 1e-4
MODEL = (
    "--dim", DIM, "--window", WINDOW, "--num-negatives", NUM_NEGATIVES,
    "--min-count", MIN_COUNT, "--subsample", SUBSAMPLE,
)  # fmt: skip
RATE = ("--learning-rate", 0.025)
SIMILARITY = {
    "MEN": "EN-MEN-TR-3k.txt",
    "WS-353": "EN-WS-353-ALL.txt",
    "SimLex": "EN-SIMLEX-999.txt",
    "MTurk-771": "EN-MTurk-771.txt",
}
ANALOGY = "Google analogies"
SCORES = (*SIMILARITY, ANALOGY)
MAX_VOCAB = 30_000
BOTH_SIDES = "gensim's defaults, both sides"


@dataclass(frozen=True)
class Side:
    """One run of one side: speed, and scores in points where they were asked for."""

    items_per_s: float
    result: dict[str, Any]
    scores: dict[str, float]
    wall_seconds: float


def skipgram_speed(bench: Bench) -> list[Reading]:
    return _speed(bench, "skipgram")


def skipgram_quality(bench: Bench) -> list[Reading]:
    return _quality(bench, "skipgram")


def cbow_speed(bench: Bench) -> list[Reading]:
    return _speed(bench, "cbow")


def cbow_quality(bench: Bench) -> list[Reading]:
    return _quality(bench, "cbow")


def whole_command(bench: Bench) -> list[Reading]:
    """From a text that any2vec has not seen to vectors on disk, against gensim's vocabulary and training in memory."""
    warm_up(bench, "skipgram")
    ours, theirs = [], []
    for seed in _seeds(bench):
        bench.forget_input()
        run = train_ours(bench, "skipgram", seed, epochs=1, threads=1)
        peer = _train_gensim(bench, "skipgram", seed, epochs=1, threads=1).result
        ours.append(run.wall_seconds)
        theirs.append(peer["vocabulary_seconds"] + peer["train_seconds"])
    bench.runs["seconds"] = {"any2vec": ours, "gensim": theirs}
    return [ratio_reading(ours, theirs, "s")]


def two_threads_words(bench: Bench) -> Reading:
    """words/s of two threads over one, alternating."""
    warm_up(bench, "skipgram")
    one, two = [], []
    for seed in _seeds(bench):
        two.append(train_ours(bench, "skipgram", seed, epochs=_epochs(bench), threads=2).items_per_s)
        one.append(train_ours(bench, "skipgram", seed, epochs=_epochs(bench), threads=1).items_per_s)
    bench.runs["words_per_s"] = {"two threads": two, "one thread": one}
    return ratio_reading(two, one, "words/s", peer="one thread")


def one_thread_rate(bench: Bench) -> float:
    """any2vec's words/s of skip-gram on one thread, one epoch."""
    warm_up(bench, "skipgram")
    return train_ours(bench, "skipgram", 1, epochs=1, threads=1).items_per_s


def encode(bench: Bench) -> list[Reading]:
    """Seconds of reading and encoding over the seconds of one training epoch, both on one thread."""
    warm_up(bench, "skipgram")
    repeats = len(_seeds(bench))
    epoch_seconds = []
    for seed in _seeds(bench):
        run = train_ours(bench, "skipgram", seed, epochs=1, threads=1)
        epoch_seconds.append(counts(bench).total() / run.items_per_s)
    encoding = bench.ours("any2vec_encode.py", "--text", bench.words(), "--repeats", repeats).result["seconds"]
    bench.runs["seconds"] = {"encode": encoding, "epoch": epoch_seconds}
    return [ratio_reading(encoding, epoch_seconds, "s", peer="one epoch")]


def phrases(bench: Bench) -> list[Reading]:
    """Seconds of finding and of joining phrases over gensim's, alternating; whether both find the same."""
    sides: dict[str, list[dict[str, Any]]] = {"any2vec": [], "gensim": []}
    for _ in _seeds(bench):
        files = ("--text", bench.words(), "--out", bench.scratch("joined.txt"))
        sides["any2vec"].append(bench.ours("any2vec_phrases.py", *files).result)
        sides["gensim"].append(bench.peer("gensim", "gensim_phrases.py", *files).result)
    bench.runs["phrases"] = sides
    seconds = {
        name: [[one[part] for one in side] for part in ("find_seconds", "join_seconds")] for name, side in sides.items()
    }
    different = sum(one["hash"] != other["hash"] for one, other in zip(*sides.values(), strict=True))
    counts = f"{sides['any2vec'][0]['phrases']:,} / gensim {sides['gensim'][0]['phrases']:,} phrases"
    return [
        *(ratio_reading(mine, other, "s") for mine, other in zip(*seconds.values(), strict=True)),
        Reading(value=different, text=f"{different} of {len(sides['gensim'])} runs differ; {counts}"),
    ]


def warm_up(bench: Bench, model: str) -> None:
    """Compile the kernels that `model` uses, by a run on a tiny text with the same settings."""

    def tiny_run() -> None:
        def write(path: Path) -> None:
            path.write_text("".join(f"w{i % 40} w{i % 7} w{i % 13}\n" for i in range(4000)))

        tiny = bench.made("tiny.txt", write)
        bench.any2vec(
            "train", model, tiny, "--out", bench.scratch(f"tiny-{model}"), *MODEL, *RATE,
            "--epochs", 1, "--threads", 2, "--overwrite",
        )  # fmt: skip

    bench.once(("warm", model), tiny_run)


def scores(bench: Bench, embeddings: Any, sets: Path | None = None) -> dict[str, float]:
    """The five scores in points: Spearman x 100 of the covered pairs, share of covered analogies answered right.

    sets: the folder of the word sets; None: the whole ones.
    """
    from any2vec.evaluate.words.analogy import evaluate_analogy
    from any2vec.evaluate.words.similarity import evaluate_similarity

    folder = bench.data("wordeval") if sets is None else sets
    files = {name: folder / file for name, file in SIMILARITY.items()}
    queries = folder / "questions-words.txt"
    found = {name: evaluate_similarity(embeddings, file).mean for name, file in files.items()}
    found[ANALOGY] = evaluate_analogy(embeddings, queries, max_vocab=MAX_VOCAB).total.accuracy
    return {name: math.nan if score is None else 100 * score for name, score in found.items()}


def _speed(bench: Bench, model: str) -> list[Reading]:
    one = _pairs(bench, model)
    two = _pairs_two_threads(bench, model)
    readings = []
    for threads, pairs in ((1, one), (2, two)):
        ours = [mine.items_per_s for mine, _ in pairs]
        theirs = [peer.items_per_s for _, peer in pairs]
        bench.runs[f"words_per_s_{threads}_threads"] = {"any2vec": ours, "gensim": theirs}
        readings.append(ratio_reading(ours, theirs, "words/s"))
    return readings


def _quality(bench: Bench, model: str) -> list[Reading]:
    pairs = _pairs(bench, model)
    ours = {name: [mine.scores[name] for mine, _ in pairs] for name in SCORES}
    theirs = {name: [peer.scores[name] for _, peer in pairs] for name in SCORES}
    bench.runs["scores"] = {"any2vec": ours, "gensim": theirs}
    bench.runs["loss"] = [mine.result.get("loss") for mine, _ in pairs]
    return quality_readings(ours, theirs, SCORES)


def _pairs(bench: Bench, model: str) -> list[tuple[Side, Side]]:
    """Alternating runs on one thread, a seed each, with scores: speed and quality read the same runs."""

    def make() -> list[tuple[Side, Side]]:
        warm_up(bench, model)
        return [
            (
                train_ours(bench, model, seed, epochs=_epochs(bench), threads=1, score=True),
                _train_gensim(bench, model, seed, epochs=_epochs(bench), threads=1, score=True),
            )
            for seed in _seeds(bench)
        ]

    return bench.once(("pairs", model), make)


def _pairs_two_threads(bench: Bench, model: str) -> list[tuple[Side, Side]]:
    """Alternating runs on two threads; gensim trains one epoch (its words/s does not depend on how many)."""
    warm_up(bench, model)
    return [
        (
            train_ours(bench, model, seed, epochs=_epochs(bench), threads=2),
            _train_gensim(bench, model, seed, epochs=1, threads=2),
        )
        for seed in _seeds(bench)
    ]


def train_ours(bench: Bench, model: str, seed: int, *, epochs: int, threads: int, score: bool = False) -> Side:
    out = bench.scratch(f"any2vec-{model}")
    done = bench.any2vec(
        "train", model, bench.words(), "--out", out, *MODEL, *RATE, "--epochs", epochs,
        "--threads", threads, "--seed", seed, "--overwrite",
    )  # fmt: skip
    found: dict[str, float] = {}
    if score:
        from any2vec.embeddings import Embeddings

        found = scores(bench, Embeddings.load(out))
    return Side(done.result["items_per_s"], done.result, found, done.seconds)


def _train_gensim(bench: Bench, model: str, seed: int, *, epochs: int, threads: int, score: bool = False) -> Side:
    out = bench.scratch(f"gensim-{model}.bin")
    done = bench.peer(
        "gensim", "gensim_words.py", "--text", bench.words(), "--model", model, *MODEL, *RATE, "--epochs", epochs,
        "--threads", threads, "--seed", seed, *(("--out", out) if score else ()),
    )  # fmt: skip
    found: dict[str, float] = {}
    if score:
        from any2vec.embeddings import Embeddings

        found = scores(bench, Embeddings.load(out, format="word2vec-binary"))
    return Side(done.result["items_per_s"], done.result, found, done.seconds)


def counts(bench: Bench) -> Counter[bytes]:
    """How often each word of the corpus occurs; words below min_count are left out."""

    def count() -> Counter[bytes]:
        seen: Counter[bytes] = Counter()
        with bench.words().open("rb") as lines:
            for line in lines:
                seen.update(line.split())
        return Counter({word: uses for word, uses in seen.items() if uses >= MIN_COUNT})

    return bench.once("counts", count)


def _seeds(bench: Bench) -> Sequence[int]:
    return SEEDS[:1] if bench.quick else SEEDS


def _epochs(bench: Bench) -> int:
    return 1 if bench.quick else EPOCHS


def _speed_measures(target: float) -> tuple[Measure, ...]:
    words = "words/s over gensim 4.4, text-enwiki2015, dim 100, window 5, 5 negatives"
    return tuple(
        Measure(name=f"{words}, {threads}", relation=">=", target=target, unit="x")
        for threads in ("1 thread", "2 threads")
    )


_QUALITY = (
    Measure(
        name="mean of the five scores, 3 epochs, 3 seeds each side",
        relation=">=",
        wording="≥ gensim − 0.3 points",
        is_accuracy=True,
    ),
    *(
        Measure(name=name, relation=">=", wording="≥ gensim − max(0.5, 2 standard errors)")
        for name in (*SIMILARITY, f"{ANALOGY} ({MAX_VOCAB:,} most frequent words)")
    ),
)

ROWS = (
    Row(name="skipgram-speed", measures=_speed_measures(8), run=skipgram_speed, minutes=14),
    Row(name="skipgram-quality", measures=_QUALITY, run=skipgram_quality, minutes=12, settings=BOTH_SIDES),
    Row(
        name="whole-command",
        measures=(
            Measure(
                name="wall time of `any2vec train` from unread text over gensim's vocabulary + training, 1 epoch",
                relation="<=",
                target=0.2,
                unit="x",
            ),
        ),
        run=whole_command,
        minutes=5,
    ),
    Row(name="cbow-speed", measures=_speed_measures(4), run=cbow_speed, minutes=6),
    Row(name="cbow-quality", measures=_QUALITY, run=cbow_quality, minutes=5, settings=BOTH_SIDES),
    Row(
        name="encode",
        measures=(
            Measure(
                name="reading and encoding the text over one training epoch, 1 thread",
                relation="<=",
                target=1,
                unit="x",
            ),
        ),
        run=encode,
        minutes=1,
    ),
    Row(
        name="phrases",
        measures=(
            *(
                Measure(name=f"{what} over gensim's, 1 thread", relation="<=", target=0.33, unit="x")
                for what in ("finding phrases in unread text", "writing the text with phrases joined")
            ),
            Measure(name="runs in which the phrases are not gensim's", relation="<=", target=0),
        ),
        run=phrases,
        minutes=6,
    ),
)
