"""Files that are followed, packed files and pipes: each line once, whatever happens to the file meanwhile."""

from __future__ import annotations

import gzip
import os
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any2vec.errors import DataError
from any2vec.sources.base.cutter import LineBatch, Position
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.kinds.sockets import Pipe
from any2vec.sources.opening import open_source
from source_reading import all_ids, all_texts, read_all, read_lines

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64 that wraps, uncompiled
WHOLE = SourceOptions(follow=False)


class Log:
    """A file that is written, rotated and cut, and what a reader should have found in it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "app.log"
        self.path.write_bytes(b"")
        self.expected: list[bytes] = []
        self.pending = b""
        self.rotations = 0

    def write(self, size: int, is_ended: bool) -> None:
        """A piece of a line, or the end of one; no two lines are alike."""
        piece = b"line %s %d" % (b"x" * size, len(self.expected))
        self.pending += piece
        with self.path.open("ab") as file:
            file.write(piece + (b"\n" if is_ended else b""))
        if is_ended:
            self.expected.append(self.pending)
            self.pending = b""

    def rotate(self) -> None:
        """As logrotate: the numbers rise, and a new file takes the name; then it is written to."""
        for number in range(self.rotations, 0, -1):
            (self.path.parent / f"app.log.{number}").rename(self.path.parent / f"app.log.{number + 1}")
        self.path.rename(self.path.parent / "app.log.1")
        self.rotations += 1
        if self.pending:
            self.expected.append(self.pending)
            self.pending = b""
        self.path.write_bytes(b"")
        self.write(1, True)

    def cut(self, lines: int) -> None:
        """As copytruncate; so many lines are written at once."""
        os.truncate(self.path, 0)
        for size in range(lines):
            self.write(40 * size, True)


class Reader:
    """Reads a log, keeps a checkpoint now and then, and goes on from it after its death."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.lines: list[tuple[str, bytes]] = []
        self.position: Position | None = None
        self.kept: tuple[int, Position | None] = (0, None)
        self.begin()

    def begin(self) -> None:
        self.source = open_source(str(self.log.path), 0, SourceOptions(follow=True))
        self.batches = self.source.batches(self.position)
        self.poll()  # the file is open from here on

    def poll(self) -> None:
        quiet = 0
        while quiet < 2:  # a file that is left takes one poll in which nothing comes
            batch = next(self.batches)
            quiet = 0 if batch is not None else quiet + 1
            if batch is not None:
                self.take(batch)

    def take(self, batch: LineBatch) -> None:
        self.lines += zip(all_ids([batch]), all_texts([batch]), strict=True)
        self.position = batch.position

    def keep(self) -> None:
        self.kept = (len(self.lines), self.position)

    def die(self) -> None:
        """What was read since the last checkpoint is forgotten."""
        self.batches.close()  # type: ignore[attr-defined]
        count, self.position = self.kept
        del self.lines[count:]
        self.begin()


STEPS = st.lists(
    st.tuples(st.just("write"), st.integers(0, 90), st.booleans())
    | st.sampled_from([("poll",), ("keep",), ("die",), ("rotate",)])
    | st.tuples(st.just("cut"), st.integers(0, 4)),
    max_size=25,
)


@settings(max_examples=120, deadline=None)
@given(steps=STEPS)
def test_any_course_of_writing_rotating_polling_and_resuming_gives_every_line_once(steps: list[tuple]) -> None:
    with TemporaryDirectory() as folder, mock.patch("any2vec.sources.kinds.files.time.sleep"):
        log = Log(Path(folder))
        reader = Reader(log)
        for step in steps:
            if step[0] == "write":
                log.write(*step[1:])
            elif step[0] == "rotate":
                if reader.position is None:  # a reader that has no position begins with the file that has the name
                    reader.poll()
                    reader.keep()
                if reader.kept[1] is not None:
                    log.rotate()
            elif step[0] == "cut":  # what was not read is gone, so read it, and keep that
                if not log.pending:
                    reader.poll()
                    reader.keep()
                    log.cut(step[1])
            else:
                getattr(reader, step[0])()
        log.write(0, True)
        reader.poll()
        assert [text for _, text in reader.lines] == log.expected
        ids = [int(id) for id, _ in reader.lines]
        assert ids == sorted(set(ids))
        reader.batches.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("is_tied", [False, True])
def test_a_job_that_was_down_over_two_rotations_reads_the_files_between(tmp_path: Path, is_tied: bool) -> None:
    log = Log(tmp_path)
    log.write(3, True)
    reader = Reader(log)
    reader.keep()
    log.write(3, True)
    log.rotate()
    log.rotate()
    log.rotate()
    (tmp_path / "app.log.4.gz").write_bytes(gzip.compress(b"compressed long ago\n"))
    for path in tmp_path.iterdir() if is_tied else ():  # as where a clock is coarse
        os.utime(path, ns=(1, 1))
    reader.die()
    reader.poll()
    assert [text for _, text in reader.lines] == log.expected


def test_a_file_that_is_cut_short_or_rewritten_is_read_from_its_beginning_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo\n")
    source = open_source(str(path), 0, SourceOptions(follow=True))
    batches = source.batches(None)
    first = read_lines(batches, 2)
    path.write_bytes(b"three, longer than what was there\n")  # the same inode, rewritten while nobody looked
    second = read_lines(batches, 1)
    assert all_texts(second) == [b"three, longer than what was there"]
    assert all_ids(second) == ["8"]
    metrics = source.metrics()
    assert metrics["bad_by"] == {"file cut short": 1}
    assert "cut short" in metrics["trouble"]
    batches.close()
    path.write_bytes(b"four\n")
    again = open_source(str(path), 0, SourceOptions(follow=True)).batches(first[-1].position)
    assert all_texts(read_lines(again, 1)) == [b"four"]
    again.close()


def test_a_file_that_is_gone_is_reported_and_the_next_one_read(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\n")
    batches = open_source(str(path), 0, SourceOptions(follow=True)).batches(None)
    position = read_lines(batches, 1)[0].position
    batches.close()
    held = path.open("rb")  # keeps the inode from being given away again
    path.unlink()
    time.sleep(0.02)
    path.write_bytes(b"two\n")
    source = open_source(str(path), 0, SourceOptions(follow=True))
    batches = source.batches(position)
    assert all_texts(read_lines(batches, 1)) == [b"two"]
    assert source.metrics()["bad_by"] == {"file gone": 1}
    batches.close()
    held.close()


def test_the_inode_of_a_removed_file_that_a_new_one_has_got_leads_nobody_past_the_files_between(
    tmp_path: Path,
) -> None:
    """As logrotate with compression on a file system that gives inodes away again."""
    log = Log(tmp_path)
    log.write(3, True)
    reader = Reader(log)
    reader.batches.close()  # type: ignore[attr-defined]
    log.path.unlink()  # packed
    log.path.write_bytes(b"")
    log.write(60, True)
    log.rotate()
    status = log.path.stat()
    assert reader.position is not None
    reader.position |= {"device": status.st_dev, "inode": status.st_ino, "changed": 1}
    reader.begin()
    reader.poll()
    assert [text for _, text in reader.lines] == log.expected
    assert reader.source.metrics()["bad_by"] == {"file gone": 1}
    reader.batches.close()  # type: ignore[attr-defined]


def test_a_file_that_was_copied_and_cut_while_nobody_looked_is_read_to_its_end_in_the_copy(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.write(3, True)
    reader = Reader(log)
    reader.batches.close()  # type: ignore[attr-defined]
    log.write(30, True)
    (tmp_path / "app.log.1").write_bytes(log.path.read_bytes())
    log.cut(1)
    reader.begin()
    reader.poll()
    assert [text for _, text in reader.lines] == log.expected
    assert reader.source.metrics()["bad_by"] == {}
    reader.batches.close()  # type: ignore[attr-defined]


def test_a_file_whose_successor_cannot_be_opened_is_waited_for(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.write(3, True)
    reader = Reader(log)
    log.rotate()
    opened, is_refused = os.open, True

    def refusing(path: str, *rest: int) -> int:
        if is_refused and str(path) == str(log.path):
            raise PermissionError(13, "Permission denied")
        return opened(path, *rest)

    with mock.patch("any2vec.sources.kinds.files.os.open", refusing):
        assert [next(reader.batches) for _ in range(4)] == [None] * 4
        assert "Permission denied" in reader.source.metrics()["trouble"]
        is_refused = False
        reader.poll()
    assert [text for _, text in reader.lines] == log.expected
    reader.batches.close()  # type: ignore[attr-defined]


def test_a_job_that_does_not_follow_reads_the_files_between_and_ends(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"old 1\nold 2\nold 3\n")
    first = read_all(open_source(str(path), 0, WHOLE).batches(None))
    with path.open("ab") as file:
        file.write(b"old 4\n")
    path.rename(tmp_path / "app.log.2")
    (tmp_path / "app.log.1").write_bytes(b"between\n")
    os.link(tmp_path / "app.log.1", tmp_path / "app.log.1.copy")
    path.write_bytes(b"new 1\nnew 2\nnew 3\nnew 4\n")
    for age, name in enumerate(["app.log.2", "app.log.1", "app.log"]):
        os.utime(tmp_path / name, ns=(0, first[-1].position["changed"] + age))
    source = open_source(str(path), 0, WHOLE)
    found = read_all(source.batches(first[-1].position))
    assert all_texts(found) == [b"old 4", b"between", b"new 1", b"new 2", b"new 3", b"new 4"]
    assert source.metrics()["state"] == "ended"
    assert read_all(open_source(str(path), 0, WHOLE).batches(found[-1].position)) == []
    path.rename(tmp_path / "app.log~")  # by an editor, which writes a file anew
    path.write_bytes((tmp_path / "app.log~").read_bytes() + b"new 5\n")
    assert all_texts(read_all(open_source(str(path), 0, WHOLE).batches(found[-1].position))) == [b"new 5"]


def test_a_file_of_another_name_does_not_follow_one_that_was_rotated(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n")
    source = open_source(str(path), 0, SourceOptions(follow=True))
    batches = source.batches(None)
    assert all_texts(read_lines(batches, 1)) == [b"one"]
    path.rename(tmp_path / "app.log.1")
    (tmp_path / "app.log.errors").write_bytes(b"no line of it\n")
    path.write_bytes(b"two\n")
    os.utime(path, ns=(time.time_ns() + 10**10,) * 2)  # the other's last change lies between those of the two
    assert all_texts(read_lines(batches, 1)) == [b"two"]
    batches.close()


def test_a_mark_of_byte_order_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbftea pot\n\xef\xbb\xbfkept\n")
    found = read_all(open_source(str(path), 0, WHOLE).batches(None))
    assert all_texts(found) == [b"tea pot", b"\xef\xbb\xbfkept"] and all_ids(found) == ["3", "11"]
    assert read_all(open_source(str(path), 0, WHOLE).batches(found[-1].position)) == []


@pytest.mark.parametrize("follow", [False, True])
def test_what_only_begins_with_the_name_does_not_stand_for_a_file_that_was_rewritten(
    tmp_path: Path, follow: bool
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\ntwo\n")
    position = read_all(open_source(str(path), 0, WHOLE).batches(None))[-1].position
    (tmp_path / "app.log.errors").write_bytes(b"no line of it\n")
    os.utime(tmp_path / "app.log.errors", ns=(0, position["changed"] + 1))
    path.write_bytes(b"three\n")
    batches = open_source(str(path), 0, SourceOptions(follow=follow)).batches(position)
    assert all_texts(read_lines(batches, 1)) == [b"three"]
    batches.close()


def test_lines_come_while_the_file_grows(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"half a")
    batches = open_source(str(path), 0, SourceOptions(follow=True)).batches(None)
    assert next(batches) is None
    with path.open("ab") as file:
        file.write(b" line\nand ")
    assert all_texts(read_lines(batches, 1)) == [b"half a line"]
    with path.open("ab") as file:
        file.write(b"more\n")
    assert all_texts(read_lines(batches, 1)) == [b"and more"]
    batches.close()


def test_a_whole_file_ends_with_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffno\r\n\n \nbad \0 line\n caf\xe9\nlast".encode("latin-1", "ignore"))
    source = open_source(str(path), 3, WHOLE)
    found = read_all(source.batches(None))
    assert all_texts(found) == [b"no", b" caf\xe9", b"last"]
    assert {batch.source for batch in found} == {3}
    metrics = source.metrics()
    assert metrics["bad_by"] == {"NUL bytes": 1, "not UTF-8": 1}
    assert (metrics["state"], metrics["lines"], metrics["bytes"]) == ("ended", 3, path.stat().st_size)
    assert source.delivery == "exactly once"
    assert read_all(open_source(str(path), 0, WHOLE).batches(found[-1].position)) == []


def test_json_lines_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.1"
    path.write_bytes(
        b'{"id": "x", "text": "two\\nlines"}\n{"id": 7, "text": "seven"}\n{"text": "no id"}\n{"id": "half", "te\n'
        b'[1]\n{"id": "z"}\n{"id": "nul", "text": "a\\u0000b"}\n{"text": "\\ud800 lone"}\n' + b"[" * 100_000 + b"\n"
        b'{"id": "a b\\n", "text": "last"}\n'
    )
    source = open_source(str(path), 0, WHOLE)
    found = read_all(source.batches(None))
    assert all_texts(found) == [b"two lines", b"seven", b"no id", b"? lone", b"last"]
    assert all_ids(found)[:2] == ["x", "7"]
    assert all_ids(found)[-1] == "a\\x20b\\n"
    assert all_ids(found)[2] == str(path.read_bytes().index(b'{"text": "no id"'))
    assert source.metrics()["bad_by"] == {"not JSON": 2, "no JSON object": 1, "no text text": 1, "NUL bytes": 1}


def test_keys_announce_what_dedup_says(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(b'{"id": 1, "text": "a"}\n{"id": 1, "text": "b"}\n{"id": 2, "text": "a"}\n{"text": "a"}\n')

    def keys(dedup: str, number: int = 0) -> list[int]:
        options = SourceOptions(follow=False, dedup=dedup)  # type: ignore[arg-type]
        return [
            key for b in read_all(open_source(str(path), number, options).batches(None)) for key in b.key_N.tolist()
        ]

    first, again, second, without = keys("id")
    assert first == again
    assert len({first, second, without}) == 3
    assert not set(keys("id")) & set(keys("id", 1))
    a, b, a_again, a_third = keys("text")
    assert a == a_again == a_third != b
    assert keys("text") == keys("text", 1)
    assert len(set(keys("none"))) == 4
    plain = tmp_path / "a.txt"
    plain.write_bytes(b"a\na\n")
    by_text = read_all(open_source(str(plain), 1, SourceOptions(follow=False, dedup="text")).batches(None))
    assert by_text[0].key_N.tolist() == [a, a]
    assert len({*read_all(open_source(str(plain), 1, WHOLE).batches(None))[0].key_N.tolist()}) == 2


def test_packed_files_go_on_at_a_position(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    lines = [b"line %d" % number for number in range(30_000)]
    path.write_bytes(gzip.compress(b"\n".join(lines)))
    found = read_all(open_source(str(path), 0, WHOLE).batches(None))
    assert all_texts(found) == lines
    assert len(found) > 3
    rest = read_all(open_source(str(path), 0, WHOLE).batches(found[1].position))
    assert all_texts(rest) == lines[len(found[0]) + len(found[1]) :]
    whole = path.read_bytes()
    path.write_bytes(whole[:20_000])
    source = open_source(str(path), 0, WHOLE)
    found = read_all(source.batches(None))
    begun = all_texts(found)
    assert begun == lines[: len(begun)] and 5 < len(begun) < len(lines)
    assert source.metrics()["bad_by"] == {"damaged file": 1, "half a line": 1}
    assert "truncated" in source.metrics()["trouble"]
    path.write_bytes(whole)
    assert all_texts(read_all(open_source(str(path), 0, WHOLE).batches(found[-1].position))) == lines[len(begun) :]


@pytest.mark.parametrize("count", [10, 40_000])
def test_another_packed_file_in_its_place_is_read_from_its_beginning(tmp_path: Path, count: int) -> None:
    path = tmp_path / "day.gz"
    path.write_bytes(gzip.compress(b"".join(b"monday %d\n" % number for number in range(30_000))))
    position = read_all(open_source(str(path), 0, WHOLE).batches(None))[-1].position
    lines = [b"tuesday %d" % number for number in range(count)]
    path.write_bytes(gzip.compress(b"\n".join(lines)))
    source = open_source(str(path), 0, WHOLE)
    found = read_all(source.batches(position))
    assert all_texts(found) == lines and int(all_ids(found)[0]) == position["offset"]
    assert source.metrics()["bad_by"] == {"file cut short": 1} and "another file" in source.metrics()["trouble"]
    for batch in (found[0], found[-1]):
        rest = read_all(open_source(str(path), 0, WHOLE).batches(batch.position))
        assert all_texts(rest) == (lines[len(found[0]) :] if batch is found[0] else [])


def test_another_file_as_standard_input_is_read_from_its_beginning(tmp_path: Path) -> None:
    def read(text: bytes, position: Position | None) -> tuple[list[LineBatch], dict]:
        (tmp_path / "input").write_bytes(text)
        source = Pipe(None, "-", 0, WHOLE)
        source._file, source._is_file = os.open(tmp_path / "input", os.O_RDONLY), True
        try:
            return read_all(source.batches(position)), source.metrics()
        finally:
            os.close(source._file)

    found, _ = read(b"one\ntwo\n", None)
    position = found[-1].position
    more, metrics = read(b"one\ntwo\nthree\n", position)
    assert all_texts(more) == [b"three"] and all_ids(more) == ["8"] and not metrics["bad"]
    for text in (b"other lines\nof another day\n", b"six\n"):
        more, metrics = read(text, position)
        assert all_texts(more) == text.splitlines() and all_ids(more)[0] == "8"
        assert metrics["bad_by"] == {"file cut short": 1}
    more, metrics = read(b"one\ntwo\n", {"offset": 4})  # of a pipe, whose lines are gone
    assert all_texts(more) == [b"one", b"two"] and not metrics["bad"]


def test_a_named_pipe_is_followed_from_writer_to_writer(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    source = open_source(str(path), 0, SourceOptions(follow=True))
    assert source.delivery == "at most once"
    batches = source.batches(None)
    assert next(batches) is None
    for text in (b"first\n", b"second\nthi", b"rd\n"):
        thread = threading.Thread(target=path.write_bytes, args=(text,))
        thread.start()
        thread.join()
        if text.endswith(b"thi"):
            assert all_texts(read_lines(batches, 1)) == [b"second"]
        elif text == b"first\n":
            assert all_texts(read_lines(batches, 1)) == [b"first"]
    assert all_texts(read_lines(batches, 1)) == [b"third"]
    source.close()
    assert read_all(batches) == []


def test_a_rate_is_kept(tmp_path: Path) -> None:
    """The first batch comes at once, each later one when those before it have had their time."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"word\n" * 60)
    begun = time.monotonic()
    found = read_all(open_source(str(path), 0, SourceOptions(follow=False, rate=200.0)).batches(None))
    assert sum(map(len, found)) == 60
    assert max(map(len, found)) == 40
    assert time.monotonic() - begun >= 0.2


@pytest.mark.parametrize("what", ["missing", "folder"])
def test_what_cannot_be_followed_is_said(tmp_path: Path, what: str) -> None:
    path = tmp_path if what == "folder" else tmp_path / "missing.txt"
    with pytest.raises(DataError, match="is a folder; name" if what == "folder" else "There is no file"):
        open_source(str(path), 0, SourceOptions(follow=True))
