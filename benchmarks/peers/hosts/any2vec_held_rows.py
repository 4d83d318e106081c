"""What logical hosts hold of the tables while they train, counted array by array in each round: one JSON line."""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from any2vec_spread import spread_of

MOST = 10_000
"""things of a list that are looked at: longer ones are keys, tokens or counts"""


def rows_of(thing: Any, dim: int) -> int:
    """Rows of `dim` float32 numbers in all arrays that an object of any2vec leads to, each array once."""
    seen: set[int] = set()
    found, waiting = 0, [thing]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            if isinstance(one.base, np.ndarray):
                waiting.append(one.base)
            elif one.dtype == np.float32 and one.ndim == 2 and one.shape[1] == dim:
                found += len(one)
        elif isinstance(one, dict):
            waiting += list(one.values())[:MOST]
        elif isinstance(one, (list, tuple)):
            waiting += one[:MOST]
        elif type(one).__module__.startswith("any2vec."):
            waiting += vars(one).values() if hasattr(one, "__dict__") else ()
    return found


def watch(held: dict[int, list[int]], dim: int) -> None:
    """Let each host note, in the middle of each round, how many rows its program holds."""
    from any2vec.sync.drivers.rounds import Rounds
    from any2vec.tasks.words.program import SequenceProgram

    programs: dict[int, SequenceProgram] = {}
    begin, after = SequenceProgram.__init__, Rounds.after

    def begun(program: SequenceProgram, *arguments: Any) -> None:
        begin(program, *arguments)
        programs[id(program.driver)] = program

    def trained(driver: Rounds, work: Any, stats: Any) -> None:
        if work.ends_round:
            program = programs[id(driver)]
            held.setdefault(program.transport.rank, []).append(rows_of([program, driver], dim))
        after(driver, work, stats)

    SequenceProgram.__init__ = begun  # type: ignore[method-assign]
    Rounds.after = trained  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--text", "--scheme", "--out"):
        parser.add_argument(name, required=True)
    for name in ("--hosts", "--rounds", "--dim"):
        parser.add_argument(name, type=int, required=True)
    args = parser.parse_args()

    import any2vec

    held: dict[int, list[int]] = {}
    watch(held, args.dim)
    spread = spread_of({"logical_hosts": args.hosts, "rounds_per_epoch": args.rounds, "scheme": args.scheme})
    found = any2vec.fit(any2vec.SkipGram(dim=args.dim), args.text, epochs=1, threads=1, **spread)
    found.embeddings.save(args.out, overwrite=True)
    rounds = found.summary["rounds"]
    assert len(held) == args.hosts and all(len(by_round) == rounds for by_round in held.values())
    print(json.dumps({
        "held_rows": {rank: max(by_round) for rank, by_round in sorted(held.items())},
        "rows": found.summary["rows"], "rounds": rounds,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
