"""What can be asked of a run over HTTP: an operation has a request, an answer, and a function between them.

A further one is an `Operation` in OPERATIONS: its messages become part of the OpenAPI document, and its limits, its
refusals and its path (`/runs/NAME/OPERATION`) are those of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    StrictBool,
    StrictInt,
    StrictStr,
    model_validator,
)  # fmt: skip

from any2vec.encoders.encoder import make_possible
from any2vec.errors import InputError, UnknownKeyError
from any2vec.models.recommend.recommender import Recommender
from any2vec.models.triples.prediction import PARTS, Query, row_of
from any2vec.models.triples.scorer import TripleScorer
from any2vec.serve.catalog import ServedRun
from any2vec.serve.limits import Deadline, Limits

_PIECE = 16
"""queries that are answered between two looks at the clock"""
_MOST_FIELDS = 1000
MOST_FACTORS = 100
"""keys of one analogy by mul, which goes over all rows for each"""


def _unicode(key: int | str) -> int | str:
    """ValueError for half a surrogate pair, which JSON can spell and no answer could."""
    if isinstance(key, str) and not key.isascii():
        key.encode()
    return key


def _few(given: Any) -> Any:
    """ValueError for an object of so many fields that saying what is wrong with each would take seconds."""
    if isinstance(given, dict) and len(given) > _MOST_FIELDS:
        raise ValueError(f"An object has {_MOST_FIELDS:,} fields at most, got {len(given):,}")
    return given


Item = TypeVar("Item")
Many = Annotated[list[Item], Field(fail_fast=True)]
"""a list whose first fault is told: to find those of a large one takes seconds, in which nobody is answered"""
Key = Annotated[StrictInt | StrictStr, AfterValidator(_unicode)]
Vector = Many[FiniteFloat]
Value = Key | StrictBool | FiniteFloat | None | Many[Key]
"""in a column of clicks"""
Row = Annotated[dict[str, Value], BeforeValidator(_few)]
"""of clicks, by column"""
K = Annotated[int, Field(ge=1, strict=True, description="answers to each query, best first")]


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid")
    _few = model_validator(mode="before")(_few)


class Refusal(_Message):
    """Why there is no answer, in one sentence."""

    error: str


class Neighbor(_Message):
    """An answer."""

    key: int | str
    score: float


class NearestRequest(_Message):
    """Keys, or vectors."""

    keys: Many[Key] | None = None
    vectors: Many[Vector] | None = None
    k: K = 10
    approximate: bool | None = Field(None, description="through an index; null: as the server was started")


class Neighbors(_Message):
    """By query, in their order; null: a key that is unknown."""

    neighbors: list[list[Neighbor] | None]
    unknown: list[Key] = Field(description="keys that have no vector")


class MostSimilarRequest(_Message):
    """positive [b, c], negative [a]: a is to b as c is to the answers."""

    positive: Many[Key] = []
    negative: Many[Key] = []
    k: K = 10
    method: Literal["add", "mul"] = "add"


class Answers(_Message):
    """Best first."""

    answers: list[Neighbor]


class SimilarityRequest(_Message):
    """Keys on both sides."""

    a: Many[Key] = Field(min_length=1)
    b: Many[Key] = Field(min_length=1)


class Similarities(_Message):
    """A line for each key of a, a number for each of b."""

    similarities: list[list[float]]


class ScoreRequest(_Message):
    """Rows of clicks by column, or triples; not both."""

    rows: Many[Row] | None = None
    triples: Many[tuple[Key, Key, Key]] | None = None


class Scores(_Message):
    """In the order of the request: probabilities of clicks, or scores of triples."""

    scores: list[float]


class ClassesRequest(_Message):
    """Nodes that the classifier was trained around."""

    keys: Many[Key]


class Classes(_Message):
    """By node, in their order, the likeliest class first; null: a key that is unknown."""

    classes: list[list[Neighbor] | None]
    unknown: list[Key] = Field(description="keys that are no nodes of the run")


class TripleQuery(_Message):
    """Two of the three; what is left out, or null, is asked for."""

    head: Key | None = None
    relation: Key | None = None
    tail: Key | None = None


class PredictRequest(_Message):
    """Queries of a knowledge graph."""

    queries: Many[TripleQuery] = Field(min_length=1)
    k: K = 10
    exclude_training: bool = Field(False, description="leave out the triples of training")


class Predictions(_Message):
    """By query, in their order, best first."""

    answers: list[list[Neighbor]]


class RecommendRequest(_Message):
    """Users of implicit feedback; of a model of clicks contexts, and the column whose values are ranked for them."""

    users: Many[Key] | None = None
    contexts: Many[Row] | None = Field(None, description="what is known of each row, by column")
    column: StrictStr | None = Field(None, description="a column of one category, whose values are ranked")
    values: Many[Key] | None = Field(None, description="those that are ranked; null: those of training")
    k: K = 10
    exclude: Many[Many[Key]] | None = Field(None, description="left out: a list for each user or context")


class Recommendations(_Message):
    """By user or context, in their order, best first; null: a user that is unknown. Scores of a model of clicks are
    probabilities."""

    answers: list[list[Neighbor] | None]
    unknown: list[Key] = Field(description="users that the run was not trained on; of contexts none")


@dataclass(frozen=True)
class Operation:
    """One thing that is asked of runs."""

    name: str
    request: type[BaseModel]
    answer: type[BaseModel]
    run: Callable[[ServedRun, Any, Limits, Deadline], dict[str, Any]]
    """the answer of a checked request, as JSON has it; raises the library's errors"""
    tasks: tuple[str, ...] = ()
    """of the runs that it can be asked of; (): of all"""


def nearest(run: ServedRun, asked: NearestRequest, limits: Limits, deadline: Deadline) -> dict[str, Any]:
    """As `Embeddings.nearest`; unknown keys lose only themselves."""
    if (asked.keys is None) == (asked.vectors is None):
        raise InputError("Give either keys or vectors.")
    size = len(asked.keys or asked.vectors or [])
    limits.check_items("keys or vectors", size)
    limits.check_k(asked.k, size)
    approximate = run.is_approximate if asked.approximate is None else asked.approximate
    if approximate and not run.is_approximate:
        raise InputError("The server has no index; leave out approximate, or start it with --approximate.")
    found: list[Any] = []
    unknown: list[int | str] = []
    for piece in _pieces(asked.vectors or [], deadline):
        queries = _vectors(piece, run.embeddings.dim)
        found += map(_listed, run.embeddings.nearest(queries, asked.k, approximate))
    for keys in _pieces(asked.keys or [], deadline):
        is_there = [_has_vector(run, key) for key in keys]
        there = [key for key, is_known in zip(keys, is_there, strict=True) if is_known]
        answers = iter(run.embeddings.nearest(there, asked.k, approximate))
        found += [_listed(next(answers)) if is_known else None for is_known in is_there]
        unknown += [key for key, is_known in zip(keys, is_there, strict=True) if not is_known]
    if unknown and len(unknown) == len(found):
        _check_known(run, unknown)
    return {"neighbors": found, "unknown": unknown}


def most_similar(run: ServedRun, asked: MostSimilarRequest, limits: Limits, deadline: Deadline) -> dict[str, Any]:
    """As `Embeddings.most_similar`."""
    limits.check_k(asked.k)
    limits.check_items("keys", size := len(asked.positive) + len(asked.negative))
    if asked.method == "mul" and size > MOST_FACTORS:
        raise InputError(f"most_similar by mul takes {MOST_FACTORS} keys at most, got {size:,}; take add.")
    _check_known(run, asked.positive + asked.negative)
    return {"answers": _listed(run.embeddings.most_similar(asked.positive, asked.negative, asked.k, asked.method))}


def similarity(run: ServedRun, asked: SimilarityRequest, limits: Limits, deadline: Deadline) -> dict[str, Any]:
    """As `Embeddings.similarity`."""
    limits.check_items("keys", len(asked.a) + len(asked.b))
    limits.check_answers(len(asked.a) * len(asked.b), f"{len(asked.a):,} keys by {len(asked.b):,}")
    _check_known(run, asked.a + asked.b)
    return {"similarities": run.embeddings.similarity(asked.a, asked.b).tolist()}


def score(run: ServedRun, asked: ScoreRequest, limits: Limits, deadline: Deadline) -> dict[str, Any]:
    """Of clicks their probabilities, of triples the model's scores."""
    given = "triples" if run.task == "triples" else "rows"
    wanted: list[Any] | None = getattr(asked, given)
    if wanted is None or (asked.triples is not None and asked.rows is not None):
        raise InputError(f"{run.name} is a run of {run.task}; give {given}, and nothing else.")
    limits.check_items(given, len(wanted))
    if not wanted:
        return {"scores": []}
    if run.task == "triples":
        rows = [[row_of(run.scorer, *one) for one in zip(PARTS, triple, strict=True)] for triple in wanted]
        return {"scores": _finite(run.scorer.score_rows(np.array(rows, np.int64)))}
    with _alone(run, deadline):
        return {"scores": _finite(run.scorer.probabilities(_columns(wanted)))}


def classes(run: ServedRun, asked: ClassesRequest, limits: Limits, deadline: Deadline) -> dict[str, Any]:
    """What the run has predicted of its nodes."""
    limits.check_items("keys", len(asked.keys))
    if run.classes is None:
        raise InputError(f"{run.name} keeps no classes of its nodes; train it again.")
    row_B = run.embeddings.keys.rows(asked.keys)
    found = [None if row < 0 else _listed(run.classes.of(row)) for row in row_B.tolist()]
    return {"classes": found, "unknown": [key for key, row in zip(asked.keys, row_B, strict=True) if row < 0]}


def predict(run: ServedRun, asked: PredictRequest, limits: Limits, deadline: Deadline) -> dict[str, Any]:
    """As `TripleScorer.predict_many`."""
    limits.check_items("queries", len(asked.queries))
    limits.check_k(asked.k, len(asked.queries))
    scorer: TripleScorer = run.scorer
    found: list[Any] = []
    for piece in _pieces(asked.queries, deadline):
        queries = [Query(one.head, one.relation, one.tail) for one in piece]
        found += map(_listed, scorer.predict_many(queries, k=asked.k, exclude_training=asked.exclude_training))
    return {"answers": found}


def recommend(run: ServedRun, asked: RecommendRequest, limits: Limits, deadline: Deadline) -> dict[str, Any]:
    """As `Recommender.recommend` and `rank_values`; users that are unknown lose only themselves, and items that are
    unknown are left out of exclude."""
    is_clicks = run.task == "clicks"
    wanted: list[Any] | None = asked.contexts if is_clicks else asked.users
    others = [asked.users] if is_clicks else [asked.contexts, asked.column, asked.values]
    if wanted is None or any(other is not None for other in others) or (is_clicks and asked.column is None):
        noun = "contexts and column" if is_clicks else "users"
        raise InputError(f"{run.name} is a run of {run.task}; give {noun}.")
    limits.check_k(asked.k, len(wanted))
    exclude = asked.exclude if asked.exclude is not None else [[]] * len(wanted)
    limits.check_items("users, contexts and items", len(wanted) + sum(map(len, [*exclude, asked.values or []])))
    if len(exclude) != len(wanted):
        raise InputError(f"exclude has a list for each of the {len(wanted)} asked for, got {len(exclude)}.")
    pairs = list(zip(wanted, exclude, strict=True))
    if is_clicks:
        return {"answers": [_ranked(run, asked, *pair, deadline) for pair in pairs], "unknown": []}
    scorer: Recommender = run.scorer
    found: list[Any] = [None] * len(pairs)
    is_there = scorer.users.rows(wanted) >= 0
    if wanted and not is_there.any():
        scorer.rows_of(wanted)
    for places in _pieces(np.flatnonzero(is_there).tolist(), deadline):
        piece = [pairs[place] for place in places]
        left_out = [row_E[row_E >= 0] for row_E in (scorer.items.rows(items) for _, items in piece)]
        indptr_B = np.cumsum([0, *map(len, left_out)])
        row_B, left_out_E = scorer.rows_of([user for user, _ in piece]), np.concatenate(left_out).astype(np.int32)
        item_BK, best_BK = scorer.best_apart_from(row_B, asked.k, indptr_B, left_out_E)
        _finite(best_BK[item_BK >= 0])
        for place, line in zip(places, scorer.named(item_BK, best_BK), strict=True):
            found[place] = _listed(line)
    return {
        "answers": found,
        "unknown": [user for user, is_known in zip(wanted, is_there, strict=True) if not is_known],
    }


def _ranked(
    run: ServedRun, asked: RecommendRequest, context: dict[str, Any], exclude: Sequence[int | str], deadline: Deadline
) -> list[dict[str, Any]]:
    """The best values of a column for a context."""
    from any2vec.models.clicks.ranking import rank_values  # PyTorch is there where models of clicks are

    values = None if asked.values is None else [*map(str, asked.values)]
    with _alone(run, deadline):
        found = rank_values(
            run.scorer, context, str(asked.column), asked.k, values=values, exclude={*map(str, exclude)},
            check=deadline.check,
        )  # fmt: skip
    _finite(np.array([probability for _, probability in found]))
    return _listed(found)


OPERATIONS = (
    Operation("nearest", NearestRequest, Neighbors, nearest),
    Operation("most_similar", MostSimilarRequest, Answers, most_similar),
    Operation("similarity", SimilarityRequest, Similarities, similarity),
    Operation("score", ScoreRequest, Scores, score, ("clicks", "triples")),
    Operation("classes", ClassesRequest, Classes, classes, ("graphs", "layers")),
    Operation("predict", PredictRequest, Predictions, predict, ("triples",)),
    Operation("recommend", RecommendRequest, Recommendations, recommend, ("recommend", "clicks")),
)


def operations_of(run: ServedRun) -> list[str]:
    """What can be asked of a run, by name."""
    return [one.name for one in OPERATIONS if not one.tasks or run.task in one.tasks]


def answer(operation: Operation, run: ServedRun, asked: Any, limits: Limits, deadline: Deadline) -> dict[str, Any]:
    """Carry out an operation.

    Raises:
        UnknownKeyError: the run has no such operation, or no such key.
        InputError, DataError: the request asks for what there is not.
        TooLateError: it takes too long.
    """
    deadline.check()
    if operation.name not in operations_of(run):
        raise UnknownKeyError(
            f"{run.name} cannot be asked to {operation.name}, only for {', '.join(operations_of(run))}."
        )
    return operation.run(run, asked, limits, deadline)


@contextmanager
def _alone(run: ServedRun, deadline: Deadline) -> Iterator[None]:
    """The one request of a run at a time. TooLateError: the others have taken longer than it may."""
    while not run.lock.acquire(timeout=deadline.left):
        deadline.check()
    try:
        deadline.check()
        yield
    finally:
        run.lock.release()


def _pieces(items: Sequence[Any], deadline: Deadline) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), _PIECE):
        deadline.check()
        yield items[start : start + _PIECE]


def _check_known(run: ServedRun, keys: Sequence[int | str]) -> None:
    """Without a look for keys that are spelled alike, which takes longer than the answer."""
    unknown = [key for key in keys if not _has_vector(run, key)]
    if unknown:
        raise UnknownKeyError(f"{run.name} has no vector for {', '.join(f'{key!r:.80}' for key in unknown[:5])}.")


def _has_vector(run: ServedRun, key: int | str) -> bool:
    """Whether a key has a row, or a vector can be made of its characters."""
    encoder = run.embeddings.encoder
    if key in run.embeddings or encoder is None or isinstance(key, int):
        return key in run.embeddings
    return key in make_possible(encoder, [key])[0]


def _vectors(piece: Sequence[Vector], dim: int) -> np.ndarray:
    if any(len(vector) != dim for vector in piece):
        raise InputError(f"A vector has {dim} numbers.")
    with np.errstate(over="ignore"):
        found = np.array(piece, np.float32)
    if not np.isfinite(found).all():
        raise InputError("A number of a vector is beyond float32.")
    return found


def _columns(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """Columns of rows that all name the same ones."""
    names = list(rows[0])
    if not names or any(set(row) != set(names) for row in rows):
        raise InputError(f"All rows must have the same columns, those of the first: {', '.join(names) or 'none'}.")
    return {name: [row[name] for row in rows] for name in names}


def _listed(found: Sequence[tuple[Any, float]]) -> list[dict[str, Any]]:
    return [{"key": key, "score": score} for key, score in found]


def _finite(score_N: np.ndarray) -> list[float]:
    if not np.isfinite(score_N).all():
        raise InputError("The model scores a row with no number: its training has diverged.")
    return [float(one) for one in score_N]
