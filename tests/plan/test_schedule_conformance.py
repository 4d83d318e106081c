"""Every schedule keeps to what a schedule is: of sequences, of clicks in lockstep, of windows from disk."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from any2vec.data.partitions import buckets as triple_buckets
from any2vec.data.partitions.buckets import TripleBuckets, blocks_of
from any2vec.data.partitions.row_partitions import RowPartitions
from any2vec.errors import InputError
from any2vec.plan.order.buffer_walk import BufferWalk
from any2vec.plan.order.epochs import EpochSchedule
from any2vec.plan.order.shared_walk import SharedWalk
from any2vec.sampling.triple_windows import TripleWindows, Window
from any2vec.tasks.triples.table import own_blocks
from any2vec.testing.conformance.schedules import HOSTS, ScheduleTests, round_ends
from any2vec.testing.toy_table import graph
from any2vec.train.loop import paced
from any2vec.types import Span, Work
from marks import needs_linux, uint64_wraps

Counts = dict[int, Counter[Hashable]]


class SpanScheduleTests(ScheduleTests):
    """Schedules over positions: they also go on among other hosts, and their pieces may be taken together."""

    options: ClassVar[dict[str, Any]]
    stop: int

    def bounds(self, hosts: int) -> Sequence[int]:
        return [self.boundary(self.stop * host // hosts) for host in range(hosts)] + [self.stop]

    def boundary(self, position: int) -> int:
        unit = self.options["unit"]
        return min(self.stop, -(-position // unit) * unit)

    def schedule(self, hosts: int, rank: int) -> EpochSchedule:
        return EpochSchedule(bounds=self.bounds(hosts), rank=rank, boundary=self.boundary, **self.options)

    def covered(self, work: Work[Span]) -> Iterable[Hashable]:
        return range(work.payload.start, work.payload.stop)

    def items(self) -> Iterable[Hashable]:
        return range(self.stop)

    def key(self, work: Work[Span]) -> Any:
        ends = (work.ends_part, work.ends_round, work.ends_epoch)
        return work.payload, work.epoch, work.round.number, work.progress, ends, work.step

    def state(self, schedules: Sequence[Any]) -> dict[str, Any]:
        return schedules[0].state_dict([schedule.left() for schedule in schedules])

    @pytest.mark.parametrize("after", HOSTS)
    @pytest.mark.parametrize("before", HOSTS)
    def test_any_hosts_go_on_where_others_stood(self, before: int, after: int) -> None:
        rounds = self.options["rounds"]
        for done in range(self.options["epochs"] * rounds):
            former = self.every(before)
            for schedule in former:
                round_ends(schedule, done)
            state = json.loads(json.dumps(self.state(former)))
            found: Counts = {}
            for rank, schedule in enumerate(self.every(after)):
                schedule.load_state_dict(state, after)
                works = list(schedule)
                if before == after:
                    assert [self.key(work) for work in works] == [self.key(work) for work in former[rank]]
                for work in works:
                    found.setdefault(work.epoch, Counter()).update(self.covered(work))
            left: Counts = {}
            for schedule in [self.schedule(before, rank) for rank in range(before)]:
                round_ends(schedule, done)
                for work in schedule:
                    left.setdefault(work.epoch, Counter()).update(self.covered(work))
            assert {epoch: items for epoch, items in found.items() if items} == {
                epoch: items for epoch, items in left.items() if items
            }

    def test_spans_by_their_steps(self) -> None:
        for hosts in HOSTS:
            for schedule in self.every(hosts):
                whole = self.schedule(hosts, schedule.rank)
                for work in schedule:
                    if work.payload.start < work.payload.stop:
                        assert whole.span_at(work.step) == schedule.span_at(work.step) == work.payload
                    after = next(iter(schedule.peek(1)), None)
                    assert after is None or schedule.step in (after.step, work.step + 1)

    @given(
        seconds=st.lists(st.floats(0, 3), min_size=1, max_size=6), threads=st.integers(1, 4),
        hosts=st.sampled_from(HOSTS),
    )  # fmt: skip
    @settings(suppress_health_check=[HealthCheck.differing_executors])  # each subclass runs it on its own schedule
    def test_pacing_changes_no_piece(self, seconds: list[float], threads: int, hosts: int) -> None:
        """Whatever the clock says, works are whole pieces, none goes beyond a cut, and each is known by its step."""
        for rank in range(hosts):
            took, now = itertools.cycle(seconds), [0.0]
            pieces = iter(list(self.schedule(hosts, rank)))
            schedule = self.schedule(hosts, rank)
            for work in paced(schedule, 0.35, threads, lambda now=now: now[0]):
                now[0] += next(took)
                first = last = next(pieces)
                while last.payload.stop < work.payload.stop:
                    assert not (last.ends_part or last.ends_round)
                    last = next(pieces)
                assert (work.payload.start, work.step, work.opens_round) == (
                    first.payload.start, first.step, first.opens_round
                )  # fmt: skip
                assert (work.payload.stop, work.progress, work.round) == (
                    last.payload.stop, last.progress, last.round
                )  # fmt: skip
                assert (work.ends_part, work.ends_round, work.ends_epoch) == (
                    last.ends_part, last.ends_round, last.ends_epoch
                )  # fmt: skip
            assert next(pieces, None) is None


class TestSequences(SpanScheduleTests):
    options: ClassVar[dict[str, Any]] = {"epochs": 2, "unit": 4, "piece": 12, "rounds": 3, "parts": 2}
    stop = 203

    def boundary(self, position: int) -> int:
        """Where sentences end, which is nowhere near a block."""
        return min(self.stop, -(-position // 7) * 7)


class TestStepByStep(SpanScheduleTests):
    """A part ends behind each piece, however slow they are."""

    options: ClassVar[dict[str, Any]] = {"epochs": 2, "unit": 1, "piece": 5, "rounds": 2, "is_stepwise": True}
    stop = 47

    def test_every_piece_is_a_part(self) -> None:
        schedule, works = self.schedule(1, 0), []
        while (work := schedule.take(4)) is not None:
            works.append(work)
        assert len(works) == 2 * (5 + 6) and all(work.ends_part != work.ends_round for work in works)


class TestSequencesOfOneRound(SpanScheduleTests):
    options: ClassVar[dict[str, Any]] = {"epochs": 2, "unit": 1, "piece": 5, "rounds": 1}
    stop = 47

    def test_a_run_goes_on_within_a_round(self) -> None:
        """Of the first two pieces of three: the third is its rest, and the number of its step is the same."""
        schedule = self.schedule(1, 0)
        given = [work for _, work in zip(range(2), schedule, strict=False)]
        again = self.schedule(1, 0)
        again.load_state_dict(schedule.state_dict(), 1)
        assert again.left() == [(10, 47)] and again.step == 2 == given[-1].step + 1
        assert next(iter(again)).round.spans[0].start == 10


class TestClicks(SpanScheduleTests):
    """Batches of trainers in lockstep; the last has one fewer."""

    options: ClassVar[dict[str, Any]] = {"epochs": 2, "unit": 8, "piece": 8, "rounds": 2, "in_lockstep": True}
    stop = 131

    def test_a_step_is_the_same_round_everywhere(self) -> None:
        for hosts in HOSTS:
            rounds = [{work.step: work.round.number for work in schedule} for schedule in self.every(hosts)]
            for one, other in itertools.combinations(rounds, 2):
                assert all(one[step] == other[step] for step in one.keys() & other.keys())


class TestEpochsOfOnePiece(SpanScheduleTests):
    """As layers have them: an epoch is a step."""

    options: ClassVar[dict[str, Any]] = {"epochs": 3, "unit": 1, "piece": 60, "rounds": 1}
    stop = 60


@needs_linux
@uint64_wraps
class TestWindows(ScheduleTests):
    """Windows of triples from disk; several hosts go on where a round begins."""

    @pytest.fixture(autouse=True)
    def toy(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(triple_buckets, "CHUNK", 1024)
        self.folder, self.parts = tmp_path, RowPartitions(300, 8, seed=7)

    def schedule(self, hosts: int, rank: int) -> TripleWindows:
        """Each host of several has the triples that it trains."""
        walk: BufferWalk | SharedWalk = BufferWalk(order="beta", partitions=8, capacity=3, epochs=2, seed=3)
        blocks, folder = blocks_of(*graph(300, 1500).T), self.folder / f"{hosts}-{rank}"
        if hosts > 1:
            walk = SharedWalk(hosts=hosts, rank=rank, partitions=8, capacity=2, epochs=2)
            blocks = own_blocks(blocks, self.parts, walk.rounds, rank)
        if not folder.exists():
            TripleBuckets.create(folder, self.parts, 4, blocks)
        return TripleWindows(TripleBuckets.open(folder), walk, 128, window=200)

    def covered(self, work: Work[Window]) -> Iterable[Hashable]:
        """Triples of rows, and how often each stands there."""
        window, bounds = work.payload, self.parts.bounds
        part_of = {block: part for part, block in window.turn.held}
        row_M3 = window.slot_M3.astype(np.int64)
        for column in (0, 2):
            block_M, offset_M = np.divmod(row_M3[:, column], 128)
            row_M3[:, column] = [bounds[part_of[block]] for block in block_M.tolist()] + offset_M
        return map(tuple, row_M3.tolist())

    def items(self) -> Iterable[Hashable]:
        triple_M3 = graph(300, 1500)
        row_V = self.parts.rows(np.arange(300))
        triple_M3[:, 0], triple_M3[:, 2] = row_V[triple_M3[:, 0]], row_V[triple_M3[:, 2]]
        return map(tuple, triple_M3.tolist())

    def key(self, work: Work[Window]) -> Any:
        window, ends = work.payload, (work.ends_part, work.ends_round, work.ends_epoch)
        place = (window.position, window.before, window.total, window.slot_M3.tobytes())
        return place, work.epoch, work.round.number, work.progress, ends

    @pytest.mark.parametrize("hosts", [2, 4])
    def test_a_host_goes_on_where_a_round_begins(self, hosts: int) -> None:
        schedule = self.schedule(hosts, 1)
        works, places = list(self.schedule(hosts, 1)), 0
        for number, work in enumerate(schedule):
            if work.payload.position in schedule._walk.round_after:  # type: ignore[union-attr]
                again = self.schedule(hosts, 1)
                again.load_state_dict(json.loads(json.dumps(schedule.state_dict())), hosts)
                assert [self.key(one) for one in again] == [self.key(one) for one in works[number + 1 :]]
                places += 1
        assert places == 2 * (2 * hosts - 1)

    def test_other_hosts_have_another_walk(self) -> None:
        schedule = self.schedule(2, 0)
        with pytest.raises(InputError, match="A walk of 2 hosts cannot go on with 1; go on with as many as before"):
            schedule.load_state_dict(schedule.state_dict(), 1)
