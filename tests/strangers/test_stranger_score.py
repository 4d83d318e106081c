"""TuckER from a package outside src: what it learns, the command, checkpoints, the disk, hosts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import stranger_packages
from stranger_packages import STRANGERS, install, run
from stranger_scores import NUM_TEST, NUM_TRAIN, PLANTED, check_differences, check_learned, check_resumed, package_of

import any2vec
from any2vec.errors import FormatError, InputError
from any2vec.evaluate.triples import evaluate_triple_file
from any2vec.models.triples.config import DistMult
from any2vec.models.triples.queries import Queries
from any2vec.models.triples.score import Dense, QueryScore, Score
from any2vec.models.triples.score_worker import ScoreWorker
from any2vec.models.triples.scorer import RELATIONS, TripleScorer
from any2vec.models.triples.worker import Candidates, Shares, TripleWorker
from any2vec.plan.order.buffer import BufferPlan
from any2vec.tasks.triples import table
from any2vec.train.out_of_core import table_budget
from spreads import spread

SMALL: dict[str, Any] = {"dim": 8, "relation_dim": 4, "batch_size": 100}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The package, and files of triples: train.tsv, test.tsv."""
    yield from package_of("tucker", "TuckER", tmp_path_factory.mktemp("site"))


def model(**options: Any) -> Any:
    return import_module("tucker").TuckER(**options)


def test_it_is_short() -> None:
    assert len((STRANGERS / "tucker.py").read_text().splitlines()) < 120


# ---- what is learned


@pytest.mark.parametrize("options", [{}, {"num_negatives": 100}, {"num_negatives": 50, "batch_negatives": True}])
def test_tucker_learns_planted_triples(options: dict[str, Any], package: Path) -> None:
    """All entities as candidates, or a few: as near to the best possible ranks as our own models come."""
    result = any2vec.fit(
        model(dim=32, relation_dim=8, batch_size=200, **options), package / "train.tsv", epochs=12, threads=1
    )
    check_learned(result, package, 0.8)


def test_threads_learn_alike(package: Path) -> None:
    # Each batch steps every row of so few entities, so at the default rate threads that really interleave diverge.
    options: dict[str, Any] = {"dim": 16, "relation_dim": 8, "batch_size": 200, "learning_rate": 0.15}
    ranks = []
    for threads in (1, 3):
        result = any2vec.fit(model(**options), package / "train.tsv", epochs=16, threads=threads)
        ranks.append(evaluate_triple_file(result.scorer, package / "test.tsv").mrr)
    assert ranks[1] > 0.85 * ranks[0]


# ---- gradients


def test_the_gradients_of_tucker_are_its_differences(package: Path) -> None:
    check_differences(model(dim=5, relation_dim=3).make_score(), {"core": (3, 5, 5)}, 5, 3)


@dataclass(frozen=True, kw_only=True)
class Twin(DistMult):
    """DistMult by a score of its own."""

    query: ClassVar[str] = ""

    def make_score(self) -> Score:
        return TwinScore()


class TwinScore(QueryScore):
    def queries(self, entity_QD: np.ndarray, relation_QP: np.ndarray, dense: Dense) -> np.ndarray:
        self.rows = entity_QD, relation_QP
        return entity_QD * relation_QP

    def query_gradients(self, gradient_QD: np.ndarray) -> tuple[np.ndarray, np.ndarray, Dense]:
        return gradient_QD * self.rows[1], gradient_QD * self.rows[0], {}


@pytest.mark.parametrize("loss", ["softmax", "logistic", "margin"])
@pytest.mark.parametrize("candidates", ["all", "gathered", "few"])
@pytest.mark.parametrize("weighed", [False, True])
def test_a_step_is_that_of_the_kernels(loss: Any, candidates: str, weighed: bool) -> None:
    """DistMult by kernels, and as a score of its own: the same rows, penalties and counts of negatives included."""
    rng, entities = np.random.default_rng(5), 12
    triple_M3 = np.stack([rng.integers(0, top, 40) for top in (entities, 2, entities)], axis=1)
    options: dict[str, Any] = {"dim": 6, "loss": loss, "n3": 0.05, "l2": 0.02, "batch_size": 60}
    found = []
    for config, worker_class in ((DistMult(**options), TripleWorker), (Twin(**options), ScoreWorker)):
        seeded = np.random.default_rng(6)
        tables = [np.append(seeded.normal(0, 0.7, (size, 6)), np.zeros((size, 1)), axis=1) for size in (entities, 4)]
        tables = [table.astype(np.float32) for table in tables]
        queries = Queries(config, triple_M3, 2, 1)
        queries.begin(0)
        batch = queries.batch(3, 63)
        few = np.unique([1, 4, 5, int(batch.answer_B[0])])
        offered = {
            "all": Candidates(np.arange(entities), (0, entities)),
            "gathered": Candidates(np.arange(entities)),
            "few": Candidates(few),
        }[candidates]
        weight_QH = np.random.default_rng(8).choice([0.5, 1.0, 7.0], (len(batch.given_Q), 2)).astype(np.float32)
        shares = Shares(np.searchsorted(offered.slot_K, [0, 5, entities]), weight_QH) if weighed else None
        more = () if worker_class is TripleWorker else ({},)
        total = worker_class(config, *tables, *more).step(batch, offered, 0.3, shares)  # type: ignore[arg-type]
        found.append((total, *tables))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    for one, other in zip(found[0][1:], found[1][1:], strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


# ---- the command


def test_it_trains_by_command(package: Path) -> None:
    listed = stranger_packages.any2vec(package, "train", "--help")
    assert "tucker" in listed and "Vectors of entities and relations by TuckER" in listed and "complex" in listed
    shown = stranger_packages.any2vec(package, "train", "tucker", "--help")
    assert "--relation-dim" in shown and "--num-negatives" in shown and "--window" not in shown
    words = ["--dim", "8", "--relation-dim", "4", "--epochs", "2", "--threads", "1", "--quiet", "--json"]
    reported = json.loads(stranger_packages.any2vec(package, "train", "tucker", "train.tsv", "--out", "out", *words))
    assert reported["model"] == "tucker" and reported["items"] == 2 * NUM_TRAIN
    ranked = json.loads(
        stranger_packages.any2vec(package, "evaluate", "out", "--task", "triples", "--data", "test.tsv", "--json")
    )
    assert ranked["num_triples"] == NUM_TEST and 0 < ranked["mrr"] <= 1
    lines = stranger_packages.any2vec(package, "score", "out", "test.tsv").splitlines()
    scorer = TripleScorer.load(package / "out")
    assert len(lines) == NUM_TEST and type(scorer.model).__name__ == "TuckER"
    head, relation, tail, score = lines[0].split("\t")
    ranking = dict(scorer.tails(head, relation, k=400))
    assert float(score) == pytest.approx(ranking[tail], rel=1e-3, abs=1e-5)
    refused = run(package, "-m", "any2vec", "train", "tucker", "train.tsv", "--out", "no", "--no-reciprocal")
    assert refused.returncode == 2 and "reciprocal must be true" in refused.stderr


def test_the_size_of_its_core_is_estimated(package: Path) -> None:
    words = ["train.tsv", "--dim", "64", "--relation-dim", "32", "--json"]
    reported = json.loads(stranger_packages.any2vec(package, "estimate", "tucker", *words))
    assert reported["memory"]["dense"] > 4 * 32 * 64 * 64


def test_bad_names_to_score_are_reported(package: Path) -> None:
    any2vec.fit(model(**SMALL), package / "train.tsv", epochs=1, threads=1, out=package / "named")
    (package / "odd.tsv").write_text("e1\tr1\te2\ne1\tr1\tnobody\n")
    refused = run(package, "-m", "any2vec", "score", "named", "odd.tsv")
    assert refused.returncode == 2 and "Triple 2 of odd.tsv" in refused.stderr


# ---- stopped, and gone on; hosts; from the disk


def test_who_goes_on_ends_as_if_never_stopped(package: Path, tmp_path: Path) -> None:
    check_resumed(model(**SMALL), package, tmp_path)


def test_what_is_saved_is_loaded(package: Path, tmp_path: Path) -> None:
    kept = any2vec.fit(model(**SMALL), package / "train.tsv", epochs=1, threads=1, out=tmp_path / "out").scorer
    loaded = TripleScorer.load(tmp_path / "out")
    assert loaded.dense["core"].shape == (4, 8, 8) and np.array_equal(loaded.dense["core"], kept.dense["core"])
    triple_M3 = PLANTED.triples(0, 50) % 3
    assert np.array_equal(loaded.score_rows(triple_M3), kept.score_rows(triple_M3))
    path = tmp_path / "out" / RELATIONS
    data = path.read_bytes()
    path.write_bytes(data.replace(b'relation_dim\\": 4', b'relation_dim\\": 3'))
    with pytest.raises(FormatError, match="is damaged"):
        TripleScorer.load(tmp_path / "out")


@pytest.mark.parametrize("hosts", [None, 2])
def test_from_the_disk(hosts: int | None, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entities in partitions, on one host or shared by two: what stands beside them is learned and saved as ever."""

    def shared(num_rows: int, row_bytes: int, budget: int, fixed: int, hosts: int) -> BufferPlan:
        return BufferPlan(num_rows, row_bytes, 8, 3, fixed, 0)

    monkeypatch.setattr(table_budget, "plan_shared", shared)
    monkeypatch.setattr(table, "plan_table", lambda *_: BufferPlan(400, 4 * 17, 8, 3, 0, 0))
    options: dict[str, Any] = {"dim": 16, "relation_dim": 8, "batch_size": 100, "num_negatives": 100}
    where = spread(memory="8GB", **({} if hosts is None else {"logical_hosts": hosts}))
    found = any2vec.fit(model(**options), package / "train.tsv", epochs=10, threads=1, out=tmp_path / "out", **where)
    assert found.summary["partitions"] == 8
    check_learned(found, package, 0.6)


@pytest.mark.parametrize("sync", ["blend", "adasum", "fr-mean:5", "shadow-easgd"])
@pytest.mark.parametrize("scheme", ["rep-opt", "pull-opt"])
def test_hosts_that_hold_all_rows(sync: str, scheme: str, package: Path) -> None:
    """The core is agreed on as rows are."""
    if sync.startswith(("fr", "shadow")) and scheme != "rep-opt":
        return
    options: dict[str, Any] = {"dim": 16, "relation_dim": 8, "batch_size": 100}
    chosen = {} if sync.startswith(("fr", "shadow")) else {"scheme": scheme}
    found = any2vec.fit(
        model(**options), package / "train.tsv", epochs=10, threads=1, **spread(logical_hosts=2, sync=sync, **chosen)
    )
    assert found.summary["hosts"] == 2 and found.scorer.dense["core"].shape == (8, 16, 16)
    check_learned(found, package, 0.5)


def test_a_cache_is_refused_with_the_reason(package: Path) -> None:
    with pytest.raises(InputError, match="parameters beside its rows, which no cache holds"):
        any2vec.fit(model(**SMALL), package / "train.tsv", **spread(logical_hosts=2, cache="het:4"))


# ---- packages that are not sound


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("", "cannot be loaded from odd:Odd: AttributeError"),
        ("class Odd:\n    name = 'even'\n", "calls itself 'even'"),
    ],
)
def test_a_model_that_is_not_sound_is_named(source: str, sentence: str, tmp_path: Path) -> None:
    install(tmp_path, "odd", {"any2vec.models.triples:odd": "odd:Odd"}, source)
    done = run(tmp_path, "-m", "any2vec", "train", "odd", "x.tsv", "--out", "out")
    assert done.returncode == 2 and sentence in done.stderr


def test_two_models_of_one_name_are_refused(tmp_path: Path) -> None:
    install(tmp_path, "twice", {"any2vec.models.triples:complex": "twice:Two"}, "")
    done = run(tmp_path, "-m", "any2vec", "train", "complex", "x.tsv", "--out", "out")
    assert done.returncode == 2 and "two models 'complex'" in done.stderr


def test_a_score_without_its_form_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="neither query nor make_score"):
        super(Twin, Twin(dim=4)).make_score()
