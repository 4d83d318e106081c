"""Runs of several hosts that stop, go on and disagree."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec
from any2vec.cluster.attempt import Attempt
from any2vec.cluster.codec import pack_rows, unpack_ids, unpack_lists, unpack_rows
from any2vec.cluster.inbox import Inbox
from any2vec.cluster.message import Part
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport, first_other
from any2vec.errors import FormatError, Interrupted, JobError, MessageError
from any2vec.options.run import RunOptions
from any2vec.sync.base.pool import ThreadPool
from any2vec.sync.drivers import rounds
from any2vec.sync.exchange.replicated import Replicated
from any2vec.sync.rules.block import Block, Rules
from any2vec.sync.rules.merges import Spectral, Sum
from any2vec.tables.copying import put_packed
from any2vec.tasks.words.task import Words
from any2vec.testing.conformance.rules import ready
from any2vec.train import launch, monitor, run
from any2vec.train.checkpoint import Checkpoint, load_checkpoint, run_needs, save_checkpoint
from any2vec.train.in_memory.program import InMemoryProgram
from any2vec.train.spec import Hooks, Request, RunSpec
from any2vec.types import ProgressLine, Round, Span, Stats, Work
from spreads import spread

MODEL = any2vec.SkipGram(dim=8, window=3, min_count=1)
HOSTS: dict[str, Any] = {"logical_hosts": 3, "rounds_per_epoch": 3, "scheme": "pull-opt"}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    random, path = np.random.default_rng(0), tmp_path / "text.txt"
    path.write_text("".join(" ".join(f"w{word}" for word in random.integers(0, 40, 12)) + "\n" for _ in range(200)))
    return path


def trained(text: Path, **more: Any) -> any2vec.FitResult:
    return any2vec.fit(MODEL, text, epochs=2, threads=1, seed=3, **more)


def stop_at(progress: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a signal ask for a stop when so much of a run is done."""
    on_work = monitor.Monitor.on_work

    def received(self: monitor.Monitor, work: Work[Span], stats: Stats) -> None:
        if work.progress > progress:
            self.program.stop_signal = signal.SIGINT
        on_work(self, work, stats)

    monkeypatch.setattr(monitor.Monitor, "on_work", received)


def test_who_stops_leaves_a_checkpoint_whoever_is_slow(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 0 still waits for rank 2 when rank 1 has said all: nobody may leave before the file is written."""
    out, state = tmp_path / "out", InMemoryProgram.state

    def slowly(self: InMemoryProgram) -> Any:
        time.sleep(0.3 * (self.transport.rank == 2))
        return state(self)

    monkeypatch.setattr(InMemoryProgram, "state", slowly)
    stop_at(0.3, monkeypatch)
    with pytest.raises(Interrupted, match=r"out/checkpoint\.safetensors holds the work so far"):
        trained(text, **spread(**HOSTS), out=out)
    monkeypatch.undo()
    assert (out / "checkpoint.safetensors").exists()
    went_on = trained(text, **spread(**HOSTS), out=out, resume=True)
    assert (went_on.embeddings.vectors == trained(text, **spread(**HOSTS)).embeddings.vectors).all()


def test_the_share_of_agreement_is_of_the_time_since_the_run_went_on(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As its seconds are; what the run took before does not count, be it days."""
    out, opened = tmp_path / "out", InMemoryProgram.opened
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        stop_at(0.3, patch)
        trained(text, **spread(**HOSTS), out=out)

    def long_before(self: InMemoryProgram) -> Any:
        with opened(self) as (items, seconds):
            return nullcontext((items, seconds + 1e9))

    monkeypatch.setattr(InMemoryProgram, "opened", long_before)
    summary = trained(text, **spread(**HOSTS), out=out, resume=True).summary
    assert summary["train_seconds"] > 1e9 and summary["agree_share"] > summary["agree_seconds"] / 1e6


def test_hosts_that_do_not_all_find_the_checkpoint(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, find = tmp_path / "out", InMemoryProgram.find_checkpoint
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        stop_at(0.3, patch)
        trained(text, **spread(**HOSTS), out=out)
    lost = lambda self, needs: None if self.transport.rank == 2 else find(self, needs)  # noqa: E731
    monkeypatch.setattr(InMemoryProgram, "find_checkpoint", lost)
    with pytest.raises(JobError, match="Rank 2 does not find the checkpoint from which rank 0 goes on"):
        trained(text, **spread(**HOSTS), out=out, resume=True)


@pytest.mark.parametrize("line", ["[Gloo] Rank 0 is connected to 1 peer ranks.", "", "17", '"stage"', "[1, 2]"])
def test_what_a_library_prints_at_rank_0_ends_no_run(line: str) -> None:
    """Some releases of torch greet on standard output, on which rank 0 tells how far it is."""
    assert launch.message_of(line) == {} and launch.message_of('{"stage": ["reading", 1, 2]}') == {
        "stage": ["reading", 1, 2]
    }


def test_only_rank_0_need_want_to_see_the_end_of_an_epoch(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As under torchrun: whether all gather the rows for it is said by rank 0."""
    begin, shown = InMemoryProgram.__init__, []

    def begun(self: InMemoryProgram, request: Request, *rest: Any) -> None:
        silent = replace(request, hooks=replace(request.hooks, on_epoch=None))
        begin(self, silent if rest[-1].rank else request, *rest)

    monkeypatch.setattr(InMemoryProgram, "__init__", begun)
    trained(text, **spread(**HOSTS), on_epoch=lambda epoch, _: shown.append(epoch))
    assert shown == [1, 2]


def test_reading_may_take_longer_than_any_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoding some hundred GB takes longer than hosts wait for each other elsewhere."""
    monkeypatch.setenv("LOCAL_RANK", "0")

    def work(transport: Transport) -> int:
        def read() -> int:
            time.sleep(0.5 * (transport.rank == 0))
            return transport.rank

        return run._read_in_turn(transport, read)

    assert run_logical(2, work, patience=0.1) == [0, 1]


def test_hosts_wait_for_who_still_reads_what_they_compare() -> None:
    def work(transport: Transport) -> int:
        time.sleep(0.5 * (transport.rank == 1))
        return first_other(transport, "the same", "settings")

    assert run_logical(2, work, patience=0.1) == [-1, -1]


def test_hosts_wait_until_rank_0_has_written_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long that takes: who has left waits for the others' end for so long alone, and then ends them all."""
    has_written = threading.Event()

    def write(*args: Any) -> str | None:
        if args[4].rank:
            return None
        time.sleep(0.5)
        has_written.set()
        return "made"

    monkeypatch.setattr(run, "_train", write)
    monkeypatch.setattr(Words, "read", lambda *_: None)
    monkeypatch.setenv("LOCAL_RANK", "0")
    spec = RunSpec(task="words", model=MODEL, data="text.txt", run=RunOptions())
    here = threading.local()
    monkeypatch.setattr(run, "join", lambda *_, **__: here.transport)

    def host(transport: Transport) -> tuple[Any, bool]:
        transport.attempt = Attempt()  # type: ignore[attr-defined]
        here.transport = transport
        return run.run_joined(spec, Hooks(), 0.0), has_written.is_set()

    assert run_logical(2, host, patience=0.1) == [("made", True), (None, True)]


@pytest.mark.parametrize("what", ["checkpoint", "epoch"])
def test_hosts_wait_while_rank_0_is_at_something_long(
    what: str, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In their work they would wait for its messages no longer than for those of a host that works, too."""
    begun: Counter[str] = Counter()
    """works by host"""
    ahead: list[int] = []
    before = rounds.Rounds.before

    def begin(self: rounds.Rounds, work: Work[Span]) -> None:
        begun[threading.current_thread().name] += 1
        before(self, work)

    def busy(*_: Any) -> None:
        time.sleep(0.3)
        ahead.append(max(begun.values()) - begun[threading.current_thread().name])

    monkeypatch.setattr(rounds.Rounds, "before", begin)
    if what == "checkpoint":
        monkeypatch.setattr(monitor, "save_checkpoint", busy)
        trained(text, **spread(**HOSTS), out=tmp_path / "out", checkpoint_seconds=1e-6)
    else:
        trained(text, **spread(**HOSTS), on_epoch=busy)
    assert ahead and not any(ahead)


@pytest.mark.parametrize("name", ["settings", "place", "rest", "totals", "seconds"])
def test_a_checkpoint_that_lacks_something_is_damaged(name: str, tmp_path: Path) -> None:
    path, place = tmp_path / "checkpoint.safetensors", PLACE | {"rest": [[[4, 9]]]}
    save_checkpoint(path, Checkpoint({"input": ROWS}, place, {"seed": 1}, {"items": 4, "seconds": 0.5}))
    assert load_checkpoint(path, {"seed": 1}, run_needs).place == place
    path.write_bytes(path.read_bytes().replace(name.encode(), name[::-1].encode()))  # as long as before
    with pytest.raises(FormatError, match="is damaged"):
        load_checkpoint(path, {"seed": 1}, run_needs)


def test_a_checkpoint_whose_rows_have_changed_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    save_checkpoint(path, Checkpoint({"input": ROWS}, PLACE, {"seed": 1}, {"items": 4, "seconds": 0.5}))
    stored = bytearray(path.read_bytes())
    stored[-1] ^= 1
    path.write_bytes(stored)
    with pytest.raises(FormatError, match="its bytes are not those that were written"):
        load_checkpoint(path, {"seed": 1})


ROWS = np.zeros((3, 4), np.float32)
PLACE = {"epoch": 0, "rounds_done": 1, "rounds": 3, "rest": [], "is_whole": True}


@pytest.mark.parametrize("bits", [32, 8])
@pytest.mark.parametrize("values", [ROWS[:1], ROWS[:, :2].copy()])
def test_rows_that_do_not_fit_their_ids_are_an_error(values: np.ndarray, bits: int) -> None:
    """Kernels that read by address would take foreign memory for rows."""
    with pytest.raises(MessageError, match="rows of shape"):
        Block(ROWS, Sum()).merge_all([(np.arange(3), values)], False, ThreadPool(1))
    with pytest.raises(MessageError, match="rows of shape"):
        put_packed(ROWS.copy(), [np.arange(3)], [pack_rows(values, bits)])
    with pytest.raises(MessageError, match="rows of shape"):
        Block(ROWS, Sum()).merge(np.arange(3), values, False)
    with pytest.raises(MessageError, match="rows of shape"):
        Block(ROWS, ready(Spectral(), np.ones(3), 4)).merge_packed(
            [(np.arange(3), pack_rows(values, bits))], True, ThreadPool(1)
        )


@pytest.mark.parametrize("values", [ROWS[:1], ROWS[:, :2].copy()])
@pytest.mark.parametrize("scheme", ["rep-base", "rep-opt"])
def test_replicas_look_at_what_masters_send(scheme: str, values: np.ndarray) -> None:
    """Rank 1 answers with rows that do not fit, as a faulty host would: rank 0 takes none of them into its table."""

    def work(transport: Transport) -> None:
        tables = {name: ROWS.copy() for name in ("input", "output")}
        agreement = Replicated(transport, tables, Rules(Sum), 32, scheme == "rep-opt")
        if transport.rank == 1:
            ids = [Part("ids", np.zeros(1, np.int8))] if scheme == "rep-opt" else []
            for phase, rows in (("reduce", ROWS[:1]), ("broadcast", values)):
                for _ in tables:
                    transport.send(0, [*ids, Part("rows", rows)], phase)
        else:
            agreement.end_round()

    with pytest.raises(MessageError, match="rows of shape"):
        run_logical(2, work)


def test_codes_and_ids_that_do_not_fit() -> None:
    codes, scale = np.zeros((3, 4), np.int8), np.ones(1, np.float32)
    with pytest.raises(MessageError, match="without a scale for each"):
        unpack_lists([[Part("rows", codes), Part("rows", scale)]])
    with pytest.raises(MessageError, match="without a scale for each"):
        unpack_rows([Part("rows", codes), Part("rows", scale)])
    with pytest.raises(MessageError, match="rounded rows of 2 numbers"):
        unpack_lists([[Part("rows", codes[:1, :size].copy()), Part("rows", scale)] for size in (4, 2)])
    for ids in (np.array([3, 1], np.uint16), np.array([-2, 1], np.int16), np.empty(0, np.uint16)):
        with pytest.raises(MessageError, match="out of order"):
            unpack_ids(Part("ids", ids), 4)
    with pytest.raises(MessageError, match="speaks of 8 rows of a block of 20 rows"):
        unpack_ids(Part("ids", np.zeros(1, np.uint8)), 20)


def test_who_holds_the_inbox_may_wake_others() -> None:
    """A transport finds out that a host is lost while it looks for messages, and tells all who wait."""
    inbox = Inbox()
    with inbox.lock, inbox.lock:
        inbox.wake()


def test_time_of_walking_is_not_time_of_agreeing(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that only walking (8 s) and agreeing (1 s when a round opens, 2 s when it closes) move on."""
    clock = [0.0]

    class Slow:
        def begin_round(self, work: Work) -> None:
            clock[0] += 1

        def end_round(self) -> None:
            clock[0] += 2

    def ahead(epoch: int, parts: Any) -> None:
        clock[0] += 8

    monkeypatch.setattr(rounds.time, "perf_counter", lambda: clock[0])
    driver = rounds.Rounds(Slow(), ahead)  # type: ignore[arg-type]
    line = ProgressLine(0, 20, 0.0, 1.0)
    whole = Round(0, (Span(0, 20, line),))
    for start in (0, 10):
        work = Work(Span(start, start + 10, line), 0, whole, line.progress(start + 10), start == 0, start == 10)
        driver.before(work)
        clock[0] += 100  # of training
        driver.after(work, Stats(10, 0.0, 0))
    assert (driver.walk_seconds, driver.seconds, driver.rounds) == (8.0, 3.0, 1)


@pytest.mark.parametrize("sync", ["elastic", "ds-sync", "leader", "frequent"])
def test_what_a_checkpoint_keeps_is_copied_once(
    sync: str, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agreement names the very tables that are trained; what is written does not change with them."""
    keep, seen = InMemoryProgram.state, []

    def kept(self: InMemoryProgram) -> Any:
        found = keep(self)
        if found is not None:
            live = self.driver.agreement.state_dict()  # type: ignore[union-attr]
            trained_on = list(self.learner.state_dict().values())
            seen.append(sum(any(np.shares_memory(array, table) for table in trained_on) for array in live.values()))
            assert not any(np.shares_memory(found[f"{name}@0"], table) for name in live for table in trained_on)
        return found

    monkeypatch.setattr(InMemoryProgram, "state", kept)
    trained(text, **spread(logical_hosts=3, sync=sync), out=tmp_path / "out", checkpoint_seconds=1e-6)
    assert seen and set(seen) == {2}  # the input rows and the output rows
