"""A planted knowledge graph of any size, whose best possible filtered ranks are known.

Entities stand in groups of equal size. A relation leads from every group to one other; within a group entities are
more or less popular, as Zipf's law has it, as heads and as tails. So the best that any model can do is to put the right
group first, the popular ones at its top.

Legend: M triples, S entities of a group, G groups.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import numpy as np

from any2vec.checks import check_number, check_whole
from any2vec.errors import InputError
from any2vec.evaluate.triples import Known

CHUNK = 1 << 16
"""triples that are drawn at once"""


class PlantedTriples:
    """Triples by number; the same whoever asks for them, in whatever pieces.

    Args:
        entities: G * S, a multiple of group.
        relations: each leads from group g to group order[g]; the first to the next group, others as they are drawn.
        group: S, entities of a group.
        zipf: exponent of the popularity within a group, 0 and up; 0: all alike.
        noise: share of triples whose tail is any entity.

    Raises:
        InputError: a number is not legal.
    """

    def __init__(
        self, entities: int = 10_000, relations: int = 5, group: int = 20, zipf: float = 1.0, noise: float = 0.0,
        seed: int = 1,
    ) -> None:  # fmt: skip
        check_whole("group", group, 1, 1 << 20)
        check_whole("entities", entities, group, 1 << 31)
        check_whole("relations", relations, 1, 1 << 20)
        check_number("zipf", zipf, 0, 10)
        check_number("noise", noise, 0, 1)
        if entities % group:
            raise InputError(f"entities must be a multiple of group = {group}, got {entities}.")
        self.entities, self.relations, self.group, self.noise, self.seed = entities, relations, group, noise, seed
        options = {"entities": entities, "relations": relations, "group": group, "zipf": zipf, "noise": noise}
        self.digest = hashlib.sha256(json.dumps(options | {"seed": seed}).encode()).hexdigest()
        """of all options: equal digests, equal triples"""
        rng = np.random.default_rng((seed, 0))
        groups = entities // group
        self._target_RG = np.stack(
            [np.roll(np.arange(groups), -1), *(rng.permutation(groups) for _ in range(relations - 1))]
        )
        self._source_RG = np.argsort(self._target_RG, axis=1)
        self._member_E = rng.permutation(entities)
        """entity at each place; places of a group lie together, the most popular first"""
        self._place_E = np.argsort(self._member_E)
        weight_S = (1.0 + np.arange(group)) ** -zipf
        self._cumulated_S = np.cumsum(weight_S / weight_S.sum())

    def triples(self, start: int, stop: int) -> np.ndarray:
        """Triples [start, stop), int64 (M, 3): head, relation, tail."""
        return np.concatenate([np.empty((0, 3), np.int64), *self._parts(start, stop)])

    def best_ranks(self, test_M3: np.ndarray, known_M3: np.ndarray) -> np.ndarray:
        """Filtered ranks, float64 (2 M,), heads' behind tails', of the best model, which knows how triples are made.

        known_M3: all true triples, those of the test among them. A tail by noise ranks as the model has it: behind all
        of the right group, in the middle of the rest.
        """
        found = []
        for given, answer, way_RG in ((0, 2, self._target_RG), (2, 0, self._source_RG)):
            known = Known(known_M3[:, given], known_M3[:, 1], known_M3[:, answer], self.relations)
            group_M = way_RG[test_M3[:, 1], self._place_E[test_M3[:, given]] // self.group]
            place_K, other_K = known.pairs(test_M3[:, given], test_M3[:, 1])
            own_M = self._place_E[test_M3[:, answer]]
            is_other_K = other_K != test_M3[place_K, answer]
            place_K, at_K = place_K[is_other_K], self._place_E[other_K[is_other_K]]
            is_in_K = at_K // self.group == group_M[place_K]
            size = len(test_M3)
            first_M = group_M * self.group
            is_in_M = own_M // self.group == group_M
            ahead_M = np.where(is_in_M, own_M - first_M, self.group)
            ahead_K = is_in_K & (at_K < np.where(is_in_M, own_M, first_M + self.group)[place_K])
            rank_M = 1.0 + ahead_M - np.bincount(place_K[ahead_K], minlength=size)
            rest_M = self.entities - self.group - 1 - np.bincount(place_K[~is_in_K], minlength=size)
            found.append(rank_M + np.where(is_in_M, 0.0, 0.5 * rest_M))
        return np.concatenate(found)

    def _parts(self, start: int, stop: int) -> Iterator[np.ndarray]:
        for chunk in range(start // CHUNK, -(-stop // CHUNK)):
            first = chunk * CHUNK
            yield self._chunk(chunk)[max(0, start - first) : stop - first]

    def _chunk(self, number: int) -> np.ndarray:
        rng = np.random.default_rng((self.seed, 1, number))
        groups = self.entities // self.group
        group_M = rng.integers(0, groups, CHUNK)
        relation_M = rng.integers(0, self.relations, CHUNK)
        head_M = group_M * self.group + np.searchsorted(self._cumulated_S, rng.random(CHUNK))
        tail_M = self._target_RG[relation_M, group_M] * self.group + np.searchsorted(
            self._cumulated_S, rng.random(CHUNK)
        )
        is_noise_M, other_M = rng.random(CHUNK) < self.noise, rng.integers(0, self.entities, CHUNK)
        tail_M = np.where(is_noise_M, other_M, tail_M)
        return np.stack([self._member_E[head_M], relation_M, self._member_E[tail_M]], axis=1)
