"""TuckER: a tensor product of head, relation and tail (Balazevic, Allen, Hospedales 2019, equation 1)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from any2vec.checks import check_number, check_whole
from any2vec.models.triples.config import TripleModel
from any2vec.models.triples.score import Dense, QueryScore


@dataclass(frozen=True, kw_only=True)
class TuckER(TripleModel):
    """Vectors of entities and relations by TuckER."""

    name: ClassVar[str] = "tucker"
    start_spread: ClassVar[float] = 0.1

    dim: int = 64
    """size of the vectors of entities, 1..4096"""
    relation_dim: int = 16
    """size of the vectors of relations, 1..4096"""
    core_spread: float = 1.0
    """numbers of the core start uniform within this, in (0, 10]"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("relation_dim", self.relation_dim, 1, 4096)
        check_number("core_spread", self.core_spread, 0, 10, open_low=True)

    @property
    def relation_width(self) -> int:
        return self.relation_dim

    def start_dense(self, rng: np.random.Generator) -> Dense:
        shape = (self.relation_dim, self.dim, self.dim)
        return {"core": rng.uniform(-self.core_spread, self.core_spread, shape).astype(np.float32)}

    def make_score(self) -> QueryScore:
        return Core()


class Core(QueryScore):
    """query = core x relation x entity; D numbers of an entity, P of a relation."""

    def queries(self, entity_QD: np.ndarray, relation_QP: np.ndarray, dense: Dense) -> np.ndarray:
        self.entity_QD, self.relation_QP, self.core_PDD = entity_QD, relation_QP, dense["core"]
        parts = zip(relation_QP.T, self.core_PDD, strict=True)
        return sum((relation_Q[:, None] * entity_QD) @ core_DD for relation_Q, core_DD in parts)

    def query_gradients(self, gradient_QD: np.ndarray) -> tuple[np.ndarray, np.ndarray, Dense]:
        of_entity_QD, of_relation_QP = np.zeros_like(self.entity_QD), np.empty_like(self.relation_QP)
        of_core_PDD = np.empty_like(self.core_PDD)
        for p, core_DD in enumerate(self.core_PDD):
            relation_Q1, back_QD = self.relation_QP[:, p, None], gradient_QD @ core_DD.T
            of_entity_QD += relation_Q1 * back_QD
            of_relation_QP[:, p] = (self.entity_QD * back_QD).sum(axis=1)
            of_core_PDD[p] = (relation_Q1 * self.entity_QD).T @ gradient_QD
        return of_entity_QD, of_relation_QP, {"core": of_core_PDD}
