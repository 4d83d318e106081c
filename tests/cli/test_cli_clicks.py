"""Models of clicks at the command line: train, score, and one clear sentence for whatever is wrong."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec
from any2vec.data.clicks.schema import KNOWN
from any2vec.report.run import read_run
from any2vec.sync.options.names import CLICK_SYNCS
from any2vec.testing.planted_clicks import PlantedClicks, write_tsv
from cli_runs import done, refused, run

pytest.importorskip("torch", reason="models of clicks need torch")
DLRM = ["--dim", "4", "--bottom", "8", "--top", "8", "--threads", "1", "--quiet"]
PLANTED = [*DLRM, "--schema", "clicks.toml"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with clicks.tsv, its schema, rows.tsv of the same kind, and a finished run of each kind of model."""
    folder = tmp_path_factory.mktemp("made")
    clicks = PlantedClicks(900, columns=4, rows=20, dense=3, multi_valued=1, seed=5)
    write_tsv(clicks, folder / "clicks.tsv", 0, 600)
    write_tsv(clicks, folder / "rows.tsv", 600)
    any2vec.fit(any2vec.DLRM(dim=4, bottom="8", top="8"), folder / "clicks.tsv", schema=folder / "clicks.toml",
                threads=1, out=folder / "run", cache_dir=folder / "cache")  # fmt: skip
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy, which is the working folder."""
    shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("ANY2VEC_CACHE", str(tmp_path / "here" / "cache"))
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path / "here"


def edit(change: Any, source: str = "clicks.tsv", target: str = "bad.tsv") -> str:
    """Write a file whose lines are changed; its name."""
    lines = Path(source).read_text().splitlines()
    Path(target).write_text("".join(line + "\n" for line in change(lines)))
    return target


# ---- what works


def test_a_planted_stream_from_file_to_scores(here: Path) -> None:
    summary = json.loads(done("train", "dlrm", "clicks.tsv", *PLANTED, "--out", "out", "--json"))
    assert (summary["model"], summary["items"], summary["out"]) == ("dlrm", 600, "out")
    assert 0.5 < summary["normalized_entropy"] < 2
    reported = json.loads(done("score", "out", "rows.tsv", "--json"))
    assert {"mean", "log_loss", "auc", "normalized_entropy", "calibration"} <= set(reported) and reported[
        "num_examples"
    ] == 300
    lines = done("score", "out", "rows.tsv").splitlines()
    assert done("score", "out", "rows.tsv", "--out", "-").splitlines() == lines and not Path("-").exists()
    assert len(lines) == 300 and np.mean([float(line) for line in lines]) == pytest.approx(reported["mean"], abs=1e-4)
    shown = done("score", "out", "rows.tsv", "rows.tsv", "--out", "p.txt")
    assert Path("p.txt").read_text().splitlines() == [*lines, *lines]
    assert "600" in shown and "AUC" in shown and "log loss" in shown
    assert "exists" in refused("score", "out", "nothing is read.tsv", "--out", "p.txt")
    done("score", "out", "rows.tsv", "--out", "p.txt", "--overwrite")
    assert Path("p.txt").read_text().splitlines() == lines


def test_a_run_that_has_diverged_says_so(here: Path) -> None:
    """On standard error, whatever standard output is asked for."""
    fm = ["train", "fm", "clicks.tsv", "--dim", "4", "--schema", "clicks.toml", "--threads", "1", "--quiet"]
    high = ["--optimizer", "sgd", "--learning-rate", "10", "--batch-size", "10"]
    found = run(*fm, *high, "--out", "high", "--json")
    (said,) = json.loads(found.stdout)["warnings"]
    assert found.exit_code == 0 and said in found.stderr
    assert re.search(r"share of clicks alone \(normalized entropy [\d,]+\): .* diverged; lower learning_rate\.$", said)
    shown = run(*fm, *high, "--out", "shown")
    assert "has diverged" in " ".join(shown.stdout.split()) and said in shown.stderr
    assert "worse" not in run(*fm, "--out", "low").output


def test_a_model_that_has_learned_too_little_has_not_diverged() -> None:
    """One that says 0.5 where clicks are rare is worse than their share, too."""
    from any2vec.tasks.clicks.program import _doubt

    assert "learned too little" in _doubt(0.7, 12.5) and "entropy 12.5)" in _doubt(0.7, 12.5)
    assert "entropy 1.85e34)" in _doubt(1e34, 1.85e34) and _doubt(0.7, 1.2) == ""


def test_rows_that_no_example_had_are_in_no_list(here: Path) -> None:
    """They hold what they began with; the scorer has them all the same."""
    embeddings = any2vec.Embeddings.load("run")
    counts = dict(zip(embeddings.keys, embeddings.counts, strict=True))
    unseen = {key for key, count in counts.items() if count == 0}
    assert "C1=<rare>" in unseen and counts["C1=3"] > 0
    near = json.loads(done("nearest", "run", "C1=3", "-k", "1000", "--json"))["neighbors"]
    assert {one["key"] for one in near} == {*counts} - unseen - {"C1=3"}
    assert "<rare>" not in refused("nearest", "run", "C1=<rar>") and "not among" in refused(
        "nearest", "run", "C1=<rare>"
    )
    done("export", "run", "--out", "v.txt", "--format", "word2vec")
    assert len(any2vec.Embeddings.load("v.txt")) == len(counts) - len(unseen)
    assert set(read_run(here / "run").embeddings.keys) == {*counts} - unseen
    assert len(done("score", "run", "rows.tsv").splitlines()) == 300


def test_neighbors_of_one_column(here: Path) -> None:
    """Of a key of this column or of another one, in the order of the cosines; never keys of others."""
    embeddings = any2vec.Embeddings.load("run")
    counts = dict(zip(embeddings.keys, embeddings.counts, strict=True))
    of_column = [key for key in counts if key.startswith("C2=") and counts[key]]
    near = json.loads(done("nearest", "run", "C1=3", "C2=4", "--column", "C2", "-k", "100", "--json"))["queries"]
    assert [one["key"] for one in near] == ["C1=3", "C2=4"]
    for one in near:
        wanted = sorted({*of_column} - {one["key"]}, key=lambda key: -embeddings.similarity(one["key"], key))
        assert [found["key"] for found in one["neighbors"]] == wanted
    assert "no keys of a column 'C'; columns are C1, C2" in refused("nearest", "run", "C1=3", "--column", "C")
    any2vec.Embeddings(["a", "b"], np.eye(2)).save("words.txt")
    assert "--column is for models of clicks" in refused("nearest", "words.txt", "a", "--column", "C")


@pytest.mark.parametrize("label", [0, 1])
def test_labels_that_are_all_alike(label: int, here: Path) -> None:
    alike = edit(lambda lines: [lines[0], *(f"{label}{line[1:]}" for line in lines[1:])], target="alike.tsv")
    found = run("train", "dlrm", alike, *PLANTED, "--out", "out", "--json")
    (said,) = json.loads(found.stdout)["warnings"]
    assert found.exit_code == 0 and said in found.stderr
    assert f"All 600 examples have the label {label}: nothing can be learned from them; give" in said
    reported = json.loads(done("score", "run", alike, "--json"))
    assert reported["auc"] is None and reported["normalized_entropy"] is None and reported["log_loss"] > 0
    assert (reported["calibration"] is None) == (label == 0)
    assert (
        reported["rate"] == label
        and reported["num_examples"] == 600
        and f"All 600 labels are {label}: AUC" in reported["note"]
    )
    assert "need both" in done("score", "run", alike, "--out", "p.txt")


def test_rows_without_labels_are_scored_alike(here: Path) -> None:
    edit(lambda lines: [line.split("\t", 1)[1] for line in lines], "rows.tsv", "none.tsv")
    assert done("score", "run", "none.tsv") == done("score", "run", "rows.tsv")
    assert set(json.loads(done("score", "run", "none.tsv", "--json"))) == {"model", "num_examples", "mean", "unseen"}


def test_values_that_training_has_not_seen_are_remarked_upon(tmp_path: Path) -> None:
    rows = [(number % 2, number % 2 + 10) for number in range(60)]
    (tmp_path / "clicks.csv").write_text("click,user\n" + "".join(f"{click},{user}\n" for click, user in rows))
    (tmp_path / "floats.csv").write_text("click,user\n" + "".join(f"{click},{user}.0\n" for click, user in rows))
    (tmp_path / "s.toml").write_text('label = "click"\ncategorical = ["user"]\nids = "vocabulary"\n')
    out = str(tmp_path / "run")
    done("train", "logistic", str(tmp_path / "clicks.csv"), "--schema", str(tmp_path / "s.toml"), "--out", out)
    for name, share in (("clicks.csv", 0.0), ("floats.csv", 1.0)):
        found = run("score", out, str(tmp_path / name), "--json")
        assert json.loads(found.stdout)["unseen"] == {"user": share}
        assert ("Column 'user': 100% of its values are not among" in found.stderr) is bool(share)


def test_what_is_reported_of_one_host_and_of_several(here: Path) -> None:
    one = done("train", "dlrm", "clicks.tsv", *PLANTED, "--out", "one")
    assert "each example before it is learned from" in " ".join(one.split()) and "trainers" not in one
    twice = done("train", "dlrm", "clicks.tsv", *PLANTED, "--out", "twice", "--epochs", "2")
    assert "before it is learned from" not in twice
    hosts = ["--logical-hosts", "2", "--servers", "1", "--sync", "fr-ma:3", "--cache", "het:5"]
    several = " ".join(done("train", "dlrm", "clicks.tsv", *PLANTED, "--out", "several", *hosts).split())
    assert "2 trainers and 1 server, " in several and "fr-ma:3, cache het:5" in several


def test_options_in_a_file(here: Path) -> None:
    """A flag wins over it; what it says is what flags would say."""
    Path("job.toml").write_text(
        'model = "fm"\ninput = "clicks.tsv"\nschema = "clicks.toml"\nout = "out"\ndim = 4\nlogical-hosts = 2\n'
        'servers = 1\nsync = "bsp"\ncache = "bagpipe:7"\nrounds-per-epoch = 2\nbatch_size = 50\nthreads = 1\n'
    )
    summary = json.loads(done("train", "--config", "job.toml", "--quiet", "--json", "--dim", "3"))
    assert [summary[name] for name in ("model", "dim", "hosts", "servers", "sync", "cache")] == [
        "fm", 3, 2, 1, "bsp", "bagpipe:7",
    ]  # fmt: skip
    flags = ["--logical-hosts", "2", "--servers", "1", "--sync", "bsp", "--cache", "bagpipe:7", "--batch-size", "50"]
    done("train", "fm", "clicks.tsv", "--schema", "clicks.toml", "--out", "again", "--dim", "3", *flags,
         "--rounds-per-epoch", "2", "--threads", "1", "--quiet")  # fmt: skip
    first, again = (any2vec.Embeddings.load(name).vectors for name in ("out", "again"))
    assert np.array_equal(first, again)
    Path("job.toml").write_text('model = "fm"\ninput = "clicks.tsv"\nschema = "clicks.toml"\nout = "x"\nserver = 1\n')
    assert "there is no option 'server'; did you mean 'servers'?" in refused("train", "--config", "job.toml")


def criteo(random: np.random.Generator, number: int) -> str:
    numbers = ["" if value < 3 else str(value) for value in random.integers(0, 90, 13)]
    values = ["" if value < 3 else f"{value:08x}" for value in random.integers(0, 40, 26)]
    return "\t".join([str(number % 2), *numbers, *values])


def avazu(random: np.random.Generator, number: int) -> str:
    hour = f"1410{21 + number % 9}{number % 24:02d}"
    return ",".join([f"{number}", str(number % 2), hour, *map(str, random.integers(0, 40, 21))])


@pytest.mark.parametrize(("name", "line", "keys"), [("criteo", criteo, "C26#"), ("avazu", avazu, "hour#")])
def test_formats_known_by_name(name: str, line: Any, keys: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a header; avazu has no numbers at all. With fewer rows than they have, for millions are slow to name."""
    monkeypatch.setitem(KNOWN[name], "hash_rows", 200)
    random = np.random.default_rng(1)
    Path("data").write_text("".join(line(random, number) + "\n" for number in range(300)))
    done("train", "logistic", "data", "--schema", name, "--threads", "1", "--out", "out", "--quiet")
    assert json.loads(done("score", "out", "data", "--json"))["num_examples"] == 300
    found = [str(key) for key in any2vec.Embeddings.load("out").keys]
    assert len(found) == {"criteo": 26, "avazu": 22}[name] * 200 and any(key.startswith(keys) for key in found)


@pytest.mark.parametrize("command", [["train", "dlrm"], ["score"]], ids=["train", "score"])
def test_every_help_fits(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    shown = done(*command, "--help")
    assert max(map(len, shown.splitlines())) <= 100
    words = {"train": ["--schema", "--servers", "--sync-servers", "--cache", "--bottom", "--dense-learning-rate"]}
    for word in words.get(command[0], ["--out", "--json", "--batch-size"]):
        assert word in shown
    for sync in CLICK_SYNCS if command[0] == "train" else ():
        assert sync in shown


# ---- what is refused: nothing is left behind

TRAIN = ["train", "dlrm", "clicks.tsv", *PLANTED, "--out", "out"]
HOSTS = ["--logical-hosts", "2"]
OPTIONS: list[tuple[list[str], str]] = [
    (["train", "dlrm", "clicks.tsv", *DLRM, "--out", "out"], "A schema is needed to read clicks; give criteo, ava"),
    ([*TRAIN, "--schema", "critoe"], "There is no schema 'critoe'; give a TOML file, or one of criteo, avazu"),
    (["train", "dlmr", *TRAIN[2:]], "There is no model 'dlmr' here; did you mean 'dlrm'"),
    (["train", "fm", *TRAIN[2:]], "fm has no --bottom: it is for dlrm; leave it out"),
    ([*TRAIN, "--layers", "8"], "dlrm has no --layers: it is for deepfm and ga-mlp; leave it out"),
    (
        [*TRAIN, "--window", "3"],
        "dlrm has no --window: it is for skipgram, cbow, ngram, deepwalk, node2vec and item2vec; leave",
    ),
    ([*TRAIN, "--scheme", "rep-opt"], "dlrm has no --scheme (scheme): rows travel as each batch needs them; leave it"),
    ([*TRAIN, "--lowercase"], "dlrm has no --lowercase: it is for skipgram, cbow and ngram; leave it out"),
    ([*TRAIN, "--directed"], "dlrm has no --directed: it is for deepwalk, node2vec, ga-mlp, graphsage, gcn"),
    (["train", "cbow", "clicks.tsv", "--out", "out", "--servers", "1"],
     "cbow has no --servers (servers): rows lie on the hosts themselves, with sync server:... too; leave it out"),
    ([*TRAIN, "--top", "8-x"], "top must be up to 16 layer sizes from 1 to 65,536 like 512-256-64, got '8-x'"),
    ([*TRAIN, "--optimizer", "rmsprop"], "--optimizer must be one of adagrad, adam, sgd"),
    ([*TRAIN, "--batch-size", "0"], "batch_size must be a whole number from 1 to 1,048,576, got 0"),
    ([*TRAIN, "--init", "run"], "dlrm has no --init (init): its rows belong to categories of a schema"),
    ([*TRAIN, "--servers", "1"], "--servers (servers = 1) is for several hosts; say how many, --hosts N or"),
    ([*TRAIN, "--sync", "bsp"], "--sync (sync = 'bsp') is for several hosts"),
    ([*TRAIN, "--cache", "het:9"], "--cache (cache = 'het:9') is for several hosts"),
    ([*TRAIN, *HOSTS, "--sync", "shadow"], "sync of a click model must be one of none, shadow-easgd, shadow-ma"),
    ([*TRAIN, *HOSTS, "--sync", "elastic"], "sync of a click model must be one of none, shadow-easgd, shadow-ma"),
    ([*TRAIN, *HOSTS, "--cache", "het"], "cache must be none, het:BOUND[:static|lru|lfu|lfu-promoted|tinylfu|fifo|"),
    ([*TRAIN, *HOSTS, "--cache", "het:5", "--sync", "m-of-n"], "use cache none"),
    ([*TRAIN, *HOSTS, "--sync", "m-of-n:3"], "takes 3 gradients a step, of 2 trainers; ask for fewer"),
    ([*TRAIN, "--hosts", "2", "--sync", "m-of-n:3"], "Error: sync m-of-n:3 takes 3 gradients a step, of 2 trainers"),
    ([*TRAIN, "--hosts", "2", "--cache", "het:9", "--optimizer", "adam"], "Error: cache het:9 adds up what trainers"),
    ([*TRAIN, *HOSTS, "--sync", "bsp", "--threads", "2"], "goes step by step, with one thread a trainer, got threads"),
    ([*TRAIN, *HOSTS, "--sync", "fr-ma", "--sync-servers", "1"], "m-of-n; leave it out with sync fr-ma."),
    ([*TRAIN, *HOSTS, "--cache-rows", "0.2"], "cache_rows is for cache het or age; leave it out with cache none."),
    ([*TRAIN, *HOSTS, "--hosts", "2"], "choose one of the two"),
    (["train", "logistic", "clicks.tsv", "--schema", "clicks.toml", "--out", "out", "--dim", "8"],
     "dim of logistic is 1, the weight of a category, got 8; leave it out"),
    (["train", "cbow", "clicks.tsv", "--schema", "clicks.toml", "--out", "out"],
     "cbow has no --schema: it is for dlrm, deepfm, fm and logistic; leave it out"),
    (["train", "dlrm", "nothing.tsv", *PLANTED, "--out", "out"], "There is no file or folder nothing.tsv"),
    (["score", "nothing", "rows.tsv"], "nothing holds no model of clicks; give the folder of a finished run of one"),
    (["score", ".", "rows.tsv"], ". holds no model of clicks"),
    (["score", "run", "nothing.tsv"], "There is no file nothing.tsv"),
    (["score", "run"], "Missing argument 'ROWS...'"),
    (["score", "run", "rows.tsv", "--batch-size", "0"], "--batch-size must be"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "said"), OPTIONS, ids=[said[:40] for _, said in OPTIONS])
def test_options_that_are_not_legal(arguments: list[str], said: str, here: Path) -> None:
    assert said in refused(*arguments)
    assert not Path("out").exists()


def without(name: str) -> Any:
    """Lines without a column."""

    def change(lines: list[str]) -> list[str]:
        at = lines[0].split("\t").index(name)
        return ["\t".join(parts[:at] + parts[at + 1 :]) for parts in (line.split("\t") for line in lines)]

    return change


def with_value(name: str, value: str) -> Any:
    """Lines of which the sixth has another value."""

    def change(lines: list[str]) -> list[str]:
        parts = lines[5].split("\t")
        parts[lines[0].split("\t").index(name)] = value
        return [*lines[:5], "\t".join(parts), *lines[6:]]

    return change


ROWS: list[tuple[str, Any, str]] = [
    ("a column of categories", without("C2"), "bad.tsv has no column 'C2'; known are label, I1, I2, I3, C1, C3, T1"),
    ("a column of bags", without("T1"), "bad.tsv has no column 'T1'"),
    ("a column of numbers", without("I2"), "bad.tsv has no column 'I2'"),
    ("label 2", with_value("label", "2"), "bad.tsv, line 6: the label must be 0 or 1, got 2 in column 'label'"),
    ("label text", with_value("label", "yes"), "bad.tsv, line 6: "),
    ("NaN", with_value("I1", "nan"), "bad.tsv, line 6: column 'I1' holds nan; numbers must be finite"),
    ("infinite", with_value("I1", "-inf"), "bad.tsv, line 6: column 'I1' holds -inf; numbers must be finite"),
    ("a word", with_value("I3", "abc"), "bad.tsv, line 6: column 'I3' holds 'abc', which is no number"),
    ("a short line", lambda lines: [*lines[:5], "1\t2", *lines[6:]], "bad.tsv, line 6: 2 columns, but the first line"),
    ("no rows", lambda lines: lines[:1], "bad.tsv holds no rows; give a file with at least one"),
    ("nothing", lambda lines: [], "bad.tsv is empty; give a file with content"),
]


@pytest.mark.parametrize("command", ["train", "score"])
@pytest.mark.parametrize(("change", "said"), [case[1:] for case in ROWS], ids=[case[0] for case in ROWS])
def test_rows_that_are_not_as_the_schema_says(change: Any, said: str, command: str, here: Path) -> None:
    edit(change)
    arguments = ["train", "dlrm", "bad.tsv", *PLANTED] if command == "train" else ["score", "run", "bad.tsv"]
    assert said in refused(*arguments, "--out", "out")
    assert not Path("out").exists()


def test_training_needs_labels(here: Path) -> None:
    edit(without("label"))
    assert "bad.tsv has no column 'label'" in refused("train", "dlrm", "bad.tsv", *PLANTED, "--out", "out")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dense = 3\n", "In the schema bad.toml: dense must be a list of names of columns, got 3"),
        ('categorical = ["C1"]\nlabel = "C1"\n', "the label 'C1' is named as an input, too"),
        ('dense = ["I1"]\n', "a schema needs at least one column in categorical or multi_valued"),
        ('categorical = ["C1"]\n', "dlrm needs two columns of categories, or one and numbers"),
        ("dense = [\n", "bad.toml"),
    ],
)
def test_schemas_that_are_not_legal(text: str, said: str, here: Path) -> None:
    Path("bad.toml").write_text(text)
    assert said in refused("train", "dlrm", "clicks.tsv", *DLRM, "--schema", "bad.toml", "--out", "out")
    assert not Path("out").exists()


def test_a_run_that_is_over_is_held_against_what_is_asked_for(here: Path) -> None:
    """The same: it stands. Another schema, other rows, other options: each is named."""
    before = Path("run/dense.safetensors").read_bytes()
    same = ["train", "dlrm", "clicks.tsv", *PLANTED, "--out", "run"]
    assert "--overwrite" in refused(*same)
    done(*same, "--resume")
    Path("other.toml").write_text(Path("clicks.toml").read_text().replace("'mean'", "'sum'"))
    assert "run is of a run with data.digest" in refused(*same, "--resume", "--schema", "other.toml")
    assert "data.num_examples = 600, this one has 300" in refused("train", "dlrm", "rows.tsv", *same[3:], "--resume")
    assert "model.dim = 4, this one has 5" in refused(*same, "--resume", "--dim", "5")
    assert Path("run/dense.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda b: b[:50], "is damaged: dense.safetensors: not a safetensors file, or cut short"),
        (lambda b: b.replace(b"dlrm", b"dlrx"), "There is no model of clicks called 'dlrx'"),
        (
            lambda b: b.replace(b'\\"top\\"', b'\\"tip\\"'),
            "dlrm has no option 'tip'; it is of another version of any2v",
        ),
        (lambda b: b.replace(b'\\"dim\\": 4', b'\\"dim\\": 5'), "is stored; train again"),
    ],
)
def test_a_damaged_run(damage: Any, said: str, here: Path) -> None:
    file = Path("run/dense.safetensors")
    before = file.read_bytes()
    file.write_bytes(damage(before))
    assert file.read_bytes() != before and said in refused("score", "run", "rows.tsv", "--out", "out")
    assert not Path("out").exists()


@pytest.mark.parametrize("name", ["schema.json", "values.parquet", "meta.json", "vectors.safetensors"])
def test_a_run_that_lacks_a_file(name: str, here: Path) -> None:
    (here / "run" / name).unlink()
    assert "run" in refused("score", "run", "rows.tsv")
