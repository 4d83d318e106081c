"""The missing part of triples beside a plain search over all answers, with ties and known triples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec as a2v
from any2vec.errors import DataError, InputError, UnknownKeyError
from any2vec.models.triples import prediction
from any2vec.models.triples.scorer import TripleScorer
from naive.models import triples as naive

NUM, RELATIONS, DIM = 11, 3, 4
ENTITIES, NAMES = [f"e{n}" for n in range(NUM)], [f"r{n}" for n in range(RELATIONS)]
MODELS = [a2v.ComplEx, a2v.DistMult, a2v.TransE, a2v.RotatE]


def make(model: Any, seed: int) -> TripleScorer:
    """A scorer whose rows have few values, so that many answers are alike."""
    rng = np.random.default_rng(seed)
    entity_VW = rng.integers(-1, 2, (NUM, DIM)).astype(np.float32)
    width = (model.num_relation_rows(RELATIONS), max(1, model.relation_width))
    triple_M3 = np.stack([rng.integers(0, size, 30) for size in (NUM, RELATIONS, NUM)], axis=1)
    return TripleScorer(model, ENTITIES, NAMES, entity_VW, rng.integers(-1, 2, width).astype(np.float32), triple_M3)


def plain(scorer: TripleScorer, query: tuple[Any, Any, Any], left_out: set[tuple[int, int, int]]) -> list[Any]:
    """All answers that are not left out, best first, ties by row."""
    place = query.index(None)
    found = []
    for row, name in enumerate(NAMES if place == 1 else ENTITIES):
        head, relation, tail = (int(str(one or name)[1:]) for one in query)
        is_turned = place == 0
        relation_row = relation + (RELATIONS if is_turned and scorer.model.reciprocal else 0)
        given, answer = (tail, head) if is_turned else (head, tail)
        asked = naive.query(
            scorer.model.query, scorer.vectors[given].astype(float), scorer.relation_vectors[relation_row],
            is_turned and not scorer.model.reciprocal,
        )  # fmt: skip
        if (head, relation, tail) not in left_out:
            score = naive.score(asked, scorer.vectors[answer].astype(float), scorer.model.is_near, scorer.model.gamma)
            found.append((-round(score, 4), row, name))
    return [(name, -score) for score, _, name in sorted(found)]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("reciprocal", [True, False])
def test_answers_are_those_of_a_plain_search(kind: Any, reciprocal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "_BLOCK_NUMBERS", 2 * NUM)  # several blocks
    scorer = make(kind(dim=DIM, reciprocal=reciprocal), seed=2)
    queries = [("e1", "r0", None), (None, "r2", "e3"), ("e4", None, "e5"), ("e2", "r1", None), ("e0", "r0", None)]
    seen, other = {tuple(row) for row in scorer.triples.tolist()}, {(1, 0, 2), (1, 0, 3), (4, 2, 5), (7, 2, 3)}
    known = [(f"e{head}", f"r{relation}", f"e{tail}") for head, relation, tail in sorted(other)]
    for left_out, options in (
        (set(), {}), (other, {"exclude": [known]}), (seen | other, {"exclude": [known], "exclude_training": True}),
    ):  # fmt: skip
        for k in (3, 99):
            answers = scorer.predict_many(queries, k=k, **options)
            for query, found in zip(queries, answers, strict=True):
                wanted = plain(scorer, query, left_out)[:k]
                assert [score for _, score in found] == pytest.approx([score for _, score in wanted], abs=2e-3)
                if kind is not a2v.RotatE:  # whose angles leave hairs between answers that are alike
                    assert [name for name, _ in found] == [name for name, _ in wanted]
                assert found == scorer.predict(*query, k=k, **options)


def test_triples_with_rows_of_their_own_are_left_out_by_name() -> None:
    scorer = make(a2v.DistMult(dim=DIM), seed=1)
    first = scorer.tails("e1", "r0", k=2)
    known = a2v.read_triples([("other", "r9", "e1"), ("e1", "r0", first[0][0])])
    assert scorer.predict("e1", "r0", k=1, exclude=[known]) == first[1:]


def test_a_graph_of_more_relations_than_entities() -> None:
    """What is known of one query is not taken for another's."""
    relations, model = [f"r{n}" for n in range(5)], a2v.DistMult(dim=DIM)
    row_RP = np.ones((model.num_relation_rows(5), DIM), np.float32)
    scorer = TripleScorer(model, ["e0", "e1"], relations, np.ones((2, DIM), np.float32), row_RP, np.array([[0, 2, 1]]))
    assert [name for name, _ in scorer.predict("e0", "r2", exclude_training=True)] == ["e0"]
    assert [name for name, _ in scorer.predict("e1", "r0", exclude_training=True)] == ["e0", "e1"]


def test_relations_have_vectors(tmp_path: Path) -> None:
    scorer = make(a2v.ComplEx(dim=DIM), seed=3)
    found = scorer.relation_embeddings()
    assert list(found) == NAMES and found.vectors.tolist() == scorer.relation_vectors[:RELATIONS].tolist()
    for name, part in scorer.parts().items():
        part.write(tmp_path / name)
    read = a2v.Embeddings.load(tmp_path / "relations.safetensors")
    assert list(read) == NAMES and read.vectors.tolist() == found.vectors.tolist()


def test_queries_of_a_file(tmp_path: Path) -> None:
    scorer = make(a2v.ComplEx(dim=DIM), seed=4)
    file = tmp_path / "queries.tsv"
    file.write_text("e1\tr0\t?\n?\tr1\te2\ne1\t?\te2\n")
    wanted = [scorer.predict("e1", "r0"), scorer.predict(None, "r1", "e2"), scorer.predict("e1", None, "e2")]
    assert scorer.predict_many(file) == wanted
    for text, said in (
        ("e1\tr0\te2\n", "Row 1 of .* has 0 of its names missing"),
        ("e1\tr0\t?\n?\tr0\t?\n", "Row 2 of .* has 2"),
        ("e1\t?\n", "has two columns; a query has head, relation and tail"),
    ):
        file.write_text(text)
        with pytest.raises(DataError, match=said):
            scorer.predict_many(file)


def test_what_is_refused() -> None:
    scorer = make(a2v.ComplEx(dim=DIM), seed=5)
    for query in ((None, None, "e1"), ("e1", "r1", "e2"), (None, None, None)):
        with pytest.raises(InputError, match="two of head, relation and tail"):
            scorer.predict(*query)
    with pytest.raises(InputError, match="two of head, relation and tail"):
        scorer.predict_many([("e1", "r1")])
    with pytest.raises(InputError, match="k must be"):
        scorer.predict("e1", "r1", k=0)
    with pytest.raises(UnknownKeyError, match="relation 'e1' is not among the 3"):
        scorer.predict("e1", "e1")
    with pytest.raises(UnknownKeyError, match="Query 2: entity 'nobody' is not among"):
        scorer.predict_many([("e1", "r1", None), ("nobody", "r1", None)])
    scorer.vectors[3] = np.nan
    with pytest.raises(DataError, match="diverged"):
        scorer.predict("e1", "r1")
    plain_graph = make(a2v.DotProduct(dim=DIM), seed=1)
    assert plain_graph.predict("e1", "r0") == plain_graph.predict("e1", "r1")
    for ask in (lambda: plain_graph.predict("e1", None, "e2"), plain_graph.relation_embeddings):
        with pytest.raises(InputError, match="dot does not tell relations apart"):
            ask()
