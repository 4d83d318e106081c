"""What all models of triples share: the options of training, checked at the door. Light: no numba, no NumPy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from any2vec.checks import check_choice, check_number, check_whole
from any2vec.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from any2vec.models.triples.score import Score

TRIPLE_MODELS = {
    "complex": "any2vec.models.triples.complex:ComplEx",
    "distmult": "any2vec.models.triples.distmult:DistMult",
    "transe": "any2vec.models.triples.transe:TransE",
    "rotate": "any2vec.models.triples.rotate:RotatE",
    "dot": "any2vec.models.triples.dot:DotProduct",
}
"""name on the command line -> "module:class" of its config"""
MOST_WHOLE = 65_536
"""entities up to which all of them are candidates, where nobody says how many negatives there are"""
FEW_NEGATIVES = 2_000
"""negatives of a batch where there are more entities than that"""


@dataclass(frozen=True, kw_only=True)
class TripleModel:
    """Options of a model that learns from triples (abstract).

    Each triple asks two queries: what its tail is, given head and relation, and what its head is, given the others.
    Queries with the same entity and relation come together in a batch, and the queries of a batch share its negatives.
    dim counts real and imaginary parts. loss logistic is self-adversarial: temperature says how much more hard ones
    weigh. degree_share: these negatives are drawn by how often entities are answers, the others uniformly. N3 is the
    sum of cubes, L2 that of squares, of the rows of each triple. Without reciprocal a relation's own row is read the
    other way round.
    """

    name: ClassVar[str] = ""
    default_epochs: ClassVar[int] = 24
    default_order: ClassVar[str] = "comet"
    """of buckets, where the table is larger than memory: in BETA the same partitions stay together for long, and meet
    the same negatives"""
    query: ClassVar[str] = ""
    """how an entity's row and a relation's become a query, as kernels/triples/queries.py names it; "": the model has a
    score of its own, `make_score`"""
    is_complex: ClassVar[bool] = False
    """rows are complex numbers, the real parts first"""
    has_angles: ClassVar[bool] = False
    """rows of relations are angles: they start all around, and have no size to penalize"""
    predicts_relations: ClassVar[bool] = False
    """`relation_weight` is for it"""
    is_near: ClassVar[bool] = False
    """answers lie near their queries, score gamma - distance; else scores are dot products"""
    has_relations: ClassVar[bool] = True
    start_spread: ClassVar[float] = 0.01
    """rows start uniform within this, but for angles"""

    dim: int = 192
    """size of the vectors, 1..4096, even if complex"""
    learning_rate: float = 0.4
    """initial learning rate of Adagrad, in (0, 10]"""
    min_learning_rate: float = 1e-4
    """final learning rate, 0..learning_rate"""
    batch_size: int = 1000
    """queries per step, two per triple, 1..1,048,576"""
    loss: Literal["softmax", "logistic", "margin"] = "softmax"
    """loss of an answer against its negatives"""
    num_negatives: int | None = None
    """negatives per batch, 0: all entities; by default all up to 65,536, else 2,000"""
    degree_share: float = 0.0
    """share of negatives by degree, in [0, 1]"""
    batch_negatives: bool = False
    """use the other answers of a batch as negatives, too"""
    reciprocal: bool = True
    """rows of their own for queries about heads"""
    n3: float = 0.0
    """weight of N3 regularization (cubes), 0..1000"""
    l2: float = 0.0
    """weight of L2 regularization (squares), 0..1000"""
    relation_weight: float = 0.0
    """complex, distmult: weight of the loss of predicting relations, 0..1000"""
    margin: float = 1.0
    """margin of the margin loss, in (0, 1000]"""
    gamma: float = 9.0
    """transe, rotate: scores are gamma - distance, 0..1000"""
    temperature: float = 1.0
    """logistic loss: weight of hard negatives, 0..1000; 0: equal weights"""

    def __post_init__(self) -> None:
        check_whole("dim", self.dim, 1, 4096)
        if self.is_complex and self.dim % 2:
            raise InputError(f"dim of {self.name} must be even, real and imaginary parts, got {self.dim}.")
        check_number("learning_rate", self.learning_rate, 0, 10, open_low=True)
        check_number("min_learning_rate", self.min_learning_rate, 0, 10)
        check_whole("batch_size", self.batch_size, 1, 1 << 20)
        check_choice("loss", self.loss, ("softmax", "logistic", "margin"))
        if self.num_negatives is not None:
            check_whole("num_negatives", self.num_negatives, 0, 1 << 20)
        check_number("degree_share", self.degree_share, 0, 1)
        check_number("n3", self.n3, 0, 1000)
        check_number("l2", self.l2, 0, 1000)
        check_number("relation_weight", self.relation_weight, 0, 1000)
        if self.relation_weight and not self.predicts_relations:
            raise InputError(f"relation_weight is for complex and distmult, not {self.name}; leave it out.")
        if not (self.query or self.reciprocal):
            raise InputError(f"{self.name} reads relations from heads to tails only, so reciprocal must be true.")
        check_number("margin", self.margin, 0, 1000, open_low=True)
        check_number("gamma", self.gamma, 0, 1000)
        check_number("temperature", self.temperature, 0, 1000)

    @property
    def relation_width(self) -> int:
        """Numbers of a relation's row."""
        return self.dim

    def start_dense(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """What a score of its own has beside the rows, by name, as it starts: float32, of one dimension or more."""
        return {}

    def make_score(self) -> Score:
        """The score of a model without `query`; each thread has one."""
        raise NotImplementedError(f"{type(self).__name__} has neither query nor make_score")

    def negatives_of(self, num_entities: int) -> int:
        """Negatives of a batch among so many entities; 0: all of them."""
        if self.num_negatives is not None:
            return self.num_negatives
        return 0 if num_entities <= MOST_WHOLE else FEW_NEGATIVES

    def num_relation_rows(self, num_relations: int) -> int:
        """Rows of the table of relations."""
        if not self.has_relations:
            return 1
        return 2 * num_relations if self.reciprocal else num_relations

    def as_dict(self) -> dict[str, Any]:
        return {"model": self.name} | asdict(self)
