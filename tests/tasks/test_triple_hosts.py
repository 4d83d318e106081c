"""Models of triples on several hosts that hold all rows: what they agree on, what it takes, how a run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec
from any2vec.errors import InputError, Interrupted
from any2vec.evaluate.triples import evaluate_triple_file
from any2vec.formats.safetensors_file import read_arrays
from any2vec.models.triples.config import TripleModel
from any2vec.models.triples.learner import TripleLearner
from any2vec.models.triples.queries import Queries
from any2vec.models.triples.worker import relation_optimizer
from any2vec.plan.order.epochs import EpochSchedule
from any2vec.sync.base.states import apart, bits_of, is_state, together, values_of
from any2vec.sync.exchange.leader import LeaderSgd
from any2vec.tasks.triples.program import fresh_tables
from any2vec.testing.planted_triples import PlantedTriples
from click_runs import stop_at
from spreads import spread

PLANTED = PlantedTriples(entities=400, relations=3, group=10)
NUM_TRAIN, NUM_TEST = 6000, 400
MODEL = any2vec.ComplEx(dim=32, batch_size=200)
SMALL = any2vec.ComplEx(dim=8, batch_size=100)
SAMPLED = any2vec.RotatE(dim=8, batch_size=100, num_negatives=30)


def write(path: Path, triple_M3: np.ndarray) -> Path:
    path.write_text("".join(f"e{head}\tr{relation}\te{tail}\n" for head, relation, tail in triple_M3.tolist()))
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(triples to train on, triples to test)"""
    folder = tmp_path_factory.mktemp("files")
    seen, held = PLANTED.triples(0, NUM_TRAIN), PLANTED.triples(NUM_TRAIN, NUM_TRAIN + NUM_TEST)
    return write(folder / "train.tsv", seen), write(folder / "test.tsv", held)


def same(one: any2vec.FitResult, other: any2vec.FitResult) -> bool:
    pairs = (
        (one.embeddings.vectors, other.embeddings.vectors),
        (one.scorer.relation_vectors, other.scorer.relation_vectors),
    )
    return all(np.array_equal(first, second) for first, second in pairs)


def fit(model: TripleModel, files: tuple[Path, Path], hosts: int = 2, epochs: int = 2, **options: Any) -> Any:
    return any2vec.fit(model, files[0], threads=1, **spread(logical_hosts=hosts, epochs=epochs, **options))


# ---- tables of values and of states


def test_states_are_tables_of_their_own() -> None:
    tables = {"entities": np.arange(12, dtype=np.float32).reshape(3, 4), "names": np.ones((2, 2), np.float32)}
    views = apart(tables, {"entities": 3, "names": 2})
    assert list(views) == ["entities", "entities.state", "names"]
    assert views["entities.state"].ravel().tolist() == [3, 7, 11]
    views["entities.state"][0] = 99
    assert tables["entities"][0, 3] == 99 and np.array_equal(together(views)["entities"], tables["entities"])
    assert [is_state(name) for name in views] == [False, True, False]
    assert values_of("entities.state") == "entities" and bits_of("entities.state", 8) == 32 and bits_of("names", 8) == 8


# ---- what hosts agree on


@pytest.mark.parametrize("sync", ["sum", "mean", "adasum", "adasum-symmetric", "blend"])
def test_one_host_agrees_with_itself(sync: str, files: tuple[Path, Path]) -> None:
    assert same(fit(SMALL, files, 1, sync=sync), any2vec.fit(SMALL, files[0], epochs=2, threads=1))


def plain_sum(model: TripleModel, triple_M3: np.ndarray, sizes: tuple[int, int], hosts: int, rounds: int) -> Any:
    """Two epochs in which each host trains its part of a round on a copy, and all changes add up."""
    agreed = fresh_tables(model, *sizes, 1)
    number = Queries(model, triple_M3, sizes[1], 1).num_queries
    batches = -(-number // model.batch_size)
    bounds = [-(-number * host // hosts // model.batch_size) * model.batch_size for host in range(hosts)] + [number]
    assert batches > hosts * rounds
    schedules = [
        iter(EpochSchedule(bounds=bounds, rank=rank, epochs=2, unit=model.batch_size, piece=model.batch_size,
                           rounds=rounds))
        for rank in range(hosts)
    ]  # fmt: skip
    for _ in range(2 * rounds):
        copies = [{name: table.copy() for name, table in agreed.items()} for _ in range(hosts)]
        for tables, works in zip(copies, schedules, strict=True):
            queries = Queries(model, triple_M3, sizes[1], 1)
            learner = TripleLearner(model, tables["entities"], tables["relations"], queries, [(0, sizes[0])], 1, 1)
            for work in works:
                learner.run(work)
                if work.ends_round:
                    break
        for name, start in agreed.items():
            changes = [tables[name].astype(np.float64) - start for tables in copies]
            total = start + sum(changes)
            for change, tables in zip(changes, copies, strict=True):  # one host's value is taken as it is
                alone = (np.stack([other.any(axis=1) for other in changes]).sum(axis=0) == 1) & change.any(axis=1)
                total[alone] = tables[name][alone]
            agreed[name] = total.astype(np.float32)
            width = model.dim if name == "entities" else relation_optimizer(model).width
            state = [change[:, width:] for change in changes]
            count = np.maximum(sum((change != 0).astype(int) for change in state), 1)
            agreed[name][:, width:] = start[:, width:] + sum(state) / count
    return agreed


@pytest.mark.parametrize("model", [SMALL, SAMPLED], ids=lambda model: model.name)
def test_the_sum_is_that_of_a_plain_twin(model: TripleModel, files: tuple[Path, Path]) -> None:
    triples = any2vec.read_triples(files[0])
    sizes = len(triples.entities), len(triples.relations)
    agreed = plain_sum(model, triples.rows(), sizes, 2, 3)
    found = fit(model, files, sync="sum", rounds_per_epoch=3)
    width = relation_optimizer(model).width
    np.testing.assert_allclose(found.embeddings.vectors, agreed["entities"][:, : model.dim], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found.scorer.relation_vectors, agreed["relations"][:, :width], rtol=1e-5, atol=1e-7)


def test_states_grow_by_the_mean_however_values_merge(files: tuple[Path, Path], tmp_path: Path) -> None:
    """By the mean half of each change of the values is left, and the squares of the gradients do not follow it."""
    triples = any2vec.read_triples(files[0])
    start = fresh_tables(SMALL, len(triples.entities), len(triples.relations), 1)
    states = {}
    for sync in ("sum", "mean", "adasum"):
        out = tmp_path / sync
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted):
            stop_at(0.0, patch)
            fit(SMALL, files, sync=sync, rounds_per_epoch=1, out=out)
        states[sync] = read_arrays(out / "checkpoint.safetensors")[0]["entities"]
    assert all(np.array_equal(states[sync][:, -1], states["sum"][:, -1]) for sync in states)
    assert (states["sum"][:, -1] > 0).all()
    moved = {sync: states[sync][:, :-1] - start["entities"][:, :-1] for sync in states}
    np.testing.assert_allclose(2 * moved["mean"], moved["sum"], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("hosts", [2, 3])
def test_schemes_agree_to_the_bit(hosts: int, files: tuple[Path, Path]) -> None:
    """Of a batch the rows of its negatives, its queries and its answers are known beforehand, and no others."""
    found = [fit(SAMPLED, files, hosts, scheme=scheme) for scheme in ("rep-base", "rep-opt", "pull-opt")]
    assert same(found[0], found[1]) and same(found[0], found[2])
    sizes = [sum(result.summary["bytes_by_kind"].values()) for result in found]
    assert len(set(sizes)) == 3 and [result.summary["scheme"] for result in found][2] == "pull-opt"


def test_who_pulls_knows_every_row(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Few batches of few rows: what an inspection leaves out would be stale, and the result another."""
    model = any2vec.ComplEx(dim=4, batch_size=20, num_negatives=5, relation_weight=0.5)
    options = {"hosts": 2, "rounds_per_epoch": 40, "epochs": 1}
    assert same(fit(model, files, scheme="rep-opt", **options), fit(model, files, scheme="pull-opt", **options))


def test_processes_have_the_bits_of_logical_hosts(files: tuple[Path, Path]) -> None:
    pytest.importorskip("torch", reason="hosts as processes need torch (the extra any2vec[torch])")
    found = any2vec.fit(SMALL, files[0], epochs=1, threads=1, hosts=2, sync="adasum")
    assert same(found, fit(SMALL, files, epochs=1, sync="adasum"))


# ---- how well


@pytest.mark.parametrize(
    ("options", "share"),
    [
        ({"sync": "adasum"}, 0.95), ({"sync": "adasum-symmetric"}, 0.95), ({}, 0.95), ({"sync": "gaia"}, 0.9),
        ({"sync": "leader"}, 0.85), ({"sync": "ds-sync"}, 0.85), ({"bits": 8}, 0.95), ({"overlap": True}, 0.85),
        ({"sync": "gaia", "bits": 8}, 0.9), ({"sync": "mean", "bits": 16, "scheme": "pull-opt"}, 0.85),
    ],
    ids=str,
)  # fmt: skip
def test_two_hosts_learn_nearly_as_much_as_one(
    options: dict[str, Any], share: float, files: tuple[Path, Path], alone: float
) -> None:
    result = fit(MODEL, files, epochs=12, **options)
    assert evaluate_triple_file(result.scorer, files[1]).mrr > share * alone
    summary = result.summary
    assert summary["items"] == 12 * NUM_TRAIN and summary["hosts"] == 2 and summary["rounds"] == 36
    assert summary["bytes_by_kind"]["rows"] > 0


@pytest.mark.parametrize(("sync", "pulls"), [("leader", 60), ("leader:quarter", 4)])
def test_leader_sgd_pulls_after_each_batch(
    sync: str, pulls: int, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 12,000 queries in batches of 100 each of two hosts has 60 batches; or four times a round."""
    ends: list[bool] = []
    heard = LeaderSgd.on_work

    def on_work(self: LeaderSgd, work: Any, stats: Any) -> None:
        ends.append(work.ends_part or work.ends_round)
        heard(self, work, stats)

    monkeypatch.setattr(LeaderSgd, "on_work", on_work)
    fit(SMALL, files, epochs=1, sync=sync, rounds_per_epoch=1)
    assert sum(ends) == 2 * pulls


@pytest.fixture(scope="module")
def alone(files: tuple[Path, Path]) -> float:
    """Mean reciprocal rank of one host."""
    return evaluate_triple_file(any2vec.fit(MODEL, files[0], epochs=12, threads=1).scorer, files[1]).mrr


def test_fewer_bits_are_fewer_bytes(files: tuple[Path, Path]) -> None:
    """Of 32 values and a state in 32 bits each, values alone get fewer; a row of 8 bits has its scale besides."""
    options = {"epochs": 1, "rounds_per_epoch": 30}
    sizes = {bits: fit(MODEL, files, bits=bits, **options).summary["bytes_by_kind"]["rows"] for bits in (32, 16, 8)}
    assert sizes[16] < 0.57 * sizes[32] and sizes[8] < 0.35 * sizes[32]


# ---- stopped, and gone on


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bits": 8},
        {"overlap": True},
        {"sync": "elastic"},
        {"sync": "leader"},
        {"sync": "ds-sync"},
        {"sync": "gaia"},
    ],
    ids=str,
)
def test_who_goes_on_ends_as_if_never_stopped(
    options: dict[str, Any], files: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted, match="holds the work so far"):
        stop_at(0.5, patch)
        fit(SMALL, files, out=out, **options)
    went_on = fit(SMALL, files, out=out, resume=True, **options)
    assert same(went_on, fit(SMALL, files, **options)) and went_on.summary["items"] == 2 * NUM_TRAIN


def test_another_number_of_hosts_goes_on(files: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted):
        stop_at(0.4, patch)
        fit(SMALL, files, out=out)
    assert fit(SMALL, files, 3, out=out, resume=True).summary["items"] == 2 * NUM_TRAIN


def test_who_goes_on_every_few_batches_ends_as_if_never_stopped(files: tuple[Path, Path], tmp_path: Path) -> None:
    """Where a round ends need not be where hosts agree: replicas differ there, and a checkpoint has all of them."""
    for sync in ("fr-ma:7", "fr-adasum:7"):
        out = tmp_path / sync.partition(":")[0]
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted, match="holds the work so far"):
            stop_at(0.5, patch)
            fit(SMALL, files, out=out, sync=sync)
        went_on = fit(SMALL, files, out=out, resume=True, sync=sync)
        assert same(went_on, fit(SMALL, files, sync=sync)) and went_on.summary["items"] == 2 * NUM_TRAIN


def test_others_go_on_with_what_replicas_agreed_on(files: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted):
        stop_at(0.4, patch)
        fit(SMALL, files, out=out, sync="shadow-adasum")
    assert fit(SMALL, files, 3, out=out, resume=True, sync="shadow-adasum").summary["items"] == 2 * NUM_TRAIN


# ---- behind the training, and every so many batches


@pytest.mark.parametrize(
    ("sync", "share"),
    [
        ("shadow-blend", 0.9), ("shadow-adasum", 0.9), ("shadow-ma", 0.8), ("shadow-easgd", 0.6), ("fr-adasum:5", 0.9),
        ("fr-blend:5", 0.9), ("fr-sum:1", 0.9), ("fr-ma:5", 0.85), ("fr-easgd:5", 0.6),
    ],
)  # fmt: skip
def test_replicas_learn_nearly_as_much_as_one_host(
    sync: str, share: float, files: tuple[Path, Path], alone: float
) -> None:
    result = fit(MODEL, files, epochs=12, sync=sync)
    assert evaluate_triple_file(result.scorer, files[1]).mrr > share * alone
    summary = result.summary
    assert summary["items"] == 12 * NUM_TRAIN and summary["sync"] == sync and summary["bytes_by_kind"]["dense"] > 0
    if sync.startswith("fr-"):
        assert set(summary["sync_gap"]) == {sync.partition(":")[2]}


def test_one_replica_is_a_run_as_ever(files: tuple[Path, Path]) -> None:
    assert same(fit(SMALL, files, 1, sync="fr-ma:5"), any2vec.fit(SMALL, files[0], epochs=2, threads=1))


def test_sums_at_every_batch_are_those_of_rounds_of_a_batch(files: tuple[Path, Path]) -> None:
    """120 batches in an epoch, 60 of each host: as many rounds, and as many syncs."""
    found = [fit(SMALL, files, epochs=1, **options).embeddings.vectors for options in (
        {"sync": "sum", "rounds_per_epoch": 60}, {"sync": "fr-sum:1"},
    )]  # fmt: skip
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3, atol=1e-5)


def test_processes_keep_replicas(files: tuple[Path, Path]) -> None:
    pytest.importorskip("torch", reason="hosts as processes need torch (the extra any2vec[torch])")
    found = any2vec.fit(SMALL, files[0], epochs=1, threads=1, hosts=2, sync="fr-adasum:5")
    assert same(found, fit(SMALL, files, epochs=1, sync="fr-adasum:5"))


# ---- what is refused


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"memory": "2GB", "bits": 8}, "bits is for hosts that hold all rows: with memory hosts exchange partitions"),
        ({"sync": "server:async"}, "sync server:async is for words and nodes; triples have adasum,"),
        ({"sync": "frequent"}, "sync frequent is for words and nodes"),
        ({"scheme": "pull-base"}, "entities and relations are no such pair; take pull-opt"),
        ({"sync": "fr-bmuf:5"}, "sync fr-bmuf:5 is for dense layers: its momentum would take the squares"),
        ({"sync": "shadow-ma", "bits": 8}, "bits must be 32 with sync shadow-ma"),
        ({"sync": "shadow-ma", "overlap": True}, "overlap is for scheme pull-opt; leave it out with shadow-ma"),
        ({"sync": "leader", "bits": 8}, "bits must be 32 with sync leader"),
        ({"staleness_bound": 2}, "staleness_bound is for tables larger than memory"),
    ],
)
def test_what_does_not_go_together(options: dict[str, Any], said: str, files: tuple[Path, Path]) -> None:
    with pytest.raises(InputError, match=said):
        fit(SMALL, files, **options)
