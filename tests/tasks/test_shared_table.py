"""Several hosts that train one table of triples: what they learn, hold, send, commit, and go on from."""

from __future__ import annotations

import json
import threading
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import any2vec
from any2vec.cli.app import app
from any2vec.cluster.threads import ThreadTransport, run_logical
from any2vec.cluster.transport import Transport
from any2vec.errors import FormatError, HostError, InputError, Interrupted, StorageError
from any2vec.evaluate.triples import evaluate_triple_file
from any2vec.plan.cost.shared_plan import host_moves, plan_shared
from any2vec.plan.order.buffer import BufferPlan
from any2vec.plan.order.shared_walk import Rounds, SharedWalk
from any2vec.sync.rules.changed_mean import ChangedMean, mean_of_changed
from any2vec.tables.disk import partition_store
from any2vec.tables.disk.checking import check_folders
from any2vec.tables.disk.partition_exchange import Holding
from any2vec.tables.disk.partition_store import PartitionStore, next_note
from any2vec.tasks.triples.batches import WindowLearner
from any2vec.testing.planted_triples import PlantedTriples
from any2vec.train import progress
from any2vec.train.out_of_core import table_budget
from any2vec.train.out_of_core.shared_table import held_twice
from ended_runs import stops_after
from spreads import spread

NUM_TRAIN, NUM_TEST = 6000, 400
MODEL = any2vec.ComplEx(dim=32, batch_size=200)
SMALL = any2vec.RotatE(dim=8, batch_size=100, num_negatives=30, degree_share=0.5)
MEMORY: dict[str, Any] = {"epochs": 2, "threads": 1, "storage": "8GB"}
TWO = any2vec.HostOptions(logical_hosts=2)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(triples to train on, triples to test)"""
    folder, planted = tmp_path_factory.mktemp("files"), PlantedTriples(entities=400, relations=3, group=10)
    for name, start, stop in (("train", 0, NUM_TRAIN), ("test", NUM_TRAIN, NUM_TRAIN + NUM_TEST)):
        lines = (f"e{head}\tr{relation}\te{tail}\n" for head, relation, tail in planted.triples(start, stop).tolist())
        (folder / f"{name}.tsv").write_text("".join(lines))
    return folder / "train.tsv", folder / "test.tsv"


def lay_out(partitions: int, capacity: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every run of several hosts have as many partitions, and so many in the memory of each."""

    def plan(num_rows: int, row_bytes: int, budget: int, fixed: int, hosts: int) -> BufferPlan:
        return BufferPlan(num_rows, row_bytes, partitions, capacity, fixed, 0)

    monkeypatch.setattr(table_budget, "plan_shared", plan)
    monkeypatch.setattr(progress, "RECORD_SECONDS", 0.0)


@pytest.fixture
def is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight partitions, three of them in the memory of a host."""
    lay_out(8, 3, monkeypatch)


def same(one: any2vec.FitResult, other: any2vec.FitResult) -> bool:
    pairs = (
        (one.embeddings.vectors, other.embeddings.vectors),
        (one.scorer.relation_vectors, other.scorer.relation_vectors),
    )
    return all(np.array_equal(first, second) for first, second in pairs)


# ---- what is learned, and what it takes


@pytest.mark.parametrize(
    ("hosts", "partitions", "capacity", "share"),
    [(2, 8, 3, 0.9), (2, 8, 4, 0.9), pytest.param(3, 12, 2, 0.8, marks=pytest.mark.slow)],
)
def test_hosts_learn_nearly_as_much_as_one(
    hosts: int, partitions: int, capacity: int, share: float, files: tuple[Path, Path], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Nobody holds a partition that another holds, and bytes are those of the plan. Partitions have 33 to 50 entities:
    with two of twelve in memory the negatives are those of one alone.
    """
    lay_out(partitions, capacity, monkeypatch)
    whole = evaluate_triple_file(any2vec.fit(MODEL, files[0], epochs=20, threads=1).scorer, files[1]).mrr
    spread = any2vec.HostOptions(logical_hosts=hosts)
    result = any2vec.fit(MODEL, files[0], out=tmp_path / "out", hosts=spread, **(MEMORY | {"epochs": 20}))
    assert evaluate_triple_file(result.scorer, files[1]).mrr > share * whole
    summary = result.summary
    assert summary["items"] == 20 * NUM_TRAIN and result.progress[-1].progress == 1.0
    assert summary["held_twice"] == 0 and summary["holdings"] > 20 * partitions
    assert summary["partition_bytes_sent"] == summary["partition_bytes_planned"] > 0
    assert summary["round_bytes_sent"] == summary["round_bytes_planned"] > 0
    walks = [
        SharedWalk(hosts=hosts, rank=rank, partitions=partitions, capacity=capacity, epochs=20) for rank in range(hosts)
    ]
    bounds = [400 * number // partitions for number in range(partitions + 1)]
    moves = [host_moves(walk, bounds, MODEL.dim + 1) for walk in walks]
    stays = hosts * capacity  # at the end they are written by the commit
    assert summary["stores"] == sum(move.stores for move in moves) + stays
    assert summary["bytes_read"] == sum(move.bytes_read for move in moves)
    assert sum(move.taken for move in moves) == sum(move.given for move in moves) == 20 * partitions * (hosts - 1)


def test_the_folder_is_that_of_any_run(files: tuple[Path, Path], tmp_path: Path, is_large: None) -> None:
    result = any2vec.fit(SMALL, files[0], out=tmp_path / "hosts", hosts=TWO, **MEMORY)
    whole = any2vec.fit(SMALL, files[0], out=tmp_path / "whole", epochs=2, threads=1)
    names = [sorted(path.name for path in (tmp_path / name).iterdir()) for name in ("hosts", "whole")]
    assert names[0] == names[1]
    assert list(result.embeddings.keys) == list(whole.embeddings.keys)
    assert np.array_equal(result.embeddings.counts, whole.embeddings.counts)
    assert np.array_equal(result.scorer.triples, whole.scorer.triples)
    again = any2vec.fit(SMALL, files[0], out=tmp_path / "hosts", hosts=TWO, resume=True, **MEMORY)
    kept = json.loads(json.dumps(result.summary)) | {
        "seconds": again.summary["seconds"]
    }  # the file lacks its own writing
    assert again.summary == kept and 0 < kept["seconds"] <= result.summary["seconds"] and same(again, result)


def test_processes_have_the_bits_of_logical_hosts(files: tuple[Path, Path], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = any2vec.fit(SMALL, files[0], out=tmp_path / "processes", hosts=2, **MEMORY)
    logical = any2vec.fit(SMALL, files[0], out=tmp_path / "logical", hosts=TWO, **MEMORY)
    assert same(found, logical) and found.summary["items"] == 2 * NUM_TRAIN
    assert found.summary["partition_bytes_sent"] == logical.summary["partition_bytes_sent"]
    assert found.summary["held_twice"] == 0 and found.scorer.model == SMALL


def test_one_host_is_a_run_as_ever(files: tuple[Path, Path], tmp_path: Path) -> None:
    alone = any2vec.fit(SMALL, files[0], out=tmp_path / "out", **MEMORY)
    one = any2vec.fit(SMALL, files[0], out=tmp_path / "one", hosts=any2vec.HostOptions(logical_hosts=1), **MEMORY)
    assert same(one, alone)


# ---- what stands beside the table


def test_the_mean_is_over_those_who_changed_a_row() -> None:
    start = np.array([[1, 1], [2, 2], [3, 3], [4, 4]], np.float32)
    one, other = start.copy(), start.copy()
    one[1], one[2], other[2] = (7, 2), (5, 9), (1, 3)  # row 1: one host alone; row 2: both
    found = mean_of_changed(start, [one, other, start])
    assert found.dtype == np.float32 and found.tolist() == [[1, 1], [7, 2], [3, 6], [4, 4]]


def test_all_go_on_with_the_mean() -> None:
    def host(transport: Transport) -> tuple[list[float], list[float]]:
        array = np.zeros((2, 1), np.float32)
        mean = ChangedMean(transport, {"rows": array})
        reported = []
        for _ in range(2):
            array[0] += 2 * transport.rank
            reported += mean.barrier([transport.rank], lambda every: [sum(float(one[0]) for one in every)])
        return array.ravel().tolist(), reported

    assert run_logical(3, host) == [([6.0, 0.0], [3.0, 3.0])] * 3  # twice (2 + 4) / 2


# ---- stopped, and gone on


def test_a_stop_is_at_the_end_of_a_round(files: tuple[Path, Path], tmp_path: Path, is_large: None) -> None:
    out = tmp_path / "out"
    with pytest.raises(Interrupted, match=r"at the end of a round; .*out holds the work so far"):
        any2vec.fit(SMALL, files[0], out=out, hosts=TWO, callback=stops_after(3), **MEMORY)
    looked_at = check_folders(out)
    assert [found.folder.parent.name for found in looked_at] == ["host-0"] * 2 + ["host-1"] * 2
    assert not any(found.problems for found in looked_at)
    with pytest.raises(StorageError, match="holds an unfinished run"):
        any2vec.fit(SMALL, files[0], out=out, hosts=TWO, **MEMORY)
    with pytest.raises(InputError, match="unfinished run of several hosts; go on with as many"):
        any2vec.fit(SMALL, files[0], out=out, resume=True, **MEMORY)
    with pytest.raises(InputError, match="is of a run with hosts = 2, this one has 3"):
        any2vec.fit(SMALL, files[0], out=out, resume=True, hosts=any2vec.HostOptions(logical_hosts=3), **MEMORY)
    went_on = any2vec.fit(SMALL, files[0], out=out, resume=True, hosts=TWO, **MEMORY)
    assert went_on.summary["items"] == 2 * NUM_TRAIN and not list(out.glob("host-*"))
    assert went_on.summary["partition_bytes_sent"] == went_on.summary["partition_bytes_planned"] > 0
    assert same(went_on, any2vec.fit(SMALL, files[0], out=tmp_path / "other", hosts=TWO, **MEMORY))


@pytest.mark.parametrize(("batches", "seconds"), [(70, 1e-9), (130, 1e-9), (200, 1e-9), (130, 1e9)])
def test_who_goes_on_from_a_commit(
    batches: int, seconds: float, files: tuple[Path, Path], tmp_path: Path, is_large: None
) -> None:
    """What ends a host in a window, as a kill does, ends the others; all since the commit is done again."""
    out, left, step = tmp_path / "out", [batches], WindowLearner.step

    def failing(self: WindowLearner, batch: Any) -> Any:
        left[0] -= 1
        if left[0] <= 0:
            raise StorageError("the end")
        return step(self, batch)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(StorageError, match="the end"):
        patch.setattr(WindowLearner, "step", failing)
        any2vec.fit(SMALL, files[0], out=out, hosts=TWO, checkpoint_seconds=seconds, **MEMORY)
    went_on = any2vec.fit(SMALL, files[0], out=out, resume=True, hosts=TWO, **MEMORY)
    assert went_on.summary["items"] == 2 * NUM_TRAIN
    assert same(went_on, any2vec.fit(SMALL, files[0], out=tmp_path / "other", hosts=TWO, **MEMORY))


@pytest.mark.parametrize(("rank", "is_ready"), [(0, True), (1, True), (0, False), (1, False)])
def test_hosts_that_die_around_a_commit_go_on_from_one_that_all_have(
    rank: int, is_ready: bool, files: tuple[Path, Path], tmp_path: Path, is_large: None
) -> None:
    """One dies when all have made the second commit ready, or before it has told that its own is."""
    out, barrier, commits = tmp_path / "out", ThreadTransport.barrier, [0]

    def dying(self: Transport, phase: str = "barrier", timeout: float | None = None) -> None:
        commits[0] += phase == "commit" and self.rank == rank
        is_now = phase == "commit" and self.rank == rank and commits[0] == 2
        if is_now and not is_ready:
            deadline = time.monotonic() + 60
            while next_note(out / f"host-{1 - rank}" / "table") is None and time.monotonic() < deadline:
                time.sleep(0.01)  # the other one makes its commit ready, too
            raise StorageError("the end")
        barrier(self, phase, timeout)
        if is_now:
            raise StorageError("the end")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(StorageError, match="the end"):
        patch.setattr(ThreadTransport, "barrier", dying)
        any2vec.fit(SMALL, files[0], out=out, hosts=TWO, checkpoint_seconds=1e-9, **MEMORY)
    has_next = [next_note(out / f"host-{host}" / "table") is not None for host in range(2)]
    assert has_next[rank] and (is_ready or has_next == [True, True])
    assert not any(found.problems for found in check_folders(out))
    went_on = any2vec.fit(SMALL, files[0], out=out, resume=True, hosts=TWO, **MEMORY)
    assert went_on.summary["items"] == 2 * NUM_TRAIN
    assert same(went_on, any2vec.fit(SMALL, files[0], out=tmp_path / "other", hosts=TWO, **MEMORY))


def test_a_host_that_cannot_read_what_it_is_to_give(
    files: tuple[Path, Path], tmp_path: Path, is_large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = PartitionStore._read

    def failing(self: PartitionStore, number: int, *more: Any) -> int:
        if threading.current_thread().name == "partition-giver":
            raise FormatError(f"Partition {number} is damaged.")
        return read(self, number, *more)

    monkeypatch.setattr(PartitionStore, "_read", failing)
    with pytest.raises((HostError, FormatError), match=r"cannot give partition \d: Partition \d is damaged|is damaged"):
        any2vec.fit(SMALL, files[0], out=tmp_path / "out", hosts=TWO, **MEMORY)


def test_partitions_held_twice_are_found() -> None:
    first, then = (Holding(3, 0, 2, 0.0, 0.0), 0), (Holding(3, 2, 6, 0.0, 0.0), 1)
    assert held_twice([first, then]) == held_twice([then, first, (Holding(4, 0, 6, 0.0, 0.0), 0)]) == 0
    assert held_twice([first, (Holding(3, 1, 6, 0.0, 0.0), 1)]) == 1
    assert held_twice([first, (Holding(3, 3, 6, 0.0, 0.0), 1)]) == 1  # nobody held it in round 2


# ---- a store of some of the partitions


def test_a_store_of_some_partitions(tmp_path: Path) -> None:
    def fill(number: int, row_RC: np.ndarray) -> None:
        row_RC[:] = number

    store = PartitionStore.create(tmp_path / "store", [0, 5, 10, 15], 2, fill, own=[0, 2])
    assert [store.has(number) for number in range(3)] == [True, False, True]
    row_RC = partition_store.aligned_rows(5, 2)
    row_RC[:] = 7
    store.write(1, row_RC)
    store.drop(0)
    store.close()
    store = PartitionStore.open(tmp_path / "store")  # nothing was committed
    assert [store.has(number) for number in range(3)] == [True, False, True]
    store.write(1, row_RC)
    store.drop(0)
    ready: list[Any] = []
    store.together = lambda: ready.append(next_note(tmp_path / "store"))
    store.commit({"number": 1})
    assert ready == [{"number": 1}] and next_note(tmp_path / "store") is None and not list(store.check())
    store.drop(2)
    store.together = lambda: (_ for _ in ()).throw(StorageError("the end"))  # type: ignore[assignment]
    with pytest.raises(StorageError, match="the end"):
        store.commit({"number": 2})
    store.close()
    as_before = PartitionStore.open_as_it_is(tmp_path / "store")
    assert [as_before.has(number) for number in range(3)] == [False, True, True] and as_before.note == {"number": 1}
    as_before.close()
    taken = PartitionStore.open(tmp_path / "store", takes_next=True)
    assert [taken.has(number) for number in range(3)] == [False, True, False] and taken.note == {"number": 2}
    taken.read(1, row_RC)
    assert (row_RC == 7).all() and next_note(tmp_path / "store") is None
    taken.close()
    assert len(list((tmp_path / "store").glob("part-*"))) == 1


# ---- the budget, and what is refused


@pytest.mark.parametrize("hosts", [2, 3, 8])
def test_partitions_follow_from_the_budget_of_a_host(hosts: int) -> None:
    rows, size, fixed = 1_000_000, 516, 100 << 20
    for megabytes in (170, 200, 300, 1000):
        plan = plan_shared(rows, size, megabytes << 20, fixed, hosts)
        assert plan.partitions % (2 * hosts) == 0 and 2 <= plan.capacity <= plan.partitions // hosts
        block = -(-rows // plan.partitions) * size
        assert fixed + (plan.capacity + 4) * block <= megabytes << 20
    assert plan.capacity == plan.partitions // hosts  # all that a host owns is in its memory
    with pytest.raises(InputError, match=rf"rows of 516 bytes, shared by {hosts} hosts, needs memory \d+MB at least"):
        plan_shared(rows, size, 101 << 20, fixed, hosts)


def test_too_many_hosts() -> None:
    with pytest.raises(
        InputError, match="40 hosts need 80 partitions at least, two for each; a table of 100 rows has 64"
    ):
        plan_shared(100, 516, 1 << 30, 0, 40)


def test_what_is_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    for options, said in (
        (
            {"logical_hosts": 2, "memory": "8GB", "order": "hilbert"},
            "order hilbert is for one host; several hosts have a plan",
        ),
        ({"logical_hosts": 2, "memory": "8GB"}, "say which one, as out"),
        (
            {"logical_hosts": 2, "memory": "1MB", "out": tmp_path / "out"},
            r"shared by 2 hosts, needs memory \d+MB at least",
        ),
        (
            {"logical_hosts": 2, "sync": "mean", "memory": "8GB"},
            "sync is for hosts that hold all rows: with memory hosts exchange partitions of one table",
        ),
        ({"link": "1Gbit", "memory": "8GB"}, "--link .* is for several hosts"),
    ):
        with pytest.raises(InputError, match=said):
            any2vec.fit(SMALL, files[0], **spread(**options))
    assert not (tmp_path / "out").exists()


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
    found = CliRunner().invoke(app, [*train, "--memory", "8GB", "--logical-hosts", "2", "--quiet", "--json"])
    assert found.exit_code == 0, found.output
    summary = json.loads(found.stdout)
    assert [summary[name] for name in ("partitions", "capacity", "hosts", "held_twice")] == [8, 3, 2, 0]
    assert sum(summary["bytes_by_kind"].values()) >= summary["partition_bytes_sent"] + summary["round_bytes_sent"]
    shown = CliRunner().invoke(app, [*train, "--memory", "8GB", "--logical-hosts", "2", "--overwrite"])
    assert shown.exit_code == 0 and "3 of 8 partitions in memory" in shown.output and "between them" in shown.output
    reported = CliRunner().invoke(
        app, [*train, "--memory", "8GB", "--logical-hosts", "2", "--sync", "mean", "--overwrite"]
    )
    assert reported.exit_code == 2 and "with memory hosts exchange partitions" in reported.stderr + reported.stdout


def test_hosts_of_buckets() -> None:
    """Each bucket has one host, and each host as many where the groups are equal."""
    rounds = Rounds(4, 16, 1)
    hosts = [rounds.host_of(bucket) for bucket in product(range(16), repeat=2)]
    assert np.bincount(hosts).tolist() == [64] * 4
