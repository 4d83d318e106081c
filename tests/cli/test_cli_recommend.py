"""`any2vec train bpr`, `recommend` and `evaluate --task recommend`; values of a column by a model of clicks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from cli_runs import done, refused, run


@pytest.fixture(scope="module")
def likes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Users of two groups, each with its own items; a run of als over them."""
    folder, rng = tmp_path_factory.mktemp("likes"), np.random.default_rng(1)
    pairs = [(user, 10 * (user % 2) + item) for user in range(40) for item in rng.choice(10, 5, replace=False)]
    for name, rows in (("train.tsv", pairs[::2]), ("test.tsv", pairs[1::2])):
        (folder / name).write_text("user\titem\n" + "".join(f"u{user}\ti{item}\n" for user, item in rows))
    done("train", "als", str(folder / "train.tsv"), "--out", str(folder / "run"), "--dim", "4", "--quiet")
    return folder


def test_items_for_users(likes: Path) -> None:
    run, seen = str(likes / "run"), str(likes / "train.tsv")
    found = json.loads(done("recommend", run, "u0", "-k", "3", "--exclude-seen", seen, "--json"))
    had = {line.split("\t")[1] for line in Path(seen).read_text().splitlines() if line.startswith("u0\t")}
    assert found["user"] == "u0" and len(found["items"]) == 3
    assert not had & {one["item"] for one in found["items"]}
    assert had & {one["item"] for one in json.loads(done("recommend", run, "u0", "--json"))["items"]}
    assert len(json.loads(done("recommend", run, "u0", "u1", "--json"))["lists"]) == 2
    assert "for u1" in done("recommend", run, "u0", "u1") and "cosine" in done("nearest", run, "i3")


@pytest.mark.parametrize(
    ("rows", "bpr", "als"),
    [
        ("u\ta\nu\ta\nv\tb\n", "1 repeated; bpr makes nothing of repeats and weights", "with weights"),
        ("u\ta\t2\nv\tb\t3\n", "with weights, of which bpr makes nothing", "with weights"),
    ],
)
def test_weights_are_told_where_they_were_given(rows: str, bpr: str, als: str, tmp_path: Path) -> None:
    (tmp_path / "likes.tsv").write_text(rows)
    for model, end in (("bpr", bpr), ("als", als)):
        said = done("train", model, str(tmp_path / "likes.tsv"), "--out", str(tmp_path / model), "--epochs", "1")
        assert f"2 of 2 users, {end} " in " ".join(said.split()) + " "


def test_what_excludes_nothing_is_said(likes: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.tsv"
    other.write_text("nobody\tnothing\n")
    for file, is_said in ((other, True), (likes / "train.tsv", False)):
        found = run("recommend", str(likes / "run"), "u0", "--exclude-seen", str(file))
        assert found.exit_code == 0 and ("nothing is left out" in found.stderr) is is_said


def test_users_of_a_file_to_a_file(likes: Path, tmp_path: Path) -> None:
    run, out = str(likes / "run"), tmp_path / "lists.tsv"
    (tmp_path / "users.txt").write_text("u3\nu1\n")
    printed = done("recommend", run, "--users", str(tmp_path / "users.txt"), "-k", "2")
    assert [line.split("\t")[0] for line in printed.splitlines()] == ["u3", "u3", "u1", "u1"]
    found = json.loads(done("recommend", run, "--users", "all", "-k", "2", "--out", str(out), "--json"))
    assert found["num_users"] == 40 and len(out.read_text().splitlines()) == 80
    assert "--overwrite" in refused("recommend", run, "--users", "all", "--out", str(out))


def test_users_that_are_unknown_cost_the_others_nothing(likes: Path, tmp_path: Path) -> None:
    (tmp_path / "users.txt").write_text("\ufeffu3\nnobody\nu1\n")
    found = run("recommend", str(likes / "run"), "--users", str(tmp_path / "users.txt"), "-k", "1")
    assert [line.split("\t")[0] for line in found.stdout.splitlines()] == ["u3", "u1"]
    assert "1 of 3 users are not among those of the training data, 'nobody' first" in found.stderr
    found = run("recommend", str(likes / "run"), "nobody", "u1", "-k", "1", "--json")
    assert [one["user"] for one in json.loads(found.stdout)["lists"]] == ["u1"]
    assert "1 of 2 users are not among those of the training data, 'nobody' first" in found.stderr
    (tmp_path / "users.txt").write_text("\n")
    assert "holds no users" in refused("recommend", str(likes / "run"), "--users", str(tmp_path / "users.txt"))
    (tmp_path / "users.txt").write_text("nobody\n")
    assert "'nobody' is not" in refused("recommend", str(likes / "run"), "--users", str(tmp_path / "users.txt"))


def test_what_excludes_nothing_is_refused_where_scores_are_wanted(likes: Path, tmp_path: Path) -> None:
    (tmp_path / "other.tsv").write_text("nobody\tnothing\n")
    evaluate = "evaluate", str(likes / "run"), "--task", "recommend", "--data", str(likes / "test.tsv")
    assert "no pair of a user and an item" in refused(*evaluate, "--exclude", str(tmp_path / "other.tsv"))
    assert "for recommend it is --exclude" in refused(*evaluate, "--known", str(likes / "train.tsv"))


def test_what_was_read_is_said(likes: Path, tmp_path: Path) -> None:
    rows = (likes / "train.tsv").read_text().splitlines()
    (tmp_path / "rows.tsv").write_text("\n".join([f"{rows[0]}\tday", *(f"{row}\tmonday" for row in rows[1:])]))
    said = done("train", "als", str(tmp_path / "rows.tsv"), "--dim", "2", "--epochs", "1", "--out", str(tmp_path / "a"))
    assert "100 of 40 users, each of weight 1" in said and "columns that were not read" in said
    (tmp_path / "rows.tsv").write_text("\n".join(f"{row}\t2" for row in rows[1:]))
    said = done("train", "als", str(tmp_path / "rows.tsv"), "--dim", "2", "--epochs", "1", "--out", str(tmp_path / "b"))
    assert "100 of 40 users, with weights" in said and "not read" not in said
    (tmp_path / "bought.csv").write_text("artikel,kunde,tag\n" + "".join(f"{at % 7},{at % 5},1\n" for at in range(30)))
    said = done(
        "train", "bpr", str(tmp_path / "bought.csv"), "--dim", "2", "--epochs", "1", "--out", str(tmp_path / "c")
    )
    said = " ".join(said.split())
    assert "(--use-columns USER,ITEM,WEIGHT or use_columns= names others): artikel as user, kunde as item" in said
    assert "columns that were not read" in said and "others): tag" in said
    said = done("compare", str(tmp_path / "a"), str(tmp_path / "b"), "--json")
    assert json.loads(said)["settings"]["data.weighted"] == [False, True]


def test_how_good_the_lists_are(likes: Path) -> None:
    files = "--data", str(likes / "test.tsv"), "--exclude", str(likes / "train.tsv")
    found = json.loads(done("evaluate", str(likes / "run"), "--task", "recommend", *files, "-k", "8", "--json"))
    assert found["k"] == 8 and found["num_users"] == 40 and found["recall"] > 0.6
    kept = [json.loads(line) for line in (likes / "run" / "evaluation.jsonl").read_text().splitlines()]
    assert [one["recall"] for one in kept] == [found["recall"]]
    done("evaluate", str(likes / "run"), "--task", "recommend", *files, "-k", "2")  # another list is another test
    assert len((likes / "run" / "evaluation.jsonl").read_text().splitlines()) == 2
    done("evaluate", str(likes / "run"), "--task", "recommend", *files[:2], "-k", "8")  # and so is another ranking
    kept = [json.loads(line) for line in (likes / "run" / "evaluation.jsonl").read_text().splitlines()]
    assert [one.get("exclude") for one in kept] == [files[3], files[3], None]


def test_held_out_pairs_that_are_excluded_are_asked_about(likes: Path, tmp_path: Path) -> None:
    shutil.copytree(likes / "run", tmp_path / "run")
    (tmp_path / "all.tsv").write_text((likes / "train.tsv").read_text() + (likes / "test.tsv").read_text())
    asked = "evaluate", str(tmp_path / "run"), "--task", "recommend", "--data", str(likes / "test.tsv"), "--json"
    found = run(*asked, "--exclude", str(tmp_path / "all.tsv"))
    assert json.loads(found.stdout)["recall"] == 0 and "are the held-out pairs in --exclude, too?" in found.stderr
    assert "--exclude, too?" not in run(*asked, "--exclude", str(likes / "train.tsv")).stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["RUN"], "for whom"),
        (["RUN", "u1", "--users", "all"], "not both"),
        (["RUN", "nobody"], "'nobody' is not among the 40"),
        (["RUN", "u1", "--column", "item"], "models of clicks"),
        (["RUN", "--users", "all", "--json"], "--out"),
        (["FOLDER", "u1"], "no finished run"),
        (["RUN", "u1", "--exclude-seen", "nothing.tsv"], "no file"),
    ],
)
def test_what_is_refused(arguments: list[str], said: str, likes: Path) -> None:
    names = {"RUN": str(likes / "run"), "FOLDER": str(likes)}
    assert said in refused("recommend", *(names.get(one, one) for one in arguments))


def test_a_run_is_estimated_and_spread_over_no_hosts(likes: Path) -> None:
    assert json.loads(done("estimate", "bpr", str(likes / "train.tsv"), "--json"))["memory_bytes"] > 0
    assert json.loads(done("estimate", "item2vec", "--rows", "1M", "--json"))["rows"] == 1_000_000
    out = str(likes / "other")
    assert "on one host" in refused("train", "bpr", str(likes / "train.tsv"), "--out", out, "--hosts", "2")
    assert "in memory" in refused("train", "als", str(likes / "train.tsv"), "--out", out, "--memory", "1GB")


# ---- clicks -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["vocabulary", "hash"])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Users that click the products of their own half."""
    pytest.importorskip("torch", reason="models of clicks need torch")
    folder, rng = tmp_path_factory.mktemp(request.param), np.random.default_rng(1)
    rows = [(int(rng.integers(20)), int(rng.integers(8)), rng.integers(9)) for _ in range(3000)]
    text = "".join(f"{int(user % 2 == product % 2)},{user},p{product},{age}\n" for user, product, age in rows)
    (folder / "clicks.csv").write_text("click,user,product,age\n" + text)
    (folder / "seen.csv").write_text("click,user,product,age\n1,4,p0,\n1,4,p1,\n0,5,p2,1\n0,5,p4,1\n0,5,p6,1\n")
    (folder / "shop.toml").write_text(
        f'label = "click"\ncategorical = ["user", "product"]\ndense = ["age"]\nids = "{request.param}"\n'
    )
    arguments = (
        "--schema",
        str(folder / "shop.toml"),
        "--epochs",
        "30",
        "--learning-rate",
        "0.2",
        "--dim",
        "4",
        "--batch-size",
        "64",
    )
    done("train", "fm", str(folder / "clicks.csv"), *arguments, "--out", str(folder / "run"), "--quiet")
    return folder


def test_values_of_a_column_for_a_context(shop: Path) -> None:
    seen = "--column", "product", "--exclude-seen", str(shop / "seen.csv")
    found = json.loads(done("recommend", str(shop / "run"), "user=4", *seen, "--json"))
    items = [one["item"] for one in found["items"]]
    is_hashed = shop.name.startswith("hash")
    assert set(items) == ({"p2", "p4", "p6"} if is_hashed else {f"p{product}" for product in range(2, 8)})
    chances = [one["probability"] for one in found["items"]]
    assert chances == sorted(chances, reverse=True) and set(items[:3]) == {"p2", "p4", "p6"}
    assert "probability" in done("recommend", str(shop / "run"), "user=4", "age=3", *seen, "-k", "2")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["user=4"], "--column"),
        (["4", "--column", "product"], "COLUMN=VALUE"),
        (["user=4", "--column", "age"], "cannot be ranked"),
        (["usr=4", "--column", "product"], "did you mean 'user'"),
        (["user=4", "--column", "product", "--out", "x"], "leave out"),
        (["user=4", "age=old", "--column", "product"], ""),
    ],
)
def test_what_is_refused_of_clicks(arguments: list[str], said: str, shop: Path) -> None:
    assert said in refused("recommend", str(shop / "run"), *arguments)


def test_a_column_is_given_once(shop: Path) -> None:
    said = refused("recommend", str(shop / "run"), "user=4", "user=5", "--column", "product")
    assert "user is given twice" in said


def test_values_that_nobody_knows(shop: Path) -> None:
    said = refused("recommend", str(shop / "run"), "user=999", "--column", "product")
    assert ("hashed" if shop.name.startswith("hash") else "'999' is not among the 20 values") in said
