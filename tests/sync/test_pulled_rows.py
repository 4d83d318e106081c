"""Hosts that pull rows: they hold their own block and the rows of a round, and nothing else is as long as a table."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec
from agreeing import AllRows, start_tables
from any2vec.cluster.codec import pack_rows, unpack_lists
from any2vec.cluster.message import HEAD, PART, Part
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.errors import MessageError
from any2vec.sync.base.host_rows import RoundRows
from any2vec.sync.base.pool import ThreadPool
from any2vec.sync.exchange.overlapped import Overlapped
from any2vec.sync.exchange.pulled import Pulled, Tracker
from any2vec.sync.rules.block import Rules
from any2vec.sync.rules.merges import Sum
from any2vec.tables import copying
from any2vec.tables.copying import gather_blocks, num_rows_of, stripes
from any2vec.types import ProgressLine, Round, Span, Work
from spreads import spread

HOSTS, WORDS, DIM = 8, 20_000, 32
MODEL = any2vec.SkipGram(dim=DIM, window=2, min_count=1, subsample=0, num_negatives=1)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each word twice, in random order: a round of a host reads few of all words."""
    path = tmp_path_factory.mktemp("pulled") / "text.txt"
    words = np.random.default_rng(0).permutation(np.repeat(np.arange(WORDS), 2)).reshape(-1, 20)
    path.write_text("".join(" ".join(f"w{word}" for word in line) + "\n" for line in words))
    return path


def trained(text: Path, scheme: str, **more: Any) -> any2vec.FitResult:
    options = spread(logical_hosts=HOSTS, rounds_per_epoch=40, scheme=scheme, **more)
    return any2vec.fit(MODEL, text, epochs=1, threads=1, seed=3, **options)


def test_hosts_train_tables_of_the_rows_that_they_read(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    end = Pulled.end_round

    def ended(self: Pulled) -> None:
        tracker = self._tracker
        read = {name: sum(len(ids) for ids in self._tracked.mine[name]) for name in tracker.blocks}
        for name, table in tracker.rows.tables.items():
            assert len(table) == read[name] and len(tracker.blocks[name].rows) == WORDS // HOSTS
            seen.append((read[name], len(table.base)))
        end(self)

    monkeypatch.setattr(Pulled, "end_round", ended)
    trained(text, "pull-opt")
    assert len(seen) == 2 * HOSTS * 40
    assert max(read for read, _ in seen) < WORDS / 10 and max(room for _, room in seen) < WORDS / 8


def test_no_host_ever_has_whole_tables(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What all hosts have allocated at most, reading, agreeing and the result at rank 0 included."""
    whole = 4.0 * 2 * WORDS * DIM
    found = {scheme: trained(text, scheme).embeddings for scheme in ("rep-base", "pull-opt")}  # the kernels, too
    peaks = {}
    for scheme in found:
        tracemalloc.start()
        again = trained(text, scheme).embeddings
        peaks[scheme] = tracemalloc.get_traced_memory()[1] / whole
        tracemalloc.stop()
        assert (again.vectors == found["rep-base"].vectors).all() and (again.output == found["rep-base"].output).all()
    # Replicas: tables and blocks, 1 + 1/8 a host. Pulled: blocks 1/8 a host, rows of a round, and one result.
    assert peaks["rep-base"] > HOSTS and peaks["pull-opt"] < 0.5 * HOSTS, peaks


def test_hosts_that_overlap_keep_one_start_of_the_rows_at_hand(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, end = [], Overlapped.end_round

    def ended(self: Overlapped) -> None:
        pulled = self._now.values.get("input", [])
        seen.append(any(not np.shares_memory(one, other) for one, other in zip(pulled, self._start["input"])))  # noqa: B905
        end(self)

    monkeypatch.setattr(Overlapped, "end_round", ended)
    trained(text, "pull-opt", overlap=True)
    assert len(seen) == HOSTS * 40 and not any(seen)


@pytest.mark.parametrize("how", [{"scheme": "pull-opt"}, {"scheme": "pull-base"}, {"overlap": True}])
def test_start_vectors_reach_the_owners(how: dict[str, Any]) -> None:
    """Of keys that the data have, and of others, which nobody reads: they come back as they were."""
    words = [[f"w{(7 * line + place) % 11}" for place in range(9)] for line in range(60)]
    model = any2vec.SkipGram(dim=6, window=2, min_count=1)
    keys = [f"w{row}" for row in range(14)]
    rows = np.random.default_rng(1).normal(0, 0.3, (2, 14, 6)).astype(np.float32)
    init = any2vec.Embeddings(keys, rows[0], rows[1], np.arange(14, 0, -1), {})
    options = {"epochs": 2, "threads": 1, "seed": 3, "init": init}
    first = any2vec.fit(model, words, **options, **spread(logical_hosts=3, scheme="rep-opt")).embeddings
    found = any2vec.fit(model, words, **options, **spread(logical_hosts=3, **how)).embeddings
    if "scheme" in how:
        assert (found.vectors == first.vectors).all() and (found.output == first.output).all()
    assert list(found.keys) == list(first.keys) and np.isfinite(found.vectors).all()
    unread = [list(found.keys).index(key) for key in keys[11:]]
    assert (found.vectors[unread] == rows[0][11:]).all()


def test_memory_of_a_round_is_used_again_and_grows_with_it() -> None:
    rows = RoundRows({"input": 1000}, 3, lambda name, ids: np.zeros((len(ids), 3), np.float32))
    for size, room in ((80, 90), (20, 90), (90, 90), (91, 102), (1000, 1000)):
        ids = np.random.default_rng(size).permutation(1000)[:size]
        lists = np.split(ids, [size // 3])
        rows.open("input", lists)
        rows.put("input", 0, 2, [pack_rows(np.full((len(part), 3), 7, np.float32)) for part in lists])
        assert rows.tables["input"].shape == (size, 3) and len(rows.tables["input"].base) == room
        assert rows.places["input"][ids].tolist() == list(range(size))
        assert (rows.at_hand("input", ThreadPool(1)) == 7).all()
    rows.release()
    assert rows.tables["input"].shape == (0, 3)


def begin_first_round(transport: Transport) -> None:
    """A host that pulls all rows for a round."""
    start = start_tables()
    rows = RoundRows(dict.fromkeys(start, 23), 3, lambda name, ids: start[name][ids])
    span = Span(0, 1, ProgressLine(0, 1, 0.0, 1.0))
    agreement = Pulled(transport, rows, Rules(Sum), 32, True, AllRows(), None)
    agreement.begin_round(Work(span, 0, Round(0, (span,)), 1.0))


def test_owners_that_send_rows_of_another_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a faulty host would: they do not reach the table."""

    take = Tracker._take

    def cut(self: Tracker, messages: list[list[Part]]) -> dict[str, list[list[Part]]]:
        taken = take(self, messages)
        return {
            name: [pack_rows(rows[:, :2].copy()) for rows in unpack_lists(packed)] for name, packed in taken.items()
        }

    monkeypatch.setattr(Tracker, "_take", cut)
    with pytest.raises(MessageError, match="rows of shape"):
        run_logical(2, begin_first_round)


@pytest.mark.parametrize("hosts", [1, 3])
def test_a_result_is_gathered_in_turns(hosts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than so many bytes are on their way to rank 0; one turn or many, the tables are whole."""
    tables = start_tables()
    arrived: list[int] = []
    gather = Transport.gather

    def watched(self: Transport, parts: Any, phase: str, *rest: Any, **named: Any) -> Any:
        found = gather(self, parts, phase, *rest, **named)
        arrived.append(sum(part.array.nbytes for parts in found.values() for part in parts))
        return found

    def work(transport: Transport) -> dict[str, np.ndarray] | None:
        cut = stripes(num_rows_of(tables), hosts)
        blocks = {name: table[cut[name].ids(transport.rank)] for name, table in tables.items()}
        return gather_blocks(transport, blocks, cut)

    monkeypatch.setattr(Transport, "gather", watched)
    for most in (copying.GATHERED, 200):
        monkeypatch.setattr(copying, "GATHERED", most)
        arrived.clear()
        found = run_logical(hosts, work)
        assert found[0] is not None and not any(found[1:])
        assert all((found[0][name] == table).all() for name, table in tables.items())
    assert max(arrived) <= 200 + 2 * hosts * 12 and len([size for size in arrived if size]) == 3


@pytest.mark.parametrize("is_known", [True, False])
def test_ids_of_the_next_round_go_along_with_what_the_last_has_changed(is_known: bool) -> None:
    """Where nobody can say which round comes, they go in messages of their own; what hosts end with is the same."""
    rounds = [(0, Round(number, (Span(number, number + 1, ProgressLine(0, 1, 0.0, 1.0)),))) for number in range(3)]

    def work(transport: Transport) -> tuple[dict[str, int], dict[str, np.ndarray] | None]:
        start = start_tables()
        rows = RoundRows(dict.fromkeys(start, 23), 3, lambda name, ids: start[name][ids])
        coming = iter(rounds) if is_known else None
        agreement = Pulled(transport, rows, Rules(Sum), 32, True, AllRows(), coming)
        for epoch, round_ in rounds:
            agreement.begin_round(Work(round_.spans[0], epoch, round_, 1.0))
            rows.tables["input"] += transport.rank + 1
            agreement.end_round()
        phases = transport.counters.bytes_by_phase()
        return {name: phases[name] for name in ("inspect", "pull", "reduce")}, agreement.gather_result()

    (counted, tables), _ = run_logical(2, work)
    assert tables is not None and np.allclose(tables["input"] - start_tables()["input"], 9)
    ids = 2 * (1 + PART.size)  # of a message: all rows of two tables, a byte each
    assert counted["inspect"] == (HEAD.size + ids) * (1 if is_known else 3)
    rows = 2 * (PART.size + 12 * 3 * 4)  # of the 23, rank 1 owns 12
    assert counted["reduce"] == 3 * (HEAD.size + rows) + (2 * ids if is_known else 0)


@pytest.mark.parametrize(("method", "said"), [("_tell", "tells of 1 sets of rows"), ("_pack_values", "ends early")])
def test_owners_that_leave_out_a_part(method: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a host of another job would: a sentence, and no table is touched."""

    whole = getattr(Tracker, method)

    def short(self: Tracker, first: Any, second: Any) -> Any:
        found = whole(self, first, second)
        if method == "_tell":
            return found[:1]
        return [[] for _ in found] if first == "output" else found

    monkeypatch.setattr(Tracker, method, short)
    with pytest.raises(MessageError, match=said):
        run_logical(2, begin_first_round)
