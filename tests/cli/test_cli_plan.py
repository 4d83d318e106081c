"""The command `any2vec plan`; no clock is asserted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from any2vec import machine
from any2vec.cli.app import app
from any2vec.errors import InputError
from any2vec.units import quantity

SHAPE = ("--rows", "399k", "--tokens", "665M", "--items-per-s", "500k", "--dim", "200")


def run(*arguments: str, model: str = "skipgram") -> Any:
    return CliRunner().invoke(app, ["plan", model, *arguments])


def planned(*arguments: str, model: str = "skipgram") -> dict[str, Any]:
    result = run(*arguments, "--json", "--quiet", model=model)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def test_a_shape_is_planned_without_data() -> None:
    found = planned(*SHAPE, "--hosts", "32", "--threads", "48", "--link", "100Gbit,2us", "--epochs", "16")
    assert found["hosts"] == 32 and found["rounds_per_epoch"] == 48 and found["rounds"] == 768
    assert found["is_modeled"] and found["is_pace_given"]
    assert found["host_items_per_s"] == pytest.approx(500e3 * 48 * 0.92)
    rows = found["host"]["memory"]["vectors"]  # those of a round: hosts pull them
    assert rows == found["schemes"]["pull-opt"]["memory"]["rows"] < 0.3 * 2 * 399_000 * 200 * 4
    base = found["schemes"]["rep-base"]
    assert base["bytes_by_kind"]["rows"] == pytest.approx(32 * 2 * 31 / 32 * 2 * 399_000 * 200 * 4)
    order = [found["schemes"][name]["bytes_per_round"] for name in ("rep-base", "rep-opt", "pull-opt")]
    assert order == sorted(order, reverse=True)
    assert found["bottleneck"] == found["schemes"]["pull-opt"]["bottleneck"]


def test_all_threads_train_and_agree_unless_reported_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "usable_cores", lambda: 6)
    shape = (*SHAPE, "--hosts", "8")
    assert planned(*shape) == planned(*shape, "--threads", "6") == planned(*shape, "--agree-threads", "6")
    assert planned(*shape, "--agree-threads", "1")["speedup"] < planned(*shape)["speedup"]


def test_billions_of_rows_on_thousands_of_hosts() -> None:
    found = planned("--rows", "5G", "--tokens", "100T", "--items-per-s", "1M", "--hosts", "4000", "--dim", "64")
    assert found["shape"]["rows"] == 5_000_000_000 and found["rounds_per_epoch"] == 6000


def test_an_input_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    Path("text.txt").write_text("\n".join(" ".join(f"w{w}" for w in line) for line in rng.integers(0, 400, (900, 20))))
    found = planned("text.txt", "--hosts", "4", "--dim", "8", "--cache-dir", "cache", "--scheme", "rep-opt")
    assert found["shape"]["rows"] == 400 and found["shape"]["items"] == 18_000
    assert found["scheme"] == "rep-opt" and found["thread_items_per_s"] > 1000 and not found["is_pace_given"]
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_one_host_is_what_estimate_says() -> None:
    shape = ("--dim", "64", "--rows", "100000", "--epochs", "2", "--threads", "1", "--json")
    result = CliRunner().invoke(app, ["estimate", "skipgram", *shape, "--items", "1000000", "--quiet"])
    estimated = json.loads(result.stdout)
    assert estimated["warnings"] == []
    found = planned(*shape[:-1], "--tokens", "1M")
    assert found["host"]["memory"] == estimated["memory"] and found["host"]["disk"] == estimated["disk"]
    assert found["schemes"] == {}


def test_hosts_that_hold_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    edges = {tuple(sorted(pair)) for pair in np.random.default_rng(1).integers(0, 500, (4000, 2)).tolist()}
    Path("edges.txt").write_text("".join(f"{a} {b}\n" for a, b in sorted(edges) if a != b))
    asked = ("edges.txt", "--items-per-s", "1M", "--dim", "8", "--walk-length", "10")
    asked = (*asked, "--cache-dir", "cache", "--logical-hosts", "4")
    whole, parted = planned(*asked, model="deepwalk"), planned(*asked, "--partition", "hash", model="deepwalk")
    assert whole["part"] is None and parted["part"]["cut"] == "hash"
    assert any("walkers travel" in note for note in parted["notes"])
    entries = parted["shape"]["edges"]
    assert entries / 4 <= parted["part"]["edges"] < entries / 3 and parted["part"]["reading_bytes"] >= 48 * entries
    assert parted["host"]["memory"]["part of the graph"] == parted["part"]["memory"]["part of the graph"] < 4 * entries
    assert parted["part"]["memory"]["walks of a round"] == 4 * -(-500 * 10 * 11 // (4 * 6))
    reported = run(*asked, "--partition", "hash", model="deepwalk")
    assert "hash: " in reported.stdout and "walkers travel" in reported.stderr
    Path("text.txt").write_text("a b c a b\n" * 50)
    text = ("text.txt", "--min-count", "1", "--items-per-s", "1M", "--dim", "8", "--hosts", "2", "--cache-dir", "cache")
    assert planned(*text, "--read", "parts")["part"] == {
        "cut": "text", "tokens": 150, "nodes": 0, "edges": 0, "memory": {}, "reading_bytes": 0
    }  # fmt: skip
    for model, wrong, said in (
        ("skipgram", (*text, "--partition", "hash"), "skipgram has no --partition (partition): it reads text"),
        ("deepwalk", (*asked, "--read", "parts"), "deepwalk has no --read (read): it reads a graph"),
    ):
        result = run(*wrong, model=model)
        assert result.exit_code == 2 and said in result.stderr and result.stdout == ""


def test_dense_layers_are_planned_with_the_state_of_their_optimizer() -> None:
    pytest.importorskip("torch", reason="models of clicks need torch")
    asked = ["--rows", "1M", "--items-per-s", "1M", "--hosts", "4", "--servers", "1"]
    assert planned(*asked, model="deepfm")["notes"] == []
    sizes = [
        planned(*asked, "--optimizer", optimizer, model="deepfm")["trainer_memory"]["dense layers"]
        for optimizer in ("sgd", "adagrad", "adam")
    ]
    assert sizes[1] - sizes[0] == sizes[2] - sizes[1] > 0


def test_rank_0_gathers_the_rows_of_all_servers() -> None:
    pytest.importorskip("torch", reason="models of clicks need torch")
    asked = ["--rows", "1M", "--items-per-s", "1M", "--dim", "15", "--optimizer", "adagrad"]
    table = 4 * 16 * 1_000_000
    for hosts, gathered in (("1", {}), ("4", {"rows gathered": 3 * table})):
        for more, kept in (([], {}), (["--validate", "0.1"], {"best epoch": table})):
            found = planned(*asked, "--hosts", hosts, *more, model="dlrm")
            assert found["rank_0_memory"] == gathered | kept
            assert sum(found["server_memory"][name] for name in ("values", "state")) == table // int(hosts)
    assert "rank 0 besides" in run(*asked, "--hosts", "4", model="dlrm").stdout


def test_people_read_a_table() -> None:
    result = run(*SHAPE, "--hosts", "8", "--threads", "4", "--bits", "16")
    assert result.exit_code == 0
    for word in ("modeled", "pull-opt *", "busiest line", "bottleneck", "16 bits", "500 k words/s, given"):
        assert word in result.stdout, word
    assert "spectral, pull-opt" in result.stdout and "No --link" in result.stderr
    assert "copies and messages" in result.stdout and "handle" not in result.stdout
    found = planned(*SHAPE, "--hosts", "8", "--threads", "4", "--bits", "16")
    assert "handle" in found["host"]["time"] and "handle" in found["schemes"]["rep-base"]["round_seconds"]
    assert "measured" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--hosts", "4"), "--rows"),
        (("--rows", "5X"), "--rows"),
        (("--rows", "1"), "--rows"),
        (("--rows", "1k", "--tokens", "x"), "--tokens"),
        (("missing.txt", "--tokens", "5k"), "missing.txt"),
        (("--rows", "1k", "--items-per-s", "-3"), "--items-per-s"),
        (("--rows", "1k", "--items-per-s", "1k", "--efficiency", "2"), "efficiency"),
        (("--rows", "1k", "--items-per-s", "1k", "--zipf", "-1"), "Zipf"),
        (("--rows", "1k", "--hosts", "4", "--link", "fast"), "link"),
        (("--rows", "1k", "--hosts", "99999"), "hosts"),
        (("--rows", "1k", "--hosts", "4", "--bits", "7"), "bits"),
        (("--rows", "1k", "--hosts", "4", "--sync", "gaia"), "gaia"),
    ],
)
def test_bad_input_is_one_sentence(arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith("Error:") and said in result.stderr and result.stderr.count("\n") == 1


HERE = (__file__,)
ROWS = ("--rows", "1k")


@pytest.mark.parametrize("model", ["skipgram", "dlrm"])
@pytest.mark.parametrize("source", [HERE, ROWS], ids=["input", "rows"])
@pytest.mark.parametrize(
    ("flag", "value", "is_for", "goes_with"),
    [
        ("--tokens", "5k", "skipgram", ROWS),
        ("--zipf", "1", None, ROWS),
        ("--columns", "3", "dlrm", ROWS),
        ("--numbers", "0", "dlrm", ROWS),
        ("--efficiency", "0.5", "skipgram", None),
        ("--memory-bandwidth", "200G", "skipgram", None),
        ("--agree-threads", "2", "skipgram", None),
    ],
)
def test_no_flag_is_ignored(flag: str, value: str, is_for: Any, goes_with: Any, source: Any, model: str) -> None:
    """What says nothing of this model, or stands beside an input, is refused; the rest comes to a bad --items-per-s."""
    result = run(*source, flag, value, "--items-per-s", "none", model=model)
    if is_for not in (None, model):
        theirs = {"skipgram": "skipgram, cbow, deepwalk and node2vec", "dlrm": "dlrm, deepfm, fm and logistic"}[is_for]
        said = f"{model} has no {flag}: it is for {theirs}; leave it out"
    elif goes_with not in (None, source):
        said = f"{flag} goes with --rows; an INPUT has its own."
    else:
        said = "--items-per-s must be a number"
    assert result.exit_code == 2 and result.stdout == "" and said in result.stderr


@pytest.mark.parametrize(
    ("model", "flag"),
    [
        ("dlrm", "--schema=criteo"),
        ("cbow", "--lowercase"),
        ("node2vec", "--delimiter=tab"),
        ("node2vec", "--no-header"),
    ],
)
def test_nothing_is_read_with_rows(model: str, flag: str) -> None:
    """So nothing may be said of how; beside an input it may, and a bad --items-per-s is told."""
    name = flag.split("=")[0].replace("--no-", "--")
    result = run(*ROWS, flag, "--items-per-s", "none", model=model)
    said = f"Error: {name} says how an INPUT is read; leave it out with --rows.\n"
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", said)
    assert "--items-per-s must be" in run(*HERE, flag, "--items-per-s", "none", model=model).stderr


def test_what_is_not_given_has_the_value_that_help_says() -> None:
    assert planned(*SHAPE) == planned(*SHAPE, "--zipf", "1", "--efficiency", "0.92")
    text = " ".join(run("--help").stdout.split())
    assert "Zipf's law [default 1]" in text and "[default 0.92]" in text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("399k", 399_000),
        ("399.0K", 399_000),
        ("665.5M", 665_500_000),
        ("2G", 2 * 10**9),
        ("1e9", 10**9),
        ("1,000", 1000),
    ],
)
def test_quantities(text: str, value: int) -> None:
    assert quantity("--rows", text, 1, 10**12) == value


@pytest.mark.parametrize(
    ("text", "value"), [("200G", 2 * 10**11), ("200GB/s", 2 * 10**11), ("1.5 gb", 1_500_000_000), ("2KiB/s", 2048)]
)
def test_quantities_of_bytes(text: str, value: int) -> None:
    assert quantity("--memory-bandwidth", text, 1, 10**12, "B/s") == value


@pytest.mark.parametrize("text", ["2GB/s", "2Gbit", "2i", "2iB", "much", "0", "0,5GB", "1,5GB", "0,500MB"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(InputError, match="memory must be a number of bytes such as 2GB, 800MB or 64MiB, from 1 to"):
        quantity("memory", text, 1, 10**12, "B")


@pytest.mark.parametrize("text", ["", "k", "-5", "1.5.2", "5B", "5Ki", "1,0", "1,2345", "nan", "1e99", "9" * 40])
def test_no_quantities(text: str) -> None:
    with pytest.raises(InputError, match="--rows"):
        quantity("--rows", text, 1, 10**12)


@pytest.mark.parametrize("is_one_disk", [True, False])
def test_cache_and_result_share_a_disk(is_one_disk: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would fit by itself."""
    (tmp_path / "in.txt").write_text("a b c d e\n" * 20_000)
    arguments = ["estimate", "skipgram", str(tmp_path / "in.txt"), "--cache-dir", str(tmp_path / "cache")]
    arguments += ["--dim", "4096", "--min-count", "1", "--quiet"]
    needs = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    encoded = needs["disk"]["encoded input"]
    assert encoded > 0
    monkeypatch.setattr(machine, "free_disk_bytes", lambda folder: needs["disk_peak_bytes"] - 1)
    monkeypatch.setattr(machine, "is_one_disk", lambda *_: is_one_disk)
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code == 0 and ("more disk than is free where the result goes" in found.output) == is_one_disk


@pytest.mark.parametrize(
    ("model", "has_time"), [("cbow", True), ("deepwalk", True), ("complex", False), ("bpr", False)]
)
def test_an_estimate_says_whether_it_knows_the_time(model: str, has_time: bool) -> None:
    found = CliRunner().invoke(app, ["estimate", model, "--rows", "1000", "--items", "10000", "--quiet"])
    assert ("not estimated for this model" in found.output) == (model in ("complex", "bpr"))
    assert "time" in found.output


@pytest.mark.parametrize(("model", "columns"), [("skipgram", 200), ("complex", 100)])
def test_the_best_epoch_is_kept_beside_the_rows(model: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "process_bytes", lambda: 300_000_000)
    arguments = ["estimate", model, "--rows", "50000", "--items", "100000", "--dim", "100", "--json", "--quiet"]
    plain, validated = (
        json.loads(CliRunner().invoke(app, [*arguments, *more]).stdout) for more in ([], ["--validate", __file__])
    )
    copy = sum(4 * table["rows"] * table["columns"] for table in plain["tables"].values())
    assert copy >= 4 * 50_000 * columns
    assert validated["memory_bytes"] == plain["memory_bytes"] + copy
    assert validated["memory"] == plain["memory"] | {"best epoch": copy}
    # A checkpoint has both copies, and two checkpoints lie there while the later one is written.
    checkpoint, disk = plain["disk"]["checkpoint"] + copy, validated["disk"]
    beside = disk["result"] + disk["checkpoint"] + disk["best epoch"] + disk["while a checkpoint is replaced"]
    assert disk["best epoch"] == copy and checkpoint == 2 * copy and beside == 2 * checkpoint
    assert validated["disk_peak_bytes"] == sum(disk.values()) >= beside
    assert "--validate" in CliRunner().invoke(app, ["estimate", model, "--help"]).stdout


@pytest.mark.parametrize(
    ("model", "hosts", "numbers"), [("skipgram", "1", 200), ("skipgram", "8", 200), ("complex", "1", 101)]
)
def test_a_plan_counts_the_best_epoch(model: str, hosts: str, numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "process_bytes", lambda: 300_000_000)
    shape = ["--rows", "50000", "--dim", "100", "--hosts", hosts]
    if model == "skipgram":
        shape += ["--tokens", "1M", "--items-per-s", "1M"]
    plain, validated = (planned(*shape, *more, model=model)["host"] for more in ([], ["--validate", __file__]))
    copy = 4 * 50_000 * numbers
    for name in ("memory", "disk"):
        assert validated[name]["best epoch"] == copy
        added = {part for part in validated[name] if validated[name][part] != plain[name].get(part)}
        assert added == {"best epoch", *(["while a checkpoint is replaced"] if name == "disk" else [])}
        assert validated[f"{name}{'_peak' * (name == 'disk')}_bytes"] == sum(validated[name].values())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("skipgram", "--memory", "5GB", "--validate", __file__), "leave out --memory, or --validate"),
        (("skipgram", "--memory", "5GB", "--objective", "hierarchical"), "memory is for skip-gram with negative"),
        (("complex", "--staleness-bound", "4"), "staleness_bound is for tables larger than memory"),
        (("complex", "--validate", "missing.tsv"), "There is no file missing.tsv"),
        (("complex", "--config", "run.toml"), "any2vec estimate is for one host: leave out hosts"),
    ],
)
def test_no_run_is_estimated_that_training_refuses(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text("hosts = 4\n")
    result = CliRunner().invoke(app, ["estimate", *arguments, "--rows", "1000", "--quiet"])
    assert (result.exit_code, result.stdout) == (2, "") and said in result.stderr


def test_no_budget_is_ignored_by_a_plan() -> None:
    result = run(*SHAPE, "--memory", "600MB")
    assert (result.exit_code, result.stdout) == (2, "") and "see any2vec estimate, which lays rows out" in result.stderr
