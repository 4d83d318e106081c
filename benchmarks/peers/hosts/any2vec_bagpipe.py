"""Bagpipe against synchronous training without a cache, on logical hosts. One JSON line: numbers that differ, by run.

Compared bit by bit: the whole table as its servers hold it, optimizer state included, and the dense layers.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from any2vec_clicks import Slice
from any2vec_spread import spread_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stream", required=True, help="arguments of PlantedClicks, a JSON object")
    parser.add_argument("--examples", type=int, required=True)
    parser.add_argument("--options", required=True, help="of DLRM, a JSON object")
    parser.add_argument("--optimizers", nargs="+", required=True)
    parser.add_argument("--trainers", type=int, nargs="+", required=True)
    parser.add_argument("--servers", type=int, nargs="+", required=True)
    parser.add_argument("--look-ahead", type=int, nargs="+", required=True)
    args = parser.parse_args()

    from any2vec.testing.planted_clicks import PlantedClicks

    data = Slice(PlantedClicks(args.examples, **json.loads(args.stream)), 0, args.examples)
    runs = []
    for optimizer in args.optimizers:
        for trainers in args.trainers:
            for servers in args.servers:
                options = json.loads(args.options) | {"optimizer": optimizer}
                spread = {"logical_hosts": trainers, "servers": servers, "sync": "bsp"}
                exact, _ = trained(data, options, spread | {"cache": "none"})
                for look_ahead in args.look_ahead:
                    found, metrics = trained(data, options, spread | {"cache": f"bagpipe:{look_ahead}"})
                    differ = {
                        name: int((bits(found[name]) != bits(array)).sum()) for name, array in exact.items()
                    }  # fmt: skip
                    runs.append(
                        {
                            "optimizer": optimizer, "trainers": trainers, "servers": servers, "look_ahead": look_ahead,
                            "differ": differ, "of": {name: array.size for name, array in exact.items()},
                            "rows": metrics,
                        }
                    )  # fmt: skip
    print(json.dumps({"runs": runs}))


def trained(data: Slice, options: Any, hosts: Any) -> tuple[dict[str, np.ndarray], Any]:
    """({"rows": float32 (V, C), "dense": float32 (1, Q)} as all have agreed, counts of the rows' ways)."""
    import any2vec
    from any2vec.tasks.clicks.program import ClickProgram

    kept: list[dict[str, np.ndarray]] = []
    made = ClickProgram.result

    def keep(self: Any, agreed: dict[str, np.ndarray]) -> Any:  # a result has no state of the optimizer any more
        kept.append({name: array.copy() for name, array in agreed.items()})
        return made(self, agreed)

    ClickProgram.result = keep  # type: ignore[method-assign]
    try:
        result = any2vec.fit(any2vec.DLRM(**options), data, threads=1, seed=1, **spread_of(hosts))
    finally:
        ClickProgram.result = made  # type: ignore[method-assign]
    return kept[0], result.summary["rows_of_hosts"]


def bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(np.uint32)


if __name__ == "__main__":
    main()
