"""Models of triples whose rows lie on all hosts and are trained through caches: quality, bytes, resuming, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec
from any2vec.errors import InputError, Interrupted
from any2vec.evaluate.triples import evaluate_triple_file
from any2vec.models.triples.config import TripleModel
from any2vec.models.triples.queries import QueryBatch
from any2vec.models.triples.worker import Candidates
from any2vec.plan.sharding.sharding import Striped
from any2vec.tasks.triples.cached import BatchPlaces
from any2vec.testing.planted_triples import PlantedTriples
from click_runs import stop_at
from spreads import spread

PLANTED = PlantedTriples(entities=400, relations=3, group=10)
MODEL = any2vec.ComplEx(dim=32, batch_size=200)
SMALL = any2vec.ComplEx(dim=8, batch_size=100)
MODELS = {
    "complex": SMALL,
    "relations-guessed": any2vec.ComplEx(dim=8, batch_size=100, relation_weight=0.1),
    "rotate": any2vec.RotatE(dim=8, batch_size=100, num_negatives=30),
    "transe": any2vec.TransE(dim=8, batch_size=100, num_negatives=30),
    "dot": any2vec.DotProduct(dim=8, batch_size=100, num_negatives=30),
}


def write(path: Path, triple_M3: np.ndarray) -> Path:
    path.write_text("".join(f"e{head}\tr{relation}\te{tail}\n" for head, relation, tail in triple_M3.tolist()))
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(triples to train on, triples to test)"""
    folder = tmp_path_factory.mktemp("files")
    return write(folder / "train.tsv", PLANTED.triples(0, 6000)), write(
        folder / "test.tsv", PLANTED.triples(6000, 6400)
    )


def fit(model: TripleModel, files: tuple[Path, Path], hosts: int = 2, epochs: int = 2, **options: Any) -> Any:
    reported = {"cache": "het:8", "threads": 1} | options
    return any2vec.fit(model, files[0], **spread(logical_hosts=hosts, epochs=epochs, **reported))


# ---- the block that a batch is trained in


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_batch_stands_among_its_rows_as_in_the_table(is_whole: bool) -> None:
    """Row for row: what a batch names in its small table is what it names in the whole one."""
    rng = np.random.default_rng(4)
    entities, relations = Striped(20, 3), Striped(5, 3)
    batch = QueryBatch(
        rng.integers(0, 20, 4), rng.integers(0, 5, 4), np.zeros(4, bool), np.arange(5), rng.integers(0, 20, 4)
    )
    slots = np.arange(20) if is_whole else np.unique(rng.integers(0, 20, 6))
    candidates = Candidates(slots, (0, 20) if is_whole else None)
    found = BatchPlaces.of(batch, candidates, entities, relations, has_all=False)
    row_U, way_U = entities.rows(found.entity_U), relations.rows(found.relation_U)
    assert (np.diff(found.entity_U) > 0).all() and (np.diff(found.relation_U) > 0).all()
    assert np.array_equal(row_U[found.batch.given_Q], batch.given_Q)
    assert np.array_equal(row_U[found.batch.answer_B], batch.answer_B)
    assert np.array_equal(way_U[found.batch.relation_Q], batch.relation_Q)
    assert sorted(row_U[found.candidates.slot_K]) == slots.tolist()
    every = BatchPlaces.of(batch, candidates, entities, relations, has_all=True)
    assert np.array_equal(relations.rows(every.relation_U)[every.batch.relation_Q], batch.relation_Q)
    assert len(every.relation_U) == 5


# ---- what is learned


@pytest.mark.parametrize("name", MODELS)
def test_one_host_without_staleness_is_the_plain_run(name: str, files: tuple[Path, Path]) -> None:
    """But for the rounding of changes: a cache of a tenth of the rows, which rows leave and come back to."""
    model = MODELS[name]
    plain = any2vec.fit(model, files[0], epochs=2, threads=1)
    cached = fit(model, files, 1, cache="het:0:lru")
    np.testing.assert_allclose(cached.embeddings.vectors, plain.embeddings.vectors, rtol=1e-3, atol=2e-4)
    assert abs(cached.summary["loss"] - plain.summary["loss"]) < 1e-4
    assert cached.summary["items"] == plain.summary["items"]


def test_stale_rows_cost_little_quality_and_save_bytes(files: tuple[Path, Path]) -> None:
    plain = any2vec.fit(MODEL, files[0], epochs=10, threads=1)
    ways = {"het:0": 0.1, "het:8": 0.1, "age:3": 0.5, "het:1000:belady": 1.0}
    found = {cache: fit(MODEL, files, 2, 10, cache=cache, cache_rows=rows) for cache, rows in ways.items()}
    best = evaluate_triple_file(plain.scorer, files[1]).mrr
    assert best > 0.6
    for cache in ("het:0", "het:8", "age:3"):
        assert evaluate_triple_file(found[cache].scorer, files[1]).mrr > best - 0.05, cache
    rows = {cache: result.summary["bytes_by_kind"]["rows"] for cache, result in found.items()}
    assert rows["het:1000:belady"] < 0.6 * rows["het:8"] < 0.6 * rows["het:0"], rows


@pytest.mark.parametrize("policy", ["static", "lru", "tinylfu", "fifo", "belady", "ttl"])
def test_every_policy_trains_every_query_once(policy: str, files: tuple[Path, Path]) -> None:
    result = fit(MODELS["rotate"], files, 3, cache=f"het:4:{policy}")
    summary = result.summary
    assert summary["items"] == 2 * 6000 and summary["hosts"] == 3 and summary["cache"] == f"het:4:{policy}"
    counts = summary["rows_of_hosts"]
    assert counts["updates"] > 0 and counts["rows_down"] > 0
    assert np.isfinite(result.embeddings.vectors).all()


def test_threads_share_a_cache(files: tuple[Path, Path]) -> None:
    assert fit(MODELS["rotate"], files, 2, threads=2, cache="het:8:lru").summary["items"] == 2 * 6000


# ---- how a run goes on


@pytest.mark.parametrize(("name", "cache"), [("complex", "het:0"), ("dot", "het:0:belady")])
@pytest.mark.parametrize("hosts", [1, 3])
def test_a_run_goes_on_from_its_checkpoint(
    hosts: int, name: str, cache: str, files: tuple[Path, Path], tmp_path: Path
) -> None:
    """With the rows and states of all owners, also on more hosts, which share what is left of the epoch; with one of
    them as if it had never stopped. A cache that looks ahead sees what is left, too."""
    out, model = tmp_path / "out", MODELS[name]
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted, match="holds the work so far"):
        stop_at(0.3, patch)
        fit(model, files, 1, cache=cache, out=out)
    went_on = fit(model, files, hosts, cache=cache, out=out, resume=True)
    never_stopped = fit(model, files, 1, cache=cache)
    assert went_on.summary["items"] == 2 * 6000
    apart = np.abs(went_on.embeddings.vectors - never_stopped.embeddings.vectors)
    assert apart.max() < (1e-3 if hosts == 1 else 0.5)


# ---- what is refused


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cache": "bagpipe:5"}, "cache bagpipe:5 needs the gradients of each step"),
        ({"cache": "het:8", "sync": "adasum"}, "sync is for hosts that hold all rows and merge them"),
        ({"cache": "het:8", "bits": 8}, "bits is for hosts that hold all rows and merge them"),
        ({"cache": "het:8", "memory": "2GB"}, "cache is for hosts that hold all rows: with memory"),
        ({"cache": "het:8:mru"}, "cache must be none, het:BOUND"),
        ({"cache": "het-occurrences:8"}, "this model reads each row once; take cache het:BOUND"),
        ({"cache": "none", "cache_rows": 0.5}, "cache_rows is for cache het or age"),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, Any], said: str, files: tuple[Path, Path]) -> None:
    with pytest.raises(InputError, match=said):
        fit(SMALL, files, **options)


def test_one_host_has_no_cache(files: tuple[Path, Path]) -> None:
    with pytest.raises(InputError, match="is for several hosts"):
        any2vec.fit(SMALL, files[0], **spread(cache="het:8"))
