"""Models of triples at the command line: train, evaluate, and one clear sentence for whatever is wrong."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from any2vec.embeddings import Embeddings
from any2vec.plan.order.buffer import BufferPlan
from any2vec.tasks.triples import table as triple_table
from any2vec.testing.planted_triples import PlantedTriples
from any2vec.units import size
from cli_runs import done, refused, run

TRAIN = ["train", "complex", "train.tsv", "--dim", "16", "--threads", "1", "--quiet"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.tsv, valid.tsv and test.tsv."""
    folder = tmp_path_factory.mktemp("made")
    planted = PlantedTriples(entities=100, relations=2, group=5)
    for name, start, stop in (("train", 0, 1500), ("valid", 1500, 1600), ("test", 1600, 1700)):
        lines = (f"e{head}\tr{relation}\te{tail}\n" for head, relation, tail in planted.triples(start, stop).tolist())
        (folder / f"{name}.tsv").write_text("".join(lines))
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy, which is the working folder."""
    for path in made.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def scores(*arguments: str) -> dict[str, float]:
    found: dict[str, float] = json.loads(done("evaluate", "out", "--task", "triples", *arguments, "--json"))
    return found


def test_from_a_file_to_ranks(here: Path) -> None:
    summary = json.loads(done(*TRAIN, "--out", "out", "--json"))
    reported = [summary[name] for name in ("model", "items", "rows", "relations", "epochs", "out")]
    assert reported == ["complex", 24 * 1500, 100, 2, 24, "out"]
    found = scores("--data", "test.tsv")
    assert found["mrr"] > 0.4 and found["num_triples"] == 100 and found["num_unknown"] == 0
    assert scores("--data", "test.tsv", "--known", "valid.tsv")["mean_rank"] <= found["mean_rank"]
    assert "MRR" in done("evaluate", "out", "--task", "triples", "--data", "test.tsv")
    kept = [json.loads(line) for line in (here / "out" / "evaluation.jsonl").read_text().splitlines()]
    assert [one.get("known") for one in kept] == ["valid.tsv", None]
    assert "e1" in done("nearest", "out", "e1", "-k", "99") and (here / "out" / "relations.tsv").is_file()
    done("report", "out")
    assert done("score", "out", "test.tsv", "--out", "-") == done("score", "out", "test.tsv") != ""
    (here / "out" / "run.json").write_text("[" * 100_000)
    assert "run.json, line 1: not JSON" in run("report", "out").output


def test_relations_and_sides_of_a_test(here: Path) -> None:
    done(*TRAIN, "--out", "out", "--epochs", "1")
    evaluate = ("evaluate", "out", "--task", "triples", "--data", "test.tsv")
    found: Any = json.loads(done(*evaluate, "--json"))
    assert found["sides"]["head"]["count"] == found["sides"]["tail"]["count"] == 100
    by_name = {one["relation"]: one for one in found["relations"]}
    assert set(by_name) == {"r0", "r1"} and sum(one["both"]["count"] for one in by_name.values()) == 200
    for by, key in (("frequent", lambda one: -one["head"]["count"]), ("worst", lambda one: one["both"]["mrr"])):
        first = min(found["relations"], key=key)["relation"]
        shown = run(*evaluate, "--relations", "1", "--by", by)
        assert f"\n{first}  " in shown.stdout and f"\n{({'r0', 'r1'} - {first}).pop()} " not in shown.stdout
        assert "1 more relations: --relations all" in shown.stderr
    assert all(f"\n{name}  " in done(*evaluate, "--relations", "all") for name in by_name)
    assert "\nr0" not in done(*evaluate, "--relations", "0")
    assert "relations" not in json.loads(Path("out/evaluation.jsonl").read_text())
    assert "--relations must be a whole number of 0 or more, or all, got '-1'" in refused(*evaluate, "--relations=-1")
    assert "--exclude is for --task recommend; for triples it is --known" in refused(*evaluate, "--exclude", "test.tsv")
    assert "--method is for --task analogy; leave it out" in refused(*evaluate, "--method", "add")
    assert "--by must be one of frequent, worst" in refused(*evaluate, "--by", "best")


def test_the_missing_part_is_predicted(here: Path) -> None:
    done(*TRAIN, "--out", "out", "--epochs", "1")
    found: Any = json.loads(done("predict", "out", "--head", "e1", "--relation", "r0", "-k", "3", "--json"))
    assert (found["head"], found["relation"], found["tail"]) == ("e1", "r0", None) and len(found["answers"]) == 3
    best = found["answers"][0]["key"]
    Path("known.tsv").write_text(f"e1\tr0\t{best}\nnobody\tr9\te1\n")
    Path("ask.tsv").write_text("e1\tr0\t?\n?\tr1\te2\n")
    more: Any = json.loads(
        done("predict", "out", "--queries", "ask.tsv", "--exclude", "known.tsv", "-k", "2", "--json")
    )
    assert more["queries"][0]["answers"] == found["answers"][1:] and more["queries"][1]["head"] is None
    shown = done("predict", "out", "--head", "e1", "--tail", best)
    assert "e1  ?  " in shown and "r1" in shown
    seen = done("predict", "out", "--head", "e1", "--relation", "r0", "-k", "100", "--exclude-training")
    answers = [line.split()[0] for line in seen.splitlines()[3:]]
    lines = [line.split("\t") for line in Path("train.tsv").read_text().splitlines()]
    assert {*answers} == {f"e{n}" for n in range(100)} - {
        tail for head, name, tail in lines if (head, name) == ("e1", "r0")
    }
    assert "asks for the third; got head" in refused("predict", "out", "--head", "e1")
    assert "leave out --head" in refused("predict", "out", "--head", "e1", "--queries", "ask.tsv")
    assert "entity 'x' is not among the 100" in refused("predict", "out", "--head", "x", "--relation", "r0")
    assert "There is no file or folder none.tsv" in refused("predict", "out", "--queries", "none.tsv")


def test_files_are_read_as_those_of_training(here: Path) -> None:
    pandas = pytest.importorskip("pandas")
    lines = [line.split("\t") for line in Path("train.tsv").read_text().splitlines()]
    Path("train.txt").write_text("".join("|".join(line) + "\n" for line in lines))
    frame = pandas.DataFrame(lines, columns=["x", "kind", "y"])
    frame[["x", "y", "kind"]].to_parquet("train.parquet")
    wanted: dict[str, str] = {}
    for data, *reading in (["train.txt", "--delimiter", "pipe"], ["train.parquet", "--use-columns", "x,kind,y"]):
        done("train", "complex", data, *TRAIN[3:], *reading, "--out", "out", "--epochs", "1", "--overwrite")
        ask = ("predict", "out", "--head", "e1", "--relation", "r0", "-k", "100", "--exclude")
        for given in (data, "train.tsv"):
            found = {
                "evaluate": str(scores("--data", given, "--known", given)["mrr"]),
                "score": done("score", "out", given),
                "predict": done(*ask, given),
            }
            assert found == (wanted := wanted or found), (data, given)


@pytest.mark.parametrize("header", ["id,head,relation,tail", "tail,relation,head", ",head,relation,tail"])
def test_files_are_read_by_the_names_of_their_columns(header: str, here: Path) -> None:
    """Sides were swapped, and ids were heads; an index of pandas was no column at all."""
    names = header.split(",")
    for name in ("train", "valid", "test"):
        rows = [line.split("\t") for line in Path(f"{name}.tsv").read_text().splitlines()]
        said = [dict(zip(("head", "relation", "tail"), row, strict=True)) for row in rows]
        lines = [",".join(row.get(one, str(place)) for one in names) for place, row in enumerate(said)]
        Path(f"{name}.csv").write_text("\n".join([header, *lines]) + "\n")
    plain, named = (
        json.loads(done("train", "complex", f"train.{form}", *TRAIN[3:], "--validate", f"valid.{form}", "--epochs", "2",
                        "--out", "out", "--overwrite", "--json"))
        for form in ("tsv", "csv")
    )  # fmt: skip
    assert (named["rows"], named["relations"], named["items"]) == (100, 2, plain["items"])
    assert named["validation"] == plain["validation"]
    assert any("columns that were not read" in one for one in named["warnings"]) == (len(names) > 3)
    by_place, by_name = (scores("--data", f"test.{form}", "--known", f"valid.{form}") for form in ("tsv", "csv"))
    assert by_place == by_name | {"data": "test.tsv", "known": "valid.tsv"}
    row = {"head": "e1", "relation": "r0", "tail": "?"}
    Path("ask.csv").write_text(header + "\n" + ",".join(row.get(one, "7") for one in names) + "\n")
    asked = json.loads(done("predict", "out", "--queries", "ask.csv", "-k", "3", "--json"))["queries"]
    alone = json.loads(done("predict", "out", "--head", "e1", "--relation", "r0", "-k", "3", "--json"))
    assert [one["answers"] for one in asked] == [alone["answers"]]


def test_relations_are_searched_and_written(here: Path) -> None:
    done(*TRAIN, "--out", "out", "--epochs", "1")
    found = done("nearest", "out", "r0", "--relations", "--json")
    assert json.loads(found)["neighbors"][0]["key"] == "r1"
    assert done("nearest", "out/relations.safetensors", "r0", "--json") == found
    done("export", "out", "--relations", "--out", "relations.txt")
    assert set(Embeddings.load("relations.txt")) == {"r0", "r1"}
    done("export", "out", "--out", "entities.txt")
    assert "holds no model of triples" in refused("nearest", "entities.txt", "e0", "--relations")


def test_what_is_reported_of_a_run(here: Path) -> None:
    found = run(*TRAIN[:-1], "--out", "out", "--epochs", "2")
    shown = " ".join(found.output.split())
    assert "100 entities × 16" in shown and "triples/s" in shown
    assert "any2vec evaluate out --task triples --data TEST.tsv" in shown
    summary = json.loads(Path("out/run.json").read_text())["summary"]
    own, whole = size(summary["peak_anon_bytes"]), size(summary["peak_rss_bytes"])
    assert f"memory {own} at the peak, {whole} with mapped files" in shown  # own: that of `watch`


def test_options_in_a_file(here: Path) -> None:
    Path("job.toml").write_text(
        'model = "rotate"\ninput = "train.tsv"\nout = "out"\ndim = 8\nloss = "logistic"\nnum-negatives = 20\n'
        "degree_share = 0.5\nreciprocal = false\nepochs = 1\n"
    )
    summary = json.loads(done("train", "--config", "job.toml", "--quiet", "--json", "--dim", "6"))
    assert [summary[name] for name in ("model", "dim", "num_negatives")] == ["rotate", 6, 20]
    options = json.loads(Path("out/run.json").read_text())["settings"]["model"]
    assert [options[name] for name in ("loss", "degree_share", "reciprocal")] == ["logistic", 0.5, False]


def test_names_that_have_no_vector(here: Path) -> None:
    done(*TRAIN, "--out", "out", "--epochs", "1", "--json")
    lines = Path("test.tsv").read_text().splitlines()
    Path("odd.tsv").write_text("\n".join([*lines[:9], "nobody\tr0\te1"]) + "\n")
    middle, skipped = scores("--data", "odd.tsv"), scores("--data", "odd.tsv", "--unknown", "skip")
    assert (middle["num_triples"], middle["num_unknown"]) == (10, 1)
    assert (skipped["num_triples"], skipped["num_unknown"]) == (9, 0)
    expected = (9 * skipped["mean_rank"] + 50.5) / 10
    assert middle["mean_rank"] == pytest.approx(expected)
    reported = run("evaluate", "out", "--task", "triples", "--data", "odd.tsv").stderr
    assert "1 of 10 triples have names that the model was not trained on" in " ".join(reported.split())
    assert "1 of the 10 triples of odd.tsv have an entity or relation" in refused(
        "evaluate", "out", "--task", "triples", "--data", "odd.tsv", "--unknown", "error"
    )
    for content in ("a\tb\tc\nd\tb\tf\n", "a\tr0\te1\ne1\tb\te2\n"):
        Path("other.tsv").write_text(content)
        assert "Each of the 2 triples of other.tsv has a name that the model was not trained on; it" in refused(
            "evaluate", "out", "--task", "triples", "--data", "other.tsv"
        )
    Path("plain.tsv").write_text("e1\te2\ne2\te3\n")
    assert "plain.tsv has entities that the model was trained on, but with none of its relations" in refused(
        "evaluate", "out", "--task", "triples", "--data", "plain.tsv"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "there are no|holds no triples|is empty"),
        ("a\tb\tc\nd\te\n", "line 2 has 2 columns, not 3"),
        ("a\tlikes\tb\nc\t\td\n", "row 2 has nothing in column 2"),
        ("a\n", "has one column in its first line"),
    ],
)
def test_bad_triples(content: str, said: str, here: Path) -> None:
    import re

    Path("train.tsv").write_text(content)
    assert re.search(said, refused(*TRAIN, "--out", "out"))
    assert not Path("out").exists()


def test_a_file_that_is_cut(here: Path) -> None:
    import gzip

    packed = gzip.compress(Path("train.tsv").read_bytes())
    Path("train.tsv.gz").write_bytes(packed[: len(packed) // 2])
    assert "train.tsv.gz" in refused("train", "complex", "train.tsv.gz", *TRAIN[3:], "--out", "out")


def test_what_does_not_go_with_a_model(here: Path) -> None:
    assert "complex has no --window: it is for skipgram, cbow, ngram, deepwalk, node2vec and item2vec" in refused(
        *TRAIN, "--out", "out", "--window", "3"
    )
    assert "triples have adasum," in refused(*TRAIN, "--out", "out", "--logical-hosts", "2", "--sync", "server:async")
    assert "skipgram has no --n3: it is for complex, distmult, " in refused(
        "train", "skipgram", "train.tsv", "--out", "out", "--n3", "1"
    )
    assert "dim of complex must be even" in refused(*TRAIN, "--out", "out", "--dim", "7")
    assert "Triples are read from one file, got 2" in refused(
        "train", "complex", "train.tsv", "test.tsv", *TRAIN[3:], "--out", "out"
    )
    assert "any2vec plan is not for char-lstm: nobody knows" in refused("plan", "char-lstm", "train.tsv")
    nodes = ["--no-weighted", "--dim", "4", "--out", "nodes", "--quiet"]
    done("train", "deepwalk", "train.tsv", *nodes)
    assert "holds no model of triples" in refused("evaluate", "nodes", "--task", "triples", "--data", "test.tsv")
    assert "There is no file or folder none.tsv" in refused(
        "evaluate", "nodes", "--task", "triples", "--data", "test.tsv", "--known", "none.tsv"
    )


# ---- tables on disk


@pytest.fixture
def is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of 100 rows counts as larger than memory: three of eight partitions have room."""
    plan = BufferPlan(100, 4 * 17, 8, 3, 0, 0)
    monkeypatch.setattr(triple_table, "plan_table", lambda request, size: plan if request.spec.storage.memory else None)


LARGE = [*TRAIN, "--memory", "8GB", "--epochs", "2", "--out", "out"]


@pytest.mark.parametrize("place", [0, 3, 12, 30])
def test_a_disk_that_fills_is_reported_and_nothing_is_lost(
    place: int, here: Path, monkeypatch: pytest.MonkeyPatch, is_large: None
) -> None:
    """While the table is made, and at a write of a partition; with room, the run ends as one that was not disturbed."""
    done(*LARGE[:-1], "whole")
    whole = np.array(Embeddings.load("whole").vectors)
    write, left = os.pwritev, place

    def full(*arguments: Any) -> int:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        found = run(*LARGE)
    assert found.exit_code == 2 and "the disk is full; free some space" in found.stderr
    assert len(found.stderr.splitlines()) == 1
    if place < 8:
        assert not Path("out").exists()
    else:
        assert "All is as it was written" in run("check", "out").stderr
    done(*LARGE, "--resume")
    assert np.array_equal(Embeddings.load("out").vectors, whole)


def test_a_cache_over_hosts_is_reported(here: Path) -> None:
    """Also of words, which the same sentence reports; a run of words has no rows to score."""
    spread = ("--logical-hosts", "2", "--cache", "het:8", "--cache-rows", "0.5", "--out", "out")
    shown = " ".join(done(*TRAIN, *spread).split())
    assert "agreement cache het:8" in shown and "hosts 2, " in shown
    (here / "text.txt").write_text("a b c d e f g h\n" * 50)
    words = ("train", "skipgram", "text.txt", "--dim", "4", "--min-count", "1", "--epochs", "1")
    assert "agreement cache het:8" in " ".join(done(*words, *spread, "--overwrite").split())
    assert "scores no rows; use any2vec evaluate" in refused("score", "out", "text.txt")
