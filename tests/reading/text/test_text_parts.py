"""Hosts that read their own parts of a text: together they see what one host sees, and train the same bits."""

from __future__ import annotations

import gzip
import mmap
import os
import re
import threading
import time
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import any2vec
from any2vec import errors
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.data.text.shards import cut_text, encode_part
from any2vec.data.text.text import encode_text
from any2vec.kernels.text.tokens import first_uses
from any2vec.plan.order.shares import keep_rest
from any2vec.tasks.words.parts import prepare_part
from any2vec.tasks.words.prepare import Prepared, prepare
from ended_runs import ended_at_record
from naive.text import tokens as naive
from spreads import spread

MODEL = any2vec.SkipGram(dim=8, window=3, min_count=2, subsample=1e-2)
ALL_WORDS = any2vec.SkipGram(dim=8, window=3, min_count=1)
PARTS = {"read": "parts"}


def zipf_lines(num_lines: int = 300, seed: int = 0) -> list[str]:
    random, weights = np.random.default_rng(seed), 1 / np.arange(1, 201)
    sizes = random.integers(2, 30, num_lines)
    return [" ".join(f"w{word}" for word in random.choice(200, size, p=weights / weights.sum())) for size in sizes]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of text for each test; that of compiled kernels stays."""
    monkeypatch.setattr("any2vec.data.io.cache.cache_root", lambda cache_dir: Path(cache_dir or tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    lines = zipf_lines()  # the words of the second half are longer: cuts in bytes are others than cuts in tokens
    path.write_text("\n".join([*lines[:150], *(line.replace("w", "longword") for line in lines[150:])]) + "\n")
    return path


def read_parts(data: Any, hosts: int, model: Any = ALL_WORDS, text: Any = None) -> list[Prepared]:
    """What each of some logical hosts prepares."""

    def host(transport: Transport) -> Prepared:
        return prepare_part(model, data, transport, text=text, cache_dir=None, stage=None)

    return run_logical(hosts, host)


def read_whole(data: Any, model: Any = ALL_WORDS, text: Any = None) -> Prepared:
    return prepare(model, data, threads=1, seed=1, text=text, graph=None, cache_dir=None, stage=None)


def origin_free(metrics: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metrics.items() if name not in ("corpus", "parts")}


def check_same(parts: list[Prepared], whole: Prepared) -> None:
    """Vocabulary, facts and tokens of the parts are those of the whole; no host has more than its part."""
    bounds = parts[0].bounds
    assert bounds is not None and bounds[0] == 0 and bounds[-1] == whole.source.num_positions
    for rank, part in enumerate(parts):
        assert list(part.keys) == list(whole.keys)
        assert part.counts.tolist() == whole.counts.tolist()
        assert (part.keep == whole.keep).all() and part.block == whole.block
        assert origin_free(part.metadata) == origin_free(whole.metadata)
        assert part.bounds == bounds and part.source.num_positions == whole.source.num_positions
        start, stop = bounds[rank], bounds[rank + 1]
        tokens, begin, end, offset = part.source.piece(0, start, stop)
        assert (offset, begin, end) == (start, 0, stop - start) and len(tokens) == stop - start
        expected, begin, end, _ = whole.source.piece(0, start, stop)
        assert tokens.tolist() == expected[begin:end].tolist()
        assert tokens[-1] == -1


TEXTS = {
    "zipf": "\n".join(zipf_lines()).encode() + b"\n",
    "ties": b"z y\nx\nw v\nz y\nu t\ns\nx\nb\na b\nv w\nq r\nr q\n",
    "empty lines": b"\n\na b\n\n \n\nb a c\n\t\n\nc d\n\n\n\n\nd d a\n\n",
    "windows": b"a b\r\nc a\r\n\r\nb b d\r\nd e\r\nf a\r\n",
    "no last line end": b"a b c\nc b\nd e f\nf a",
    "not utf-8": b"caf\xe9 a\nb caf\xe9 a \xff\xfe word\n\xe2\x82\nsome more good text here\nb a \xef\xbb\xbf\nlong\n",
    "marks within": b"\xef\xbb\xbfa b\n\xef\xbb\xbfa b\n\xef\xbb\xbfb c\n\xef\xbb\xbfa a\nb b b b b b\n",
    "long words": b"\n".join(b"averyverylongword%d " % (at % 7) * 5 for at in range(40)),
    "other spaces": "a\u2003b\u00a0c\nd\u3000a\x0bb\nİstanbul ΣΑΣ\nΣΑΣ a b\n".encode(),
}


@pytest.mark.parametrize("hosts", [1, 2, 3])
@pytest.mark.parametrize("name", TEXTS)
def test_parts_are_the_whole(tmp_path: Path, name: str, hosts: int) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(TEXTS[name])
    for options in (None, any2vec.TextOptions(lowercase=True, bad_bytes="skip")):
        check_same(read_parts(path, hosts, text=options), read_whole(path, text=options))


@pytest.mark.parametrize("hosts", [2, 5, 9])
def test_any_cut_of_many_lines(text: Path, hosts: int) -> None:
    for model in (MODEL, replace(MODEL, max_vocab=20)):
        check_same(read_parts(text, hosts, model), read_whole(text, model))


def test_ties_are_ranked_by_first_use_in_the_whole_text(tmp_path: Path) -> None:
    """All counts are 2, and the second host sees the words first that the first one sees last."""
    path = tmp_path / "text.txt"
    path.write_text("d c\nb a\na b\nc d\n")
    parts = read_parts(path, 2)
    assert [list(part.keys) for part in parts] == [["d", "c", "b", "a"]] * 2
    assert parts[1].source.piece(0, 6, 12)[0].tolist() == [3, 2, -1, 1, 0, -1]


def test_several_files(tmp_path: Path) -> None:
    """A file ends a sentence; files are cut, or taken whole, wherever the bytes fall."""
    lines = zipf_lines(120)
    for number, (start, stop) in enumerate([(0, 3), (3, 70), (70, 71), (71, 120)]):
        (tmp_path / f"{number}.txt").write_text("\n".join(lines[start:stop]))
    (tmp_path / "3a.txt").write_text("")
    names = sorted(str(path) for path in tmp_path.glob("*.txt"))
    for hosts in (2, 3, 4, 7):
        check_same(read_parts(names, hosts), read_whole(names))


def test_files_that_cannot_be_cut_are_shared_out(tmp_path: Path) -> None:
    lines = zipf_lines(90)
    for number, (start, stop) in enumerate([(0, 60), (60, 61), (61, 62), (62, 90)]):
        (tmp_path / f"{number}.txt.gz").write_bytes(gzip.compress("\n".join(lines[start:stop]).encode()))
    names = [str(path) for path in sorted(tmp_path.glob("*.gz"))]
    for hosts in (2, 3, 4):
        parts = read_parts(names, hosts)
        check_same(parts, read_whole(names))
    assert [sum(len(spans) for spans in cut_text(names, hosts).spans) for hosts in (2, 3, 4)] == [4, 4, 4]
    with pytest.raises(errors.InputError, match=r"0\.txt\.gz is compressed .* there are 4 of them for 5 hosts"):
        read_parts(names, 5)


def test_arrays_are_shared_out_whole(tmp_path: Path) -> None:
    for number, ids in enumerate(([5, 7, -1, 7], [7, 5, 3, -1, 3], [9, 3])):
        np.save(tmp_path / f"{number}.npy", np.array(ids))
    names = [str(path) for path in sorted(tmp_path.glob("*.npy"))]
    check_same(read_parts(names, 2), read_whole(names))
    (tmp_path / "text.txt").write_text("a b\n")
    with pytest.raises(errors.DataError, match="some hold ids and others text"):
        read_parts([*names, str(tmp_path / "text.txt")], 4)


def test_cuts_fall_behind_line_ends(text: Path) -> None:
    data, previous = text.read_bytes(), 0
    for (span,) in cut_text(text, 7).spans:
        assert span.start == previous and data[span.stop - 1 : span.stop] == b"\n"
        wanted = len(data) // 7
        assert abs(span.stop - span.start - wanted) <= 2 * max(map(len, data.split(b"\n")))
        previous = span.stop
    assert previous == len(data)


def root(array: Any) -> Any:
    """Whose memory an array shows."""
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


def test_cuts_of_two_files_by_hand(tmp_path: Path) -> None:
    """Each part begins with the first line at or behind its share: 9 bytes, of which shares begin at 0, 3 and 6."""
    (tmp_path / "a").write_bytes(b"ab\nc")
    (tmp_path / "b").write_bytes(b"de\nf\n")
    found = [[span[2:4] for span in spans] for spans in cut_text(tmp_path, 3).spans]
    assert found == [[(0, 3)], [(3, 4), (0, 3)], [(3, 5)]]
    found = [[span[2:4] for span in spans] for spans in cut_text(tmp_path / "a", 4).spans]
    assert found == [[(0, 3)], [], [], [(3, 4)]]


def test_what_a_host_keeps(text: Path, cache: Path) -> None:
    """Tokens of its part in memory-mapped files, and the words that the model keeps; no host encodes the whole."""
    hosts = 4
    parts = read_parts(text, hosts, replace(MODEL, min_count=5))
    whole = read_whole(text, replace(MODEL, min_count=5))
    bounds = parts[0].bounds
    assert bounds is not None
    for rank, part in enumerate(parts):
        tokens = part.source.tokens  # type: ignore[attr-defined]
        assert len(tokens) == bounds[rank + 1] - bounds[rank] < 0.6 * whole.source.num_positions
        assert isinstance(root(tokens), mmap.mmap)
        assert len(part.keys) == int((whole.counts >= 5).sum()) < whole.metadata["num_types"]
        with pytest.raises(IndexError, match="another part"):
            part.source.piece(0, 0, whole.source.num_positions)
    header = 128
    sizes = sorted(path.stat().st_size for path in cache.rglob("*.npy") if path.parent.name == "corpora")
    own = [4 * (stop - start) + header for start, stop in pairwise(bounds)]
    assert sizes == sorted(own)


def test_parts_are_found_in_the_cache(text: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = read_parts(text, 3)
    files = sorted(path for path in cache.rglob("*"))
    monkeypatch.setattr("any2vec.data.text.shards.Encoding", None)
    again = read_parts(text, 3)
    assert sorted(path for path in cache.rglob("*")) == files
    assert [part.metadata for part in first] == [part.metadata for part in again]


def test_first_uses() -> None:
    random = np.random.default_rng(3)
    tokens = np.array([*range(40, -1, -1), *random.integers(-1, 41, 500)])[np.argsort(random.random(541))]
    assert first_uses(tokens.astype(np.int32), 41).tolist() == naive.first_uses(tokens.tolist())


# ---- training ---------------------------------------------------------------------------------------------------


def trained(data: Any, options: dict[str, Any], model: Any = MODEL, **more: Any) -> any2vec.FitResult:
    return any2vec.fit(model, data, epochs=2, threads=1, seed=3, **options, **more)


def same(one: any2vec.FitResult, other: any2vec.FitResult) -> bool:
    first, second = one.embeddings, other.embeddings
    outputs = (first.output is None and second.output is None) or (first.output == second.output).all()
    return list(first.keys) == list(second.keys) and bool((first.vectors == second.vectors).all() and outputs)


@pytest.mark.parametrize(
    "model", [MODEL, any2vec.CBOW(dim=8, window=3, min_count=1), replace(MODEL, kernel="classic", subsample=0)]
)
def test_parts_train_the_bits_of_a_whole_read_with_the_same_bounds(
    text: Path, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = {"logical_hosts": 3, "rounds_per_epoch": 3}
    parts = trained(text, spread(**hosts, read="parts"), model)
    bounds = read_parts(text, 3, model)[0].bounds
    elsewhere = trained(text, spread(**hosts), model)
    monkeypatch.setattr(
        "any2vec.tasks.words.prepare.prepare", lambda *data, **more: replace(prepare(*data, **more), bounds=bounds)
    )
    whole = trained(text, spread(**hosts), model)
    assert same(parts, whole) and not same(parts, elsewhere)
    assert parts.summary["items"] == whole.summary["items"]
    assert parts.summary["data"]["digest"] == whole.summary["data"]["digest"]
    said = parts.summary["bytes_by_phase"].pop("vocabulary")
    assert said > 0 and "vocabulary" not in whole.summary["bytes_by_phase"]
    for phase, number in whole.summary["bytes_by_phase"].items():
        assert parts.summary["bytes_by_phase"][phase] == number


def test_one_host_reads_one_part(text: Path) -> None:
    assert same(trained(text, spread(hosts=1)), trained(text, spread(hosts=1, read="parts")))


def test_processes_are_logical_hosts(text: Path) -> None:
    pytest.importorskip("torch", reason="hosts as processes need torch")
    logical = trained(str(text), spread(logical_hosts=2, **PARTS))
    local = trained(str(text), spread(hosts=2, **PARTS))
    assert same(logical, local)
    for name in ("bytes_by_kind", "bytes_by_phase", "items", "data"):
        assert logical.summary[name] == local.summary[name], name


def stopped(data: Any, out: Path, options: dict[str, Any], after: int) -> None:
    ended_at_record(after, trained, data, options, out=out)


def test_resume(text: Path, tmp_path: Path) -> None:
    """As many hosts: the same bits. Others cannot share out what is left, unless they read the text whole."""
    options, out = spread(logical_hosts=3, rounds_per_epoch=4, **PARTS), tmp_path / "out"
    whole = trained(text, options)
    stopped(text, out, options, 3)
    with pytest.raises(errors.InputError, match=r"epoch of 3 hosts, and 2 hosts .* or with read whole"):
        trained(text, spread(logical_hosts=2, rounds_per_epoch=4, **PARTS), out=out, resume=True)
    assert same(trained(text, options, out=out, resume=True), whole)
    assert same(trained(text, options, out=out, resume=True), whole)  # it is finished

    stopped(text, tmp_path / "other", options, 3)
    other = trained(text, spread(logical_hosts=2), out=tmp_path / "other", resume=True)
    assert other.summary["items"] == whole.summary["items"]

    stopped(text, tmp_path / "changed", options, 3)
    lines = text.read_text().splitlines()
    text.write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")
    with pytest.raises(errors.InputError, match=r"is of a run with data\."):
        trained(text, options, out=tmp_path / "changed", resume=True)


def test_what_is_left_stays_where_it_is() -> None:
    bounds, rest = [0, 10, 20, 30], [[(5, 10)], [], [(20, 22), (25, 30)]]
    assert keep_rest(rest, bounds) == [((5, 10),), (), ((20, 22), (25, 30))]
    for wrong in (rest[:2], [[(5, 11)], [], []], [[], [(5, 10)], []]):
        with pytest.raises(errors.InputError, match="resume with"):
            keep_rest(wrong, bounds)


# ---- bad input --------------------------------------------------------------------------------------------------


def test_more_hosts_than_lines(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("a b c\nb c a\n")
    for hosts in (3, 40):
        with pytest.raises(errors.InputError, match=f"too few for {hosts} hosts: rank"):
            read_parts(path, hosts)
    path.write_text("a b a b\n" + "\n" * 100)
    with pytest.raises(errors.InputError, match="too few for 2 hosts: rank 1"):
        read_parts(path, 2)
    path.write_text(" \n" * 20)
    with pytest.raises(errors.DataError, match="holds no words"):
        read_parts(path, 2)
    path.write_text("")
    with pytest.raises(errors.DataError, match="is empty"):
        read_parts(path, 2)


def test_bad_bytes_are_judged_over_the_whole_file(tmp_path: Path) -> None:
    """Half of the file alone would be refused; as in a whole read, it is the file that counts."""
    path = tmp_path / "text.txt"
    path.write_bytes(b"\xff\xff\xff\xff a\n" * 20 + b"good words of text here\n" * 20)
    check_same(read_parts(path, 4), read_whole(path))
    path.write_bytes(b"\xff\xff\xff\xff a\n" * 40 + b"b\n")
    messages = []
    for read in (partial(read_parts, path, 2), partial(read_whole, path)):
        with pytest.raises(errors.DataError, match="another encoding") as found:
            read()
        messages.append(str(found.value))
    assert messages[0] == messages[1]


def test_a_nul_byte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(b"a b c\n" * 10 + b"a \0 b\n" + b"a b c\n" * 3)
    with pytest.raises(errors.DataError, match=r"text\.txt, from byte \d+ on has a NUL byte"):
        read_parts(path, 2)


def test_hosts_wait_for_the_slowest_reader(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encode = encode_part

    def slowly(*args: Any, **options: Any) -> Any:
        time.sleep(1.5 * (threading.current_thread().name == "host-1"))
        return encode(*args, **options)

    read_parts(text, 2)  # what is compiled and encoded by now takes no time
    monkeypatch.setattr("any2vec.tasks.words.parts.encode_part", slowly)

    def host(transport: Transport) -> list[int]:
        found = prepare_part(ALL_WORDS, text, transport, text=None, cache_dir=None, stage=None)
        return found.metadata["vocabulary"]

    one, other = run_logical(2, host, patience=0.5)
    assert one == other


def test_hosts_that_see_other_files(tmp_path: Path) -> None:
    """Each rank looks into a folder of its own."""
    for rank in range(3):
        (tmp_path / f"{rank}").mkdir()

    def read_each(transport: Transport) -> Prepared:
        data = tmp_path / str(transport.rank)
        return prepare_part(ALL_WORDS, data, transport, text=None, cache_dir=None, stage=None)

    def write(rank: int, content: str, name: str = "text.txt") -> None:
        (tmp_path / str(rank) / name).write_text(content)

    common = "a b\nb c\nc a\n"
    for rank in range(3):
        write(rank, common)
    assert len(run_logical(3, read_each)) == 3
    for content, message in (
        (common + "d\n", r"Rank 1 sees text\.txt of 14 bytes where rank 0 sees text\.txt of 12; give all hosts"),
        (common.upper(), r"Rank 1 sees other contents of text\.txt than rank 0"),
    ):
        write(1, content)
        with pytest.raises(errors.HostError, match=message):
            run_logical(3, read_each)
    write(1, common)
    write(2, common, "more.txt")
    with pytest.raises(errors.HostError, match="Rank 2 sees 2 files where rank 0 sees 1"):
        run_logical(3, read_each)


def test_what_cannot_be_read_in_parts(text: Path, tmp_path: Path) -> None:
    options = spread(logical_hosts=2, **PARTS)
    edges = tmp_path / "edges.tsv"
    edges.write_text("a\tb\nb\tc\nc\ta\n")
    corpus = encode_text(text)
    for model, data, message in (
        (
            any2vec.DeepWalk(dim=8),
            edges,
            "deepwalk has no --read (read): it reads a graph, and read parts is for",
        ),
        (MODEL, corpus, "is encoded already"),
        (MODEL, [["a", "b"], ["b", "a"]], "Sentences in memory cannot be read in parts"),
        (MODEL, "-", "Standard input cannot be read in parts"),
    ):
        with pytest.raises(errors.InputError, match=re.escape(message)):
            trained(data, options, model)
    with pytest.raises(errors.InputError, match="read must be one of whole, parts"):
        spread(read="half")


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(errors.InputError, match="A pipe cannot be read in parts"):
        cut_text(tmp_path / "pipe", 2)
