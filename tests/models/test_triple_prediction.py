"""The missing part of triples beside a plain search over all answers, with ties and known triples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec as a2v
from any2vec.errors import DataError, InputError, UnknownKeyError
from any2vec.evaluate.triples import evaluate_triple_file
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


def test_triples_are_left_out_in_every_form(tmp_path: Path) -> None:
    scorer = make(a2v.DistMult(dim=DIM), seed=1)
    (first, _), (second, _), *_ = answers = scorer.tails("e1", "r0", k=4)
    triples = [("e1", "r0", first), ("e1", "r0", second)]
    file = tmp_path / "tr.tsv"
    file.write_text("".join("\t".join(triple) + "\n" for triple in triples))
    columns = {name: [triple[n] for triple in triples] for n, name in enumerate(("head", "relation", "tail"))}
    frame, table = pytest.importorskip("pandas").DataFrame(columns), pytest.importorskip("pyarrow").table(columns)
    whole = [str(file), file, columns, frame, table, triples, a2v.read_triples(triples), np.array(triples)]
    for exclude in [
        *whole,
        *([one] for one in whole if one is not columns),
        iter(triples),
        [triples[0], [triples[1]]],
        [triples[1], frame],
    ]:
        assert scorer.predict("e1", "r0", k=2, exclude=exclude) == answers[2:], exclude
    with pytest.raises(InputError, match="exclude takes triples"):
        scorer.predict("e1", "r0", exclude=5)  # type: ignore[arg-type]


def test_what_leaves_out_nothing_is_refused(tmp_path: Path) -> None:
    scorer = make(a2v.DistMult(dim=DIM), seed=1)
    wanted = scorer.tails("e1", "r0", k=4)
    names = [("e1", "r0", "nobody"), ("other", "r0", "e1")]
    file = tmp_path / "tr.tsv"
    file.write_text("".join("\t".join(triple) + "\n" for triple in names))
    columns = {name: [triple[n] for triple in names] for n, name in enumerate(("head", "relation", "tail"))}
    for exclude in (file, str(file), [file], columns, np.array(names), a2v.read_triples(names)):
        with pytest.raises(DataError, match=r"None of the 2 excluded triples.* has the names of training"):
            scorer.predict("e1", "r0", exclude=exclude)
    assert scorer.predict("e1", "r0", k=4, exclude=names) == wanted
    rows = np.array([(1, 0, 2), (1, 0, 3)])
    for exclude in (rows, [rows], tuple(rows.T)):
        with pytest.raises(InputError, match="integers are rows; give names, such as 'e0' and 'r0'"):
            scorer.predict("e1", "r0", exclude=exclude)
    numbered = TripleScorer(
        scorer.model, range(NUM), range(RELATIONS), scorer.vectors, scorer.relation_vectors, scorer.triples
    )
    assert len(numbered.predict(1, 0, k=NUM, exclude=rows)) == NUM - 2


def test_queries_of_a_table() -> None:
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    scorer = make(a2v.ComplEx(dim=DIM), seed=4)
    rows = [("e1", "r0", None), (None, "r1", "e2"), ("e1", None, "e2")]
    columns = {name: [row[n] for row in rows] for n, name in enumerate(("head", "relation", "tail"))}
    asked = {name: [value or "?" for value in values] for name, values in columns.items()}
    wanted = scorer.predict_many(rows)
    other = pandas.DataFrame(columns).rename(columns={"head": "a", "relation": "b", "tail": "c"})
    for table in (columns, pandas.DataFrame(columns), arrow.table(columns), arrow.table(asked), other):
        assert scorer.predict_many(table) == wanted
    assert scorer.predict_many(pandas.DataFrame({"head": ["e1"], "relation": ["r0"]})) == wanted[:1]
    with pytest.raises(DataError, match="no columns of head, relation and tail"):
        scorer.predict_many({"name": ["e1"]})
    numbered = TripleScorer(
        scorer.model, range(NUM), NAMES, scorer.vectors, scorer.relation_vectors, scorer.triples
    )  # integers beside missing ones are floats in pandas
    found = numbered.predict_many(pandas.DataFrame({"head": [1, None], "relation": ["r0", "r1"], "tail": [None, 2]}))
    assert [[f"e{name}" for name, _ in answer] for answer in found] == [[name for name, _ in one] for one in wanted[:2]]


def test_triples_are_scored_by_name(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    scorer = make(a2v.ComplEx(dim=DIM), seed=4)
    names, rows = [("e1", "r2", "e5"), ("e7", "r0", "e0")], [(1, 2, 5), (7, 0, 0)]
    wanted = scorer.score_rows(np.array(rows))
    file = tmp_path / "tr.tsv"
    file.write_text("".join("\t".join(triple) + "\n" for triple in names))
    frame = pandas.DataFrame(names, columns=["head", "relation", "tail"])
    for given in (names, np.array(names), frame, file, str(file), iter(names), a2v.read_triples(names)):
        assert scorer.score(given).tolist() == wanted.tolist()
    assert scorer.score([]).shape == scorer.score_rows([]).shape == (0,)
    with pytest.raises(
        UnknownKeyError, match="The tail of triple 2, 'nobody', is not among the names of training, such"
    ):
        scorer.score([names[0], ("e1", "r1", "nobody")])
    shapes = (np.arange(3), np.zeros((2, 6), int), np.zeros((1, 1, 3), int), [(1, 2), (3, 4), (5, 6)])
    for wrong in ([(1, 2)], [(0.5, 1, 2)], *shapes):
        with pytest.raises(InputError, match="score_rows takes rows"):
            scorer.score_rows(wrong)
        with pytest.raises((InputError, DataError)):
            scorer.score(wrong)
    for wrong in (5, [None]):
        with pytest.raises((InputError, DataError)):
            scorer.score(wrong)


def test_integers_are_names_where_triples_are_scored() -> None:
    """In no order of rows, and to no scorer whose names are strings."""
    triples = [(2, 1, 0), (0, 0, 2), (1, 1, 2), (2, 0, 1)] * 5
    scorer = a2v.fit(a2v.ComplEx(dim=DIM), triples, epochs=2, threads=1).scorer
    assert list(scorer.entities) != [0, 1, 2]
    for triple in triples[:4]:
        wanted = dict(scorer.predict(*triple[:2], k=3))[triple[2]]
        table = dict(zip(("head", "relation", "tail"), ([name] for name in triple), strict=True))
        for given in ([triple], np.array([triple]), table):
            assert scorer.score(given) == pytest.approx(wanted, abs=1e-5)
    with pytest.raises(UnknownKeyError, match="The tail of triple 1, 7, is not among the names of training, such as"):
        scorer.score([(2, 1, 7)])
    with pytest.raises(UnknownKeyError, match="such as 'e0'; `score_rows` takes triples by row"):
        make(a2v.ComplEx(dim=DIM), seed=4).score([(2, 1, 0)])


@pytest.mark.parametrize("model", [a2v.ComplEx(dim=DIM), a2v.TransE(dim=DIM), a2v.DotProduct(dim=DIM)])
def test_rows_that_the_model_lacks_are_refused(model: Any) -> None:
    """Kernels check none: they read other memory, or the last row for -1."""
    scorer = make(model, seed=4)
    for wrong in (-1, NUM, 10**9):
        for triple in ((wrong, 0, 1), (1, wrong, 2), (1, 0, wrong)):
            with pytest.raises(InputError, match=r"Triple 2, .* are 0\.\.10, of relations 0\.\.2; `score` takes names"):
                scorer.score_rows(np.array([(0, 0, 1), triple]))
        for ask in (scorer.tail_scores, scorer.head_scores):
            with pytest.raises(InputError, match=rf"Rows of entities are 0\.\.10, got {wrong}"):
                ask(np.array([0, wrong]), np.array([0, 0]))
            with pytest.raises(InputError, match=rf"Rows of relations are 0\.\.2, got {wrong}"):
                ask(np.array([0, 1]), np.array([0, wrong]))


def test_names_that_training_lacks_are_nobody_elses() -> None:
    """Nor where the triples were read by its names before: of row -1 the last entity was made."""
    train = a2v.read_triples([("a", "r", "b"), ("b", "r", "c"), ("c", "r", "d"), ("a", "q", "c")])
    test = a2v.read_triples([("a", "r", "c"), ("nobody", "r", "b")], known=train)
    scorer = a2v.fit(a2v.ComplEx(dim=DIM), train, epochs=1, threads=1).scorer
    assert evaluate_triple_file(scorer, test).num_unknown == 1
    assert len(scorer.predict(None, "r", "b", exclude=test)) == 4
    with pytest.raises(UnknownKeyError, match="The head of triple 2"):
        scorer.score(test)
    with pytest.raises(DataError, match="not known when they were read"):
        a2v.fit(a2v.ComplEx(dim=DIM), test)


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


def test_integers_stay_integers_on_disk(tmp_path: Path) -> None:
    columns = {"head": [1, 2, 3, 1], "relation": [100, 100, 101, 101], "tail": [2, 3, 1, 3]}
    kept = a2v.fit(a2v.ComplEx(dim=DIM), columns, epochs=1, threads=1, out=tmp_path / "run").scorer
    found = TripleScorer.load(tmp_path / "run")
    for ask in ((1, 100, None), (None, 101, 3), (1, None, 2)):
        assert found.predict(*ask) == kept.predict(*ask)
    assert {type(name) for name, _ in found.predict(1, None, 2)} == {int}
    read = a2v.Embeddings.load(tmp_path / "run" / "relations.safetensors")
    assert list(read) == list(found.relation_embeddings()) == list(kept.relation_embeddings()) == [100, 101]


def by_columns(folder: Path) -> Any:
    """Triples, a frame of them whose columns are named, and two files of Parquet: all rows, and one."""
    pandas = pytest.importorskip("pandas")
    triples = [(f"e{n % 9}", f"r{n % 2}", f"e{(n + 1 + n % 2) % 9}") for n in range(40)]
    frame = pandas.DataFrame([(head, tail, name) for head, name, tail in triples], columns=["x", "y", "kind"])
    frame.to_parquet(folder / "all.parquet")
    pandas.DataFrame({"x": ["e0"], "y": ["?"], "kind": ["r0"]}).to_parquet(folder / "ask.parquet")
    return triples, frame


def test_tables_are_read_by_the_columns_of_training(tmp_path: Path) -> None:
    triples, frame = by_columns(tmp_path)
    options, usual = a2v.TripleOptions(use_columns="x,kind,y"), frame.rename(columns={"x": "head", "y": "tail"})
    for source in (frame, tmp_path / "all.parquet"):
        out = tmp_path / "run"
        kept = a2v.fit(
            a2v.ComplEx(dim=DIM), source, triples=options, epochs=2, threads=1, out=out, overwrite=True
        ).scorer
        for scorer in (kept, TripleScorer.load(out)):
            assert scorer.options == options
            wanted = evaluate_triple_file(scorer, triples).as_dict()
            answers = scorer.predict("e0", "r0", exclude=triples)
            # a table of other names, in the usual order of columns or by usual names, is read by default
            for given in (frame, tmp_path / "all.parquet", usual.rename(columns={"kind": "relation"})):
                assert evaluate_triple_file(scorer, given).as_dict() == wanted
                assert scorer.score(given).tolist() == scorer.score(triples).tolist()
                assert scorer.predict("e0", "r0", exclude=given) == answers
            with pytest.raises(DataError, match="with none of its relations"):
                evaluate_triple_file(scorer, frame, options=a2v.TripleOptions())
            assert len(answers) < 9
            asked = scorer.predict_many([("e0", "r0", None)])
            assert scorer.predict_many(tmp_path / "ask.parquet") == scorer.predict_many({"x": ["e0"], "kind": ["r0"]})
            assert scorer.predict_many(tmp_path / "ask.parquet") == asked
            (tmp_path / "plain.tsv").write_text("".join("\t".join(triple) + "\n" for triple in triples))
            assert evaluate_triple_file(scorer, tmp_path / "plain.tsv").as_dict() == wanted


def test_text_is_read_by_the_delimiter_of_training(tmp_path: Path) -> None:
    triples, _ = by_columns(tmp_path)
    files = {name: tmp_path / f"{name}.txt" for name in ("pipe", "tab", "ask")}
    for name, mark in (("pipe", "|"), ("tab", "\t")):
        files[name].write_text("".join(mark.join(triple) + "\n" for triple in triples))
    files["ask"].write_text("e0|r0|?\n")
    options = a2v.TripleOptions(delimiter="pipe")
    a2v.fit(a2v.ComplEx(dim=DIM), files["pipe"], triples=options, epochs=1, threads=1, out=tmp_path / "run")
    scorer = TripleScorer.load(tmp_path / "run")
    for name in ("pipe", "tab"):
        assert evaluate_triple_file(scorer, files[name]) == evaluate_triple_file(scorer, triples)
        assert scorer.score(files[name]).tolist() == scorer.score(triples).tolist()
        assert scorer.predict("e0", "r0", exclude=files[name]) == scorer.predict("e0", "r0", exclude=triples)
    assert scorer.predict_many(files["ask"]) == [scorer.predict("e0", "r0")]


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
    for queries in ([("e1", "r1")], ["e1"], ("e1", "r1", None), [None], [("e1", "r0", 0.5)], 5):
        with pytest.raises(InputError, match="Query 1 is none; queries are a file or a table"):
            scorer.predict_many(queries)
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
