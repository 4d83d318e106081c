"""Models of triples whose table of entities is larger than memory: what is learned, stored, resumed and refused."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from typer.testing import CliRunner

import any2vec
from any2vec import machine
from any2vec.cli.app import app
from any2vec.data.partitions.row_partitions import RowPartitions
from any2vec.data.triples.triples import TripleReport
from any2vec.embeddings import Embeddings
from any2vec.errors import FormatError, InputError, Interrupted, StorageError
from any2vec.evaluate.triples import evaluate_triple_file
from any2vec.formats.table import Table
from any2vec.models.triples.queries import QueryBatch
from any2vec.models.triples.worker import Candidates, TripleWorker
from any2vec.options.run import RunOptions
from any2vec.options.storage import StorageOptions
from any2vec.plan.cost.size import Size, TableSize
from any2vec.plan.order.bucket_orders import ORDERS
from any2vec.plan.order.buffer import SLACK, BufferPlan
from any2vec.tables.disk import partition_buffer
from any2vec.tables.disk.checking import check_folders
from any2vec.tables.disk.partition_store import PartitionStore
from any2vec.tasks.triples import table as triple_table
from any2vec.tasks.triples.batches import WindowLearner
from any2vec.tasks.triples.budget import size_of_triples
from any2vec.tasks.triples.program import fresh_tables, start_entities
from any2vec.testing.planted_triples import PlantedTriples
from any2vec.train import progress, run_folder, task
from any2vec.train.out_of_core import table_budget
from any2vec.train.out_of_core.stored_vectors import StoredTable, StoredVectors
from any2vec.train.spec import Hooks, Request, RunSpec
from ended_runs import fails_at, stops_after
from spreads import spread

NUM_TRAIN, NUM_TEST = 6000, 400
MODEL = any2vec.ComplEx(dim=32, batch_size=200)
SMALL = any2vec.RotatE(dim=8, batch_size=100, num_negatives=30, degree_share=0.5)
MEMORY: dict[str, Any] = {"epochs": 2, "threads": 1, "storage": "8GB"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(triples to train on, triples to test)"""
    folder, planted = tmp_path_factory.mktemp("files"), PlantedTriples(entities=400, relations=3, group=10)
    for name, start, stop in (("train", 0, NUM_TRAIN), ("test", NUM_TRAIN, NUM_TRAIN + NUM_TEST)):
        lines = (f"e{head}\tr{relation}\te{tail}\n" for head, relation, tail in planted.triples(start, stop).tolist())
        (folder / f"{name}.tsv").write_text("".join(lines))
    return folder / "train.tsv", folder / "test.tsv"


@pytest.fixture
def is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of 400 rows counts as larger than memory: three of eight partitions have room."""

    def plan(request: Any, size: Any) -> BufferPlan | None:
        return BufferPlan(400, 4 * (request.spec.model.dim + 1), 8, 3, 0, 0) if request.spec.storage.memory else None

    monkeypatch.setattr(triple_table, "plan_table", plan)
    monkeypatch.setattr(progress, "RECORD_SECONDS", 0.0)


def same(one: any2vec.FitResult, other: any2vec.FitResult) -> bool:
    pairs = (
        (one.embeddings.vectors, other.embeddings.vectors),
        (one.scorer.relation_vectors, other.scorer.relation_vectors),
    )
    return all(np.array_equal(first, second) for first, second in pairs)


# ---- what is learned


def test_what_fits_into_the_budget_is_trained_as_without_one(files: tuple[Path, Path]) -> None:
    found = any2vec.fit(SMALL, files[0], **MEMORY)
    assert same(found, any2vec.fit(SMALL, files[0], epochs=2, threads=1))
    assert found.summary["partitions"] == found.summary["capacity"] == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_some_partitions_learn_nearly_as_much_as_all(
    threads: int, files: tuple[Path, Path], tmp_path: Path, is_large: None
) -> None:
    """Partitions of 50 entities, of which an entity meets but two thirds of the others in an epoch of so few states."""
    whole = evaluate_triple_file(any2vec.fit(MODEL, files[0], epochs=20, threads=1).scorer, files[1]).mrr
    storage = StorageOptions(memory="1000", order="comet")
    result = any2vec.fit(MODEL, files[0], epochs=20, threads=threads, out=tmp_path / "out", storage=storage)
    assert evaluate_triple_file(result.scorer, files[1]).mrr > 0.9 * whole
    summary = result.summary
    assert summary["items"] == 20 * NUM_TRAIN and result.progress[-1].progress == 1.0
    assert [summary[name] for name in ("partitions", "capacity", "order")] == [8, 3, "comet"]
    assert max(summary["staleness"]) < (1 if threads == 1 else 4)


def test_the_folder_is_that_of_any_run(files: tuple[Path, Path], tmp_path: Path, is_large: None) -> None:
    result = any2vec.fit(SMALL, files[0], out=tmp_path / "parts", **MEMORY)
    whole = any2vec.fit(SMALL, files[0], out=tmp_path / "whole", epochs=2, threads=1)
    names = [sorted(path.name for path in (tmp_path / name).iterdir()) for name in ("parts", "whole")]
    assert names[0] == names[1]
    assert list(result.embeddings.keys) == list(whole.embeddings.keys)
    assert np.array_equal(result.embeddings.counts, whole.embeddings.counts)
    assert np.array_equal(result.scorer.triples, whole.scorer.triples)
    assert result.scorer.relation_vectors.shape == whole.scorer.relation_vectors.shape
    assert result.summary["warnings"] == whole.summary["warnings"] != []
    assert any2vec.TripleScorer.load(tmp_path / "parts").model == SMALL
    again = any2vec.fit(SMALL, files[0], out=tmp_path / "parts", resume=True, **MEMORY)
    kept = json.loads(json.dumps(result.summary)) | {
        "seconds": again.summary["seconds"]
    }  # the file lacks its own writing
    assert again.summary == kept and 0 < kept["seconds"] <= result.summary["seconds"] and same(again, result)


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_trains_every_triple(order: str, files: tuple[Path, Path], tmp_path: Path, is_large: None) -> None:
    storage = StorageOptions(memory="8GB", order=order)  # type: ignore[arg-type]
    result = any2vec.fit(SMALL, files[0], out=tmp_path / "out", **MEMORY | {"storage": storage})
    assert result.summary["items"] == 2 * NUM_TRAIN and result.summary["order"] == order


def test_the_rate_falls_in_a_line_over_the_run(
    files: tuple[Path, Path], tmp_path: Path, is_large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it does in memory, by the share of the questions that lie behind."""
    received: list[tuple[float, int]] = []

    def step(self: TripleWorker, batch: QueryBatch, candidates: Candidates, rate: float, shares: Any) -> float:
        received.append((rate, len(batch.answer_B)))
        return 0.0

    model = any2vec.ComplEx(dim=16, batch_size=100, learning_rate=0.7, min_learning_rate=0.1)
    monkeypatch.setattr(triple_table, "try_kernels", lambda model: None)
    monkeypatch.setattr(TripleWorker, "step", step)
    any2vec.fit(model, files[0], epochs=3, threads=1, storage="2GB", out=tmp_path / "run")
    sizes = np.array([size for _, size in received])
    behind = np.cumsum(sizes) - sizes
    assert [rate for rate, _ in received] == pytest.approx((0.7 - 0.6 * behind / sizes.sum()).tolist())


def test_rows_start_by_entity() -> None:
    whole = fresh_tables(SMALL, 400, 3, 7)["entities"]
    parts = RowPartitions(400, 8, 7)
    own = np.empty((50, whole.shape[1]), np.float32)
    start_entities(SMALL, parts.entities(np.arange(50, 100)), own, 7)
    assert np.array_equal(own, whole[parts.entities(np.arange(50, 100))])


@pytest.mark.parametrize("size", [1, 7, 400])
def test_vectors_come_in_the_order_of_entities(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("any2vec.train.out_of_core.stored_vectors.BLOCK_BYTES", 1)
    parts = RowPartitions(400, 8, 7)

    def fill(number: int, row_RC: np.ndarray) -> None:
        row_RC[:] = parts.entities(np.arange(*parts.bounds[number : number + 2]))[:, None]

    store = PartitionStore.create(tmp_path / "store", parts.bounds.tolist(), 5, fill)
    vectors = StoredVectors(store, parts, 4, 16 * size)
    found = np.concatenate([vectors[start : start + 100].copy() for start in range(0, 400, 100)])
    store.close()
    assert np.array_equal(found, np.repeat(np.arange(400.0), 4).reshape(400, 4))


@pytest.mark.parametrize("has_output", [False, True])
def test_a_saved_table_is_no_longer_in_memory(has_output: bool, tmp_path: Path) -> None:
    """The result is opened next, which takes memory of its own."""
    parts = RowPartitions(100_000, 4, 7)
    store = PartitionStore.create(tmp_path / "store", parts.bounds.tolist(), 16, lambda number, row_RC: None)
    vectors, output = (StoredVectors(store, parts, 8, 1 << 30, column) for column in (0, 8))
    table = Table(list(map(str, range(100_000))), vectors, output if has_output else None)
    (tmp_path / "out").mkdir()
    tracemalloc.start()
    try:
        StoredTable(table).save_into(tmp_path / "out")
        assert tracemalloc.get_traced_memory()[0] < 1_000_000 < 4 * vectors.size  # bytes
    finally:
        tracemalloc.stop()
    store.close()
    assert not Embeddings.load(tmp_path / "out").vectors.any()


def test_names_that_cannot_be_written_are_refused_before_anything_is(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not valid Unicode"):
        StoredTable(Table(["a", "\ud800"], np.zeros((2, 4), np.float32))).save_into(tmp_path / "out")
    assert not (tmp_path / "out").exists()


# ---- stopped, and gone on


@pytest.mark.parametrize("records", [1, 9, 20])
def test_who_goes_on_ends_as_if_never_stopped(
    records: int, files: tuple[Path, Path], tmp_path: Path, is_large: None
) -> None:
    """Stopped by a signal: what was done is committed."""
    out = tmp_path / "out"
    with pytest.raises(Interrupted, match="table holds the work so far"):
        any2vec.fit(SMALL, files[0], out=out, callback=stops_after(records), **MEMORY)
    looked_at = check_folders(out)
    assert len(looked_at) == 2 and not any(found.problems for found in looked_at)
    with pytest.raises(StorageError, match="holds an unfinished run"):
        any2vec.fit(SMALL, files[0], out=out, **MEMORY)
    with pytest.raises(InputError, match="is of a run with order = 'comet', this one has 'random'"):
        storage = StorageOptions(memory="8GB", order="random")
        any2vec.fit(SMALL, files[0], out=out, resume=True, **MEMORY | {"storage": storage})
    went_on = any2vec.fit(SMALL, files[0], out=out, resume=True, **MEMORY)
    assert went_on.summary["items"] == 2 * NUM_TRAIN and not (out / "table").exists()
    assert same(went_on, any2vec.fit(SMALL, files[0], out=tmp_path / "other", **MEMORY))


@pytest.mark.parametrize(("batches", "seconds"), [(40, 1e-9), (100, 1e-9), (100, 1e9)])
def test_who_goes_on_from_a_commit(
    batches: int, seconds: float, files: tuple[Path, Path], tmp_path: Path, is_large: None
) -> None:
    """What ends a run in the middle of a window, as a kill does: all since the last commit is done again."""
    out = tmp_path / "out"
    with fails_at(WindowLearner, batches):
        any2vec.fit(SMALL, files[0], out=out, checkpoint_seconds=seconds, **MEMORY)
    went_on = any2vec.fit(SMALL, files[0], out=out, resume=True, **MEMORY)
    assert went_on.summary["items"] == 2 * NUM_TRAIN
    assert same(went_on, any2vec.fit(SMALL, files[0], out=tmp_path / "other", **MEMORY))


def test_an_unfinished_run_is_overwritten_when_asked(
    files: tuple[Path, Path], tmp_path: Path, is_large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(StorageError, match="no"):
        patch.setattr(WindowLearner, "step", lambda *_: (_ for _ in ()).throw(StorageError("no")))
        any2vec.fit(SMALL, files[0], out=out, **MEMORY)
    assert (out / "table").exists()
    (out / ".table.0123.tmp").mkdir()
    any2vec.fit(SMALL, files[0], out=out, overwrite=True, **MEMORY)
    assert not [path for path in out.iterdir() if path.is_dir()]


def test_a_finished_run_keeps_its_log_until_the_new_one_is_whole(
    files: tuple[Path, Path], tmp_path: Path, is_large: None
) -> None:
    out = tmp_path / "out"
    former = any2vec.fit(SMALL, files[0], out=out, **MEMORY)
    log = (out / "progress.jsonl").read_bytes()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(StorageError, match="no"):
        patch.setattr(WindowLearner, "step", lambda *_: (_ for _ in ()).throw(StorageError("no")))
        any2vec.fit(SMALL, files[0], out=out, overwrite=True, **MEMORY)
    assert log and (out / "progress.jsonl").read_bytes() == log
    assert np.array_equal(any2vec.Embeddings.load(out).vectors, former.embeddings.vectors)
    any2vec.fit(SMALL, files[0], out=out, overwrite=True, seed=2, **MEMORY)
    assert (out / "progress.jsonl").read_bytes() not in (b"", log)
    assert not (out / "progress.new.jsonl").exists()


def test_a_run_that_cannot_begin_leaves_nothing(
    files: tuple[Path, Path], tmp_path: Path, is_large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise StorageError("no")

    monkeypatch.setattr(PartitionStore, "create", fails)
    with pytest.raises(StorageError, match="no"):
        any2vec.fit(SMALL, files[0], out=tmp_path / "out", **MEMORY)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("memory", ["2GB", None])
@pytest.mark.parametrize("how", ["overwrite", "resume"])
def test_a_folder_in_use_is_left_alone(
    how: str, memory: str | None, files: tuple[Path, Path], tmp_path: Path, is_large: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Whoever comes second hears so before data are read, and changes nothing."""
    monkeypatch.setattr(run_folder, "_GRACE", 0.0)
    options, out, received = MEMORY | {"storage": memory}, tmp_path / "out", []

    def on_work(record: Any) -> None:
        received.append(record)
        if len(received) == 3:
            with pytest.raises(StorageError, match=f"The run folder .*out is in use by process {os.getpid()};"):
                any2vec.fit(SMALL, tmp_path / "no such data", out=out, **{how: True}, **options)
            with (
                pytest.MonkeyPatch.context() as patch, pytest.raises(StorageError, match="in use by process"),
            ):  # fmt: skip
                patch.setattr(task, "claim_folder", lambda *_: None)  # it came between the look and the run
                any2vec.fit(SMALL, files[0], out=out, **{how: True}, **options)

    found = any2vec.fit(SMALL, files[0], out=out, callback=on_work, **options)
    assert len(received) > 3 and same(found, any2vec.fit(SMALL, files[0], **(options | {"out": tmp_path / "other"})))


def test_who_is_stopped_while_the_table_is_made_leaves_nothing(
    files: tuple[Path, Path], tmp_path: Path, is_large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, started = tmp_path / "out", []

    def start(*_: Any) -> None:
        started.append(True)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(triple_table, "start_entities", start)
    train = ["train", "rotate", str(files[0]), "--memory", "8GB", "--out", str(out), "--quiet"]
    found = CliRunner().invoke(app, train)
    assert (found.exit_code, len(started)) == (130, 1)
    assert "Stopped by SIGINT before training began; nothing was left half-written." in found.stderr
    assert not out.exists()


def test_who_is_stopped_while_the_result_is_written_goes_on_with_that(
    files: tuple[Path, Path], tmp_path: Path, is_large: None
) -> None:
    out, gather = tmp_path / "out", StoredVectors._gather

    def stopped(self: StoredVectors, first: int, stop: int) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        gather(self, first, stop)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted) as reported:
        patch.setattr(StoredVectors, "_gather", stopped)
        any2vec.fit(SMALL, files[0], out=out, **MEMORY)
    said = "Stopped by SIGTERM while the result was written; .*table holds the work so far, --resume goes on from it"
    assert re.fullmatch(said + r"\.", str(reported.value))
    assert {path.name for path in out.iterdir()} == {"run.json", "progress.jsonl", "table", "triples"}
    went_on = any2vec.fit(SMALL, files[0], out=out, resume=True, **MEMORY)
    other = any2vec.fit(SMALL, files[0], out=tmp_path / "other", **MEMORY)
    assert same(went_on, other) and went_on.summary["items"] == 2 * NUM_TRAIN
    (*_, last) = (json.loads(line) for line in (out / "progress.jsonl").read_text().splitlines())
    assert went_on.summary["train_seconds"] >= last["seconds"] > 0


def test_nobody_is_stopped_while_a_result_takes_its_place(
    files: tuple[Path, Path], tmp_path: Path, is_large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = run_folder._put_in_place

    def asked_to_stop(aside: Path, out: Path) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        put(aside, out)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(run_folder, "_put_in_place", asked_to_stop)
    found = any2vec.fit(SMALL, files[0], out=tmp_path / "out", **MEMORY)
    assert found.summary["items"] == 2 * NUM_TRAIN
    assert not [path for path in (tmp_path / "out").iterdir() if path.is_dir()]


def test_commits_are_no_training(
    files: tuple[Path, Path], tmp_path: Path, is_large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that goes on by 0.001 s where it is asked, and by 1000 s in a commit."""
    now, commit = [0.0], PartitionStore.commit

    def ask() -> float:
        now[0] += 0.001
        return now[0]

    def committed(*arguments: Any) -> None:
        now[0] += 1000.0
        commit(*arguments)

    monkeypatch.setattr(PartitionStore, "commit", committed)
    for module in (progress, partition_buffer):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=ask, monotonic=ask))
    summary = any2vec.fit(SMALL, files[0], out=tmp_path / "out", checkpoint_seconds=1e-9, **MEMORY).summary
    assert summary["commits"] > 2 and summary["seconds_committing"] > 1000.0 * summary["commits"]
    assert 0 < summary["train_seconds"] < 1000.0


def test_a_store_beside_damaged_triples_is_closed(files: tuple[Path, Path], tmp_path: Path, is_large: None) -> None:
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(StorageError, match="no"):
        patch.setattr(WindowLearner, "step", lambda *_: (_ for _ in ()).throw(StorageError("no")))
        any2vec.fit(SMALL, files[0], out=out, **MEMORY)
    (out / "triples" / "counts.npy").unlink()
    with pytest.raises(FormatError, match=r"buckets .* are damaged"):
        any2vec.fit(SMALL, files[0], out=out, resume=True, **MEMORY)
    PartitionStore.open(out / "table").close()


# ---- the budget


def asked(num_entities: int, num_triples: int, memory: str, out: Path | None = None) -> Any:
    """Arguments of `plan_table`."""
    spec = RunSpec(
        task="triples", model=any2vec.ComplEx(dim=126), data="none", run=RunOptions(out=out),
        storage=StorageOptions(memory=memory),
    )  # fmt: skip
    request = Request(spec=spec, hooks=Hooks(), threads=2, agreement=None, settings={}, started=0.0)
    report = TripleReport(num_triples=num_triples, num_entities=num_entities, num_relations=9)
    return request, size_of_triples(spec.model, report.as_dict())


def test_partitions_follow_from_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 508 bytes; a million of them, and a small graph of many triples."""
    monkeypatch.setattr(machine, "resident_bytes", lambda: (50 << 20, 0))
    assert table_budget.plan_table(*asked(1_000_000, 5_000_000, "3GB")) is None
    plan = table_budget.plan_table(*asked(1_000_000, 5_000_000, "550MB"))
    assert plan is not None and 2 <= plan.capacity < plan.partitions and plan.memory_bytes <= 550_000_000
    with pytest.raises(InputError, match=r"A table of 1,000,000 rows of 508 bytes needs memory \d+MB at least"):
        table_budget.plan_table(*asked(1_000_000, 5_000_000, "100MB"))
    many = table_budget.plan_table(*asked(100_000, 50_000_000, "2GB"))  # their questions are 6 GB
    assert many is not None and many.capacity < many.partitions


def test_more_threads_than_a_run_began_with_must_fit_into_its_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A buffer of 3 + 2 blocks of 4 MB, and what is needed beside it."""
    monkeypatch.setattr(machine, "process_bytes", lambda: 0)
    table = TableSize(name="rows", rows=8000, columns=1024)
    bounds, settings, block = np.arange(0, 8001, 1000).tolist(), {"memory": "30MB"}, 4_096_000
    note = {"run": settings, "capacity": 3, "threads": 2}
    PartitionStore.create(tmp_path / "table", bounds, 1024, lambda *_: None, note=note).close()

    def plan(threads: int, fixed_bytes: int) -> BufferPlan | None:
        spec = RunSpec(
            task="triples", model=SMALL, data="none", run=RunOptions(out=tmp_path, resume=True),
            storage=StorageOptions(memory="30MB"),
        )  # fmt: skip
        request = Request(spec=spec, hooks=Hooks(), threads=threads, agreement=None, settings=settings, started=0.0)
        return table_budget.known_plan(request, Size(tables=(table,), resident={"rest": fixed_bytes}))

    left = 30_000_000 - 5 * block
    assert plan(3, left) is not None
    assert plan(2, left + 1) is not None  # what a process has is not the same each time
    with pytest.raises(InputError, match=r"began with threads 2; with 3 it needs a memory of 30,000,001 bytes"):
        plan(3, left + 1)


@pytest.mark.parametrize(
    ("text", "size"),
    [("2GB", 2_000_000_000), ("1.5 gb", 1_500_000_000), ("64MiB", 64 << 20), ("800M", 800_000_000), ("123", 123)],
)
def test_sizes(text: str, size: int) -> None:
    assert StorageOptions(memory=text).memory_bytes == size


def test_the_orders_that_flags_know() -> None:
    hint = get_type_hints(StorageOptions)["order"]
    assert get_args(get_args(hint)[0]) == ORDERS


def test_what_is_refused(files: tuple[Path, Path], tmp_path: Path, is_large: None) -> None:
    for options, said in (
        ({"memory": "much"}, "memory must be a number of bytes such as 2GB"),
        ({"memory": 0}, "memory must be a number of bytes .* from 1 to 1e"),
        ({"order": "beta"}, "order is for tables larger than memory"),
        ({"staleness_bound": 3}, "staleness_bound is for tables larger than memory"),
        ({"memory": "1MB", "order": "best"}, "order must be one of beta, comet"),
        ({"memory": "1MB", "staleness_bound": 0}, "staleness_bound .* must be 1 or more, got 0"),
        ({"memory": "1MB"}, "say which one, as out"),
        ({"cache_dir": tmp_path}, r"rotate has no --cache-dir \(cache_dir\): triples are read anew by each run; leave"),
        ({"memory": "1MB", "out": tmp_path / "out", "on_epoch": print}, "on_epoch is called where all rows are"),
    ):
        with pytest.raises(InputError, match=said):
            any2vec.fit(SMALL, files[0], **spread(**options))


# ---- the command line


def test_the_command(files: tuple[Path, Path], tmp_path: Path, is_large: None) -> None:
    out = str(tmp_path / "out")
    train = [
        "train",
        "complex",
        str(files[0]),
        *["--dim", "8", "--epochs", "2", "--threads", "1", "--out"],
        out,
    ]
    found = CliRunner().invoke(app, [*train, "--memory", "8GB", "--order", "hilbert", "--quiet", "--json"])
    assert found.exit_code == 0, found.output
    summary = json.loads(found.stdout)
    assert [summary[name] for name in ("partitions", "capacity", "order", "items")] == [8, 3, "hilbert", 2 * NUM_TRAIN]
    assert summary["loads"] > 8 and summary["bytes_read"] > 0 and summary["bytes_written"] > 0
    assert summary["seconds_waited"] >= 0
    reported = CliRunner().invoke(app, [*train, "--memory", "8GB", "--staleness-bound", "2", "--overwrite", "--quiet"])
    assert "3 of 8 partitions in memory, order comet" in reported.stderr + reported.stdout
    evaluated = CliRunner().invoke(app, ["evaluate", out, "--task", "triples", "--data", str(files[1]), "--json"])
    assert json.loads(evaluated.stdout)["num_triples"] == NUM_TEST


def test_a_budget_that_is_too_small(files: tuple[Path, Path], tmp_path: Path) -> None:
    train = ["train", "complex", str(files[0]), "--out", str(tmp_path / "out"), "--memory", "1MB"]
    found = CliRunner().invoke(app, [*train, "--quiet"])
    assert found.exit_code == 2 and found.stderr.count("\n") == 1
    assert "needs memory " in found.stderr and "got 1,000,000 bytes" in found.stderr
    assert not (tmp_path / "out").exists()
    words = CliRunner().invoke(app, ["train", "cbow", str(files[0]), "--memory", "1GB"])
    assert "cbow has no --memory (memory): tables larger than memory are for skip-gram" in words.stderr


def test_the_least_memory_that_is_named_is_enough(tmp_path: Path) -> None:
    """By `estimate` and by `train`, each a process of its own: what one names the other takes."""
    planted = PlantedTriples(entities=20_000, relations=2, group=10)
    lines = (f"e{head}\tr{relation}\te{tail}\n" for head, relation, tail in planted.triples(0, 20_000).tolist())
    (tmp_path / "t.tsv").write_text("".join(lines))

    def command(*words: str) -> tuple[int, int]:
        """The exit code, and the MB that a refusal names."""
        options = ["complex", "t.tsv", "--dim", "64", "--epochs", "1", "--quiet", "--num-negatives", "50"]
        done = subprocess.run(
            [sys.executable, "-m", "any2vec", words[0], *options, *words[1:]],
            cwd=tmp_path, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        said = re.search(r"needs memory (\d+)MB at least", done.stderr)
        return done.returncode, int(said[1]) if said else 0

    train = ("train", "--out", "run", "--memory")
    by_budget = [command("estimate", "--memory", budget) for budget in ("1MB", "60MB")]
    (_, estimated), (_, other), (code, refused) = *by_budget, command(*train, "1MB")
    assert code == 2 and abs(estimated - refused) <= SLACK / 1e6 and abs(estimated - other) <= SLACK / 1e6
    assert command("estimate", "--memory", f"{refused}MB") == command(*train, f"{estimated}MB") == (0, 0)
