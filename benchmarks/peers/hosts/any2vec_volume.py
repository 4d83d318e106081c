"""Bytes that the transport of logical hosts counts, and what the formula says of the true sets: one JSON line."""

from __future__ import annotations

import argparse
import json
from collections import Counter

import numpy as np
from run_volume import gather_bytes, run_bytes, run_volumes

from any2vec.plan.cost.volume import RoundSets
from any2vec.sync.exchange.pulled import Needed, Tracker
from any2vec.sync.exchange.replicated import Replicated
from any2vec.types import Round

AGREEING = {"curvature", "inspect", "pull", "reduce", "broadcast", "report", "gather"}


class Seen:
    """Sizes of the sets, as the hosts have them: tracked by (round, table, asker, owner), merged without asker."""

    def __init__(self, hosts: int) -> None:
        self._hosts = hosts
        self._tracked: dict[int, np.ndarray] = {}
        self._merged: dict[int, np.ndarray] = {}
        self._rounds: Counter[int] = Counter()

    def next_round(self, rank: int) -> tuple[np.ndarray, np.ndarray]:
        """Room for the sizes of the round that a host has come to; made by whoever comes first."""
        number = self._rounds[rank]
        self._rounds[rank] += 1
        tracked = self._tracked.setdefault(number, np.zeros((2, self._hosts, self._hosts), np.int64))
        return tracked, self._merged.setdefault(number, np.zeros((2, self._hosts), np.int64))

    def sets(self) -> list[RoundSets]:
        return [RoundSets(self._tracked[number], self._merged[number]) for number in sorted(self._tracked)]


def watch(seen: Seen) -> None:
    """Let agreements tell the sizes of their sets."""
    import any2vec.sync.make

    class WatchedReplicated(Replicated):
        def end_round(self) -> None:
            self._sizes = seen.next_round(self.transport.rank)
            super().end_round()

        def _send_changes(self, name: str, places: np.ndarray) -> None:
            tracked, _ = self._sizes
            sizes = np.diff(np.searchsorted(places, self._shardings[name].bounds))
            tracked[list(self.tables).index(name), self.transport.rank] = sizes
            super()._send_changes(name, places)

        def _merge(self, name: str, own_slots: np.ndarray, own_rows: np.ndarray) -> np.ndarray:
            changed = super()._merge(name, own_slots, own_rows)
            _, merged = self._sizes
            merged[list(self.tables).index(name), self.transport.rank] = len(changed)
            return changed

    needed = Tracker.needed

    def watched_needed(tracker: Tracker, epoch: int, round_: Round) -> Needed:
        found, (tracked, _) = needed(tracker, epoch, round_), seen.next_round(tracker.transport.rank)
        for t, label in enumerate(tracker.labels.values()):
            tracked[t, tracker.transport.rank] = [len(ids) for ids in found.mine[label]]
        return found

    any2vec.sync.make.Replicated = WatchedReplicated  # type: ignore[misc]
    Tracker.needed = watched_needed  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", required=True)
    parser.add_argument("--scheme", required=True)
    for name in ("--hosts", "--bits", "--rounds", "--epochs"):
        parser.add_argument(name, type=int, required=True)
    args = parser.parse_args()

    import any2vec

    seen, model = Seen(args.hosts), any2vec.SkipGram()
    watch(seen)
    hosts = any2vec.HostOptions(logical_hosts=args.hosts)
    sync = any2vec.SyncOptions(scheme=args.scheme, rounds_per_epoch=args.rounds, bits=args.bits)
    summary = any2vec.fit(model, args.text, epochs=args.epochs, threads=1, hosts=hosts, sync=sync).summary
    rounds = run_volumes(args.scheme, summary["rows"], args.hosts, model.dim, args.bits, seen.sets(), is_curved=True)
    # All hosts have positions left after each round but the last of an epoch.
    unfinished = [0 if number % args.rounds == args.rounds - 1 else args.hosts - 1 for number in range(len(rounds) - 1)]
    gathered = [gather_bytes(args.scheme, summary["rows"], args.hosts, model.dim, args.bits)]
    phases, kinds = run_bytes(rounds, unfinished, gathered)
    counted = summary["bytes_by_phase"]
    beside = sum(size for phase, size in counted.items() if phase not in AGREEING)
    reported = summary["bytes_by_kind"]
    print(json.dumps({
        "counted": {
            "phases": {phase: size for phase, size in counted.items() if phase in AGREEING},
            "kinds": reported | {"control": reported["control"] - beside},
        },
        "formula": {"phases": phases, "kinds": kinds},
    }))  # fmt: skip


if __name__ == "__main__":
    main()
