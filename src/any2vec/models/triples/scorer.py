"""A trained model of triples, ready to score: rows of entities and relations, and the triples that it has seen.

Legend: V entities, W numbers of an entity's row, R rows of relations, P numbers of each, M triples, B queries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.checks import parse_json
from any2vec.data.io.npy import load_npy
from any2vec.data.options import TripleOptions
from any2vec.data.partitions.buckets import blocks_of
from any2vec.data.vocab.user_keys import INTEGERS, Key, UserKeys, key_meta
from any2vec.embeddings import Embeddings, Neighbors
from any2vec.errors import FormatError, InputError
from any2vec.formats.safetensors_file import read_safetensors, write_safetensors
from any2vec.formats.vocabulary import read_vocabulary, write_vocabulary
from any2vec.kernels.triples.queries import make_queries, near_scores
from any2vec.models.registry import known_models, model_of
from any2vec.models.triples.config import TRIPLE_MODELS, TripleModel
from any2vec.models.triples.prediction import checked_rows, predict, queries_of, rows_of_triples
from any2vec.models.triples.queries import ways_of
from any2vec.models.triples.score import NO_DENSE, Dense
from any2vec.models.triples.score_worker import dense_shapes
from any2vec.models.triples.worker import KINDS

RELATIONS, RELATION_NAMES, SEEN_TRIPLES = "relations.safetensors", "relations.tsv", "triples.npy"
"""files in the run folder: the rows of relations, their names, and the triples of training, int32 (M, 3) by row"""
_BLOCK = 4096
_RANKS = tuple(range(1, 9))
"""numbers of dimensions of relations and dense parameters"""
_NOTHING = np.empty(0, np.float32)


class TripleScorer:
    """Says how likely triples are: scores of the answers to one query are comparable, and higher is better.

    Args:
        entities: their names, and relations: theirs, by row.
        entity_VW: float32 (V, W); relation_RP: float32, the rows that the model has for relations.
        triple_M3: int (M, 3): head, relation, tail by row, what it was trained on.
        dense: parameters beside the rows, of a model with a score of its own.
        options: how the triples of training were read; others are read alike where they can be.
    """

    def __init__(
        self, model: TripleModel, entities: Sequence[Any], relations: Sequence[Any], entity_VW: np.ndarray,
        relation_RP: np.ndarray, triple_M3: np.ndarray, dense: Dense = NO_DENSE, options: TripleOptions | None = None,
    ) -> None:  # fmt: skip
        self.model, self.dense, self.options = model, dense, options or TripleOptions()
        self.entities, self.relations = UserKeys(entities), UserKeys(relations)
        self.vectors, self.relation_vectors = entity_VW, relation_RP
        self.triples = triple_M3
        self._ways = ways_of(model, len(relations))

    def tail_scores(self, head_B: np.ndarray, relation_B: np.ndarray) -> np.ndarray:
        """Of all entities as tails of (head_B, relation_B), rows int64 (B,): float32 (B, V).

        Raises:
            InputError: a row is none of the model's.
        """
        return self._scores(head_B, relation_B)

    def head_scores(self, tail_B: np.ndarray, relation_B: np.ndarray) -> np.ndarray:
        """Of all entities as heads of (relation_B, tail_B), rows int64 (B,): float32 (B, V); see `tail_scores`."""
        return self._scores(tail_B, relation_B, len(self.relations))

    def score(self, triples: Any) -> np.ndarray:
        """Of each triple as an answer to the query for its tail, float32 (M,).

        triples: by name, in any form that `read_triples` takes. `score_rows` takes rows.

        Raises:
            InputError: they are no triples.
            UnknownKeyError: a name is unknown.
            DataError: a file or table cannot be read.
        """
        return self.score_rows(rows_of_triples(self, triples))

    def score_rows(self, triple_M3: np.ndarray) -> np.ndarray:
        """As `score`, of triples by row, int (M, 3) as `triples` is: float32 (M,).

        Raises:
            InputError: they are no integers (M, 3), or a row is none of the model's.
        """
        triple_M3 = checked_rows(self, triple_M3)
        found = [np.empty(0, np.float32)]
        for start in range(0, len(triple_M3), _BLOCK):
            head_B, relation_B, tail_B = triple_M3[start : start + _BLOCK].T
            if not self.model.query:
                tail_K, column_B = np.unique(tail_B, return_inverse=True)
                score_BK = self._own_scores(head_B, relation_B, self.vectors[tail_K])
                found.append(score_BK[np.arange(len(tail_B)), column_B])
                continue
            query_BW, answer_BW = self._queries(head_B, relation_B), self.vectors[tail_B]
            if self.model.is_near:
                found.append(np.float32(self.model.gamma) - np.linalg.norm(query_BW - answer_BW, axis=1))
            else:
                found.append((query_BW * answer_BW).sum(axis=1))
        return np.concatenate(found)

    def predict(
        self, head: Key | None = None, relation: Key | None = None, tail: Key | None = None, *, k: int = 10,
        exclude: Any = (), exclude_training: bool = False,
    ) -> Neighbors:  # fmt: skip
        """The k likeliest answers for the part that is not given, head, relation or tail: (name, score), best first.

        Relations are compared as answers to their queries for the tail. Ties go by row.

        Args:
            exclude: triples whose answers are left out: whatever `read_triples` reads (a file, a table, a list of
                triples), or several such in a list; names of theirs that are unknown do not matter.
            exclude_training: leave out the triples of training, too.

        Raises:
            InputError: not two parts are given, or k is less than 1, or a model without relations is asked for one.
            UnknownKeyError: a name is unknown.
            DataError: exclude cannot be read; the model has diverged.
        """
        return self.predict_many([(head, relation, tail)], k=k, exclude=exclude, exclude_training=exclude_training)[0]

    def predict_many(
        self, queries: Any, *, k: int = 10, exclude: Any = (),
        exclude_training: bool = False,
    ) -> list[Neighbors]:  # fmt: skip
        """Answers to many queries, scored together; else as `predict`.

        Args:
            queries: rows of (head, relation, tail) with None for what is asked; a file of triples with ? there; or a
                table with either, or without the column that is asked.
            k, exclude, exclude_training: as of `predict`, of each query.
        """
        return predict(self, queries_of(queries, self.options), k, exclude, exclude_training)

    def tails(self, head: Key, relation: Key, k: int = 10) -> Neighbors:
        """The k likeliest tails of (head, relation), known ones among them; else as `predict`."""
        return self.predict(head, relation, k=k)

    def heads(self, relation: Key, tail: Key, k: int = 10) -> Neighbors:
        """The k likeliest heads of (relation, tail); as `tails`."""
        return self.predict(relation=relation, tail=tail, k=k)

    def relation_embeddings(self) -> Embeddings:
        """The parameters of relations as they are read from head to tail, float32 (R, P), by name: of rotate angles.

        `Embeddings.load` of the run's relations.safetensors has the same.

        Raises:
            InputError: the model has none.
        """
        if not self.model.has_relations:
            raise InputError(f"{self.model.name} does not tell relations apart: they have no vectors.")
        rows = self.relation_vectors[self._ways[0][: len(self.relations)], : self.model.relation_width]
        return Embeddings(self.relations, rows, meta={"model": self.model.as_dict()})

    def _own_scores(self, given_B: np.ndarray, way_B: np.ndarray, candidate_KW: np.ndarray) -> np.ndarray:
        """By a score of the model's own, float32 (B, K)."""
        relation_BP = self.relation_vectors[self._ways[0][way_B], : self.model.relation_width]
        found_BK = self.model.make_score().forward(self.vectors[given_B], relation_BP, candidate_KW, self.dense)
        return np.asarray(found_BK, np.float32)

    def _scores(self, given_B: np.ndarray, relation_B: np.ndarray, turned: int = 0) -> np.ndarray:
        """Of all entities; turned: added to relations where they are read from tail to head."""
        given_B, relation_B = np.asarray(given_B, np.int64), np.asarray(relation_B, np.int64)
        for what, row_B, rows in (("entities", given_B, self.entities), ("relations", relation_B, self.relations)):
            if row_B.size and not 0 <= row_B.min() <= row_B.max() < len(rows):
                wrong = row_B[(row_B < 0) | (row_B >= len(rows))][0]
                raise InputError(f"Rows of {what} are 0..{len(rows) - 1:,}, got {wrong}; `predict` takes names.")
        way_B = relation_B + turned
        if not self.model.query:
            return self._own_scores(given_B, way_B, self.vectors)
        query_BW = self._queries(given_B, way_B)
        with np.errstate(over="ignore", invalid="ignore"):  # of rows that no training makes
            score_BV = np.matmul(query_BW, self.vectors.T)
        if self.model.is_near:
            near_scores(score_BV, query_BW, self.vectors, self.model.gamma)
        return score_BV

    def _queries(self, given_B: np.ndarray, way_B: np.ndarray) -> np.ndarray:
        relation_of_way, is_turned_way = self._ways
        query_BW = np.empty((len(given_B), self.model.dim), np.float32)
        make_queries(
            KINDS[self.model.query], self.vectors, np.ascontiguousarray(given_B, np.int64), self.relation_vectors,
            relation_of_way[way_B], is_turned_way[way_B], query_BW,
        )  # fmt: skip
        return query_BW

    # ---- on disk

    def parts(self) -> Mapping[str, Any]:
        """What stands in the run folder besides the vectors: file name -> something with `write(path)`."""
        head_M, relation_M, tail_M = self.triples.T
        return parts_of(
            self.model, self.relations, self.relation_vectors, (head_M, relation_M, tail_M), self.dense, self.options
        )

    @classmethod
    def load(cls, folder: Path | str, embeddings: Embeddings | None = None) -> TripleScorer:
        """Open the folder of a finished run, its rows memory-mapped.

        Args:
            embeddings: of that folder, where they are open already.

        Raises:
            FormatError: it is none of a model of triples, or damaged.
        """
        folder = Path(folder)
        if not (folder / RELATIONS).exists():
            raise FormatError(f"{folder} holds no model of triples; give the folder of a finished run of one.")
        embeddings = Embeddings.load(folder) if embeddings is None else embeddings
        try:
            tensors, metadata = read_safetensors(folder / RELATIONS, mmap=False, ranks=_RANKS)
            about = parse_json(metadata["any2vec"])
            model: TripleModel = model_of(about["model"], known_models("triples", TRIPLE_MODELS), "triples")
            options = TripleOptions(**about.get("reading", {}))  # runs before have none
            relations = UserKeys(read_vocabulary(folder / RELATION_NAMES)[0], bool(about.get(INTEGERS)))
            triple_M3 = load_npy(folder / SEEN_TRIPLES, "r")
            relation_RP = tensors["relations"]
        except (FormatError, InputError, OSError, ValueError, TypeError, AttributeError) as error:
            raise FormatError(f"{folder} is damaged: {error}; train again.") from error
        except KeyError as error:
            raise FormatError(f"{folder / RELATIONS} is damaged: it lacks {error}; train again.") from error
        rows = model.num_relation_rows(len(relations)), max(1, model.relation_width)
        sizes = {"relations": (relation_RP.shape, rows), "vectors": (embeddings.vectors.shape[1], model.dim)}
        sizes |= {"triples": (triple_M3.shape[1:], (3,))}
        dense = {name: tensors.get(f"dense.{name}", _NOTHING) for name in dense_shapes(model)}
        sizes |= {name: (dense[name].shape, shape) for name, shape in dense_shapes(model).items()}
        for name, (found, wanted) in sizes.items():
            if found != wanted:
                raise FormatError(f"{folder} is damaged: {name} of shape {found} where {wanted} belong; train again.")
        vectors = np.ascontiguousarray(embeddings.vectors)
        return cls(model, embeddings.keys, relations, vectors, relation_RP, triple_M3, dense, options)


def parts_of(
    model: TripleModel, relations: Sequence[Any], relation_RP: np.ndarray,
    column_3M: tuple[np.ndarray, np.ndarray, np.ndarray], dense: Dense, options: TripleOptions | None,
) -> dict[str, Any]:  # fmt: skip
    """What a scorer's folder has besides the vectors: file name -> something with `write(path)`.

    column_3M: heads, relations and tails by row, integers (M,), which may be memory-mapped.
    options: how they were read.
    """
    keys = UserKeys(relations)
    about = {"model": model.as_dict(), "reading": asdict(options or TripleOptions())} | key_meta(keys)
    tensors = {"relations": relation_RP} | {f"dense.{name}": array for name, array in dense.items()}
    return {
        RELATIONS: _Parameters(about, tensors), RELATION_NAMES: _Names(keys.names), SEEN_TRIPLES: _Seen(column_3M),
    }  # fmt: skip


@dataclass(frozen=True)
class _Parameters:
    about: dict[str, Any]
    tensors: dict[str, np.ndarray]

    def write(self, path: Path) -> None:
        with path.open("wb") as file:
            write_safetensors(file, self.tensors, "float32", {"any2vec": json.dumps(self.about)})


@dataclass(frozen=True)
class _Names:
    relations: Sequence[str]

    def write(self, path: Path) -> None:
        with path.open("wb") as file:
            write_vocabulary(file, self.relations, None)


@dataclass(frozen=True)
class _Seen:
    column_3M: tuple[np.ndarray, np.ndarray, np.ndarray]

    def write(self, path: Path) -> None:
        with path.open("wb") as file:
            about = {"descr": "<i4", "fortran_order": False, "shape": (len(self.column_3M[0]), 3)}
            np.lib.format.write_array_header_1_0(file, about)
            for triple_M3 in blocks_of(*self.column_3M)():
                file.write(np.ascontiguousarray(triple_M3, "<i4").data)
