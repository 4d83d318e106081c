"""A stream from its lines to its vectors: batches, checkpoints, snapshots, and what a kill leaves."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from any2vec.data.options import TextOptions
from any2vec.data.stream.vocabulary import StreamVocabulary
from any2vec.embeddings import Embeddings
from any2vec.errors import Any2VecError, DataError, FormatError, HostError, InputError, StorageError
from any2vec.formats import snapshots
from any2vec.kernels.common.alias import build_alias
from any2vec.kernels.common.rng import PURPOSE_NEGATIVE, PURPOSE_TOKEN, stream_key
from any2vec.models.stream import skipgram as streamed_skipgram
from any2vec.models.stream.config import StreamSkipGram
from any2vec.models.stream.skipgram import StreamedSkipGram
from any2vec.models.stream.token_batch import GAP, TokenBatch
from any2vec.options.hosts import HostOptions
from any2vec.sources.base.cutter import LineBatch
from any2vec.sources.base.options import MOST_LINE, SourceOptions
from any2vec.sources.base.records import SeenLines
from any2vec.sources.opening import open_sources
from any2vec.tasks.stream import progress as stream_progress
from any2vec.tasks.stream.batches import Limits, TokenBatches
from any2vec.tasks.stream.models import budget
from any2vec.tasks.stream.options import StreamOptions
from any2vec.tasks.stream.stream import StreamResult, stream
from any2vec.train.checkpoint import FILE
from any2vec.train.registry import task_named
from any2vec.train.spec import RunSpec
from cli_runs import done, refused
from naive.skipgram.skipgram import train_skipgram_block as naive_block

PROGRAMS = Path(__file__).parents[2] / "programs"


def lines_of(num: int, seed: int = 1) -> list[str]:
    """Lines of 1 to 11 words, some of them alike."""
    draw = random.Random(seed)
    return [
        " ".join(f"w{draw.randrange(60) * draw.randrange(1, 6)}" for _ in range(draw.randrange(1, 12)))
        for _ in range(num)
    ]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(line + "\n" for line in lines_of(3000)))
    return path


def train(
    source: Any, out: Path | None = None, dedup: str = "id", memory: str = "20MB", **options: Any
) -> StreamResult:
    follow = options.pop("follow", False)
    given = {"threads": 1, "linger": 0, "batch_bytes": 2000, "min_count": 2} | options
    reading = SourceOptions(dedup=dedup, follow=follow)  # type: ignore[arg-type]
    return stream(
        StreamSkipGram(dim=8), str(source), out=out, options=StreamOptions(**given), reading=reading, storage=memory
    )


class Fed:
    """An inflow that has batches already."""

    def __init__(self, batches: Sequence[LineBatch]) -> None:
        self._left = list(batches)

    def take(self, timeout: float) -> LineBatch | None:
        return self._left.pop(0) if self._left else None

    @property
    def is_over(self) -> bool:
        return not self._left

    def positions(self) -> dict[str, Any]:
        return {}


def line_batches(lines: Sequence[str], sizes: Sequence[int], keys: Sequence[int]) -> list[LineBatch]:
    """Lines in batches of so many lines, again and again."""
    found, at = [], 0
    while at < len(lines):
        size = sizes[len(found) % len(sizes)]
        part = [line.encode() + b"\n" for line in lines[at : at + size]]
        stop_N = np.cumsum([len(line) for line in part])
        key_N = np.array(keys[at : at + size], np.uint64)
        text_B = np.frombuffer(b"".join(part), np.uint8)
        found.append(LineBatch(0, text_B, stop_N, key_N, np.arange(at, at + len(part)), {"at": at + len(part)}))
        at += size
    return found


def made(lines: Sequence[str], sizes: Sequence[int], keys: Sequence[int], **options: Any) -> list[TokenBatch]:
    vocabulary = StreamVocabulary(max_types=1000, max_rows=500, min_count=2)
    given = {"batch_bytes": 700, "linger": 0, "limits": Limits(), "keeps_ids": True, "subsample": 1e-3} | options
    inflow: Any = Fed(line_batches(lines, sizes, keys))
    found = TokenBatches(inflow, SeenLines(50), vocabulary, prepare=lambda tokens, words: len(tokens), **given)
    return [work.payload for work in found if not work.payload.is_idle]


def test_batches_depend_on_the_lines_alone() -> None:
    lines = lines_of(400)
    keys = [number if number % 7 else max(0, number - 1) for number in range(400)]  # each seventh is one that has come
    one, other = (made(lines, sizes, keys) for sizes in ([1], [3, 90, 17]))
    assert len(one) == len(other) > 5
    for left, right in zip(one, other, strict=True):
        assert (left.number, left.offset, left.words, left.keep_rate) == (
            right.number,
            right.offset,
            right.words,
            right.keep_rate,
        )
        for name in ("tokens", "born", "threshold_V", "alias_V", "keep_V"):
            np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
        assert [found.ids for found in left.lines] == [found.ids for found in right.lines]
    sizes = [sum(len(lines[int(one)]) + 1 for one in batch.lines[0].ids) for batch in one]
    assert all(
        size >= 700 and size - len(lines[int(batch.lines[0].ids[-1])]) - 1 < 700
        for size, batch in zip(sizes[:-1], one, strict=False)
    )
    assert all(right.offset - left.offset == left.tokens.size + GAP for left, right in pairwise(one))
    assert all(batch.prepared == batch.tokens.size for batch in one)


def test_each_new_line_is_trained_once_and_duplicates_are_counted() -> None:
    lines = lines_of(300)
    keys = [number if number % 7 else max(0, number - 1) for number in range(300)]
    batches = made(lines, [40], keys)
    ids = [int(one) for batch in batches for found in batch.lines for one in found.ids]
    assert ids == [number for number in range(300) if number % 7 or number == 0]
    assert sum(found.duplicates for batch in batches for found in batch.lines) == 300 - len(ids)
    assert sum(batch.words for batch in batches) == sum(len(lines[number].split()) for number in ids)


def test_a_list_of_lines_is_one_source_and_a_list_of_addresses_several(text: Path, tmp_path: Path) -> None:
    lines = [*lines_of(300), "", "see http://example.org", "n" * 5000]
    of_list, of_iterator = (
        stream(StreamSkipGram(dim=4), given, options=StreamOptions(min_count=1)) for given in (lines, iter(lines))
    )
    assert of_list is not None and of_iterator is not None
    assert of_list.summary["words"] == of_iterator.summary["words"] > 300
    assert len(of_list.summary["sources"]) == 1
    with pytest.raises(DataError, match=r"There is no file .*gone\.txt"):
        stream("skipgram", [str(text), str(tmp_path / "gone.txt")])


@pytest.mark.parametrize("library", ["pandas", "polars", "datasets", "pyarrow", "dict"])
def test_a_table_is_lines_of_its_column_of_text(library: str) -> None:
    module = __import__("builtins") if library == "dict" else pytest.importorskip(library)
    lines = [*lines_of(300), None]
    columns = {"n": list(range(301)), "said": lines}
    make = {"datasets": lambda: module.Dataset.from_dict(columns), "dict": lambda: columns,
            "pyarrow": lambda: module.table(columns)}.get(library, lambda: module.DataFrame(columns))  # fmt: skip
    plain, alone, named = (
        stream(StreamSkipGram(dim=4), data, options=StreamOptions(min_count=1), text=TextOptions(column=column))
        for data, column in ((lines[:-1], None), (make(), None), ([make()], "said"))
    )
    assert plain is not None and alone is not None and named is not None
    assert plain.summary["words"] == alone.summary["words"] == named.summary["words"] > 300
    assert list(plain.embeddings) == list(alone.embeddings) == list(named.embeddings)
    with pytest.raises(DataError, match="has no column 'x'"):
        stream("skipgram", make(), text=TextOptions(column="x"))


def test_a_column_of_json_lines_is_told_the_field(tmp_path: Path) -> None:
    (tmp_path / "said.jsonl").write_text('{"said": "a b"}\n')
    with pytest.raises(InputError, match=r"of JSON Lines name the field \(--field, SourceOptions\(field=\.\.\.\)\)"):
        stream("skipgram", str(tmp_path / "said.jsonl"), text=TextOptions(column="said"))


@pytest.mark.parametrize("readers", ["threads", "processes"])
@pytest.mark.parametrize("form", ["csv", "tsv", "parquet", "feather"])
def test_a_file_of_columns_is_lines_of_its_column(tmp_path: Path, form: str, readers: Any) -> None:
    lines = lines_of(300)
    table = pa.table({"n": range(300), "said": lines, "other": ["x"] * 300})
    name, options = str(tmp_path / f"t.{form}"), StreamOptions(min_count=1, linger=0, threads=1, readers=readers)
    if form in ("csv", "tsv"):
        mark = {"csv": ",", "tsv": "\t"}[form]
        rows = (f"{row}{mark}{line}{mark}x" for row, line in enumerate(lines))
        Path(name).write_text("\n".join([mark.join(table.column_names), *rows]) + "\n")
    elif form == "parquet":
        pq.write_table(table, name)
    else:
        feather.write_feather(table, name)
    plain = stream(StreamSkipGram(dim=4), lines, options=replace(options, readers="threads"))
    found = stream(StreamSkipGram(dim=4), name, options=options, text=TextOptions(column="said"))
    assert plain is not None and found is not None
    assert list(found.embeddings) == list(plain.embeddings)
    assert (found.embeddings.vectors == plain.embeddings.vectors).all()
    (source,) = open_sources([name], SourceOptions(rate=200.0), text=TextOptions(column="said"))
    first = next(batch for batch in source.batches(None) if batch is not None)
    again = [batch for batch in source.batches(first.position) if batch is not None]
    assert 0 < len(first) < 300 and len(first) + sum(map(len, again)) == 300


@pytest.mark.parametrize(
    ("name", "reading", "text", "said"),
    [
        ("t.csv", {}, {}, r"is CSV: name the column .*--column.*--form lines"), ("t.tsv", {}, {}, "is TSV: name"),
        ("t.csv", {}, {"column": "x"}, "has no column 'x'; its columns are: n, said"),
        ("t.parquet", {}, {"column": "n"}, "holds int64; a string"),
        ("t.csv", {"follow": True}, {"column": "said"}, "once to its end; leave out follow or read its lines"),
        ("t.csv", {"form": "ndjson"}, {"column": "said"}, "has columns and no objects"),
        ("t.txt", {}, {"column": "said"}, "files of CSV, TSV, Parquet and Arrow, and .*t.txt is none"),
        ("t.csv", {"form": "lines"}, {"column": "said"}, "files of CSV, TSV, Parquet and Arrow, and"),
        ("tcp://h:1", {}, {"column": "said"}, "and tcp://h:1 is none"), ("t.npy", {}, {}, "an array of NumPy"),
    ],
)  # fmt: skip
def test_columns_that_no_stream_reads(
    tmp_path: Path, name: str, reading: dict[str, Any], text: dict[str, Any], said: str
) -> None:
    pq.write_table(pa.table({"n": [1], "said": ["a b"]}), tmp_path / "t.parquet")
    np.save(tmp_path / "t.npy", np.arange(3))
    for other in ("t.csv", "t.txt"):
        (tmp_path / other).write_text("n,said\n1,a b\n")
    (tmp_path / "t.tsv").write_text("n\tsaid\n1\ta b\n")
    source = name if "://" in name else str(tmp_path / name)
    with pytest.raises(Any2VecError, match=said):
        stream("skipgram", source, reading=SourceOptions(**reading), text=TextOptions(**text))


def test_lines_of_a_csv_file_where_they_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("n,said\n1,a b\n1,a b\n")
    found = stream(
        "skipgram", str(tmp_path / "t.csv"), reading=SourceOptions(form="lines"), options=StreamOptions(min_count=1)
    )
    assert found is not None and "1,a" in found.embeddings


def test_a_table_without_text_is_no_source() -> None:
    with pytest.raises(DataError, match="needs a column to be named"):
        stream("skipgram", {"n": [1, 2]})
    with pytest.raises(DataError, match="'walk' of The dict holds whole numbers; a stream learns from text"):
        stream("skipgram", {"walk": [[1, 2], [2, 1]]})


def test_steps_end_behind_so_many_batches() -> None:
    assert len(made(lines_of(400), [40], range(400), limits=Limits(steps=3))) == 3


@pytest.mark.parametrize("words", [1, 37, 500])
def test_words_end_with_the_line_that_reaches_them(words: int) -> None:
    """However large a batch may be; the lines behind it come first where the run goes on."""
    lines = lines_of(400)
    counts = np.cumsum([len(line.split()) for line in lines])
    last = int(np.searchsorted(counts, words))
    for size in (700, 1 << 19):
        batches = made(lines, [40], range(400), limits=Limits(words=words), batch_bytes=size)
        assert sum(batch.words for batch in batches) == counts[last]
        assert [int(one) for batch in batches for found in batch.lines for one in found.ids] == list(range(last + 1))


def test_lines_behind_the_limit_are_trained_when_the_run_goes_on(text: Path, tmp_path: Path) -> None:
    whole = train(text, tmp_path / "whole")
    train(text, tmp_path / "parts", words=500)
    parts = train(text, tmp_path / "parts", resume=True)
    assert parts.summary["words"] == whole.summary["words"] > 500
    assert dict(zip(parts.embeddings, parts.embeddings.counts.tolist(), strict=True)) == dict(
        zip(whole.embeddings, whole.embeddings.counts.tolist(), strict=True)
    )


def test_a_peek_shows_what_has_come_and_waits_for_nothing() -> None:
    """The source stands still for ever after its first lines: batches of those are seen, and then none."""
    lines, moves = lines_of(400), threading.Event()

    class Halting(Fed):
        def take(self, timeout: float) -> LineBatch | None:
            return super().take(timeout) if len(self._left) > 5 or moves.wait(timeout) else None

    inflow: Any = Halting(line_batches(lines, [20], range(400)))
    vocabulary = StreamVocabulary(max_types=1000, max_rows=500, min_count=1)
    batches = TokenBatches(
        inflow, None, vocabulary, subsample=0, batch_bytes=500, linger=0, limits=Limits(), keeps_ids=False,
        prepare=lambda tokens, words: None,
    )  # fmt: skip
    assert list(batches.peek(3)) == []
    seen, coming, idle = [], [], 0
    for batch in (work.payload for work in batches):
        if batch.is_idle:
            idle += 1
            assert list(batches.peek(3)) == []
            moves.set()
            continue
        assert batch.number in (len(seen), *coming)
        seen.append(batch.number)
        deadline = time.monotonic() + 10
        while not moves.is_set() and len(seen) < 3 and not batches.peek(1) and time.monotonic() < deadline:
            time.sleep(0.001)
        coming = [work.step for work in batches.peek(3)]
        assert coming in ([], [len(seen)]) and (coming or len(seen) >= 3)
    assert seen == list(range(len(seen))) and len(seen) > 5 and idle


def test_a_batch_behind_which_nothing_is_encoded() -> None:
    """What `rest` asks for comes next, and the vocabulary is then as that batch has left it."""
    lines, settled = lines_of(400), []
    vocabulary = StreamVocabulary(max_types=1000, max_rows=500, min_count=1)
    inflow: Any = Fed(line_batches(lines, [30], range(400)))
    batches = TokenBatches(
        inflow, None, vocabulary, subsample=0, batch_bytes=500, linger=0, limits=Limits(), keeps_ids=False,
        prepare=lambda tokens, words: None,
    )  # fmt: skip
    words = 0
    for batch in (work.payload for work in batches):
        words += batch.words
        if batch.is_settled and not batch.is_idle:
            assert vocabulary.position == words
            settled.append(batch.number)
        elif batch.number in (2, 6):
            batches.rest()
    assert settled[:2] == [3, 7]


def test_the_learner_does_what_the_plain_twin_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two batches, the second with rows that are born; blocks and draws belong to positions."""
    monkeypatch.setattr(streamed_skipgram, "LOSS_EVERY", 2)
    config, draw = StreamSkipGram(dim=6, window=3, learning_rate=0.05), np.random.default_rng(1)
    learner = StreamedSkipGram(config, max_rows=40, threads=1, seed=5)
    keys = stream_key(5, PURPOSE_TOKEN), stream_key(5, PURPOSE_NEGATIVE)
    offset, words = 0, 0
    for number, (low, high) in enumerate([(0, 20), (20, 40)]):
        tokens = draw.integers(0, high, 90).astype(np.int32)
        tokens[::9] = -1
        tokens.flags.writeable = False
        noise = build_alias(draw.random(high) + 0.1)
        keep_V = np.full(40, 2**32 * 3 // 4, np.uint64)
        batch = TokenBatch(number, tokens, offset, np.arange(low, high), *noise, keep_V, 0.75, 80, words)
        rate, block = learner.learning_rate(words), 21  # 16 centers at 3 of 4 kept
        run_before = learner.input_VD.copy(), learner.output_VD.copy()
        learner.start(batch.born)
        fresh = learner.input_VD[low:high]
        assert np.abs(fresh).max() <= 2 / 6 and fresh.std() > 0.1 and not learner.output_VD[low:high].any()
        expected = learner.input_VD.astype(np.float64), learner.output_VD.astype(np.float64)
        learner.input_VD[:], learner.output_VD[:] = run_before
        found = learner.run(batch.work)
        items, loss, examples = naive_block(
            tokens, 0, tokens.size, -(-offset // block) * block, keep_V, *keys, *noise, *expected, 3, 5, rate, 0.0,
            2, block, 12,
        )  # fmt: skip
        assert (found.items, found.loss_examples) == (items, examples) and examples > 0
        assert found.loss_sum == pytest.approx(loss, rel=1e-4)
        np.testing.assert_allclose(learner.input_VD, expected[0], atol=1e-5)
        np.testing.assert_allclose(learner.output_VD, expected[1], atol=1e-5)
        offset, words = offset + 90 + GAP, words + 80


def test_a_run_that_goes_on_ends_like_one_that_never_stopped(text: Path, tmp_path: Path) -> None:
    whole = train(text, tmp_path / "whole", dedup="text")
    train(text, tmp_path / "parts", dedup="text", steps=3)
    train(text, tmp_path / "parts", dedup="text", steps=11, resume=True)
    parts = train(text, tmp_path / "parts", dedup="text", resume=True)
    assert list(parts.embeddings.keys) == list(whole.embeddings.keys)
    np.testing.assert_array_equal(parts.embeddings.vectors, whole.embeddings.vectors)
    np.testing.assert_array_equal(parts.embeddings.output, whole.embeddings.output)
    names = ("words", "steps", "loss", "vocabulary", "types")
    assert [parts.summary[name] for name in names] == [whole.summary[name] for name in names]
    assert parts.summary["sources"][str(text)]["duplicates"] == whole.summary["sources"][str(text)]["duplicates"] > 0
    again = train(text, tmp_path / "parts", dedup="text", resume=True)  # nothing has come since
    np.testing.assert_array_equal(again.embeddings.vectors, whole.embeddings.vectors)


def test_what_is_replayed_is_trained_again_and_counted_once(text: Path, tmp_path: Path) -> None:
    """A replayed run meets twice as many words, tells of each line once, and goes on to the same bits."""
    plain = train(text, tmp_path / "plain")
    whole = train(text, tmp_path / "whole", replay=1.0, replay_words=3000)
    train(text, tmp_path / "parts", replay=1.0, replay_words=3000, steps=4)
    parts = train(text, tmp_path / "parts", replay=1.0, replay_words=3000, resume=True)
    np.testing.assert_array_equal(parts.embeddings.vectors, whole.embeddings.vectors)
    assert [whole.summary[name] for name in ("words", "steps")] == [plain.summary[name] for name in ("words", "steps")]
    assert not np.array_equal(whole.embeddings.vectors, plain.embeddings.vectors)


def test_duplicates_at_the_end_are_counted(tmp_path: Path) -> None:
    text = tmp_path / "twice.txt"
    text.write_text("a b a b\n" * 5)
    found = train(text, dedup="text").summary
    assert (found["words"], found["sources"][str(text)]["duplicates"]) == (4, 4)


@pytest.mark.slow
def test_twenty_kills_train_each_line_once(tmp_path: Path) -> None:
    """kill -9 at random moments: the ids are those of the lines, each once, and the vectors those of a run without."""
    text = tmp_path / "text.txt"
    lines = lines_of(10_000)
    text.write_text("".join(line + "\n" for line in lines))
    command = [sys.executable, str(PROGRAMS / "stream_kills.py"), str(text), "20"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    reported = json.loads(ended.stdout)
    assert reported["kills"] == 20
    offsets, last, expected = np.cumsum([0, *(len(line) + 1 for line in lines)]), [], []
    for line, offset in zip(lines, offsets, strict=False):  # a text that is among the last 500 new ones is left out
        if line not in last[-500:]:
            last.append(line)
            expected.append(f"0 {offset}")
    assert (tmp_path / "killed" / "trained.ids").read_text().splitlines() == expected
    killed, whole = (Embeddings.load(tmp_path / name) for name in ("killed", "whole"))
    assert list(killed.keys) == list(whole.keys)
    np.testing.assert_array_equal(killed.vectors, whole.vectors)
    assert reported["killed"]["loss"] == reported["whole"]["loss"]


def test_a_reader_never_sees_half_of_a_snapshot(tmp_path: Path) -> None:
    """Snapshot n has n + 1 words, and each of its numbers is n."""
    last, is_over, seen = 30, threading.Event(), []

    def write(number: int) -> None:
        keys = [f"k{key}" for key in range(number + 1)]
        made = Embeddings(keys, np.full((number + 1, 3), number), counts=np.full(number + 1, number))
        assert snapshots.publish(tmp_path, made.save_into) == f"{number:06d}"

    def publish() -> None:
        for number in range(2, last + 1):
            write(number)
        is_over.set()

    write(1)
    publisher = threading.Thread(target=publish)
    publisher.start()
    while not is_over.is_set():
        found = Embeddings.load(tmp_path)
        number = len(found) - 1
        assert (found.vectors == number).all() and (found.counts == number).all() and len(found.keys) == number + 1
        seen.append(number)
    publisher.join()
    assert seen == sorted(seen) and len(Embeddings.load(tmp_path)) == last + 1
    assert snapshots.names(tmp_path) == [f"{last - 1:06d}", f"{last:06d}"]


@contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process, which does not outlive the block."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()


def stopped(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The summary that a command with --json writes when it is asked to end, in good order."""
    process.send_signal(signal.SIGTERM)
    reported, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return dict(json.loads(reported))


def test_commands_answer_while_a_followed_file_grows(tmp_path: Path) -> None:
    """--follow waits for more; SIGTERM saves and ends well; what came before it is in the vectors."""
    log, out = tmp_path / "log.txt", tmp_path / "out"
    log.write_text("tea pot\n" * 40)
    command = [
        sys.executable, "-m", "any2vec", "stream", "skipgram", str(log), "--dim", "4", "--follow", "--out",
        str(out), "--min-count", "2", "--linger", "0.1", "--snapshot-seconds", "0.01", "--threads", "1", "--json",
        "--drift-words", "tea,none",
    ]  # fmt: skip
    with started(command) as process:
        wait_for(lambda: known(out) >= {"tea", "pot"}, process)
        with log.open("a") as file:
            file.write("tea cup\n" * 40)
        wait_for(lambda: "cup" in known(out), process)
        assert json.loads(done("nearest", str(out), "cup", "-k", "1", "--json"))["neighbors"][0]["key"] in (
            "tea",
            "pot",
        )
        summary = stopped(process)
    assert (summary["ended_by"], summary["words"], summary["vocabulary"]) == ("SIGTERM", 160, 3)
    records = [json.loads(line) for line in (out / "progress.jsonl").read_text().splitlines()]
    assert list(records[-1]["drift"]) == ["tea"] and records[-1]["snapshot"] == snapshots.names(out)[-1]
    assert done("stream", "skipgram", str(log), "--dim", "4", "--out", str(out), "--min-count", "2",
                "--linger", "0.1", "--threads", "1", "--resume", "--quiet")  # fmt: skip
    assert json.loads((out / "stream.json").read_text())["summary"]["words"] == 160


@pytest.mark.parametrize(
    ("given", "hosts"), [("", []), ("tea is in the pot\n" * 3, []), ("tea is in the pot\n" * 3, ["--hosts", "1"])]
)
def test_a_stop_before_a_word_has_a_vector_keeps_the_state(tmp_path: Path, given: str, hosts: list[str]) -> None:
    if hosts:
        pytest.importorskip("torch")
    log, out = tmp_path / "log.txt", tmp_path / "out"
    log.write_text(given)
    command = [
        "stream", "skipgram", str(log), "--dim", "4", "--out", str(out), "--min-count", "5", "--linger", "0.1",
        "--threads", "1", "--json", "--memory", "20MB", *hosts,
    ]  # fmt: skip
    with started([sys.executable, "-m", "any2vec", *command, "--follow"]) as process:
        wait_for(lambda: words_in(out) == len(given.split()), process)
        summary = stopped(process)
    assert (summary["ended_by"], summary["words"], summary["vocabulary"]) == ("SIGTERM", len(given.split()), 0)
    assert summary["warnings"][0].startswith("No word came 5 times" if given else "No words came")
    with log.open("a") as file:
        file.write("tea is in the pot\n" * 5)
    assert json.loads(done(*command, "--resume"))["words"] == len(given.split()) + 25
    assert "tea" in known(out)


def words_in(out: Path) -> int:
    """What the newest record of a stream says; -1: there is none."""
    try:
        return int(json.loads((out / "progress.jsonl").read_text().splitlines()[-1])["words"])
    except (OSError, ValueError, IndexError):
        return -1


def known(out: Path) -> set[str]:
    """The words that have published vectors."""
    try:
        return set(Embeddings.load(out).keys)
    except (FormatError, InputError):
        return set()


def wait_for(is_so: Any, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 120
    while not is_so():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


def test_memory_bounds_the_words(tmp_path: Path) -> None:
    """Dozens of times as many words as there is room for: those that come for ever keep their rows."""
    text = tmp_path / "new.txt"
    with text.open("w") as file:
        file.writelines(f"ever n{line} n{line} always m{line} m{line}\n" for line in range(60_000))
    found = train(text, memory="2MB", batch_bytes=100_000)
    room = budget(StreamSkipGram(dim=8), 2_000_000)
    assert room.max_rows < 5000 and room.max_types < 5000
    keys = set(found.embeddings.keys)
    assert {"ever", "always"} <= keys and len(keys) <= room.max_rows and found.summary["types"] <= room.max_types


def test_the_longest_line_ends_any_batch() -> None:
    lines = ["tea " * 24 + "tea", "tea " * (MOST_LINE // 4)]  # 100 and 1 MiB + 1 bytes with their line feeds
    assert len(lines[1]) == MOST_LINE
    options = StreamOptions(batch_bytes=101, min_count=1, threads=1)
    result = stream(StreamSkipGram(dim=4), [lines], options=options, storage="5MB")
    assert result is not None and result.summary["words"] == 25 + MOST_LINE // 4 and result.summary["steps"] == 1


def test_records_are_rotated(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_progress, "RECORD_SECONDS", 0.0)
    monkeypatch.setattr(stream_progress, "LOG_BYTES", 3000)
    out = tmp_path / "out"
    received: list[stream_progress.StreamProgress] = []
    options = StreamOptions(threads=1, linger=0, batch_bytes=1000, min_count=2)
    stream(StreamSkipGram(dim=8), text, out=out, options=options, storage="20MB", callback=received.append)
    logs = [out / "progress.1.jsonl", out / "progress.jsonl"]
    assert all(path.stat().st_size < 5000 for path in logs)
    reported = [json.loads(line) for path in logs for line in path.read_text().splitlines()]
    assert reported == [json.loads(json.dumps(record.as_dict())) for record in received[-len(reported) :]]
    assert [record.words for record in received] == sorted(record.words for record in received)
    assert received[-1].sources[str(text)]["lines"] == 3000 and received[-1].delivery == "exactly once"


def test_several_sources_are_reported_apart(text: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("".join(line + "\n" for line in lines_of(500, seed=2)))
    out = tmp_path / "out"
    options = StreamOptions(threads=1, batch_bytes=1000, min_count=2, log_ids=True)
    found = stream("skipgram", [text, other], out=out, options=options, storage="20MB")
    sources = found.summary["sources"]
    assert [sources[str(path)]["lines"] for path in (text, other)] == [3000, 500]
    assert sources[str(other)]["words"] == len(other.read_text().split())
    ids = [line.split() for line in (out / "trained.ids").read_text().splitlines()]
    assert len(ids) == len({(source, one) for source, one in ids}) == 3500
    assert sum(source == "1" for source, _ in ids) == 500


def test_a_folder_is_never_taken_by_mistake(text: Path, tmp_path: Path) -> None:
    train(text, tmp_path / "out", steps=2)
    with pytest.raises(StorageError, match="holds a stream: go on with it with --resume"):
        train(text, tmp_path / "out")
    with pytest.raises(InputError, match=r"with min_count = 2, this one has 3"):
        train(text, tmp_path / "out", resume=True, min_count=3)
    before = Embeddings.load(tmp_path / "out")
    train(text, tmp_path / "out", overwrite=True)
    assert len(Embeddings.load(tmp_path / "out")) > len(before)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(StorageError, match="holds something else"):
        train(text, tmp_path / "mine", overwrite=True)
    (tmp_path / "out" / FILE).write_bytes(b"\x20\0\0\0\0\0\0\0{}")
    with pytest.raises(FormatError, match="Start again with --overwrite"):
        train(text, tmp_path / "out", resume=True)


@pytest.mark.parametrize("hosts", [None, 2])
def test_a_request_that_is_refused_leaves_the_former_stream(text: Path, tmp_path: Path, hosts: int | None) -> None:
    if hosts:
        pytest.importorskip("torch")
    out = tmp_path / "out"
    train(text, out, steps=2)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    options = StreamOptions(overwrite=True, threads=1)
    with pytest.raises(InputError, match="Each source is read once"):
        stream("skipgram", [str(text), str(text)], out=out, options=options, storage="20MB", hosts=hosts)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("is_torchrun", [False, True])
def test_hosts_that_may_be_started_again_do_not_take_the_former_stream_for_their_own(
    is_torchrun: bool, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one is lost before the first checkpoint; by our restarts, and by torchrun's."""
    pytest.importorskip("torch")
    out, options = tmp_path / "out", StreamOptions(overwrite=True, threads=1)
    train(text, out, steps=2)

    def lose(*given: Any) -> int:
        assert not (out / FILE).exists()
        raise HostError("Rank 1 was killed.")

    def begin(source: str) -> None:
        if is_torchrun:  # at rank 0, once all have joined
            model, reading = StreamSkipGram(dim=8), {"sources": SourceOptions(), "text": TextOptions()}
            run = replace(options, out=out)
            spec = RunSpec(task="stream", model=model, data=[source], reading=reading, run=run)
            task_named("stream").claim(spec, may_start_again=True)
            lose()
        stream("skipgram", source, out=out, options=options, hosts=HostOptions(hosts=1, restarts=1))

    monkeypatch.setattr("any2vec.train.launch.carry_out", lose)
    with pytest.raises(DataError):
        begin(f"{text}.nowhere")
    assert (out / FILE).exists()
    with pytest.raises(HostError, match="was killed"):
        begin(str(text))


def test_a_checkpoint_that_has_changed_is_not_gone_on_from(text: Path, tmp_path: Path) -> None:
    train(text, tmp_path / "out", words=2000)
    file = tmp_path / "out" / FILE
    stored = bytearray(file.read_bytes())
    stored[-100] ^= 1
    file.write_bytes(stored)
    with pytest.raises(FormatError, match="its bytes are not those that were written"):
        train(text, tmp_path / "out", resume=True)
    assert file.read_bytes() == stored


def test_nothing_comes_of_nothing(tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("a b c\n\n")
    with pytest.raises(DataError, match="No word came 2 times among 3"):
        train(empty, tmp_path / "out")
    with pytest.raises(FormatError, match="has published no vectors yet"):
        Embeddings.load(tmp_path / "out")
    empty.write_text("")
    with pytest.raises(DataError, match="No words came: the sources held none"):
        train(empty, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_what_has_come_and_is_too_little_for_a_batch_is_said_and_kept(text: Path, tmp_path: Path) -> None:
    few, out = tmp_path / "few.txt", tmp_path / "out"
    few.write_text("tea pot\n" * 3)
    with pytest.raises(DataError, match=r"24 bytes of lines came, fewer than a batch.*wait for --resume.*--seconds"):
        train(few, out, seconds=0.5, linger=60, follow=True)
    assert train(few, out, linger=60, resume=True).summary["words"] == 6
    ids = tmp_path / "ids"
    train(text, ids, log_ids=True)
    (ids / "trained.ids").write_text("0 1\n")
    with pytest.raises(FormatError, match="has 4 bytes where the checkpoint knows of"):
        train(text, ids, log_ids=True, resume=True)


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["skipgram"], "Say what to train on"),
        (["TEXT"], "The model comes before the input, as in any2vec stream skipgram"),
        (["skipgram", "TEXT"], "Say where the result goes"),
        (["skipgramm", "TEXT", "--out", "OUT"], "There is no model 'skipgramm' here; did you mean 'skipgram'"),
        (["skipgram", "nowhere.txt", "--out", "OUT"], "There is no file or folder nowhere.txt"),
        (
            ["skipgram", "crawl:127.0.0.1:8765/", "--out", "OUT"],
            "A crawl begins at crawl:http(s)://HOST[:PORT]/PATH, got",
        ),
        (["skipgram", "TEXT", "--out", "OUT", "--memory", "1kB"], "memory must be at least 1MiB"),
        (["skipgram", "TEXT", "--out", "OUT", "--memory", "2MB", "--dim", "999"], "has room for"),
        (["skipgram", "TEXT", "--out", "OUT", "--seconds", "0"], "seconds must be a number in (0"),
        (["skipgram", "TEXT", "--out", "OUT", "--resume", "--overwrite"], "give one of the two"),
        (["skipgram", "TEXT", "--out", "OUT", "--bad-bytes", "error"], "bad_bytes must be replace or skip"),
        (["skipgram", "TEXT", "--out", "OUT", "--rate", "-1"], "rate must be a number"),
        (["skipgram", "TEXT", "--out", "OUT", "--rate", "1e-320"], "rate must be a number in [0.001"),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], sentence: str, text: Path, tmp_path: Path) -> None:
    places = {"TEXT": str(text), "OUT": str(tmp_path / "out")}
    assert sentence in refused("stream", *(places.get(one, one) for one in arguments))
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_a_summary_says_what_was_done(text: Path, tmp_path: Path) -> None:
    summary = json.loads(
        done("stream", "skipgram", str(text), "--out", str(tmp_path / "out"), "--json", "--min-count", "2",
             "--memory", "50MB", "--dim", "8")
    )  # fmt: skip
    assert summary["words"] == len(text.read_text().split()) and summary["delivery"] == "exactly once"
    assert summary["ended_by"] == "sources" and summary["snapshots"] == 1 and summary["loss"] > 0
    assert summary["peak_rss_bytes"] > 0 and summary["words_per_s"] > 0
    assert len(Embeddings.load(tmp_path / "out")) == summary["vocabulary"]
