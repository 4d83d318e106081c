"""any2vec on logical hosts, scored at the end of every epoch. One JSON line: scores by epoch, bytes, rounds, time."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from any2vec_spread import spread_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="class of any2vec")
    parser.add_argument("--options", required=True, help="its options, a JSON object")
    parser.add_argument("--hosts", default="null", help="options of hosts and sync, a JSON object; null: a plain run")
    parser.add_argument("--data", required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wordeval", default="", help="folder of the word sets: score words")
    parser.add_argument("--halves", default="", help="folder of the halves of the word sets: score words by each")
    parser.add_argument("--labels", default="", help="file of labels: score nodes")
    parser.add_argument("--stop-after", type=int, default=0, help="end behind so many epochs; 0: go on to the end")
    args = parser.parse_args()

    import any2vec

    curve: list[dict[str, Any]] = []

    def on_work(epoch: int, embeddings: Any) -> None:
        if args.wordeval:
            curve.append(word_scores(embeddings, Path(args.wordeval)))
        if args.halves:
            curve.append({half: word_scores(embeddings, Path(args.halves) / half) for half in ("tune", "judge")})
        if args.labels and epoch in (1, args.epochs):  # the first one tells whether a kept run would go as before
            curve.append(node_scores(embeddings, args.labels, args.seed))
        if epoch == args.stop_after:
            raise KeyboardInterrupt

    started = time.perf_counter()
    try:
        result = any2vec.fit(
            getattr(any2vec, args.model)(**json.loads(args.options)), args.data, epochs=args.epochs,
            threads=args.threads, seed=args.seed, on_epoch=on_work, **spread_of(json.loads(args.hosts)),
        )  # fmt: skip
    except BaseException:
        if not args.stop_after or len(curve) != args.stop_after:
            raise
        print(json.dumps({"curve": curve}))
        return
    names = (
        "loss", "items", "hosts", "sync", "scheme", "bits", "rounds", "rounds_per_epoch", "bytes_by_kind",
        "bytes_by_phase", "agree_share", "rows", "staleness",
    )  # fmt: skip
    kept = {name: result.summary[name] for name in names if name in result.summary}
    print(json.dumps({"curve": curve, "seconds": time.perf_counter() - started} | kept))


def word_scores(embeddings: Any, folder: Path) -> dict[str, float]:
    """The five word measures in points, by name."""
    from benchmarks.words.text import ANALOGY, MAX_VOCAB, SIMILARITY

    from any2vec.evaluate.words.analogy import evaluate_analogy
    from any2vec.evaluate.words.similarity import evaluate_similarity

    scores = {name: evaluate_similarity(embeddings, folder / file).mean for name, file in SIMILARITY.items()}
    scores[ANALOGY] = evaluate_analogy(embeddings, folder / "questions-words.txt", max_vocab=MAX_VOCAB).total.accuracy
    return {name: 100 * (score or 0.0) for name, score in scores.items()}


def node_scores(embeddings: Any, labels: str, seed: int) -> dict[str, float]:
    """Micro-F1 in points by share of labeled nodes; seed: of the splits."""
    from benchmarks.words.nodes import FRACTIONS, SHUFFLES

    from any2vec.evaluate.graph.nodes import evaluate_nodes

    result = evaluate_nodes(embeddings, labels, fractions=FRACTIONS, shuffles=SHUFFLES, seed=seed, known_counts=True)
    return {f"{score.fraction:.0%}": 100 * score.micro_f1 for score in result.scores}


if __name__ == "__main__":
    import sys

    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
    main()
