"""A task of a package outside src: the command, its help, refusals, hosts, checkpoints, the live page, its test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stranger_packages
from stranger_packages import STRANGERS, install, known_here, run

import any2vec
from any2vec.errors import InputError, Interrupted
from any2vec.report.live import LiveRun
from click_runs import stop_at
from spreads import spread

GROUPS, SIZE = 20, 8


def bags(number: int, seed: int) -> str:
    """Lines of five items of one group each, now and then with one of another."""
    rng, lines = np.random.default_rng(seed), []
    for _ in range(number):
        group = int(rng.integers(GROUPS))
        items = [f"i{group * SIZE + int(place)}" for place in rng.integers(0, SIZE, 5)]
        lines.append(",".join([*items, f"i{int(rng.integers(GROUPS * SIZE))}"][:: 1 if rng.random() < 0.1 else -1][:5]))
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The package, which this process finds, too; train.txt and test.txt beside it."""
    folder = install(tmp_path_factory.mktemp("site"), "bag_means", {"any2vec.tasks:bags": "bag_means:BagTask"})
    (folder / "train.txt").write_text(bags(2000, 1))
    (folder / "test.txt").write_text(bags(300, 2))
    with pytest.MonkeyPatch.context() as patch:
        known_here(folder, patch)
        yield folder
    stranger_packages.forget()


def fit(package: Path, **options: Any) -> any2vec.FitResult:
    model = import_module("bag_means").BagMeans(dim=16)
    return any2vec.fit(model, package / "train.txt", **{"epochs": 3, "threads": 1} | spread(**options))


def bits(result: any2vec.FitResult) -> list[bytes]:
    return [result.embeddings.vectors.tobytes(), result.embeddings.output.tobytes()]  # type: ignore[union-attr]


def test_it_is_short() -> None:
    assert len((STRANGERS / "bag_means.py").read_text().splitlines()) < 250


def test_its_model_stands_beside_ours(package: Path) -> None:
    listed = stranger_packages.any2vec(package, "train", "--help")
    assert "bag-means" in listed and "Bags of items" in listed and "skipgram" in listed
    assert "Vectors of items by the mean of the others in their bag" in listed
    shown = stranger_packages.any2vec(package, "train", "bag-means", "--help")
    assert "--separator" in shown and "--dim" in shown and "--logical-hosts" in shown and "--window" not in shown


@pytest.mark.parametrize("words", [[], ["--logical-hosts", "2", "--sync", "mean"]], ids=["one", "two"])
def test_it_trains_and_is_tested_by_command(words: list[str], package: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    command = ["train", "bag-means", "train.txt", "--dim", "16", "--epochs", "5", "--out", out, "--json", "--quiet"]
    reported = json.loads(stranger_packages.any2vec(package, *command, *words))
    assert (
        reported["rows"] == GROUPS * SIZE
        and reported["items"] == 5 * 2000
        and reported.get("hosts", 1) == 1 + bool(words)
    )
    score = json.loads(
        stranger_packages.any2vec(package, "evaluate", out, "--task", "bags", "--data", "test.txt", "--json")
    )
    assert score["num_bags"] == 300 and score["hits_at_10"] > 0.6  # 10 of 160 items by chance
    shown = json.loads(stranger_packages.any2vec(package, "watch", out, "--json"))
    assert shown["record"]["progress"] == 1.0 and shown["curves"]["loss"]
    again = stranger_packages.any2vec(package, *command, *words, "--resume")
    assert json.loads(again)["items"] == reported["items"]
    near = stranger_packages.any2vec(package, "nearest", out, "i0", "--json")
    assert "i" in near


def test_its_size_is_estimated(package: Path) -> None:
    reported = json.loads(
        stranger_packages.any2vec(package, "estimate", "bag-means", "train.txt", "--dim", "16", "--json")
    )
    assert (
        reported["table_bytes"] == GROUPS * SIZE * 16 * 4
        and reported["memory"]["bags"] > 0
        and reported["items"] == 2000
    )
    refused = run(package, "-m", "any2vec", "estimate", "bag-means", "--rows", "100", "--items", "100")
    assert refused.returncode == 2 and "give an INPUT" in refused.stderr


@pytest.mark.parametrize("hosts", [None, 2])
def test_who_goes_on_ends_as_if_never_stopped(hosts: int | None, package: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {} if hosts is None else {"logical_hosts": hosts, "sync": "mean"}
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted, match="holds the work so far"):
        stop_at(0.4, patch)
        patch.setattr("any2vec.train.progress.RECORD_SECONDS", 0.0)
        fit(package, out=tmp_path / "out", **options)
    assert LiveRun(tmp_path / "out").view().record["progress"] < 1
    went_on = fit(package, out=tmp_path / "out", resume=True, **options)
    assert bits(went_on) == bits(fit(package, **options))


@pytest.mark.parametrize("sync", ["mean", "sum", "adasum", "blend", "leader:2", "elastic"])
def test_hosts_agree_by_any_rule(sync: str, package: Path) -> None:
    found = fit(package, logical_hosts=2, sync=sync).summary
    assert found["hosts"] == 2 and found["loss"] < 5


def test_processes_have_the_bits_of_logical_hosts(package: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="hosts as processes need torch (the extra any2vec[torch])")
    words = ["--dim", "16", "--epochs", "2", "--threads", "1", "--sync", "mean", "--quiet", "--json"]
    for kind in ("hosts", "logical-hosts"):
        out = ["--out", str(tmp_path / kind)]
        stranger_packages.any2vec(package, "train", "bag-means", "train.txt", f"--{kind}", "2", *words, *out)
    one, other = (any2vec.Embeddings.load(tmp_path / kind) for kind in ("hosts", "logical-hosts"))
    assert np.array_equal(one.vectors, other.vectors)


def test_what_it_has_not_got_is_refused_with_its_reason(package: Path) -> None:
    done = run(package, "-m", "any2vec", "train", "bag-means", "train.txt", "--memory", "1GB", "--out", "no")
    assert done.returncode == 2 and "all rows are in memory" in done.stderr and not (package / "no").exists()
    with pytest.raises(InputError, match="all rows are in memory"):
        fit(package, memory="1GB")


def test_reading_has_options(package: Path, tmp_path: Path) -> None:
    (tmp_path / "items.txt").write_text("a;b;c\na;b\nc;d\n")
    module = import_module("bag_means")
    found = any2vec.fit("bag-means", tmp_path / "items.txt", reading={"bags": module.BagOptions(separator=";")})
    assert sorted(found.embeddings.keys) == ["a", "b", "c", "d"]


def test_a_package_that_does_not_load_is_named(tmp_path: Path) -> None:
    install(tmp_path, "broken", {"any2vec.tasks:broken": "nowhere:Task"}, "")
    done = run(tmp_path, "-m", "any2vec", "train", "--help")
    assert done.returncode == 2 and "broken" in done.stderr
