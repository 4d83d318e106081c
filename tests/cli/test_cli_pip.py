"""PIP loss and the choice of a dimension from the command line."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from any2vec.embeddings import Embeddings
from cli_runs import done, refused, run


def reported(*arguments: object) -> dict[str, Any]:
    return json.loads(done(*map(str, arguments), "--json"))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text of three topics, and runs on it with two seeds."""
    folder = tmp_path_factory.mktemp("pip")
    draw = random.Random(1)
    topics = [[f"{name}{number}" for number in range(12)] for name in ("Red", "Cat", "Sea")]
    lines = [" ".join(draw.choices(draw.choice(topics), k=10)) for _ in range(1500)]
    (folder / "text.txt").write_text("\n".join(lines))
    options = ["--dim", 8, "--window", 3, "--num-negatives", 1, "--subsample", 0.01]
    for seed in (1, 2):
        out = folder / f"run{seed}"
        reported(
            "train",
            "skipgram",
            folder / "text.txt",
            "--out",
            out,
            "--threads",
            1,
            "--epochs",
            5,
            "--seed",
            seed,
            *options,
        )
    return folder


def test_pip_against_the_text_of_training(place: Path) -> None:
    found = reported("evaluate", place / "run2", "--task", "pip", "--data", place / "text.txt")
    assert found["task"] == "pip" and found["against"] == "corpus" and found["words"] == 36
    expected = {"window": 3, "num_negatives": 1, "subsample": 0.01, "seed": 2, "passes": 1, "noise_power": 0.75}
    assert expected.items() <= found["options"].items()
    assert 0 < found["optimum"] <= found["svd"] + 1e-9 < 1 == found["zero"]
    assert found["optimum"] <= found["relative_scaled"] < 1 and found["is_balanced"]
    assert found["relative_scaled"] <= found["relative"]
    kept = [json.loads(line) for line in (place / "run2" / "evaluation.jsonl").read_text().splitlines()]
    assert [one["task"] for one in kept] == ["pip"]
    page = Path(reported("report", place / "run2")["page"]).read_text()
    assert "relative scaled" in page and "optimum" in page


def test_options_win_over_those_of_training(place: Path) -> None:
    base = ["evaluate", place / "run1", "--task", "pip", "--data", place / "text.txt", "--no-references"]
    given = ["--window", 2, "--num-negatives", 2, "--noise-power", 1, "--seed", 7, "--max-vocab", 20, "--passes", 2]
    found = reported(*base, *given)
    assert found["words"] == 20 and found["optimum"] is None and found["svd"] is None
    assert found["options"] == {
        "window": 2, "num_negatives": 2, "noise_power": 1, "seed": 7, "max_vocab": 20, "passes": 2, "min_count": 5,
        "subsample": 0.01,
    }  # fmt: skip
    assert "have a vector" in run(*map(str, base), "--lowercase").stderr


def test_pip_between_two_runs(place: Path) -> None:
    found = reported("evaluate", place / "run1", "--task", "pip", "--data", place / "run2")
    assert found["against"] == "vectors" and found["words"] == 36 and found["dim"] == found["other_dim"] == 8
    assert 0 < found["relative"] < 1
    assert reported("evaluate", place / "run1", "--task", "pip", "--data", place / "run1")["relative"] < 1e-3


def test_people_read_it(place: Path) -> None:
    said = done("evaluate", str(place / "run1"), "--task", "pip", "--data", str(place / "text.txt"))
    assert "relative scaled" in said and "optimum" in said
    said = done("dimension", str(place / "text.txt"), "--num-negatives", "1", "--subsample", "0", "--quiet")
    assert "dimensions" in said and "36" in said


def test_the_dimension_of_three_topics_and_its_picture(place: Path, tmp_path: Path) -> None:
    picture = tmp_path / "dimension.png"
    options = ["--num-negatives", 1, "--subsample", 0]
    found = reported("dimension", place / "text.txt", *options, "--out", picture)
    assert found["dim"] == 3 and found["words"] == 36 and found["picture"] == str(picture)
    assert len(found["curve"]) == len(found["spectrum"]) + 1 and found["curve"][3] == min(found["curve"])
    assert found["edge"] == pytest.approx(2 * found["noise"] * 36**0.5)
    with Image.open(picture) as image:
        assert image.width > 1000 and len(image.convert("RGB").getcolors(1 << 20)) > 3
    before = picture.read_bytes()
    assert "--overwrite" in refused("dimension", str(place / "text.txt"), "--out", str(picture))
    assert picture.read_bytes() == before
    reported("dimension", place / "text.txt", *options, "--out", picture, "--overwrite")
    two = reported("dimension", place / "text.txt", place / "text.txt", *options)
    assert two["words"] == 36 and two["noise"] < found["noise"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dimension", "nowhere.txt"], "no file or folder nowhere.txt"),
        (["dimension", "text.txt", "--max-dim", "0"], "max_dim"),
        (["dimension", "text.txt", "--alpha", "0"], "alpha"),
        (["dimension", "text.txt", "--min-count", "99999"], "at least 2 are needed"),
        (["dimension", "text.txt", "--num-negatives", "400"], "target is empty"),
        (["dimension", "run1"], "run1"),
        (["dimension", "text.txt", "--out", "run1"], "it is a folder"),
        (["dimension", "binary"], "NUL"),
        (["evaluate", "run1", "--task", "pip", "--data", "nowhere"], "no file or folder nowhere"),
        (["evaluate", "run1", "--task", "pip", "--data", "other.txt"], "have a vector"),
        (["evaluate", "run1", "--task", "pip", "--data", "text.txt", "--window", "0"], "window"),
        (["evaluate", "run1", "--task", "pip", "--data", "run2", "--window", "3"], "leave them out"),
        (["evaluate", "run1", "--task", "pip", "--data", "run2", "--no-references"], "leave them out"),
        (["evaluate", "run1", "--task", "pip", "--data", "apart"], "no key in common"),
        (["evaluate", "run1", "--task", "similarity", "--data", "text.txt", "--window", "3"], "--window is for"),
        (["evaluate", "tree", "--task", "pip", "--data", "text.txt"], "hierarchical"),
    ],
)
def test_bad_input(place: Path, arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    (place / "other.txt").write_text("one two three\n" * 20)
    (place / "binary").write_bytes(b"a b\0c d\n" * 50)
    if not (place / "apart").exists():
        Embeddings(["x", "y"], np.eye(2)).save(place / "apart")
        meta = {"model": {"objective": "hierarchical"}}
        keys = Embeddings.load(place / "run1").keys
        Embeddings(list(keys), np.ones((len(keys), 2)), meta=meta).save(place / "tree")
    for form in ([], ["--json"]):
        result = run(*arguments, *form)
        assert result.exit_code == 2 and result.stdout == "" and said in result.stderr, result.output
        assert result.stderr.splitlines()[-1].startswith("Error: ")  # on a slow machine a stage may be told before
