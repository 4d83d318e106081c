"""Runs that validate: what is scored, when they end, what they keep, and that going on changes nothing."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec
from any2vec.errors import DataError, InputError, Interrupted
from any2vec.evaluate.clicks import auc
from any2vec.evaluate.triples import evaluate_triple_file
from any2vec.evaluate.words.similarity import evaluate_similarity, pairs_of, similarity_of
from any2vec.options.hosts import HostOptions
from any2vec.options.sync import SyncOptions
from any2vec.tasks.triples.validation import held_out
from any2vec.testing.planted_triples import PlantedTriples
from any2vec.train.in_memory.validation import Validation
from cli_runs import done, refused
from click_runs import PlantedFiles, plant, same

TRIPLES = PlantedTriples(entities=200, relations=3, group=10)
MODEL = any2vec.ComplEx(dim=8, batch_size=100, learning_rate=0.3)
CLICKS = any2vec.DLRM(dim=4, bottom="8", top="8", batch_size=32, learning_rate=0.1)


@pytest.fixture(scope="module")
def triples(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(triples to train on, triples to validate on)"""
    folder, found = tmp_path_factory.mktemp("triples"), []
    for name, start, stop in (("train", 0, 2000), ("valid", 2000, 2200)):
        lines = (f"e{h}\tr{r}\te{t}\n" for h, r, t in TRIPLES.triples(start, stop).tolist())
        found.append(folder / f"{name}.tsv")
        found[-1].write_text("".join(lines))
    return found[0], found[1]


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> PlantedFiles:
    pytest.importorskip("torch", reason='needs pip install "any2vec[torch]"')
    return plant(tmp_path_factory.mktemp("clicks"), 1500, 500)


def fit_triples(triples: tuple[Path, Path], **options: Any) -> any2vec.FitResult:
    return any2vec.fit(MODEL, triples[0], **{"epochs": 12, "threads": 1, "validate": triples[1]} | options)


def fit_clicks(files: PlantedFiles, **options: Any) -> any2vec.FitResult:
    return files.fit(CLICKS, **{"epochs": 6, "validate": files.test} | options)


# ---- patience and the best state


def test_the_first_best_epoch_is_kept_and_patience_counts_from_it() -> None:
    found = Validation(patience=2)
    array = np.zeros(1)
    for epoch, score in enumerate((0.1, 0.4, 0.4, 0.3), 1):
        assert not found.is_over
        array[0] = epoch
        found.add(epoch, {"auc": score, "log_loss": -score}, {"rows": array})
    assert found.best_epoch == 2 and found.is_over and found.best["rows"][0] == 2
    assert found.summary()["epochs_done"] == 4 and found.summary()["validation"][1] == {
        "epoch": 2, "auc": 0.4, "log_loss": -0.4,
    }  # fmt: skip
    assert not Validation(0, found.epochs).is_over and Validation(2, found.epochs).is_over


def test_a_host_without_the_state_knows_the_best_epoch() -> None:
    found = Validation(patience=1)
    found.add(1, {"mrr": 0.2}, None)
    found.add(2, {"mrr": 0.1}, None)
    assert found.best_epoch == 1 and found.is_over and not found.best


@pytest.mark.parametrize("hosts", [None, HostOptions(logical_hosts=2)], ids=["one", "two"])
def test_triples_end_by_patience_with_the_best_epoch(triples: tuple[Path, Path], hosts: Any) -> None:
    one = fit_triples(triples, epochs=60, patience=2, hosts=hosts)
    best, epochs = one.summary["best_epoch"], one.summary["validation"]
    assert one.summary["epochs_done"] == best + 2 == len(epochs) < 60
    assert epochs[best - 1]["mrr"] == max(found["mrr"] for found in epochs)
    seen: dict[int, np.ndarray] = {}
    any2vec.fit(
        MODEL, triples[0], epochs=60, threads=1, hosts=hosts,
        on_epoch=lambda epoch, found: seen.update({epoch: found.vectors.copy()}),
    )  # fmt: skip
    assert np.array_equal(seen[best], one.embeddings.vectors) and not np.array_equal(seen[best + 2], seen[best])
    judged = evaluate_triple_file(one.scorer, triples[1])
    assert judged.mrr == epochs[best - 1]["mrr"] and judged.hits_at_10 == epochs[best - 1]["hits_at_10"]
    records = [record.validation for record in one.progress if record.validation]
    assert records == [{name: value for name, value in found.items() if name != "epoch"} for found in epochs]


@pytest.mark.parametrize("sync", [None, "fr-ma:5", "shadow-ma"])
def test_replicas_of_triples_validate(triples: tuple[Path, Path], sync: str | None) -> None:
    options = SyncOptions(sync=sync) if sync else SyncOptions(cache="het:4", cache_rows=0.5)
    found = fit_triples(triples, epochs=5, patience=1, hosts=HostOptions(logical_hosts=2), sync=options)
    best = found.summary["validation"][found.summary["best_epoch"] - 1]
    assert evaluate_triple_file(found.scorer, triples[1]).mrr == best["mrr"]


_TRAINERS: list[dict[str, Any]] = [
    {},
    {"logical_hosts": 2, "sync": "bsp"},
    {"logical_hosts": 2, "servers": 1, "sync": "shadow-easgd"},
    {"logical_hosts": 2, "servers": 1, "cache": "het:4"},
]


@pytest.mark.parametrize("hosts", _TRAINERS, ids=lambda hosts: "-".join(map(str, hosts.values())) or "one")
def test_clicks_end_by_patience_with_the_best_epoch(clicks: PlantedFiles, hosts: dict[str, Any]) -> None:
    one = fit_clicks(clicks, epochs=30, patience=1, hosts=hosts)
    best = one.summary["validation"][one.summary["best_epoch"] - 1]
    assert one.summary["epochs_done"] == one.summary["best_epoch"] + 1 < 30
    judged = clicks.judge(one.scorer)
    assert judged.auc == pytest.approx(best["auc"], abs=1e-12) and judged.log_loss == pytest.approx(best["log_loss"])


def test_an_early_end_leaves_a_result_like_any_other(triples: tuple[Path, Path], tmp_path: Path) -> None:
    made = fit_triples(triples, epochs=60, patience=1, out=tmp_path / "run")
    found = any2vec.TripleScorer.load(tmp_path / "run")
    assert np.array_equal(found.vectors, made.embeddings.vectors)
    again = fit_triples(triples, epochs=60, patience=1, out=tmp_path / "run", resume=True)
    assert again.summary["validation"] == made.summary["validation"]


# ---- going on


@pytest.mark.parametrize("hosts", [None, HostOptions(logical_hosts=2)], ids=["one", "two"])
def test_who_goes_on_validates_as_if_never_stopped(triples: tuple[Path, Path], tmp_path: Path, hosts: Any) -> None:
    whole = fit_triples(triples, epochs=60, patience=3, hosts=hosts)
    asked: list[Any] = []

    def stop(record: Any) -> None:
        if record.epoch >= whole.summary["best_epoch"] and record.validation and not asked:
            asked.append(record)
            signal.raise_signal(signal.SIGINT)

    options = {"epochs": 60, "patience": 3, "out": tmp_path / "run", "hosts": hosts}
    with pytest.raises(Interrupted):
        fit_triples(triples, callback=stop, **options)
    with pytest.raises(InputError, match="patience"):
        fit_triples(triples, resume=True, **options | {"patience": 4})
    went_on = fit_triples(triples, resume=True, **options)
    assert went_on.summary["validation"] == whole.summary["validation"]
    assert np.array_equal(went_on.embeddings.vectors, whole.embeddings.vectors)


def test_clicks_go_on_with_their_best_state(clicks: PlantedFiles, tmp_path: Path) -> None:
    whole = fit_clicks(clicks, epochs=30, patience=2)
    asked: list[Any] = []

    def stop(record: Any) -> None:
        if record.epoch >= whole.summary["best_epoch"] and not asked:
            asked.append(record)
            signal.raise_signal(signal.SIGINT)

    options = {"epochs": 30, "patience": 2, "out": tmp_path / "run"}
    with pytest.raises(Interrupted):
        fit_clicks(clicks, callback=stop, **options)
    went_on = fit_clicks(clicks, resume=True, **options)
    assert went_on.summary["validation"] == whole.summary["validation"] and same(went_on, whole)


# ---- what is scored


def test_a_share_of_triples_is_held_out_and_names_stay(triples: tuple[Path, Path]) -> None:
    found = any2vec.fit(MODEL, triples[0], epochs=2, threads=1, validate=0.1)
    data = found.summary["data"]
    assert data["num_triples"] + data["num_validation"] == 2000 and 150 < data["num_validation"] < 250
    assert len(found.scorer.triples) == data["num_triples"]
    seen = found.scorer.triples
    assert set(seen[:, [0, 2]].ravel().tolist()) == set(range(len(found.embeddings)))
    again = any2vec.fit(MODEL, triples[0], epochs=2, threads=1, validate="0.1")
    assert again.summary["validation"] == found.summary["validation"]


def test_copies_of_triples_are_on_one_side() -> None:
    triple_M3 = np.unique(TRIPLES.triples(0, 2000), axis=0)
    plain = any2vec.read_triples([(f"e{h}", f"r{r}", f"e{t}") for h, r, t in triple_M3.tolist()])
    whole_M3 = plain.rows()
    assert not plain.report.duplicates
    drawn_M = np.random.default_rng((3, 7)).permutation(len(whole_M3))[: round(0.1 * len(whole_M3))]
    wanted_M3 = held_out(plain, 0.1, 3)[1]
    assert {*map(tuple, wanted_M3.tolist())} <= {*map(tuple, whole_M3[drawn_M].tolist())}  # as before: runs go on
    names = [(plain.entities[h], plain.relations[r], plain.entities[t]) for h, r, t in whole_M3.tolist()]
    train, held_M3 = held_out(any2vec.read_triples([*names, *names[::2]]), 0.1, 3)
    seen, held = {*map(tuple, train.rows().tolist())}, {*map(tuple, held_M3.tolist())}
    assert not seen & held and len(held) < len(held_M3) and len(train) + len(held_M3) == len(names) + len(names[::2])
    assert held == {*map(tuple, wanted_M3.tolist())}  # copies change nothing of what is drawn


def test_validation_triples_with_unknown_names_rank_in_the_middle(triples: tuple[Path, Path]) -> None:
    rows = [line.split("\t") for line in triples[1].read_text().splitlines()]
    rows = [*rows[:40], *(("nobody", relation, tail) for _, relation, tail in rows[:40])]
    found = fit_triples(triples, epochs=1, validate=rows)
    assert found.summary["validation"][0]["mrr"] == evaluate_triple_file(found.scorer, rows).mrr


def test_validation_triples_are_read_as_those_of_training_where_they_can_be(triples: tuple[Path, Path]) -> None:
    rows = [line.split("\t") for line in triples[0].read_text().splitlines()]
    columns = {name: [row[place] for row in rows] for place, name in ((0, "x"), (2, "y"), (1, "kind"))}
    one, other = (
        any2vec.fit(MODEL, source, epochs=1, threads=1, triples=options, validate=triples[1]).summary["validation"]
        for source, options in ((triples[0], None), (columns, {"use_columns": "x,kind,y"}))
    )
    assert one == other


def test_the_last_share_of_clicks_is_held_out(clicks: PlantedFiles) -> None:
    found = fit_clicks(clicks, epochs=1, validate=0.2)
    assert found.summary["data"]["num_examples"] == 1200 == found.summary["items"]
    lines = clicks.train.read_text().splitlines(keepends=True)
    tail = clicks.train.with_name("tail.tsv")
    tail.write_text("".join(lines[:1] + lines[-300:]))
    probabilities, labels = zip(*found.scorer.score(tail), strict=True)
    score = auc(np.concatenate(labels), np.concatenate(probabilities))
    assert score == pytest.approx(found.summary["validation"][0]["auc"])


def test_clicks_that_are_held_out_are_not_in_the_result(clicks: PlantedFiles) -> None:
    """Not in counts, nor in vocabularies and means: the run is that on a file of the others."""
    lines = clicks.train.read_text().splitlines(keepends=True)
    head, tail = (clicks.train.with_name(f"{name}.tsv") for name in ("only_head", "only_tail"))
    head.write_text("".join(lines[:1201]))
    tail.write_text("".join(lines[:1] + lines[1201:]))
    schema = any2vec.ClickSchema.of(clicks.schema)
    learns = replace(schema, ids="vocabulary", column={}, dense_transform="standard")
    for one in (schema, learns):
        share = clicks.fit("logistic", schema=one, epochs=1, validate=0.2)
        apart = clicks.fit("logistic", data=head, schema=one, epochs=1, validate=tail)
        assert share.embeddings.keys.names == apart.embeddings.keys.names
        assert np.array_equal(share.embeddings.counts, apart.embeddings.counts)
        assert np.array_equal(share.embeddings.vectors, apart.embeddings.vectors)
        assert share.summary["validation"] == apart.summary["validation"]


def test_triples_in_memory_validate_as_a_file_does(triples: tuple[Path, Path]) -> None:
    rows = [line.split("\t") for line in triples[1].read_text().splitlines()]
    columns = dict(zip(("head", "relation", "tail"), map(list, zip(*rows, strict=True)), strict=True))
    one, other, third = (
        fit_triples(triples, epochs=2, validate=data).summary["validation"] for data in (triples[1], rows, columns)
    )
    assert one == other == third


def test_words_keep_the_epoch_with_the_best_correlation(tmp_path: Path) -> None:
    words = {f"{topic}{number}": topic for topic in "abc" for number in range(8)}
    draws = np.random.default_rng(3)
    lines = [[f"{'abc'[n % 3]}{word}" for word in draws.integers(0, 8, 12)] for n in range(300)]
    pairs = [(first, second, float(words[first] == words[second])) for first in words for second in words]
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{first}\t{second}\t{score}\n" for first, second, score in pairs))
    model = any2vec.SkipGram(dim=8, window=3, min_count=1)
    options: dict[str, Any] = {"epochs": 3, "threads": 1}
    one = any2vec.fit(model, lines, validate=file, **options)
    best = one.summary["validation"][one.summary["best_epoch"] - 1]
    assert evaluate_similarity(one.embeddings, file).mean == best["spearman"]
    assert len({found["spearman"] for found in one.summary["validation"]}) == 3
    other = any2vec.fit(model, lines, validate=pairs, hosts=HostOptions(logical_hosts=1), **options)
    assert len(other.summary["validation"]) == 3
    early = any2vec.fit(
        model, lines, validate=file, patience=1, hosts=HostOptions(logical_hosts=2),
        sync=SyncOptions(scheme="pull-opt", overlap=True), epochs=40, threads=1,
    )  # fmt: skip
    assert early.summary["epochs_done"] < 40
    with pytest.raises(DataError, match="0 of the 2 pairs"):
        any2vec.fit(model, lines, validate=[("nobody", "nowhere", 1), ("no", "none", 2)], **options)


def test_words_made_of_ngrams_are_those_of_the_best_epoch_whole() -> None:
    words = [f"{first}{second}{third}" for first in "abc" for second in "xyz" for third in "pq"]
    draws = np.random.default_rng(5)
    lines = [[words[n] for n in draws.integers(0, len(words), 10)] for _ in range(200)]
    pairs = [(words[n], words[n + 1], float(n % 5)) for n in range(12)]
    model = any2vec.NGram(dim=8, window=3, min_count=1, subsample=0, buckets=2000)
    shown: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def keep(epoch: int, found: any2vec.Embeddings) -> None:
        assert found.encoder is not None
        shown[epoch] = found.vectors.copy(), found.encoder.make(["axq", "unseen"])

    run = any2vec.fit(model, lines, epochs=6, threads=1, validate=pairs, on_epoch=keep)
    best = run.summary["best_epoch"]
    assert best < 6 and run.embeddings.encoder is not None
    np.testing.assert_array_equal(run.embeddings.vectors, shown[best][0])
    np.testing.assert_array_equal(run.embeddings.encoder.make(["axq", "unseen"]), shown[best][1])
    assert similarity_of(run.embeddings, pairs_of(pairs)).mean == run.summary["validation"][best - 1]["spearman"]


def test_clicks_that_cannot_be_validated_on_are_refused(clicks: PlantedFiles) -> None:
    with pytest.raises(DataError, match="labels of one class only"):
        fit_clicks(clicks, validate=0.001)
    with pytest.raises(InputError, match="leave out patience"):
        fit_clicks(clicks, patience=1, hosts={"logical_hosts": 2, "sync": "bsp", "cache": "bagpipe:20"})
    with pytest.raises(InputError, match="leaves 1,500 to train and 0"):
        fit_clicks(clicks, validate=0.0001)


def test_what_cannot_be_validated_on_is_refused(triples: tuple[Path, Path]) -> None:
    with pytest.raises(InputError, match="say what to validate on"):
        fit_triples(triples, validate=None, patience=2)
    with pytest.raises(InputError, match=r"between 0 and 1, got 1\.5"):
        fit_triples(triples, validate=1.5)
    with pytest.raises(InputError, match="leave out --memory"):
        fit_triples(triples, storage="1GB")
    with pytest.raises(DataError, match="names of the training alone"):
        fit_triples(triples, validate=[("no", "such", "name")])
    with pytest.raises(InputError, match="each has a name that no other has"):
        any2vec.fit(MODEL, [("a", "r", "b"), ("c", "s", "d")], validate=0.5)
    with pytest.raises(InputError, match="judged, not by a share"):
        any2vec.fit("skipgram", [["a", "b"]] * 10, validate=0.1)
    with pytest.raises(InputError, match=r"deepwalk has no --validate .*judged by classes or links"):
        any2vec.fit("deepwalk", [("a", "b")], validate="x.tsv")


def test_the_command_says_what_it_found(triples: tuple[Path, Path], tmp_path: Path) -> None:
    arguments = ("train", "complex", str(triples[0]), "--dim", "8", "--threads", "1", "--epochs", "3")
    said = done(*arguments, "--validate", str(triples[1]), "--out", str(tmp_path / "run"))
    assert "validation" in said and "mrr" in said and "of 3" in said
    assert "There is no file nowhere.tsv" in refused(
        *arguments, "--validate", "nowhere.tsv", "--out", str(tmp_path / "x")
    )


def test_steps_ahead_do_not_keep_the_best_epoch_from_being_kept(clicks: PlantedFiles) -> None:
    found = fit_clicks(clicks, epochs=4, hosts={"logical_hosts": 2, "sync": "bsp", "cache": "bagpipe:20"})
    best = found.summary["validation"][found.summary["best_epoch"] - 1]
    assert clicks.judge(found.scorer).auc == pytest.approx(best["auc"], abs=1e-12)


def test_a_better_state_takes_the_room_of_the_former_best() -> None:
    kept, rows = Validation(0), np.zeros((3, 2), np.float32)
    kept.add(1, {"mrr": 0.1}, {"rows": rows})
    first = kept.best["rows"]
    rows += 1
    assert not first.any()
    kept.add(2, {"mrr": 0.2}, {"rows": rows})
    assert kept.best["rows"] is first and first.all()
    rows += 1
    kept.add(3, {"mrr": 0.1}, {"rows": rows})
    assert (first == 1).all()
