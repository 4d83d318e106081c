"""Several sources at once: bounded, in turn, and none holds the others. Python's iterables as sources."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from any2vec.errors import InputError
from any2vec.sources.base import inflow as inflow_module
from any2vec.sources.base.cutter import LineBatch, Position, Tally
from any2vec.sources.base.inflow import Inflow, check_names
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.base.pump import Attempts
from any2vec.sources.base.source import Source
from any2vec.sources.opening import open_source, open_sources
from any2vec.sources.subprocess_source import SubprocessSource
from any2vec.testing.planted_stream import PlantedSource, PlantedStream
from source_reading import LONG, all_ids, all_texts, read_all

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64 that wraps, uncompiled
STREAM = PlantedStream()


def planted(name: str, number: int, **options: Any) -> PlantedSource:
    return PlantedSource(STREAM, name=name, number=number, **options)


def waiting(inflow: Inflow) -> dict[str, int]:
    """Lines that wait, by source."""
    return {name: metrics["waiting"] for name, metrics in inflow.metrics().items()}


def test_batches_come_in_turn_and_positions_are_of_what_was_taken() -> None:
    sources = [planted(name, number, stop=40, lines=10) for number, name in enumerate("abc")]
    with Inflow(sources, {"b": {"line": 20}}) as inflow:
        until = time.monotonic() + LONG
        while waiting(inflow) != {"a": 40, "b": 20, "c": 40} and time.monotonic() < until:
            time.sleep(0.01)
        assert inflow.positions() == {"b": {"line": 20}}
        order, taken = [], []
        while (batch := inflow.take(LONG)) is not None:
            order.append(batch.source)
            taken.append(batch)
            if len(taken) == 4:
                assert inflow.positions() == {"a": {"line": 20}, "b": {"line": 30}, "c": {"line": 10}}
        assert order == [0, 1, 2, 0, 1, 2, 0, 2, 0, 2]
        assert inflow.is_over
        assert inflow.metrics()["a"]["state"] == "ended"
        assert inflow.waiting_bytes == 0


def test_a_queue_is_bounded_and_flows_on() -> None:
    source = planted("a", 0, stop=100_000, lines=50)
    size = STREAM.batch(0, 50).num_bytes
    with Inflow([source], most_bytes=3 * size) as inflow:
        until = time.monotonic() + LONG
        while waiting(inflow)["a"] < 100 and time.monotonic() < until:
            time.sleep(0.01)
        for taken in range(50):
            assert inflow.waiting_bytes <= 3 * size
            assert source.metrics()["lines"] <= 50 * (taken + 5)  # three or four wait, and its reader holds one
            assert inflow.take(LONG) is not None
    with Inflow([planted("a", 0, lines=50)], most_bytes=1) as inflow:  # a batch that is larger alone passes
        assert inflow.take(LONG) is not None


def test_a_source_that_stalls_holds_no_other_but_those_in_step() -> None:
    stalled, other = planted("a", 0, lines=10), planted("b", 1, lines=10)
    stalled.stall()
    with Inflow([stalled, other]) as inflow:
        for _ in range(5):
            batch = inflow.take(LONG)
            assert batch is not None
            assert batch.source == 1
        at = inflow.positions()
    stalled, other = planted("a", 0, lines=10), planted("b", 1, lines=10)
    stalled.stall()
    with Inflow([stalled, other], at, in_step=True) as inflow:
        assert inflow.take(0.2) is None
        stalled.flow()
        both = [inflow.take(LONG), inflow.take(LONG)]
        assert [batch and batch.source for batch in both] == [0, 1]
        assert both[1] is not None and both[1].offset_N[0] == 50  # nothing was lost by asking in vain


def test_those_that_have_ended_are_not_waited_for() -> None:
    with Inflow([planted("a", 0, stop=10), planted("b", 1, stop=30, lines=10)], in_step=True) as inflow:
        taken = []
        while (batch := inflow.take(LONG)) is not None:
            taken.append(batch.source)
        assert taken == [0, 1, 1, 1]
        assert inflow.is_over
        assert inflow.take(LONG) is None


def test_an_error_of_a_source_ends_it_alone_and_is_reported() -> None:
    class Broken(PlantedSource):
        def batches(self, position: Position | None) -> Iterator[LineBatch | None]:
            yield None
            raise OSError("a fault of its own")

    with Inflow([Broken(STREAM, name="a"), planted("b", 1, stop=10)]) as inflow:
        batch = inflow.take(LONG)
        assert batch is not None
        assert batch.source == 1
        assert inflow.take(LONG) is None
        assert inflow.metrics()["a"]["state"] == "failed"
        assert inflow.metrics()["a"]["trouble"] == "OSError: a fault of its own"


def test_closing_wakes_who_waits_for_room() -> None:
    inflow = Inflow([planted("a", 0)], most_bytes=1)
    assert inflow.take(LONG) is not None
    begun = time.monotonic()
    inflow.close()
    assert time.monotonic() - begun < LONG
    assert not any(thread.is_alive() for thread in inflow._threads)


def test_what_cannot_be_asked_for_again_is_kept_at_an_end() -> None:
    lossy, other = planted("lossy", 0, stop=60, lines=10), planted("other", 1, stop=60, lines=10)
    lossy.delivery = "at most once"
    inflow = Inflow([lossy, other], most_bytes=1)  # a batch waits in each queue, the next one for room
    first = [inflow.take(LONG), inflow.take(LONG)]
    until = time.monotonic() + LONG
    while waiting(inflow) != {"lossy": 10, "other": 10} and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.1)
    kept = inflow.drain()
    assert [batch.source for batch in kept] == [0, 0] and all(first)
    lossy_lines = 10 * sum(batch.source == 0 for batch in [*first, *kept])  # which source is first is left to threads
    other_lines = 10 * sum(batch.source == 1 for batch in first)
    assert inflow.positions().get("lossy") == {"line": lossy_lines}
    assert inflow.positions().get("other", {"line": 0}) == {"line": other_lines}


@pytest.mark.parametrize("opened", [open_source, SubprocessSource])
@pytest.mark.parametrize("options", [SourceOptions(rate=20.0), SourceOptions()])
def test_lines_of_a_pipe_that_were_read_are_kept_at_an_end(
    tmp_path: Path, opened: Callable[[str, int, SourceOptions], Source], options: SourceOptions
) -> None:
    pipe, lines = tmp_path / "pipe", [b"line %d" % number for number in range(2000)]
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    os.write(writer, b"".join(line + b"\n" for line in lines))
    source = opened(str(pipe), 0, options)
    inflow = Inflow([source], most_bytes=1)
    found = [inflow.take(LONG)]
    until = time.monotonic() + LONG
    while source.metrics()["bytes"] < sum(map(len, lines)) + len(lines) and time.monotonic() < until:
        time.sleep(0.01)
    found += inflow.drain()
    os.close(writer)
    assert all_texts([batch for batch in found if batch is not None]) == lines
    assert source.metrics()["state"] == "closed"
    assert inflow.positions() == {source.name: {"offset": sum(map(len, lines)) + len(lines)}}


def test_a_source_that_does_not_end_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(PlantedSource):
        delivery = "at most once"

        def close(self) -> None:
            pass

    monkeypatch.setattr(inflow_module, "_LONGEST_ENDING", 0.1)
    inflow = Inflow([Endless(STREAM, name="a", lines=10)], most_bytes=1)
    assert inflow.drain()
    inflow._threads[0].join(LONG)
    assert not inflow._threads[0].is_alive()


def test_slow_python_items_do_not_wait_for_a_full_batch() -> None:
    def slow() -> Iterator[str]:
        for number in range(4):
            time.sleep(0.06)
            yield f"text {number}"

    found = [batch for batch in open_source(slow(), 0, SourceOptions(follow=True)).batches(None) if batch is not None]
    assert len(found) >= 2 and all_texts(found) == [b"text %d" % number for number in range(4)]


def test_a_source_is_named_once() -> None:
    with pytest.raises(InputError, match="Each source is read once, got a twice"):
        Inflow([planted("a", 0), planted("a", 1)])


def test_a_file_is_read_once_however_it_is_spelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(name).write_text("some words\n")
    Path("link").symlink_to("a")
    for other in ("./a", str(tmp_path / "a"), "link", "file://a"):
        with pytest.raises(InputError, match=r"(got a and .*, which are one file|got a twice); leave one out"):
            check_names(open_sources(["b", "a", other], SourceOptions()))
    check_names(open_sources(["a", "b", "-", ["a"]], SourceOptions()))


def test_waits_between_attempts_double_are_jittered_by_the_seed_and_end() -> None:
    def waits(seed: int, retries: int = 12) -> list[float]:
        attempts, found = Attempts(retries, seed, 3, Tally(), lambda: False), []
        for _ in range(retries):
            attempts._failures += 1
            found.append(attempts._wait())
        return found

    assert waits(1) == waits(1) != waits(2)
    for number, wait in enumerate(waits(1)):
        longest = min(30.0, 0.2 * 2**number)
        assert 0.5 * longest <= wait <= longest
    attempts = Attempts(3, 1, 0, Tally(), lambda: False)
    attempts.least, attempts._failures = 7.0, 1
    assert attempts._wait() == 7.0
    assert attempts._wait() < 1.0


# ---- Python's iterables ---------------------------------------------------------------------------------------------


def test_python_items_of_every_kind() -> None:
    items = ["one line\nof two", b"\xff bytes", ["a", "list"], ("id 7", "named"), 5, None, "", "nul\0", ("x", "last")]
    source = open_source(items, 2, SourceOptions(follow=True))
    found = read_all(source.batches(None))
    assert all_texts(found) == [b"one line of two", b"\xff bytes", b"a list", b"named", b"last"]
    assert all_ids(found) == ["0", "1", "2", "id\\x207", "x"]
    assert source.metrics()["bad_by"] == {"no text": 1, "not UTF-8": 1, "NUL bytes": 1}
    assert source.delivery == "exactly once"
    rest = read_all(open_source(items, 2, SourceOptions(follow=True)).batches(found[0].position))
    assert all_texts(rest) == [b"last"]
    assert np.array_equal(rest[0].key_N, found[1].key_N)


def test_a_python_iterator_is_read_once_and_its_error_reported() -> None:
    def items() -> Iterator[str]:
        yield "first"
        raise RuntimeError("no more")

    source = open_source(items(), 0, SourceOptions(follow=True))
    assert source.delivery == "at most once"
    assert all_texts(read_all(source.batches(None))) == [b"first"]
    assert source.metrics()["state"] == "given up"
    assert source.metrics()["trouble"] == "python-0 raised RuntimeError: no more."
    with pytest.raises(InputError, match="an iterable of texts, got int"):
        open_source(5, 0, SourceOptions(follow=True))  # type: ignore[arg-type]


def test_endless_python_items_are_taken_as_they_come() -> None:
    def endless() -> Iterator[str]:
        number = 0
        while True:
            yield f"text {number}"
            number += 1

    with Inflow(open_sources([endless(), ["a", "b"]], SourceOptions(follow=True)), most_bytes=1 << 20) as inflow:
        lines = {0: 0, 1: 0}
        for _ in range(20):
            batch = inflow.take(LONG)
            assert batch is not None
            lines[batch.source] += len(batch)
    assert lines[1] == 2
    assert lines[0] > 1000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rate": 0}, "rate"), ({"patience": 0}, "patience"), ({"retries": -1}, "retries"), ({"poll": 0}, "poll"),
        ({"field": "a..b"}, "field must be a name"), ({"id_field": ""}, "id_field"), ({"dedup": "no"}, "dedup"),
        ({"form": "xml"}, "form"), ({"field": "\udcff"}, "field must be a name"),
    ],
)  # fmt: skip
def test_options_that_are_not_legal_are_said(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        SourceOptions(**options)
