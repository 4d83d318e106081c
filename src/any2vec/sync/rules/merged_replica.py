"""Any merge rule for replicas: what trainers made of the rows since the last sync is merged, as between rounds.

A replica is what was agreed last plus what its own workers have done since: their difference is the trainer's change.
A sync merges the changes as of its snapshots; what workers do while it runs stays, and counts in the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy

import numpy as np

from any2vec.cluster.message import Part
from any2vec.kernels.replicas.replicas import merge_moved, merge_towards
from any2vec.sync.base.flat import Flat, Piece
from any2vec.sync.base.group import ProcessGroup
from any2vec.sync.rules.averaged_replica import Averaged
from any2vec.sync.rules.block import checked
from any2vec.sync.rules.merge_rule import MergeRule, StateMean
from any2vec.sync.rules.replica_rule import FINISHED, from_slices
from any2vec.tables.replica import Replica
from any2vec.types import State

_AGREED = "merged.agreed"


class MergedReplica(Averaged):
    """One trainer's side; trainers own slices of whole rows, and a dense vector has one owner.

    Args:
        make: an instance of the rule for rows of a table, (name, first, stop) of them.
    """

    takes_back = 0.0

    def __init__(
        self, replica: Replica, group: ProcessGroup, flat: Flat, make: Callable[[str, int, int], MergeRule]
    ) -> None:
        super().__init__(replica, group, 1.0)
        self._bounds = flat.bounds(group.trainers)
        own = self.slice_of(self.rank)
        pieces = flat.pieces(own.start, own.stop)
        self._rules = [(piece, make(piece.table, piece.first, piece.stop)) for piece in pieces]

    def merge(self) -> None:
        if self.agreed == FINISHED:
            merge_towards(self.replica.value, self.target, 1.0)
        else:
            merge_moved(self.replica.value, self.target, self.seen)

    def gather_result(self) -> np.ndarray | None:
        """What a sync of this moment would agree on; it changes nothing."""
        others, own = self.group.others, self.slice_of(self.rank)
        for peer in others:
            self.group.send(peer, [Part("dense", self.replica.value[self.slice_of(peer)].copy())], "model")
        found = {self.rank: self.replica.value[own]}
        for peer in others:
            (part,) = self.group.recv(peer, "model")
            found[peer] = self.group.numbers(peer, part, own.stop - own.start)
        result_S = self._merged(deepcopy(self._rules), [found[rank] for rank in sorted(found)])
        if self.rank:
            self.group.send(0, [Part("dense", result_S)], "model")
            return None
        whole = [result_S]
        for rank in range(1, self.group.trainers):
            (part,) = self.group.recv(rank, "model")
            where = self.slice_of(rank)
            whole.append(self.group.numbers(rank, part, where.stop - where.start))
        return np.concatenate(whole)

    def continues(self, states: Sequence[State]) -> bool:
        """Where as many trainers have kept what they had agreed on: changes are counted from there."""
        return self._known(states) is not None

    def state_dict(self) -> State:
        kept = {_AGREED: self.target[self.slice_of(self.rank)].copy()}
        for piece, rule in self._rules:
            kept |= {f"merged.{piece.table}.rule.{name}": array for name, array in rule.state_dict().items()}
        return kept

    def load_state_dict(self, states: Sequence[State]) -> None:
        """Of as many trainers; the caller lets others begin alike, with what was agreed."""
        known = self._known(states)
        if known is None:
            return
        self.target[:] = known
        self.is_recalled = True
        for piece, rule in self._rules:
            begin = f"merged.{piece.table}.rule."
            mine = {name.removeprefix(begin): a for name, a in states[self.rank].items() if name.startswith(begin)}
            if mine:
                rule.load_state_dict(mine)

    def _known(self, states: Sequence[State]) -> np.ndarray | None:
        """What as many trainers had agreed on; servers among the hosts have no states of it."""
        trainers = sum(_AGREED in state for state in states)
        return from_slices(_AGREED, states, len(self.target)) if trainers == self.group.trainers else None

    def _result(self, values: Sequence[np.ndarray]) -> np.ndarray:
        return self._merged(self._rules, values)

    def _merged(self, rules: Sequence[tuple[Piece, MergeRule]], values: Sequence[np.ndarray]) -> np.ndarray:
        start_S = self.target[self.slice_of(self.rank)]
        result_S = start_S.copy()
        for piece, rule in rules:
            start_BC, *now = (array[piece.place].reshape(-1, piece.columns) for array in (start_S, *values))
            found_BC = result_S[piece.place].reshape(-1, piece.columns)
            parts = [(slice(0, piece.width), rule)]
            if piece.columns > piece.width:
                parts.append((slice(piece.width, piece.columns), StateMean()))
            for columns, by in parts:
                start_BD = np.ascontiguousarray(start_BC[:, columns])
                changes = [now_BC[:, columns].astype(np.float64) - start_BD for now_BC in now]
                out_BD = np.empty_like(start_BD)
                by.combine(start_BD, changes, out_BD)
                found_BC[:, columns] = checked(by, out_BD)
        return result_S
