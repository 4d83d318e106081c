"""implicit's BPR or ALS on pairs of users and items: one JSON line of metrics, or of speed."""

from __future__ import annotations

import argparse
import json
import time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("model", choices=["bpr", "als"])
    parser.add_argument("seed", type=int)
    parser.add_argument("settings", type=json.loads)
    parser.add_argument("--speed", action="store_true", help="one thread, epochs beyond two timed")
    args = parser.parse_args()

    import implicit
    import numpy as np
    from scipy import sparse

    data, settings = np.load(args.data), args.settings
    shape = len(data["train_indptr"]) - 1, int(data["num_items"])

    def matrix(part: str) -> sparse.csr_matrix:
        items = data[f"{part}_items"]
        return sparse.csr_matrix((np.ones(len(items), np.float32), items, data[f"{part}_indptr"]), shape=shape)

    def made(epochs: int) -> tuple[object, float]:
        shared = {
            "factors": settings["dim"], "iterations": epochs, "regularization": settings["l2"],
            "num_threads": 1 if args.speed else 0, "random_state": args.seed,
        }  # fmt: skip
        if args.model == "als":
            confidence = 1 + settings["alpha"]  # of a pair: what implicit calls alpha
            found = implicit.als.AlternatingLeastSquares(alpha=confidence, **shared)
        else:
            found = implicit.bpr.BayesianPersonalizedRanking(learning_rate=settings["learning_rate"], **shared)
        started = time.perf_counter()
        found.fit(train, show_progress=False)
        return found, time.perf_counter() - started

    train, test, epochs = matrix("train"), matrix("test"), int(settings["epochs"])
    result = {"versions": {"implicit": implicit.__version__}}
    if args.speed:
        few, all_of_them = made(2)[1], made(epochs)[1]
        result["pairs_per_s"] = (1 + (args.model == "als")) * train.nnz * (epochs - 2) / (all_of_them - few)
        print(json.dumps(result))
        return
    model, _ = made(epochs)
    users = np.flatnonzero(np.diff(test.indptr))
    gain = 1 / np.log2(np.arange(2, 22))
    recall = ndcg = 0.0
    for start in range(0, len(users), 1000):
        part = users[start : start + 1000]
        lists, _ = model.recommend(part, train[part], N=20, filter_already_liked_items=True)
        for user, items in zip(part, lists, strict=True):
            wanted = test.indices[test.indptr[user] : test.indptr[user + 1]]
            hits = np.isin(items, wanted)
            recall += hits.sum() / len(wanted)
            ndcg += (hits * gain[: len(hits)]).sum() / gain[: min(20, len(wanted))].sum()
    print(json.dumps(result | {"recall": recall / len(users), "ndcg": ndcg / len(users)}))


if __name__ == "__main__":
    main()
