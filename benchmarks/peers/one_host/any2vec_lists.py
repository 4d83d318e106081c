"""any2vec's BPR or ALS on pairs of users and items: one JSON line of metrics, of speed, or of the time of lists."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
from scipy import sparse

import any2vec
from any2vec.evaluate import evaluate_recommend


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("model", choices=["bpr", "als"])
    parser.add_argument("seed", type=int)
    parser.add_argument("settings", type=json.loads)
    parser.add_argument("--speed", action="store_true", help="one thread")
    parser.add_argument("--lists", action="store_true", help="time 20 items for each user")
    args = parser.parse_args()
    data, settings = np.load(args.data), args.settings
    epochs, shape = int(settings.pop("epochs")), (len(data["train_indptr"]) - 1, int(data["num_items"]))

    def pairs(part: str) -> any2vec.Interactions:
        items = data[f"{part}_items"]
        found = sparse.csr_matrix((np.ones(len(items), np.float32), items, data[f"{part}_indptr"]), shape=shape)
        return any2vec.read_interactions(found)

    train = pairs("train")
    if args.model == "bpr" and "learning_rate" in settings:
        settings["min_learning_rate"] = settings["learning_rate"] / 10
    model: Any = {"bpr": any2vec.BPR, "als": any2vec.ALS}[args.model](**settings)
    made = any2vec.fit(model, train, epochs=epochs, threads=1 if args.speed else 0, seed=args.seed)
    if args.lists:
        rows = np.arange(shape[0])
        list(made.scorer.best(rows[:1000], 20, train))  # compiled before
        started = time.perf_counter()
        list(made.scorer.best(rows, 20, train))
        print(json.dumps({"list_seconds": time.perf_counter() - started, "num_users": len(rows)}))
        return
    if args.speed:
        print(json.dumps({"pairs_per_s": made.summary["items_per_s"]}))
        return
    found = evaluate_recommend(made.scorer, pairs("test"), train, k=20)
    print(json.dumps({"recall": found.recall, "ndcg": found.ndcg, "items_per_s": made.summary["items_per_s"]}))


if __name__ == "__main__":
    main()
