"""any2vec's models of clicks on a planted stream, scored on its next slice. One JSON line: scores, bytes, syncs by run.

The stream is made where it is read, so nothing is stored; logical hosts are threads of this process.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from any2vec_spread import spread_of

_SAMPLE = 1 << 16


class Slice:
    """Examples [start, stop) of a planted stream, as `fit` reads them."""

    def __init__(self, planted: Any, start: int, stop: int) -> None:
        self.planted, self.start, self.num_examples = planted, start, stop - start
        sample = planted.batch(start, min(stop, start + _SAMPLE)).label_B
        self.num_clicks = round(float(sample.mean()) * self.num_examples)  # for the summary alone, so near enough
        self.columns, self.dense_names, self.num_rows = planted.columns, planted.dense_names, planted.num_rows
        self.num_rows_F, self.offset_F, self.is_mean_F = planted.num_rows_F, planted.offset_F, planted.is_mean_F
        self.digest = f"{planted.digest}-{start}-{stop}"
        self.counts_V = np.zeros(self.num_rows, np.int64)
        for part in pieces(start, stop):
            self.counts_V += np.bincount(planted.batch(*part).id_M, minlength=self.num_rows)
        self.encoder = SimpleNamespace(schema=planted.schema, offset_F=planted.offset_F, parts=dict)

    def batch(self, start: int, stop: int) -> Any:
        return self.planted.batch(self.start + start, self.start + stop)

    def key_of_rows(self) -> np.ndarray:
        return np.arange(self.num_rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stream", required=True, help="arguments of PlantedClicks, a JSON object")
    parser.add_argument("--train", type=int, nargs=2, required=True, help="first example, and the one behind the last")
    parser.add_argument("--test", type=int, nargs=2, required=True)
    parser.add_argument("--model", default="DLRM", help="class of any2vec")
    parser.add_argument("--options", required=True, help="its options, a JSON object")
    parser.add_argument(
        "--hosts", required=True, help="JSON list of options of hosts and sync; null: one trainer alone"
    )
    parser.add_argument("--push-bound", type=int, help="of caches by HET, where it is not the pull bound")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    from any2vec.testing.planted_clicks import PlantedClicks

    if args.push_bound is not None:
        from any2vec.tables.cache import cached_table

        made = cached_table.VersionedCache
        cached_table.VersionedCache = partial(made, push_bound=args.push_bound)  # type: ignore[misc,assignment]
    planted = PlantedClicks(max(args.train[1], args.test[1]), **json.loads(args.stream))
    train = Slice(planted, *args.train)
    floor = planted.bayes(*args.test)
    runs = [
        one_run(args.model, json.loads(args.options), hosts, train, args.test, args.seed)
        for hosts in json.loads(args.hosts)
    ]
    bayes = {"log_loss": floor.log_loss, "auc": floor.auc, "normalized_entropy": floor.normalized_entropy}
    print(json.dumps({"bayes": bayes, "runs": runs}))


def one_run(model: str, options: Any, hosts: Any, train: Slice, test: list[int], seed: int) -> dict[str, Any]:
    """One pass, and how it foretells the slice that it has not seen."""
    import any2vec
    from any2vec.evaluate.clicks import evaluate_clicks

    started = time.perf_counter()
    result = any2vec.fit(
        getattr(any2vec, model)(**options), train, threads=1, seed=seed, **spread_of(hosts)
    )  # fmt: skip
    seconds = time.perf_counter() - started
    batches = [train.planted.batch(*part) for part in pieces(*test)]
    labels = np.concatenate([batch.label_B for batch in batches])
    found = evaluate_clicks(labels, np.concatenate([result.scorer.predict(batch) for batch in batches]))
    names = ("bytes_by_kind", "bytes_by_phase", "rows_of_hosts", "dense_of_hosts")
    kept = {name: result.summary[name] for name in names if name in result.summary}
    return {
        "hosts": hosts, "normalized_entropy": found.normalized_entropy, "auc": found.auc, "log_loss": found.log_loss,
        "one_pass_entropy": result.summary.get("normalized_entropy"), "seconds": seconds,
    } | kept  # fmt: skip


def pieces(start: int, stop: int, size: int = 1 << 15) -> list[tuple[int, int]]:
    """A range in parts that fit into memory."""
    return [(at, min(at + size, stop)) for at in range(start, stop, size)]


if __name__ == "__main__":
    main()
