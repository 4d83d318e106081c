"""Runs over HTTP: what is answered is what the library says, and what is no request is refused in one sentence."""

from __future__ import annotations

import io
import json
import logging
import random
import re
import socket
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec as a2v
from any2vec.embeddings import Embeddings
from any2vec.encoders.ngrams import NGramEncoder
from any2vec.errors import FormatError, InputError, UnknownKeyError
from any2vec.formats.snapshots import publish
from any2vec.serve.limits import Deadline, Limits, TooLateError
from any2vec.serve.server import Server, check_address, read_token
from cli_runs import refused

pytest.importorskip("fastapi", reason="serving needs the extra serve")
pytest.importorskip("uvicorn", reason="serving needs the extra serve")

from pydantic import ValidationError

from any2vec.serve import app, catalog, operations, server

NUM, DIM = 300, 8
SMALL = Limits(max_request_bytes=4000, max_items=20, max_k=50, max_answers=500, max_seconds=20)


def vectors(seed: int, keys: Any = None) -> Embeddings:
    rng = np.random.default_rng(seed)
    return Embeddings(keys or [f"w{n}" for n in range(NUM)], rng.standard_normal((NUM, DIM)).astype(np.float32))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Vectors of words and of integers, and a run of triples."""
    folder = tmp_path_factory.mktemp("served")
    vectors(1).save(folder / "words")
    vectors(2, list(range(NUM))).save(folder / "nodes")
    triples = [(f"e{n}", f"r{n % 2}", f"e{(n * 7 + 1) % 30}") for n in range(30)]
    a2v.fit(a2v.ComplEx(dim=8), triples, epochs=2, threads=1, out=folder / "graph")
    return {name: folder / name for name in ("words", "nodes", "graph")}


@pytest.fixture(scope="module")
def port(folders: dict[str, Path]) -> Iterator[int]:
    """A server of them, with small limits."""
    runs = catalog.Catalog(folders)
    with runs, Server(app.make_app(runs, SMALL), "127.0.0.1", 0) as running:
        yield running.port


def ask(
    port: int, path: str, content: Any = None, method: str | None = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """(status, JSON) of a request."""
    line = HTTPConnection("127.0.0.1", port, timeout=30)
    body = None if content is None else content if isinstance(content, bytes) else json.dumps(content).encode()
    sent = {"Content-Type": "application/json"} | (headers or {})
    line.request(method or ("GET" if body is None else "POST"), path, body, sent)
    answer = line.getresponse()
    text = answer.read()
    line.close()
    return answer.status, json.loads(text) if text else None


def raw(port: int, data: bytes) -> bytes:
    """What a server says to these bytes: one answer, whole."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        line.sendall(data)
        found = b""
        while piece := line.recv(1 << 16):
            found += piece
            head, is_whole, body = found.partition(b"\r\n\r\n")
            size = re.search(rb"content-length: (\d+)", head.lower())
            if is_whole and size and len(body) >= int(size[1]):
                break
    return found


def pairs(answers: list[dict[str, Any]]) -> list[tuple[Any, float]]:
    return [(one["key"], one["score"]) for one in answers]


def test_answers_are_those_of_the_library(port: int, folders: dict[str, Path]) -> None:
    words, nodes = Embeddings.load(folders["words"]), Embeddings.load(folders["nodes"])
    keys = [f"w{n}" for n in range(18)]
    status, found = ask(port, "/runs/words/nearest", {"keys": [*keys, "nobody"], "k": 7})
    assert status == 200 and found["unknown"] == ["nobody"] and found["neighbors"][-1] is None
    for line, wanted in zip(found["neighbors"], words.nearest(keys, 7), strict=False):
        assert [key for key, _ in pairs(line)] == [key for key, _ in wanted]
        assert [score for _, score in pairs(line)] == pytest.approx([score for _, score in wanted])
    by_vector = ask(port, "/runs/words/nearest", {"vectors": words.vectors[:2].tolist(), "k": 1})[1]
    assert [line[0]["key"] for line in by_vector["neighbors"]] == ["w0", "w1"]
    as_text, as_number = (ask(port, "/runs/nodes/nearest", {"keys": [key], "k": 3}) for key in ("7", 7))
    assert as_text == as_number and pairs(as_text[1]["neighbors"][0])[0][0] == nodes.nearest(7, 3)[0][0]
    alike = ask(port, "/runs/words/most_similar", {"positive": ["w1", "w2"], "negative": ["w3"], "k": 4})[1]
    assert pairs(alike["answers"]) == [(k, pytest.approx(s)) for k, s in words.most_similar(["w1", "w2"], ["w3"], k=4)]
    cosines = ask(port, "/runs/words/similarity", {"a": ["w1", "w2"], "b": ["w3"]})[1]["similarities"]
    np.testing.assert_allclose(cosines, words.similarity(["w1", "w2"], ["w3"]), rtol=1e-6)


def test_keys_that_no_vector_can_be_made_of_lose_only_themselves(tmp_path: Path) -> None:
    gram_GD = np.random.default_rng(3).standard_normal((40, DIM)).astype(np.float32)
    encoder = NGramEncoder(np.arange(40), gram_GD, min_n=4, max_n=5, buckets=40, seed=1, spread=0.1)
    keys = [f"word{n}" for n in range(NUM)]
    words = Embeddings(keys, vectors(1).vectors, encoder=encoder)
    words.save(tmp_path / "words")
    asked = ["word1", 5, "unseen", "", "word2", "word1", "x"]  # x: with its ends, shorter than any n-gram
    runs = catalog.Catalog({"words": tmp_path / "words"})
    with runs, Server(app.make_app(runs, SMALL), "127.0.0.1", 0) as running:
        status, found = ask(running.port, "/runs/words/nearest", {"keys": asked, "k": 3})
        alone = [ask(running.port, "/runs/words/nearest", {"keys": [key]}) for key in ("", 5)]
        cosines = ask(running.port, "/runs/words/similarity", {"a": ["word1", "unseen"], "b": [5]})
    assert status == 200 and found["unknown"] == [5, "", "x"]
    assert [line is None for line in found["neighbors"]] == [False, True, False, True, False, False, True]
    known = [key for key in asked if key not in found["unknown"]]
    lines = [line for line in found["neighbors"] if line is not None]
    for line, wanted in zip(lines, words.nearest(known, 3), strict=True):
        assert [key for key, _ in pairs(line)] == [key for key, _ in wanted]
    assert [status for status, _ in (*alone, cosines)] == [404] * 3


def test_triples_are_predicted_and_scored(port: int, folders: dict[str, Path]) -> None:
    scorer = a2v.TripleScorer.load(folders["graph"])
    queries = [{"head": "e1", "relation": "r1"}, {"relation": "r0", "tail": "e3"}, {"head": "e1", "tail": "e2"}]
    status, found = ask(port, "/runs/graph/predict", {"queries": queries, "k": 3, "exclude_training": True})
    wanted = scorer.predict_many(
        [("e1", "r1", None), (None, "r0", "e3"), ("e1", None, "e2")], k=3, exclude_training=True
    )
    assert status == 200
    for line, of_library in zip(found["answers"], wanted, strict=True):
        assert pairs(line) == [(key, pytest.approx(score)) for key, score in of_library]
    scores = ask(port, "/runs/graph/score", {"triples": [["e1", "r1", "e8"], ["e0", "r0", "e1"]]})[1]["scores"]
    rows = [row_of(scorer, "e1", "r1", "e8"), row_of(scorer, "e0", "r0", "e1")]
    assert scores == pytest.approx(scorer.score_rows(np.array(rows)).tolist())


def row_of(scorer: a2v.TripleScorer, head: str, relation: str, tail: str) -> list[int]:
    return [scorer.entities.find(head), scorer.relations.find(relation), scorer.entities.find(tail)]  # type: ignore[list-item]


def shop_of(
    folder: Path, schema: str, rows: list[dict[str, Any]], model: Any = None, epochs: int = 1
) -> catalog.Catalog:
    """A catalog of the run `shop`, of a model of clicks over such rows. schema: TOML."""
    pytest.importorskip("torch", reason="models of clicks need torch")
    (folder / "shop.toml").write_text(schema)
    model = model or a2v.LogisticRegression()
    a2v.fit(model, rows, schema=folder / "shop.toml", epochs=epochs, threads=1, out=folder / "shop")
    return catalog.Catalog({"shop": folder / "shop"})


def test_clicks_are_scored(tmp_path: Path) -> None:
    schema = 'label = "bought"\ndense = ["price"]\ncategorical = ["product", "tags"]\n'
    columns = {"bought": [0, 1] * 40, "price": [float(n) for n in range(80)], "product": ["cup", "pot"] * 40}
    rows = [dict(zip(columns, row, strict=True)) | {"tags": "new"} for row in zip(*columns.values(), strict=True)]
    runs = shop_of(tmp_path, schema, rows)
    wanted = next(
        a2v.ClickScorer.load(tmp_path / "shop").score({name: [row[name] for row in rows[:5]] for name in rows[0]})
    )[0]
    with Server(app.make_app(runs, SMALL), "127.0.0.1", 0) as running:
        asked = [{name: value for name, value in row.items() if name != "bought"} for row in rows[:5]]
        status, found = ask(running.port, "/runs/shop/score", {"rows": asked})
        assert status == 200 and found["scores"] == pytest.approx(wanted.tolist())
        assert ask(running.port, "/runs/shop/score", {"rows": []}) == (200, {"scores": []})
        for odd in (
            [{"price": 1.0}], [{}], [*asked, {"price": 1.0}], [asked[0] | {"price": "much"}],
            [asked[0], asked[1] | {"price": [1]}], [asked[0] | {"product": ["cup", 1]}],
        ):  # fmt: skip
            status, said = ask(running.port, "/runs/shop/score", {"rows": odd})
            assert status == 400 and is_sentence(said), (odd, said)
        assert "give rows" in ask(running.port, "/runs/shop/score", {"triples": []})[1]["error"]


def test_items_are_recommended(tmp_path: Path) -> None:
    pairs_of_users = [(user, f"i{(user * 3 + at) % 20}") for user in range(30) for at in range(5)]
    a2v.fit(a2v.BPR(dim=8), pairs_of_users, epochs=1, threads=1, out=tmp_path / "likes")
    recommender = a2v.Recommender.load(tmp_path / "likes")
    runs = catalog.Catalog({"likes": tmp_path / "likes"})
    with Server(app.make_app(runs, SMALL), "127.0.0.1", 0) as running:

        def answers(**content: Any) -> Any:
            return ask(running.port, "/runs/likes/recommend", content)

        status, found = answers(users=[*range(18)], k=4)
        assert status == 200
        for line, wanted in zip(found["answers"], recommender.recommend(range(18), 4), strict=True):
            assert pairs(line) == [(item, pytest.approx(score)) for item, score in wanted]  # type: ignore[misc]
        seen = [["i1", "i2", "nothing"], []]
        found = answers(users=[1, "2"], k=20, exclude=seen)[1]["answers"]
        assert pairs(found[0]) == [(i, pytest.approx(s)) for i, s in recommender.recommend(1, 20, ["i1", "i2"])]  # type: ignore[misc]
        assert len(found[0]) == 18 and len(found[1]) == 20
        assert answers(users=[])[1] == {"answers": [], "unknown": []}
        status, found = answers(users=[99, *range(17), "nobody"], k=4)  # more than one piece
        assert (
            status == 200 and found["unknown"] == [99, "nobody"] and found["answers"][0] is found["answers"][-1] is None
        )
        assert found["answers"][1:-1] == answers(users=[*range(17)], k=4)[1]["answers"]
        assert (
            answers(users=[99, 1], exclude=[["i7"], seen[0]], k=20)[1]["answers"][1]
            == answers(users=[1], exclude=seen[:1], k=20)[1]["answers"][0]
        )
        for content, code in (
            ({"users": [99]}, 404),
            ({"users": [99, "nobody"]}, 404),
            ({"users": [1], "exclude": []}, 400),
            ({"users": [1], "k": 51}, 400),
        ):
            status, said = answers(**content)
            assert status == code and is_sentence(said)


def test_values_of_clicks_are_recommended(tmp_path: Path) -> None:
    schema = (
        'label = "bought"\ncategorical = ["user", "product", "shop"]\n\n'
        '[column.user]\nids = "vocabulary"\n[column.product]\nids = "vocabulary"\n'
    )
    rng = np.random.default_rng(1)
    rows = [
        {
            "user": f"u{user}",
            "product": f"p{product}",
            "shop": f"s{product % 3}",
            "bought": int(user % 4 == product % 4),
        }
        for user, product in rng.integers(0, 12, (400, 2)).tolist()
    ]
    runs = shop_of(tmp_path, schema, rows)
    from any2vec.models.clicks.ranking import rank_values

    scorer = a2v.ClickScorer.load(tmp_path / "shop")
    with Server(app.make_app(runs, SMALL), "127.0.0.1", 0) as running:

        def answers(**content: Any) -> Any:
            return ask(running.port, "/runs/shop/recommend", content)

        contexts = [{"user": "u1"}, {"user": "u2", "shop": "s1"}]
        status, found = answers(contexts=contexts, column="product", k=3, exclude=[[], ["p3", "none"]])
        assert status == 200
        for line, context, left_out in zip(found["answers"], contexts, ([], ["p3"]), strict=True):
            every = [pair for pair in rank_values(scorer, context, "product", 12) if pair[0] not in left_out]
            assert pairs(line) == [(value, pytest.approx(score)) for value, score in every[:3]]
        hashed = answers(contexts=contexts[:1], column="shop", values=["s2", "s0", "s2"])[1]["answers"][0]
        assert {one["key"] for one in hashed} == {"s0", "s2"} and hashed[0]["score"] >= hashed[1]["score"]
        assert answers(contexts=[], column="product")[1] == {"answers": [], "unknown": []}
        for content, code in (
            ({"users": ["u1"]}, 400), ({"contexts": contexts}, 400),
            ({"contexts": [{"user": "x"}], "column": "product"}, 404),
            ({"contexts": contexts, "column": "shop"}, 400), ({"contexts": contexts, "column": "bought"}, 400),
            ({"contexts": contexts, "column": "product", "exclude": [[]]}, 400),
            ({"contexts": [{"user": "u1"}], "column": "product", "exclude": [[f"p{n}" for n in range(12)]]}, 400),
            ({"contexts": [{"mood": "u1"}], "column": "product"}, 400),
            ({"contexts": contexts[:1], "column": "product", "values": ["p1", "new"]}, 404),
            ({"contexts": contexts[:1], "column": "product", "values": []}, 400),
        ):  # fmt: skip
            status, said = answers(**content)
            assert status == code and is_sentence(said), (content, said)


def test_contexts_hold_what_rows_to_score_hold(tmp_path: Path) -> None:
    schema = (
        'label = "bought"\ndense = ["price"]\ncategorical = ["user", "product"]\nmulti_valued = ["tags"]\n\n'
        '[column.product]\nids = "vocabulary"\ncharacters = [0, 2]\n[column.tags]\nids = "vocabulary"\n'
    )
    rng = np.random.default_rng(1)
    rows = [
        {"user": user, "product": f"p{product}", "price": float(user), "tags": ["a", "b"][: 1 + user % 2],
         "bought": int(user % 2 == product % 2)}
        for user, product in rng.integers(0, 6, (300, 2)).tolist()
    ]  # fmt: skip
    runs = shop_of(tmp_path, schema, rows, a2v.LogisticRegression(learning_rate=0.5), epochs=2)
    from any2vec.models.clicks.ranking import rank_values

    with Server(app.make_app(runs, SMALL), "127.0.0.1", 0) as running:
        found = []
        for tags, user, price in ((["a", "b"], 1, 2.0), (["b"], 1, 2), ([], 1, None), (None, None, 2.0)):
            context = {"tags": tags, "user": user, "price": price}
            status, ranked = ask(running.port, "/runs/shop/recommend", {"contexts": [context], "column": "product"})
            assert status == 200, ranked
            wanted = [context | {"product": value} for value, _ in pairs(ranked["answers"][0])]
            scores = ask(running.port, "/runs/shop/score", {"rows": wanted})[1]["scores"]
            assert [score for _, score in pairs(ranked["answers"][0])] == pytest.approx(scores)
            found.append(max(scores))
        assert len(set(found)) == 4  # each value of a context counts
        asked = {"contexts": [{"user": 1}], "column": "product", "values": ["p1 of today", "p2", "p1"]}
        status, ranked = ask(running.port, "/runs/shop/recommend", asked)
        scores = dict(pairs(ranked["answers"][0]))
        assert status == 200 and scores["p1 of today"] == pytest.approx(scores["p1"]) != scores["p2"]
    scorer, calls = a2v.ClickScorer.load(tmp_path / "shop"), list[int]()
    with pytest.raises(UnknownKeyError, match=r"product '3\.0' is not among"):
        rank_values(scorer, {"product": 3.0}, "user", values=["1"])
    assert rank_values(scorer, {"product": "p3!"}, "user", values=["1"])[0][0] == "1"

    def is_over() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise TooLateError("The time is over.")

    with pytest.raises(TooLateError):
        rank_values(scorer, {}, "user", values=[f"u{n}" for n in range(9000)], check=is_over)
    with Server(app.make_app(runs, Limits(max_seconds=0.5)), "127.0.0.1", 0) as running, runs["shop"].lock:
        for path, content in (("recommend", {"contexts": [{}], "column": "product"}), ("score", {"rows": wanted})):
            status, said = ask(running.port, f"/runs/shop/{path}", content)
            assert status == 503 and is_sentence(said)  # another request has the run


def is_sentence(answer: Any) -> bool:
    said = answer["error"]
    return set(answer) == {"error"} and said.endswith(".") and "\n" not in said and 10 < len(said) <= 520


def test_what_there_is_is_listed(port: int) -> None:
    assert ask(port, "/health") == (200, {"status": "ok", "runs": 3})
    found = {one["name"]: one for one in ask(port, "/runs")[1]}
    assert found["words"]["rows"] == NUM and found["words"]["operations"] == ["nearest", "most_similar", "similarity"]
    assert found["graph"]["operations"][-2:] == ["score", "predict"]
    paths = ask(port, "/openapi.json")[1]["paths"]
    assert {f"/runs/{{name}}/{one.name}" for one in operations.OPERATIONS} | {"/health", "/runs"} == set(paths)
    responses = paths["/runs/{name}/nearest"]["post"]["responses"]
    shapes = {status: one["content"]["application/json"]["schema"]["$ref"] for status, one in responses.items()}
    assert shapes == {"200": "#/components/schemas/Neighbors", "4XX": "#/components/schemas/Refusal"}


REFUSALS = [
    ("/runs/words/nearest", {"keys": ["nobody"]}, 404, "words has no vector for 'nobody'"),
    ("/runs/other/nearest", {"keys": ["w1"]}, 404, "There is no run 'other'; there are graph, nodes, words"),
    ("/runs/words/predict", {"queries": [{"head": "a"}]}, 404, "words cannot be asked to predict, only"),
    ("/runs/words/nearest", {}, 400, "Give either keys or vectors"),
    ("/runs/words/nearest", {"keys": ["w1"], "vectors": [[0] * DIM]}, 400, "Give either keys or vectors"),
    ("/runs/words/nearest", {"keys": ["w1"], "approximate": True}, 400, "The server has no index"),
    ("/runs/words/nearest", {"vectors": [[1, 2]]}, 400, "A vector has 8 numbers"),
    ("/runs/words/nearest", {"vectors": [[1e39] * DIM]}, 400, "beyond float32"),
    ("/runs/words/nearest", {"keys": ["w1"], "k": 51}, 400, "k must be a whole number from 1 to 50, got 51"),
    ("/runs/words/nearest", {"keys": ["w1"] * 21}, 400, "A request has 20 keys or vectors at most, got 21"),
    ("/runs/words/nearest", {"keys": ["w1"] * 20, "k": 26}, 400, "500 answers at most, got 20 queries with k 26"),
    ("/runs/words/nearest", {"vectors": [[1] * DIM] * 11, "k": 50}, 400, "500 answers at most"),
    ("/runs/graph/predict", {"queries": [{"head": "e1", "relation": "r0"}] * 11, "k": 50}, 400, "500 answers at most"),
    ("/runs/words/most_similar", {"negative": ["nobody"]}, 404, "no vector for 'nobody'"),
    ("/runs/words/most_similar", {}, 400, "most_similar needs at least one key"),
    ("/runs/graph/predict", {"queries": [{"head": "e1"}]}, 400, "two of head, relation and tail"),
    ("/runs/graph/predict", {"queries": [{"head": "e1", "relation": "x"}]}, 404, "relation 'x' is not among the 2"),
    ("/runs/graph/score", {"rows": [{}]}, 400, "graph is a run of triples; give triples"),
    ("/runs/words/nearest", {"keys": ["w1"], "colour": 1}, 422, "colour: Extra inputs are not permitted"),
    ("/runs/words/nearest", {"keys": [True]}, 422, "keys.0"),
    ("/runs/words/nearest", b'{"keys": ["\\ud800"]}', 422, "keys.0"),
    ("/runs/words/nearest", b'{"vectors": [[NaN,1,1,1,1,1,1,1]]}', 422, "vectors.0.0: Input should be a finite number"),
    ("/runs/words/nearest", b"[" * 3900, 422, "not JSON|cannot be read"),
    ("/nope", {}, 404, "There is no '/nope'"),
    ("/runs", {}, 405, "'/runs' is not for POST"),
]


@pytest.mark.parametrize(("path", "content", "status", "said"), REFUSALS)
def test_what_cannot_be_answered_is_refused(port: int, path: str, content: Any, status: int, said: str) -> None:
    found, answer = ask(port, path, content)
    assert (found in (400, 422) if content == b"[" * 3900 else found == status) and is_sentence(answer)
    assert re.search(said, answer["error"]), answer


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", "", "text/json"])
def test_other_types_of_bodies_are_refused(port: int, kind: str) -> None:
    for path, body in (("words/nearest", {"keys": ["w1"]}), ("other/nearest", {"keys": ["w1"]}), ("graph/score", b"")):
        status, said = ask(port, f"/runs/{path}", body, "POST", {"Content-Type": kind})
        assert (status, said["error"]) == (
            422,
            "Send the body as JSON, with the header Content-Type: application/json.",
        )
    asked = {"Content-Type": "application/json; charset=utf-8"}
    assert ask(port, "/runs/words/nearest", {"keys": ["w1"]}, headers=asked)[0] == 200
    assert "keys" not in ask(port, "/runs/words/nearest", b"[]")[1]["error"]


HEADS = (
    "Content-Length: -1\r\n", "Content-Length: 5\r\n", "Host: other.example\r\n", "A\x00: b\r\n",
    "Transfer-Encoding: gzip\r\n", "Long: " + "x" * 70_000 + "\r\n", " folded\r\n",
)  # fmt: skip


def malformed(rng: random.Random) -> bytes:
    """A request that none should answer."""
    good: dict[str, dict[str, Any]] = {
        "words/nearest": {"keys": ["w1"], "k": 3}, "words/most_similar": {"positive": ["w1"], "k": 3},
        "words/similarity": {"a": ["w1"], "b": ["w2"]}, "graph/score": {"triples": [["e1", "r1", "e2"]]},
        "graph/predict": {"queries": [{"head": "e1", "relation": "r1"}], "k": 3},
    }  # fmt: skip
    odd = [{}, {"a": 1}, "x", 1.5, -1, True, [[[]]], ["nobody", {}], [None], 10**30, float("nan"), [["e1"]]]
    path = rng.choice(list(good))
    body = json.dumps(good[path]).encode()
    version, method, extra = "HTTP/1.1", "POST", ""
    kind = rng.randrange(9)
    if kind == 0:
        return rng.randbytes(rng.randrange(1, 300)).replace(b"\n", b"\x01") + b"\r\n\r\n"
    if kind == 1:  # a field of another type
        body = json.dumps(good[path] | {rng.choice(list(good[path])): rng.choice(odd)}).encode()
    if kind == 2:
        body = body[: rng.randrange(len(body))]
    if kind == 3:
        place = rng.randrange(1, len(body))
        body = body[:place] + bytes([rng.randrange(128, 256)]) + body[place:]
    if kind == 4:
        body = json.dumps(good[path] | {f"x{rng.randrange(99)}": 1}).encode()
    if kind == 5:
        path += rng.choice(["/", "x", "/../..", "?", "%00"]) * rng.randrange(1, 9) + "y"
    if kind == 6:
        method = rng.choice(["PUT", "DELETE", "PATCH", "TRACE", "FOO", "GET", "OPTIONS"])
    if kind == 7:
        extra = rng.choice(HEADS)
    if kind == 8:
        body = body + b" " * 4000
    if kind == 5 and "?" in path:
        path = path.replace("?", "-")
    head = f"{method} /runs/{path} {version}\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n{extra}\r\n".encode() + body


def test_a_thousand_malformed_requests_are_all_refused(port: int) -> None:
    rng, wrong = random.Random(1), []
    for _ in range(1000):
        data = malformed(rng)
        said = raw(port, data)
        head, _, body = said.partition(b"\r\n\r\n")
        is_json = b"application/json" in head.lower()
        if not said.startswith(b"HTTP/1.1 4") or (is_json and not is_sentence(json.loads(body))):
            wrong.append((data[:300], said[:300]))
    assert wrong == []
    assert ask(port, "/health")[0] == 200


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (operations.NearestRequest, {"keys": [True] * 9000}),
        (operations.NearestRequest, {"vectors": [[""] * 9000] * 9}),
        (operations.NearestRequest, {str(n): 1 for n in range(9000)}),
        (operations.ScoreRequest, {"triples": [[]] * 9000}),
        (operations.ScoreRequest, {"rows": [{str(n): {} for n in range(9000)}]}),
        (operations.ScoreRequest, {"rows": [{"tags": [{}] * 9000}]}),
        (operations.PredictRequest, {"queries": [1] * 9000}),
        (operations.RecommendRequest, {"exclude": [[True] * 9000] * 9}),
    ],
)
def test_few_faults_of_a_body_are_looked_for(kind: Any, body: Any) -> None:
    with pytest.raises(ValidationError) as error:
        kind.model_validate(body)
    assert error.value.error_count() <= 8


def test_sizes_are_limited(port: int) -> None:
    status, said = ask(port, "/runs/words/nearest", b" " * 4001)
    assert status == 413 and said["error"] == "A request has 4,000 bytes at most; ask in parts."
    pieces = b"".join(b"3e8\r\n" + b" " * 1000 + b"\r\n" for _ in range(5)) + b"0\r\n\r\n"
    head = b"POST /runs/words/nearest HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert raw(port, head + pieces).startswith(b"HTTP/1.1 413")


def test_products_of_sizes_are_limited(port: int) -> None:
    keys = [f"w{n % 9}" for n in range(10)]
    for path, asked in (
        ("similarity", {"a": keys, "b": keys}), ("most_similar", {"positive": keys, "k": 9, "method": "mul"}),
    ):  # fmt: skip
        assert ask(port, f"/runs/words/{path}", asked)[0] == 200
    with pytest.raises(InputError, match="99 answers at most, got 10 keys by 10; ask in parts"):
        operations.similarity(None, operations.SimilarityRequest(a=keys, b=keys), Limits(max_answers=99), None)  # type: ignore[arg-type]
    many = operations.MostSimilarRequest(positive=["w1"] * 101, method="mul")
    with pytest.raises(InputError, match="most_similar by mul takes 100 keys at most, got 101; take add"):
        operations.most_similar(None, many, Limits(), None)  # type: ignore[arg-type]


def test_requests_that_drip_in_are_ended(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_BODY", 0.3)
    monkeypatch.setattr(server, "HEAD", 0.3)
    for sent, said in (
        (b"POST /runs/words/nearest HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{", b"HTTP/1.1 408"),
        (b"POST /runs", b""), (b"", b""), (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /he", b"HTTP/1.1 200"),
    ):  # fmt: skip
        with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
            line.sendall(sent)
            found = b""
            while piece := line.recv(1 << 16):
                found += piece
        assert found.startswith(said) and bool(found) == bool(said)


def test_a_client_that_does_not_take_its_answer_is_left() -> None:
    async def large(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * (64 << 20)})

    with Server(large, "127.0.0.1", 0, max_seconds=0.2) as running, socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
        line.connect(("127.0.0.1", running.port))
        line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert line.recv(4) == b"HTTP"  # and no more of it
        end = time.monotonic() + 30
        while running._server.server_state.connections and time.monotonic() < end:
            time.sleep(0.05)
        assert not running._server.server_state.connections


def test_a_client_that_takes_its_answer_slowly_is_not() -> None:
    class Line:
        """A transport, and a loop whose time goes on when `later` is called."""

        waiting, is_over = 50_000, False
        later: Any = None

        def get_write_buffer_size(self) -> int:
            return self.waiting

        def abort(self) -> None:
            self.is_over = True

        def call_later(self, seconds: float, call: Any) -> Any:
            assert seconds == 9.0
            self.later = call
            return self

        def cancel(self) -> None:
            self.later = None

    line: Any = Line()
    watch = server.WriteWatch(line, line, 9.0)
    watch.end()
    watch.begin()
    for taken in (1 << 14, 1 << 14):
        line.waiting -= taken
        line.later()
        assert not line.is_over
    watch.end()
    assert line.later is None
    watch.begin()
    line.waiting -= (1 << 14) - 1
    line.later()
    assert line.is_over


def test_an_answer_that_takes_too_long_is_none(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    runs = catalog.Catalog({"words": folders["words"]})
    nearest = Embeddings.nearest
    monkeypatch.setattr(Embeddings, "nearest", lambda *given: (time.sleep(2.2), nearest(*given))[1])
    with Server(app.make_app(runs, Limits(max_seconds=2)), "127.0.0.1", 0) as running:
        assert ask(running.port, "/runs/words/nearest", {"keys": ["w1"]})[0] == 200  # it is there
        status, said = ask(running.port, "/runs/words/nearest", {"keys": ["w1"] * 40})
    assert status == 503 and said["error"] == "The answer takes longer than 2 s; ask for less at once."


def test_errors_of_the_server_are_one_sentence(
    port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Embeddings, "similarity", lambda *_: 1 / 0)
    caplog.set_level(logging.ERROR)
    status, said = ask(port, "/runs/words/similarity", {"a": ["w1"], "b": ["w2"]})
    assert status == 500 and said["error"] == "The server met an error of its own; its log has more."
    end = time.monotonic() + 10
    while "ZeroDivisionError" not in caplog.text and time.monotonic() < end:
        time.sleep(0.05)  # the answer comes before the log
    assert "ZeroDivisionError" in caplog.text


def test_the_token_is_asked_for(folders: dict[str, Path]) -> None:
    runs = catalog.Catalog({"words": folders["words"]})
    token = "a-token-of-many-characters"
    with Server(app.make_app(runs, SMALL, token), "127.0.0.1", 0) as running:
        for headers in ({}, {"Authorization": "Bearer other"}, {"Authorization": token}, {"Authorization": "Basic x"}):
            for path in ("/runs", "/openapi.json", "/nope"):
                status, said = ask(running.port, path, headers=headers)
                assert status == 401 and is_sentence(said)
        assert ask(running.port, "/health")[0] == 200
        headers = {"Authorization": f"Bearer {token}", "Host": "any.example"}
        assert ask(running.port, "/runs", headers=headers)[0] == 200


def test_pages_of_other_sites_cannot_ask(port: int) -> None:
    for host, status in (("localhost", 200), ("127.0.0.1:1", 200), ("evil.example", 403), ("evil.example:80", 403)):
        assert ask(port, "/runs", headers={"Host": host})[0] == status


def test_a_run_that_is_published_anew_is_served_anew(tmp_path: Path) -> None:
    folder = tmp_path / "words"
    vectors(1).save(folder)
    complaints: list[str] = []
    runs = catalog.Catalog({"words": folder}, complain=complaints.append, every=0.05)
    old = runs["words"]
    query = {"a": ["w1"], "b": ["w2"]}
    answers = {round(vectors(seed).similarity("w1", "w2"), 5) for seed in range(1, 8)}
    with runs, Server(app.make_app(runs, SMALL), "127.0.0.1", 0) as running:
        for seed in range(2, 8):
            vectors(seed).save(folder, overwrite=True)
            new, found, end = round(vectors(seed).similarity("w1", "w2"), 5), 0.0, time.monotonic() + 20
            while found != new and time.monotonic() < end:
                status, said = ask(running.port, "/runs/words/similarity", query)
                found = round(said["similarities"][0][0], 5)
                assert status == 200 and found in answers
            assert found == new
        assert old.embeddings.similarity("w1", "w2") == pytest.approx(vectors(1).similarity("w1", "w2"))
        text = (folder / "meta.json").read_text()
        (folder / "meta.json").write_text("{")
        end = time.monotonic() + 20
        while not complaints and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.3)
        assert len(complaints) == 1 and "words was published anew and cannot be opened" in complaints[0]
        assert ask(running.port, "/runs/words/similarity", query)[0] == 200
        closed = io.StringIO()
        closed.close()
        runs._failed.clear()
        runs._complain = closed.write  # a log that is closed ends no watching
        runs.refresh()
        (folder / "meta.json").unlink()  # as while it is replaced
        runs.refresh()
        assert ask(running.port, "/runs/words/similarity", query)[0] == 200 and len(complaints) == 1
        (folder / "meta.json").write_text(text)
        vectors(1).save_into(folder)
        runs.refresh()
        assert runs["words"].embeddings.similarity("w1", "w2") == pytest.approx(vectors(1).similarity("w1", "w2"))


def test_snapshots_of_a_stream_are_followed(tmp_path: Path) -> None:
    (tmp_path / "stream").mkdir()
    publish(tmp_path / "stream", vectors(1).save_into)
    runs = catalog.Catalog({"stream": tmp_path / "stream"})
    assert runs["stream"].embeddings.similarity("w1", "w2") == vectors(1).similarity("w1", "w2")
    before = runs["stream"]
    runs.refresh()
    assert runs["stream"] is before
    publish(tmp_path / "stream", vectors(2).save_into)
    runs.refresh()
    assert runs["stream"].embeddings.similarity("w1", "w2") == vectors(2).similarity("w1", "w2")


def test_an_index_answers_where_it_is_asked_for(folders: dict[str, Path]) -> None:
    runs = catalog.Catalog({"words": folders["words"]}, approximate=True)
    with Server(app.make_app(runs, SMALL), "127.0.0.1", 0) as running:
        answers = [
            ask(running.port, "/runs/words/nearest", {"keys": ["w1"], "k": 3, "approximate": how})[1]["neighbors"][0]
            for how in (None, True, False)
        ]
    assert answers[0] == answers[1] and [one["key"] for one in answers[1]] == [one["key"] for one in answers[2]]


def test_addresses_and_tokens(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.168.1.1", "a.example"):
        with pytest.raises(InputError, match="is reached by other machines; give a --token-file"):
            check_address(host, None)
        check_address(host, "secret")
    for host in ("127.0.0.1", "::1", "localhost", "127.9.9.9"):
        check_address(host, None)
    file = tmp_path / "token"
    for text in ("", "short\n", "with spaces in the middle of it\n", "ünicode-of-16-characters\n"):
        file.write_text(text)
        with pytest.raises(InputError, match="must be a token of 16 ASCII characters"):
            read_token(file)
    with pytest.raises(InputError, match="cannot be read"):
        read_token(tmp_path / "none")
    file.write_text("0123456789abcdef\nmore\n")
    assert read_token(file) == "0123456789abcdef"


def test_the_command_refuses(folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = str(folders["words"])
    assert "is reached by other machines" in refused("serve", words, "--host", "0.0.0.0")
    assert "Two runs are called words; give one another name" in refused("serve", words, words)
    assert "There is no" in refused("serve", str(tmp_path / "none"))
    assert "max_k must be a whole number from 1" in refused("serve", words, "--max-k", "0")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    assert "no meta.json there" in refused("serve", str(tmp_path / "run"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "cannot be served on" in refused("serve", words, "--port", str(taken.getsockname()[1]))
    monkeypatch.setattr(server, "find_spec", lambda name: None)
    assert "Serving needs fastapi and uvicorn; in a clone: pip install -e '.[serve]'" in refused("serve", words)


def test_answers_do_not_wait_for_acknowledgments() -> None:
    """asyncio turns Nagle's algorithm off for sockets whose protocol is named."""
    with server._listening("localhost", 0) as found:
        assert found.proto == socket.IPPROTO_TCP


def test_classes_of_nodes_are_those_that_the_run_kept(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="graph networks need torch")
    parquet = pytest.importorskip("pyarrow.parquet")
    labels = np.arange(30) % 3
    np.save(tmp_path / "x.npy", np.eye(3, dtype=np.float32)[labels])
    (tmp_path / "y.tsv").write_text("".join(f"{node} c{one}\n" for node, one in enumerate(labels)))
    edges = {"src": np.arange(30), "dst": (np.arange(30) + 3) % 30}
    nodes = a2v.NodeOptions(features=tmp_path / "x.npy", labels=tmp_path / "y.tsv")
    a2v.fit(a2v.GCN(hidden=8), edges, nodes=nodes, epochs=3, threads=1, out=tmp_path / "run")
    kept = parquet.read_table(tmp_path / "run" / "predictions.parquet").to_pylist()
    with (
        catalog.Catalog({"run": tmp_path / "run"}) as runs,
        Server(app.make_app(runs, SMALL), "127.0.0.1", 0) as running,
    ):
        keys = [one["node"] for one in kept[:4]]
        status, found = ask(running.port, "/runs/run/classes", {"keys": [*keys, 77]})
        assert status == 200 and found["unknown"] == [77] and found["classes"][4] is None
        said = [[(one["predicted"], pytest.approx(one["probability"]))] for one in kept[:4]]
        assert [[(one["key"], one["score"]) for one in listed] for listed in found["classes"][:4]] == said
    file = tmp_path / "run" / "predictions.parquet"
    parquet.write_table(parquet.read_table(file).slice(1), file)
    with pytest.raises(FormatError, match="its predictions are of other nodes"):
        catalog.open_run("run", tmp_path / "run", False)


def test_no_time_is_left_behind_a_deadline() -> None:
    assert Deadline(time.monotonic() - 5, 1).left == 0
    assert 0 < Deadline.after(0.9).left <= 0.9
    with pytest.raises(TooLateError, match="longer than 1 s"):
        Deadline(time.monotonic() - 5, 1).check()


def test_as_many_answers_as_are_allowed_are_no_more() -> None:
    Limits(max_answers=3).check_answers(3, "3")
    with pytest.raises(InputError, match="has 3 answers at most, got 4"):
        Limits(max_answers=3).check_answers(4, "4")
