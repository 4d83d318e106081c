"""Models of clicks from files to a result: what is learned, repeated, resumed, scored and shown."""

from __future__ import annotations

import json
import re
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import any2vec
from any2vec.cli.app import app
from any2vec.data.clicks.clicks import read_clicks
from any2vec.errors import FormatError, InputError, Interrupted
from any2vec.models.clicks.config import ClickModel
from any2vec.report.run import write_report
from any2vec.testing.planted_clicks import BayesScores
from click_runs import SMALL, PlantedFiles, dense_of, plant, same, spread, stop_at

pytest.importorskip("torch", reason="models of clicks need torch")
EACH: list[ClickModel] = [
    any2vec.DLRM(dim=8, bottom="16", top="32", learning_rate=0.05),
    any2vec.DeepFM(dim=8, layers="32", learning_rate=0.02),
    any2vec.FactorizationMachine(dim=8, learning_rate=0.02),
    any2vec.LogisticRegression(learning_rate=0.05),
]
each = pytest.mark.parametrize("model", EACH, ids=lambda model: model.name)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> PlantedFiles:
    """Short: 75 batches of 32."""
    return plant(tmp_path_factory.mktemp("short"), 2400, 600, rows=200)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> PlantedFiles:
    """Long enough, and with few enough rows, for a model to see most of what there is."""
    return plant(tmp_path_factory.mktemp("long"), 20_000, 4_000, rows=40, strength=2.0)


@pytest.fixture(scope="module")
def bayes(long: PlantedFiles) -> BayesScores:
    return long.clicks.bayes(long.num_train, 24_000)


@pytest.fixture(scope="module")
def done(files: PlantedFiles, tmp_path_factory: pytest.TempPathFactory) -> any2vec.FitResult:
    """A finished run with a folder; only to be looked at."""
    return files.fit(any2vec.DeepFM(dim=4, layers="8", batch_size=32), out=tmp_path_factory.mktemp("done") / "run")


# ---- what is learned


@each
def test_planted_clicks_are_learned(model: ClickModel, long: PlantedFiles, bayes: BayesScores) -> None:
    """On rows not seen: far better than the click rate alone, better with a second pass, never better than Bayes."""
    once, twice = (long.judge(long.fit(model, epochs=epochs).scorer) for epochs in (1, 2))
    assert bayes.normalized_entropy < twice.normalized_entropy < once.normalized_entropy < 0.83
    assert bayes.auc > twice.auc > once.auc > 0.79


def test_the_best_model_comes_near_to_the_bayes_floor(long: PlantedFiles, bayes: BayesScores) -> None:
    """The teacher has products of ids and rectifiers over numbers: dlrm has both, logistic regression neither."""
    entropy = {model.name: long.judge(long.fit(model, epochs=4).scorer).normalized_entropy for model in EACH[::3]}
    assert bayes.normalized_entropy < entropy["dlrm"] < bayes.normalized_entropy + 0.25 * (1 - bayes.normalized_entropy)
    assert entropy["logistic"] > entropy["dlrm"] + 0.02


def test_threads_learn_alike(long: PlantedFiles) -> None:
    """Hogwild: other bits, the same quality; every example once."""
    one, several = (long.fit(EACH[0], threads=threads, epochs=2) for threads in (1, 3))
    assert several.summary["items"] == one.summary["items"] == 2 * long.num_train
    first, second = (long.judge(result.scorer).normalized_entropy for result in (one, several))
    assert abs(first - second) < 0.02 and second < 0.8


@each
def test_the_same_seed_gives_the_same_bits(model: ClickModel, files: PlantedFiles) -> None:
    """And another one others, but of logistic regression, which begins with 0 and draws nothing."""
    first = files.fit(model)
    assert same(first, files.fit(model)) and same(first, files.fit(model, seed=2)) == (model.name == "logistic")


def test_what_is_reported_of_a_run(files: PlantedFiles) -> None:
    received: list[Any] = []
    result = files.fit(epochs=2, callback=received.append)
    summary = result.summary
    assert summary["items"] == received[-1].items == 2 * files.num_train and received[-1].progress == 1.0
    assert (summary["model"], summary["dim"], summary["epochs"], summary["threads"]) == ("dlrm", 4, 2, 1)
    assert summary["rows"] == len(result.embeddings) == summary["data"]["num_rows"]
    rate = summary["data"]["num_clicks"] / files.num_train
    entropy = -(rate * np.log(rate) + (1 - rate) * np.log1p(-rate))
    assert summary["normalized_entropy"] == pytest.approx(summary["loss"] / entropy)
    assert "hosts" not in summary and json.dumps(summary)


def test_a_second_pass_begins_where_the_first_ended(files: PlantedFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("any2vec.train.progress.RECORD_SECONDS", 0.0)
    once, twice = files.fit(), files.fit(epochs=2)
    assert once.summary["items"] == files.num_train and twice.summary["items"] == 2 * files.num_train
    assert twice.summary["loss"] < once.summary["loss"] and not same(once, twice)
    shown = [record for record in twice.progress if record.epoch == 0]
    assert shown and {record.epoch for record in twice.progress} == {0, 1}
    assert [record.items for record in twice.progress] == sorted(record.items for record in twice.progress)


# ---- stopped, and gone on

WAYS: dict[str, dict[str, Any] | None] = {
    "one host": None,
    "bsp": {"logical_hosts": 2, "sync": "bsp"},
    "bsp, servers": {"logical_hosts": 2, "servers": 2, "sync": "bsp"},
    "bagpipe": {"logical_hosts": 2, "sync": "bsp", "cache": "bagpipe:6"},
    "bagpipe, no agreement": {"logical_hosts": 2, "sync": "none", "cache": "bagpipe:6"},
    "groups": {"logical_hosts": 3, "sync": "ds-sync:2", "cache": "bagpipe:6"},
    "bagpipe, server": {"logical_hosts": 3, "servers": 1, "sync": "bsp", "cache": "bagpipe:6"},
    "one trainer, server": {"logical_hosts": 1, "servers": 1, "sync": "none"},
    "one trainer, shadow": {"logical_hosts": 1, "sync": "shadow-bmuf"},
    "one trainer, async": {"logical_hosts": 1, "servers": 1, "sync_servers": 1, "sync": "async"},
}


def interrupted(files: PlantedFiles, out: Path, progress: float, **more: Any) -> None:
    """Stop a run when so much of it is done."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted, match=r"holds the work so far") as caught:
        stop_at(progress, patch)
        files.fit(out=out, epochs=2, **more)
    reported = re.search(r"at ([\d.]+)%", str(caught.value))
    assert reported is not None and 100 * progress <= float(reported[1]) < 100
    assert not (out / "meta.json").exists()


@pytest.mark.parametrize("progress", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("way", WAYS)
def test_who_goes_on_ends_as_if_never_stopped(way: str, progress: float, files: PlantedFiles, tmp_path: Path) -> None:
    """In the first pass, between the two, in the second."""
    hosts, out = WAYS[way], tmp_path / "out"
    interrupted(files, out, progress, hosts=hosts)
    went_on, never_stopped = files.fit(hosts=hosts, out=out, resume=True, epochs=2), files.fit(hosts=hosts, epochs=2)
    assert same(went_on, never_stopped)
    assert went_on.summary["items"] == 2 * files.num_train
    assert not (out / "checkpoint.safetensors").exists()


def test_stale_rows_are_in_the_checkpoint(files: PlantedFiles, tmp_path: Path) -> None:
    """What a cache holds back comes to the servers before they are stored; later roundings apart."""
    hosts, out = {"logical_hosts": 1, "servers": 1, "sync": "none", "cache": "het:100"}, tmp_path / "out"
    interrupted(files, out, 0.5, hosts=hosts)
    went_on, never_stopped = files.fit(hosts=hosts, out=out, resume=True, epochs=2), files.fit(hosts=hosts, epochs=2)
    assert np.allclose(went_on.embeddings.vectors, never_stopped.embeddings.vectors, atol=1e-4)
    assert np.allclose(dense_of(went_on), dense_of(never_stopped), atol=1e-4)


SERVED = {"logical_hosts": 1, "servers": 1, "sync_servers": 2, "sync": "async"}


@pytest.mark.parametrize("optimizer", ["adagrad", "adam"])
@pytest.mark.parametrize(("before", "after"), [(SERVED, None), (None, SERVED)], ids=["from servers", "to servers"])
def test_the_state_of_optimizers_moves_between_servers_and_trainers(
    before: Any, after: Any, optimizer: Any, files: PlantedFiles, tmp_path: Path
) -> None:
    """One trainer takes the same steps, whoever holds the dense layers."""
    model = any2vec.DLRM(dim=4, bottom="8", top="8", batch_size=32, optimizer=optimizer)
    interrupted(files, tmp_path / "out", 0.5, model=model, hosts=before)
    went_on = files.fit(model, after, out=tmp_path / "out", resume=True, epochs=2)
    assert np.allclose(dense_of(went_on), dense_of(files.fit(model, epochs=2)), atol=1e-5)


def test_a_run_that_diverges_says_so(files: PlantedFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from any2vec.models.clicks.nets import start_values

    def diverged(*arguments: Any) -> np.ndarray:
        return np.full_like(start_values(*arguments), np.nan)

    monkeypatch.setattr("any2vec.tasks.clicks.program.start_values", diverged)
    with pytest.raises(InputError, match="The loss of batch 0 is nan: the training has diverged; lower learning_rate"):
        files.fit(out=tmp_path / "out")


@pytest.mark.parametrize("way", ["shadow-easgd/none", "bsp/bagpipe:6"])
def test_a_stopped_run_leaves_no_thread_behind(way: str, files: PlantedFiles, tmp_path: Path) -> None:
    before = set(threading.enumerate())
    sync, cache = way.split("/")
    interrupted(files, tmp_path / "out", 0.3, hosts={"logical_hosts": 2, "sync": sync, "cache": cache})
    for thread in set(threading.enumerate()) - before:
        thread.join(20)
        assert not thread.is_alive(), thread.name


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_the_state_of_optimizers_is_kept(optimizer: Any, files: PlantedFiles, tmp_path: Path) -> None:
    model = any2vec.DeepFM(dim=4, layers="8", batch_size=32, optimizer=optimizer)
    interrupted(files, tmp_path / "out", 0.3, model=model)
    assert same(files.fit(model, out=tmp_path / "out", resume=True, epochs=2), files.fit(model, epochs=2))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"logical_hosts": 3, "servers": 1, "sync_servers": 1}, {"logical_hosts": 2}),
        ({"logical_hosts": 2}, {"logical_hosts": 3, "servers": 1}),
        ({"logical_hosts": 2}, None),
        (None, {"logical_hosts": 2}),
    ],
    ids=["fewer", "more", "one", "from one"],
)
@pytest.mark.parametrize(
    ("sync", "cache"),
    [
        ("bsp", "none"),
        ("shadow-easgd", "none"),
        ("fr-bmuf:5", "none"),
        ("m-of-n", "none"),
        ("async", "none"),
        ("shadow-easgd", "het:10:belady"),
    ],
)
def test_other_hosts_share_what_is_left(
    sync: str, cache: str, before: dict[str, Any] | None, after: dict[str, Any] | None, files: PlantedFiles,
    tmp_path: Path,
) -> None:  # fmt: skip
    """Each example once a pass, whoever trains it; a cache that looks ahead sees what is left, too."""
    ways = [hosts if hosts is None else spread(sync, hosts) | {"cache": cache} for hosts in (before, after)]
    interrupted(files, tmp_path / "out", 0.2, hosts=ways[0])
    result = files.fit(hosts=ways[1], out=tmp_path / "out", resume=True, epochs=2)
    assert result.summary["items"] == 2 * files.num_train
    assert result.progress[-1].progress == 1.0 and np.isfinite(dense_of(result)).all()


@pytest.mark.parametrize("after", [{"logical_hosts": 3}, {"logical_hosts": 2, "rounds_per_epoch": 3}])
def test_a_look_ahead_goes_on_with_what_it_saw(after: dict[str, Any], files: PlantedFiles, tmp_path: Path) -> None:
    way: dict[str, Any] = {"sync": "bsp", "cache": "bagpipe:6"}
    interrupted(files, tmp_path / "out", 0.2, hosts={"logical_hosts": 2} | way)
    with pytest.raises(InputError, match="as many trainers, servers and rounds as before; resume with those, or"):
        files.fit(hosts=after | way, out=tmp_path / "out", resume=True, epochs=2)
    result = files.fit(hosts=after | {"sync": "bsp"}, out=tmp_path / "out", resume=True, epochs=2)
    assert result.summary["items"] == 2 * files.num_train


def test_trainers_that_differ_become_alike_where_they_must(files: PlantedFiles, tmp_path: Path) -> None:
    interrupted(files, tmp_path / "out", 0.2, hosts={"logical_hosts": 2, "sync": "none"})
    result = files.fit(hosts={"logical_hosts": 2, "sync": "bsp"}, out=tmp_path / "out", resume=True, epochs=2)
    assert result.summary["items"] == 2 * files.num_train


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"model": any2vec.DLRM(dim=5, bottom="8", top="8", batch_size=32)}, "model.dim = 4, this one has 5"),
        ({"seed": 2}, "seed = 1, this one has 2"),
        ({"model": any2vec.LogisticRegression(batch_size=32)}, "model.model = 'dlrm', this one has 'logistic'"),
    ],
)
def test_a_checkpoint_of_another_run(more: dict[str, Any], said: str, files: PlantedFiles, tmp_path: Path) -> None:
    interrupted(files, tmp_path / "out", 0.2)
    with pytest.raises(InputError, match=re.escape(said)):
        files.fit(out=tmp_path / "out", resume=True, epochs=2, **more)
    assert (tmp_path / "out" / "checkpoint.safetensors").exists()


def test_a_checkpoint_of_another_schema(files: PlantedFiles, tmp_path: Path) -> None:
    """Of as many rows, too: only how bags are pooled is another."""
    interrupted(files, tmp_path / "out", 0.2)
    schema = tmp_path / "other.toml"
    schema.write_text(files.schema.read_text().replace("'mean'", "'sum'"))
    with pytest.raises(InputError, match=r"is of a run with data\.digest = .*, this one has"):
        files.fit(out=tmp_path / "out", resume=True, epochs=2, schema=schema)
    schema.write_text(files.schema.read_text().replace("'I3'", "'I1'").replace("['I1', 'I2', 'I1']", "['I1', 'I2']"))
    with pytest.raises(InputError, match=r"is of a run with data\.dense"):
        files.fit(out=tmp_path / "out", resume=True, epochs=2, schema=schema)


def test_a_run_that_is_over_stands_as_it_is(files: PlantedFiles, done: any2vec.FitResult) -> None:
    again = files.fit(any2vec.DeepFM(dim=4, layers="8", batch_size=32), out=done.path, resume=True)
    kept = json.loads(json.dumps(done.summary)) | {
        "seconds": again.summary["seconds"]
    }  # the file lacks its own writing
    assert same(again, done) and again.summary == kept and again.progress == []
    assert files.judge(again.scorer) == files.judge(done.scorer)


# ---- scored


@each
def test_what_was_trained_scores_alike_from_memory_from_its_folder_and_at_the_command_line(
    model: ClickModel, files: PlantedFiles, tmp_path: Path
) -> None:
    result = files.fit(model, out=tmp_path / "run")
    fresh, stored = (np.concatenate([p for p, _ in scorer.score(files.test)]) for scorer in (
        result.scorer, any2vec.ClickScorer.load(tmp_path / "run"),
    ))  # fmt: skip
    assert fresh.shape == (600,) and 0 < fresh.min() < fresh.max() < 1 and np.array_equal(fresh, stored)
    assert np.array_equal(result.scorer.probabilities(files.test), fresh)
    ran = CliRunner().invoke(app, ["score", str(tmp_path / "run"), str(files.test)])
    assert ran.exit_code == 0 and np.allclose([float(line) for line in ran.stdout.splitlines()], fresh, rtol=1e-5)


@each
def test_without_numbers(model: ClickModel, files: PlantedFiles, tmp_path: Path) -> None:
    """Some dense parameters are then none at all."""
    schema = tmp_path / "schema.toml"
    lines = files.schema.read_text().splitlines()
    schema.write_text("\n".join(line for line in lines if not line.startswith("dense =")))
    result = files.fit(model, schema=schema, out=tmp_path / "run")
    assert files.judge(any2vec.ClickScorer.load(tmp_path / "run")) == files.judge(result.scorer)
    went_on = files.fit(model, schema=schema, out=tmp_path / "run", resume=True)
    assert same(result, went_on)


def test_scores_do_not_depend_on_the_batch(files: PlantedFiles, done: any2vec.FitResult) -> None:
    whole, small = (
        [np.concatenate(parts) for parts in zip(*done.scorer.score(files.test, batch_size), strict=True)]
        for batch_size in (4096, 7)
    )
    assert np.allclose(whole[0], small[0], rtol=1e-6) and np.array_equal(whole[1], small[1])
    expected = files.clicks.batch(files.num_train, files.num_train + 600).label_B
    assert np.array_equal(whole[1], expected)


def test_rows_without_labels_and_with_values_never_seen(
    files: PlantedFiles, done: any2vec.FitResult, tmp_path: Path
) -> None:
    """What is new counts as rare, as what training had left out; what is missing is a row of its own."""
    head, *lines = files.test.read_text().splitlines()
    values = [line.split("\t")[1:] for line in lines[:3]]
    values[1][3:6], values[2][3:6] = ["new"] * 3, ["other"] * 3
    values.append([*values[1][:3], "", "", "", ""])
    values[1][0:3] = values[2][0:3] = values[3][0:3]
    values[1][6] = values[2][6] = ""
    (tmp_path / "rows.tsv").write_text("\n".join("\t".join(v) for v in [head.split("\t")[1:], *values]) + "\n")
    ((found, labels),) = done.scorer.score(tmp_path / "rows.tsv")
    assert np.isnan(labels).all() and np.isfinite(found).all()
    assert found[1] == found[2] and found[3] != found[1] and found[0] != found[1]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda b: b[:100], "not a safetensors file"),
        (lambda b: b[:-4], "does not fit the file"),
        (lambda b: b.replace(b"deepfm", b"deepfn"), "There is no model of clicks called 'deepfn'; known are dlrm"),
        (lambda b: b.replace(b'\\"layers\\"', b'\\"layerz\\"'), "deepfm has no option 'layerz'; it is of another ver"),
        (lambda b: b.replace(b'\\"dim\\": 4', b'\\"dim\\": 0'), "dim must be"),
        (lambda b: b.replace(b'\\"model\\": {', b'\\"modal\\": {'), "its metadata lack 'model'; train again"),
        (lambda b: b.replace(b'"weights"', b'"weightz"'), r"weights of shape \(.*,\), and nothing is stored; train"),
        (lambda b: b.replace(b'\\"layers\\": \\"8', b'\\"layers\\": \\"9'), r"dense\S* .*of shape .* is stored|deep"),
        (lambda b: b.replace(b"dense.deep.0.bias", b"dense.deep.0.bios"), "deep.0.bias of shape .* and nothing is s"),
    ],
)
def test_a_damaged_model(damage: Any, said: str, done: any2vec.FitResult, tmp_path: Path) -> None:
    """Each is one sentence, and none is scored with numbers that are not its own."""
    assert done.path is not None
    folder = Path(shutil.copytree(done.path, tmp_path / "run"))
    file = folder / "dense.safetensors"
    before = file.read_bytes()
    file.write_bytes(damage(before))
    assert file.read_bytes() != before
    with pytest.raises(FormatError, match=said):
        any2vec.ClickScorer.load(folder)


def test_rows_that_are_not_the_schemas(done: any2vec.FitResult, files: PlantedFiles, tmp_path: Path) -> None:
    assert done.path is not None
    folder = Path(shutil.copytree(done.path, tmp_path / "run"))
    other = files.fit(any2vec.DeepFM(dim=4, layers="8"), data=files.test, out=tmp_path / "other")
    assert len(other.embeddings) != len(done.embeddings)
    for name in ("schema.json", "values.parquet"):
        shutil.copy(tmp_path / "other" / name, folder / name)
    with pytest.raises(FormatError, match=r"ask for vectors of shape \(\d+, 4\), and \(\d+, 4\) is stored"):
        any2vec.ClickScorer.load(folder)


# ---- shown


def test_rows_are_embeddings_of_their_values(files: PlantedFiles, done: any2vec.FitResult) -> None:
    embeddings = done.embeddings
    keys = [str(key) for key in embeddings.keys]
    assert keys[:2] == ["C1=<missing>", "C1=<rare>"] and {key.split("=")[0] for key in keys} == {"C1", "C2", "C3", "T1"}
    first = files.train.read_text().splitlines()[1].split("\t")
    assert f"C1={first[4]}" in keys and embeddings.counts is not None
    assert embeddings.counts[: keys.index("C2=<missing>")].sum() == files.num_train
    near = embeddings.nearest(f"C1={first[4]}", 3)
    assert len(near) == 3 and near[0][1] >= near[1][1]
    assert done.path is not None
    assert np.array_equal(any2vec.Embeddings.load(done.path).vectors, embeddings.vectors)


def test_a_row_that_never_occurs_is_as_it_began(done: any2vec.FitResult) -> None:
    counts = np.asarray(done.embeddings.counts)
    assert (counts == 0).any() and not done.scorer.weights[counts == 0].any()
    assert (done.scorer.weights[counts > 0] != 0).all()


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (["report", "RUN"], "report-map.png"),
        (["nearest", "RUN", "KEY"], "cosine"),
        (["export", "RUN", "--out", "OUT", "--format", "word2vec"], "word2vec"),
    ],
)
def test_commands_for_vectors_take_a_run_of_clicks(
    command: list[str], found: str, done: any2vec.FitResult, tmp_path: Path
) -> None:
    run = shutil.copytree(str(done.path), tmp_path / "run")
    names = {"RUN": str(run), "OUT": str(tmp_path / "v.txt")}
    names["KEY"] = done.embeddings.keys[int(done.embeddings.frequent_rows(1)[0])]
    ran = CliRunner().invoke(app, [names.get(part, part) for part in command])
    assert ran.exit_code == 0, ran.output
    assert found in ran.stdout


def test_the_report_shows_the_model_and_its_curve(done: any2vec.FitResult, tmp_path: Path) -> None:
    assert done.path is not None
    page = write_report(done.path, tmp_path / "page.html").read_text("utf-8")
    assert "deepfm" in page and "C1=" in page and (tmp_path / "page-map.png").exists()


# ---- data


def test_encoded_clicks_teach_what_their_files_teach(files: PlantedFiles, tmp_path: Path) -> None:
    clicks = read_clicks(files.train, files.schema, cache_dir=tmp_path)
    from_file = files.fit()
    assert same(from_file, files.fit(data=clicks, schema=None)) and same(from_file, files.fit(data=clicks))
    assert same(from_file, files.fit(data=clicks.path, schema=None))
    other = tmp_path / "other.toml"
    other.write_text(files.schema.read_text().replace("'mean'", "'sum'"))
    with pytest.raises(InputError, match="was encoded with another schema; leave the schema out, or encode it again"):
        files.fit(data=clicks, schema=other)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ids.npy", 10**6, "column 'C1' has an id beyond its rows"),
        ("ids.npy", -1, "column 'C1' has an id beyond its rows"),
        ("values0.npy", 10**6, "column 'T1' has an id beyond its rows"),
        ("offsets0.npy", 10**6, "bags do not fit their ids"),
        ("labels.npy", 7, "a label is 7, not 0 or 1"),
        ("dense.npy", np.nan, "column 'I1' holds a number that is not finite"),
    ],
)
@pytest.mark.parametrize("hosts", [None, {"logical_hosts": 2, "sync": "bsp", "cache": "bagpipe:4"}], ids=["one", "two"])
def test_a_value_that_cannot_be(
    hosts: Any, name: str, value: int, said: str, files: PlantedFiles, tmp_path: Path
) -> None:
    """Damaged after it was encoded: nothing is read where no row is, and no result is left."""
    encoded = read_clicks(files.train, files.schema, cache_dir=tmp_path / "cache").path
    path = Path(shutil.copytree(encoded, tmp_path / "damaged"))
    array = np.lib.format.open_memmap(path / name, "r+")
    array[(1000, 0) if array.ndim == 2 else 1000] = value
    array.flush()
    del array
    with pytest.raises(FormatError, match=f"damaged is damaged: {said}; remove that folder, and read the clicks ag"):
        files.fit(data=path, schema=None, out=tmp_path / "out", hosts=hosts)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("label", ["0", "1"])
def test_labels_of_one_kind(label: str, files: PlantedFiles, tmp_path: Path) -> None:
    """There is nothing to compare with, and the model says so: what it foretells goes there."""
    head, *lines = files.train.read_text().splitlines()
    one = tmp_path / "one.tsv"
    one.write_text("\n".join([head, *(label + line[1:] for line in lines[:400])]) + "\n")
    result = files.fit(data=one, epochs=4)
    assert "normalized_entropy" not in result.summary and result.summary["loss"] < 0.5
    mean = np.concatenate([p for p, _ in result.scorer.score(files.test)]).mean()
    assert abs(mean - int(label)) < 0.4


def test_fewer_examples_than_a_batch(files: PlantedFiles, tmp_path: Path) -> None:
    one = tmp_path / "one.tsv"
    one.write_text("\n".join(files.train.read_text().splitlines()[:2]) + "\n")
    assert files.fit(data=one, threads=3).summary["items"] == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"text": any2vec.TextOptions()}, "dlrm has no options of reading text: it reads clicks; leave them out"),
        ({"graph": any2vec.GraphOptions()}, "dlrm has no options of reading graph: it reads clicks; leave them out"),
        ({"init": "x"}, r"dlrm has no --init \(init\): its rows belong to categories of a schema"),
        ({"on_epoch": print}, "on_epoch does not apply to models of clicks"),
        ({"schema": None}, "A schema is needed to read clicks; give criteo, avazu, or a TOML file"),
        (
            {"hosts": {"logical_hosts": 2, "sync": "bsp"}, "threads": 2},
            "goes step by step, with one thread a trainer, got thre",
        ),
        ({"hosts": {"servers": 1}}, r"--servers \(servers = 1\) is for several hosts; say how many"),
        ({"hosts": {"sync": "bsp"}}, "--sync .* is for several hosts"),
    ],
)
def test_arguments_that_do_not_go_with_clicks(more: dict[str, Any], said: str, files: PlantedFiles) -> None:
    with pytest.raises(InputError, match=said):
        files.fit(**more)


def test_hosts_of_the_other_kind(files: PlantedFiles) -> None:
    """Options have one class for all models; what a model has not got is refused, with its reason."""
    sent = any2vec.SyncOptions(bits=8)
    with pytest.raises(InputError, match=r"dlrm has no --bits \(bits\): its rows and gradients travel in 32 bits"):
        any2vec.fit(SMALL, files.train, schema=files.schema, hosts=2, sync=sent)
    served = any2vec.HostOptions(logical_hosts=2, servers=1)
    with pytest.raises(InputError, match=r"skipgram has no --servers \(servers\): rows lie on the hosts themselves"):
        any2vec.fit(any2vec.SkipGram(), files.train, hosts=served)
    with pytest.raises(InputError, match=r"hosts must be HostOptions\(\.\.\.\) or a number, got SyncOptions"):
        any2vec.fit(SMALL, files.train, schema=files.schema, hosts=sent)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="skipgram has no options of reading clicks: it reads text; leave them out"):
        any2vec.fit(any2vec.SkipGram(), files.train, schema="criteo")
