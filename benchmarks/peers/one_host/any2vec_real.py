"""Click models of any2vec on one split of a real data set: their defaults, scored on the held-out file. One JSON line.

Epochs are chosen among `--epochs` by the log-loss of the last tenth of the training file, which the chosen model then
sees, too; one value is taken as it is.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--schema", required=True, help="criteo, avazu, or a TOML file")
    parser.add_argument("--header", action="store_true", help="the first line names the columns")
    parser.add_argument("--models", nargs="+", default=["LogisticRegression", "FactorizationMachine", "DeepFM", "DLRM"])
    parser.add_argument("--options", type=json.loads, default={}, help="of the models, JSON; else their defaults")
    parser.add_argument("--epochs", type=int, nargs="+", default=[1])
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    from any2vec.evaluate.clicks import evaluate_clicks

    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as cache:
        for name in args.models:
            epochs = _choose(args, name, cache) if len(args.epochs) > 1 else args.epochs[0]
            predict = _train(args, name, args.train, epochs, cache)
            probability, label = predict(args.test)
            scores = evaluate_clicks(label, probability)
            found[name] = {"auc": scores.auc, "log_loss": scores.log_loss, "epochs": epochs}
    print(json.dumps(found))


def _choose(args: argparse.Namespace, name: str, cache: str) -> int:
    from any2vec.evaluate.clicks import log_loss

    lines = args.train.read_text().splitlines(keepends=True)
    head, lines = (lines[:1], lines[1:]) if args.header else ([], lines)
    cut = len(lines) * 9 // 10
    known, held = args.train.with_suffix(".known.tsv"), args.train.with_suffix(".held.tsv")
    known.write_text("".join(head + lines[:cut]))
    held.write_text("".join(head + lines[cut:]))
    losses = {}
    for epochs in args.epochs:
        probability, label = _train(args, name, known, epochs, cache)(held)
        losses[epochs] = log_loss(label, probability)
    return min(losses, key=losses.__getitem__)


def _train(args: argparse.Namespace, name: str, path: Path, epochs: int, cache: str) -> Callable[[Path], Any]:
    """A function from a file to (probabilities, labels)."""
    import any2vec

    model = getattr(any2vec, name)(**args.options)
    made = any2vec.fit(
        model, str(path), schema=args.schema, epochs=epochs, seed=args.seed, threads=1, cache_dir=cache
    )  # fmt: skip

    def predict(rows: Path) -> Any:
        parts = list(made.scorer.score(str(rows)))
        return tuple(np.concatenate(side) for side in zip(*parts, strict=True))

    return predict


if __name__ == "__main__":
    main()
