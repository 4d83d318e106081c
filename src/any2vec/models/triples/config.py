"""Models of triples: the options of training, checked at the door. Light: no numba, no NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from any2vec.checks import Number, Whole
from any2vec.errors import InputError
from any2vec.models.config import ModelConfig

if TYPE_CHECKING:
    import numpy as np

    from any2vec.models.triples.score import Score

TRIPLE_MODELS = {
    "complex": "any2vec.models.triples.config:ComplEx",
    "distmult": "any2vec.models.triples.config:DistMult",
    "transe": "any2vec.models.triples.config:TransE",
    "rotate": "any2vec.models.triples.config:RotatE",
    "dot": "any2vec.models.triples.config:DotProduct",
}
"""name on the command line -> "module:class" of its config"""
MOST_WHOLE = 65_536
"""entities up to which all of them are candidates, where nobody says how many negatives there are"""
FEW_NEGATIVES = 2_000
"""negatives of a batch where there are more entities than that"""


@dataclass(frozen=True, kw_only=True)
class TripleModel(ModelConfig):
    """Options of a model that learns from triples (abstract).

    Each triple asks two queries: what its tail is, given head and relation, and what its head is, given the others.
    Queries with the same entity and relation come together in a batch, and the queries of a batch share its negatives.
    dim counts real and imaginary parts. loss logistic is self-adversarial: temperature says how much more hard ones
    weigh. degree_share: these negatives are drawn by how often entities are answers, the others uniformly. N3 is the
    sum of cubes, L2 that of squares, of the rows of each triple. Without reciprocal a relation's own row is read the
    other way round.
    """

    default_epochs: ClassVar[int] = 24
    default_order: ClassVar[str] = "comet"
    """of buckets, where the table is larger than memory: in BETA the same partitions stay together for long, and meet
    the same negatives"""
    query: ClassVar[str] = ""
    """how an entity's row and a relation's become a query: "complex" or "real" products, "shift", "turn",
    "plain" (the row itself); "": the model has a score of its own, `make_score`"""
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

    dim: Annotated[int, Whole(1, 4096)] = 192
    """size of the vectors, 1..4096, even if complex"""
    learning_rate: Annotated[float, Number(0, 10, open_low=True)] = 0.4
    """initial rate of Adagrad, in (0, 10]"""
    min_learning_rate: Annotated[float, Number(0, 10)] = 1e-4
    """final rate, 0..learning_rate"""
    batch_size: Annotated[int, Whole(1, 1 << 20)] = 1000
    """queries per step, 1..1,048,576"""
    loss: Literal["softmax", "logistic", "margin"] = "softmax"
    """loss of an answer against its negatives"""
    num_negatives: Annotated[int | None, Whole(0, 1 << 20)] = None
    """negatives per batch, 0: all entities; by default all up to 65,536, else 2,000"""
    degree_share: Annotated[float, Number(0, 1)] = 0.0
    """share of negatives by degree, in [0, 1]"""
    batch_negatives: bool = False
    """use the other answers of a batch as negatives, too"""
    reciprocal: bool = True
    """rows of their own for queries about heads"""
    n3: Annotated[float, Number(0, 1000)] = 0.0
    """weight of N3 regularization, 0..1000"""
    l2: Annotated[float, Number(0, 1000)] = 0.0
    """weight of L2 regularization, 0..1000"""
    relation_weight: Annotated[float, Number(0, 1000)] = 0.0
    """complex, distmult: weight of the loss of predicting relations, 0..1000"""
    margin: Annotated[float, Number(0, 1000, open_low=True)] = 1.0
    """margin of the margin loss, in (0, 1000]"""
    gamma: Annotated[float, Number(0, 1000)] = 9.0
    """transe, rotate: scores are gamma - distance, 0..1000"""
    temperature: Annotated[float, Number(0, 1000)] = 1.0
    """logistic loss: weight of hard negatives, 0..1000; 0: equal weights"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.is_complex and self.dim % 2:
            raise InputError(f"dim of {self.name} must be even, real and imaginary parts, got {self.dim}.")
        if self.relation_weight and not self.predicts_relations:
            raise InputError(f"relation_weight is for complex and distmult, not {self.name}; leave it out.")
        if not (self.query or self.reciprocal):
            raise InputError(f"{self.name} reads relations from heads to tails only, so reciprocal must be true.")

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


@dataclass(frozen=True, kw_only=True)
class ComplEx(TripleModel):
    """ComplEx: the real part of head times relation times the tail's conjugate (Trouillon et al. 2016, equation 9).

    Trained as Lacroix, Usunier, Obozinski (2018) do: reciprocal relations, softmax over all entities, N3.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "complex"
    query: ClassVar[str] = "complex"
    is_complex: ClassVar[bool] = True
    predicts_relations: ClassVar[bool] = True

    n3: float = 0.05


@dataclass(frozen=True, kw_only=True)
class DistMult(TripleModel):
    """DistMult: the sum of head times relation times tail (Yang et al. 2015, section 3.1).

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "distmult"
    query: ClassVar[str] = "real"
    predicts_relations: ClassVar[bool] = True

    n3: float = 0.05


@dataclass(frozen=True, kw_only=True)
class TransE(TripleModel):
    """TransE: the tail lies near head plus relation, by Euclidean distance (Bordes et al. 2013, equation 1).

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "transe"
    query: ClassVar[str] = "shift"
    is_near: ClassVar[bool] = True

    learning_rate: float = 0.1


@dataclass(frozen=True, kw_only=True)
class RotatE(TripleModel):
    """RotatE: the tail lies near the head, turned by the relation's angles (Sun et al. 2019, equation 3).

    The distance is the Euclidean one over all complex numbers, where the paper adds up their moduli: so scores are
    matrix products.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "rotate"
    query: ClassVar[str] = "turn"
    is_complex: ClassVar[bool] = True
    has_angles: ClassVar[bool] = True
    is_near: ClassVar[bool] = True

    loss: Literal["softmax", "logistic", "margin"] = "logistic"
    gamma: float = 6.0

    @property
    def relation_width(self) -> int:
        return self.dim // 2


@dataclass(frozen=True, kw_only=True)
class DotProduct(TripleModel):
    """Dot product: linked nodes of a plain graph have rows that point the same way; relations are not distinguished.

    Raises:
        InputError: an option is not legal.
    """

    name: ClassVar[str] = "dot"
    query: ClassVar[str] = "plain"
    has_relations: ClassVar[bool] = False

    @property
    def relation_width(self) -> int:
        return 0
