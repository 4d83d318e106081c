"""Bad input at the command line: one clear sentence, exit code 2, nothing half-written, standard output empty."""

from __future__ import annotations

import errno
import gzip
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from any2vec.cli.app import app
from any2vec.data.graph.reader import read_graph
from any2vec.embeddings import Embeddings
from any2vec.sampling.walks import WalkOptions, write_walks

TEXT = "the cat sat on the mat and the dog sat on the cat\n" * 40
WORDS = ["train", "skipgram", "in", "--out", "out", "--dim", "4", "--epochs", "1", "--quiet"]
NODES = ["train", "node2vec", "in", "--out", "out", "--dim", "4", "--epochs", "1", "--quiet"]


def with_weight(weight: str) -> bytes:
    return f"a b 1.5\nb c {weight}\n".encode()


def not_utf8() -> bytes:
    return b"".join(bytes([128 + i % 128, 200, 32]) for i in range(4000))


def noise() -> bytes:
    return random.Random(1).randbytes(20_000)


# name, bytes of the file `in` (None: no file), arguments, words of the sentence
CASES: list[tuple[str, bytes | None, list[str], str]] = [
    ("no file", None, WORDS, "no file or folder in; check the name"),
    ("an empty name", TEXT.encode(), ["train", "skipgram", "", *WORDS[3:]], "'' names no file; write . for the"),
    ("an empty cache", TEXT.encode(), [*WORDS, "--cache-dir", ""], "--cache-dir': it must name a file or folder, got"),
    ("evaluate: an empty name", None, ["evaluate", "vectors", "-t", "similarity", "-d", ""], "'-d': it must name a"),
    ("predict: an empty name", None, ["predict", "vectors", "--queries", ""], "--queries': it must name a file"),
    ("data: --json before", None, ["data", "--json", "show", "wordeval"], "--json goes behind show"),
    (
        "data: no scheme",
        None,
        ["data", "get", "wordeval", "--base-url", "mirror.test"],
        "got 'mirror.test'",
    ),
    (
        "data: a port",
        None,
        ["data", "get", "wordeval", "--base-url", "localhost:80"],
        "must be like http://HOST",
    ),
    ("embed: --a", None, ["embed", "x", "x", "--out", "y.npy", "--encoder", "z", "--a", "1"], "those of the --encoder"),
    (
        "build: split",
        b"0 1\n",
        ["graph", "build", "in", "--out", "x", "--split-index", "1"],
        "their file, --split",
    ),
    (
        "evaluate: format",
        None,
        ["evaluate", "x", "-t", "triples", "-d", "x", "--format", "npy"],
        "--format is for",
    ),
    (
        "nearest: format",
        None,
        ["nearest", "x", "a", "--relations", "--format", "npy"],
        "are of a run folder",
    ),
    ("a crawl", None, ["train", "skipgram", "crawl:http://a.test/", "--out", "x"], "any2vec stream MODEL crawl:http"),
    ("empty text", b"", WORDS, "empty|no word"),
    ("only spaces", b" \n \n\n", WORDS, "empty|no word"),
    ("NUL bytes", b"a b\0c d\n" * 50, WORDS, "NUL"),
    ("binary", noise(), WORDS, "NUL|binary|UTF-8"),
    ("mostly invalid bytes", not_utf8(), WORDS, "UTF-8|binary"),
    ("invalid byte, error wanted", b"caf\xe9 au lait\n" * 9, [*WORDS, "--bad-bytes", "error"], "UTF-8"),
    ("one word", b"word " * 100, WORDS, "at least 2 are needed"),
    ("no frequent word", b"a b c d e f g", WORDS, "min-count"),
    ("truncated gz", gzip.compress(noise() * 3)[:-5000], WORDS, "in is truncated"),
    ("graph: empty", b"", NODES, "is empty"),
    ("graph: comments only", b"# a\n# b\n", NODES, "holds no edges"),
    ("graph: one column", b"a\nb\n", NODES, "line 1: one column"),
    ("graph: NaN weight", with_weight("nan"), NODES, "weight"),
    ("graph: negative weight", with_weight("-2"), NODES, "weight"),
    ("graph: infinite weight", with_weight("inf"), NODES, "weight"),
    ("graph: weight overflows", with_weight("1e999"), NODES, "weight"),
    ("graph: weight is a word", with_weight("x"), [*NODES, "--weighted"], "weight"),
    ("graph: binary", noise(), NODES, "NUL|binary|UTF-8"),
    ("dim 0", TEXT.encode(), [*WORDS, "--dim", "0"], "dim"),
    ("window 0", TEXT.encode(), [*WORDS, "--window", "0"], "window"),
    ("no negatives", TEXT.encode(), [*WORDS, "--num-negatives", "0"], "num-negatives"),
    ("epochs 0", TEXT.encode(), [*WORDS, "--epochs", "0"], "epochs"),
    ("threads", TEXT.encode(), [*WORDS, "--threads", "-1"], "threads"),
    ("learning rate", TEXT.encode(), [*WORDS, "--learning-rate", "nan"], "learning-rate"),
    ("subsample", TEXT.encode(), [*WORDS, "--subsample", "-1"], "subsample"),
    ("min count", TEXT.encode(), [*WORDS, "--min-count", "-1"], "min-count"),
    ("objective", TEXT.encode(), [*WORDS, "--objective", "softmax"], "objective"),
    ("token pattern", TEXT.encode(), [*WORDS, "--token-pattern", "(["], "pattern"),
    ("p 0", b"a b\nb c\n", [*NODES, "--p", "0"], "p must"),
    ("q infinite", b"a b\nb c\n", [*NODES, "--q", "inf"], "q must"),
    ("walk length", b"a b\nb c\n", [*NODES, "--walk-length", "0"], "walk-length"),
    (
        "p is no option of words",
        TEXT.encode(),
        [*WORDS, "--p", "1"],
        "skipgram has no --p: it is for node2vec; leave it out",
    ),
    (
        "text option for a graph",
        b"a b\nb c\n",
        [*NODES, "--lowercase"],
        "node2vec has no --lowercase: it is for skipgram, cbow and ngram; leave",
    ),
    ("model", TEXT.encode(), ["train", "skipgrm", *WORDS[2:]], "did you mean 'skipgram'"),
    ("no input", None, ["train", "cbow", "--out", "out"], "what to train on"),
    ("no model", TEXT.encode(), ["train", "in", "--out", "out"], "The model comes before the input, as in any2vec"),
    ("no out", TEXT.encode(), ["train", "cbow", "in"], "--out"),
    ("out in a file", TEXT.encode(), [*WORDS, "--out", "in/out"], "not a folder|Cannot write"),
    ("out is a file", TEXT.encode(), [*WORDS, "--out", "in"], "is a file"),
    ("out exists", TEXT.encode(), [*WORDS, "--out", "taken"], "--overwrite"),
    ("out is not ours", TEXT.encode(), [*WORDS, "--out", "taken", "--overwrite"], "not an any2vec folder"),
    ("init is missing", TEXT.encode(), [*WORDS, "--init", "nothing"], "nothing"),
    ("init has another dim", TEXT.encode(), [*WORDS, "--init", "vectors", "--dim", "7"], "dim"),
    ("config key", b"windwo = 3", ["train", "cbow", "x", "--config", "in"], "did you mean 'window'"),
    ("config is no TOML", b"window = ", ["train", "cbow", "x", "--config", "in"], "not TOML"),
    ("config is nested deeply", b"window = " + b"[" * 5000, ["train", "cbow", "x", "--config", "in"], "not TOML"),
    (
        "schema is nested deeply",
        b"label = " + b"[" * 5000,
        ["train", "fm", "in", "--schema", "in", "--out", "out"],
        "not TOML",
    ),
    ("walk: no edges", b"# nothing\n", ["walk", "in", "--out", "out", "--quiet"], "edge"),
    (
        "walks: options of graphs",
        None,
        ["train", "deepwalk", "walks", "--out", "out", "--directed"],
        "of reading graphs",
    ),
    ("one node", b"a a\n", ["train", "deepwalk", "in", "--out", "out", "--quiet"], "at least 2"),
    ("walk: out exists", b"a b\n", ["walk", "in", "--out", "taken", "--quiet"], "--overwrite"),
    ("split: share", b"a b\nb c\n", ["split", "in", "--out", "out", "--test-share", "1.5", "--quiet"], "share"),
    ("nearest: unknown word", None, ["nearest", "vectors", "dgo"], "dog"),
    ("nearest: no folder", None, ["nearest", "nothing", "dog"], "nothing"),
    ("nearest: not vectors", TEXT.encode(), ["nearest", "in", "dog"], "nor another known format"),
    ("analogy: method", None, ["analogy", "vectors", "cat", "dog", "mat", "--method", "x"], "method"),
    ("export: exists", TEXT.encode(), ["export", "vectors", "--out", "in", "--format", "word2vec"], "--overwrite"),
    ("report: over what is no report", TEXT.encode(), ["report", "vectors", "--out", "in"], "is not of a report"),
    ("export: a folder where a file is", TEXT.encode(), ["export", "vectors", "--out", "in"], "is a file"),
    ("no such flag", TEXT.encode(), [*WORDS, "--windwo", "3"], "--window"),
    ("a flag of the wrong type", TEXT.encode(), [*WORDS, "--dim", "x"], "--dim"),
    ("hosts: a word", TEXT.encode(), [*WORDS, "--hosts", "two"], "Error: --hosts must be a whole number, got 'two'"),
    ("rate: a word", TEXT.encode(), [*WORDS, "--learning-rate", "x"], "Error: --learning-rate must be a number, got"),
    ("scheme", TEXT.encode(), [*WORDS, "--scheme", "x"], "Error: --scheme must be one of rep-base, rep-opt, pull-base"),
    ("partition", b"a b\n", [*NODES, "--partition", "x"], "Error: --partition must be one of contiguous, hash, metis"),
    (
        "estimate: rows",
        None,
        ["estimate", "cbow", "--rows", "1"],
        "Error: --rows must be a number from 2 to 1e+12",
    ),
    *(
        (f"one host: {option}", TEXT.encode(), [*WORDS, *option.split()], f"{option.split()[0]} (")
        for option in (
            "--bits 8",
            "--overlap",
            "--sync adasum",
            "--scheme rep-opt",
            "--rounds-per-epoch 3",
            "--link 1Gbit",
            "--read parts",
            "--host-timeout 9",
        )
    ),
    ("one host: restarts", TEXT.encode(), [*WORDS, "--restarts", "1"], "--restarts starts processes again"),
    (
        "logical hosts: restarts",
        TEXT.encode(),
        [*WORDS, "--restarts", "1", "--logical-hosts", "2"],
        "--restarts starts",
    ),
    ("hosts: link", TEXT.encode(), [*WORDS, "--hosts", "2", "--link", "fast"], "Error: A link is a bandwidth"),
    ("out is unfinished", TEXT.encode(), [*WORDS, "--out", "begun"], "--resume (resume"),
    ("nearest: unfinished", None, ["nearest", "begun", "cat"], "unfinished run and no vectors yet; finish it"),
    ("no such command", None, ["trian"], "did you mean 'train'"),
    ("export: format", None, ["export", "vectors", "--out", "x", "--format", "word3vec"], "format"),
    ("export: dtype", None, ["export", "vectors", "--out", "x.npz", "--dtype", "float8"], "dtype"),
    ("seed", TEXT.encode(), [*WORDS, "--seed", "-1"], "seed"),
    ("walk: seed", b"a b\n", ["walk", "in", "--out", "out", "--seed", "-1"], "seed"),
    ("split: seed", b"a b\n", ["split", "in", "--out", "out", "--seed", "-1"], "seed"),
    (
        "split: an id that would be a comment",
        b"#1 b\nb c\nc d\nd e\ne f\nf #1\n",
        ["split", "in", "--out", "out", "--comment", "", "--quiet"],
        "# or %",
    ),
    ("estimate: threads", TEXT.encode(), ["estimate", "cbow", "in", "--threads", "99999"], "threads"),
    (
        "walks: other walks asked for",
        None,
        ["train", "deepwalk", "walks", "--walk-length", "9", "--out", "x"],
        "walk-length",
    ),
    ("walks: min count", None, ["train", "cbow", "walks", "--min-count", "9", "--out", "x"], "min-count"),
    ("walks: reading options", None, ["train", "cbow", "walks", "--lowercase", "--out", "x"], "encoded"),
    ("walks: trained over", None, ["train", "cbow", "walks", "--out", "walks", "--overwrite"], "corpus"),
    ("walks: resumed over", None, ["train", "cbow", "walks", "--out", "walks", "--resume"], "corpus"),
    ("vectors: walked over", b"a b\n", ["walk", "in", "--out", "vectors", "--overwrite"], "embeddings"),
    (
        "evaluate: no pair is covered",
        b"gold silver 3\nred blue 4\n",
        ["evaluate", "vectors", "--task", "similarity", "--data", "in"],
        "0 of 2 pairs have a vector for each of their words",
    ),
    (
        "evaluate: no question is covered",
        b"gold silver red blue\n",
        ["evaluate", "vectors", "--task", "analogy", "--data", "in"],
        "0 of 1 questions have a vector for each of their words",
    ),
    (
        "evaluate: a task without a test",
        TEXT.encode(),
        ["evaluate", "vectors", "--task", "words", "--data", "in"],
        "--task must be one of similarity, analogy,",
    ),
    ("evaluate: task", TEXT.encode(), ["evaluate", "vectors", "--task", "x", "--data", "in"], "--task"),
    (
        "evaluate: no data",
        None,
        ["evaluate", "vectors", "--task", "similarity", "--data", "no"],
        "no file or folder no",
    ),
    ("evaluate: empty", b"", ["evaluate", "vectors", "--task", "similarity", "--data", "in"], "in is empty"),
    ("evaluate: empty analogies", b"", ["evaluate", "vectors", "--task", "analogy", "--data", "in"], "in is empty"),
    ("evaluate: no labels", b"", ["evaluate", "vectors", "--task", "nodes", "--data", "in"], "in is empty"),
    ("evaluate: no split", None, ["evaluate", "vectors", "--task", "links", "--data", "taken"], "split"),
    ("estimate: no file", None, ["estimate", "skipgram", "in"], "no file or folder in"),
    ("report: no run", None, ["report", "taken"], "not an embeddings folder"),
    ("data: unknown set", None, ["data", "show", "text9"], "did you mean|known"),
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with vectors, an unfinished run, a folder of someone else; and a cache of its own beside it."""
    work = tmp_path / "work"
    (work / "taken").mkdir(parents=True)
    (work / "taken" / "mine.txt").write_text("mine")
    (work / "begun").mkdir()
    (work / "begun" / "run.json").write_text('{"format": "any2vec-embeddings", "settings": {}}')
    (work / "begun" / "checkpoint.safetensors").touch()
    Embeddings(["cat", "dog", "mat"], np.eye(3, dtype=np.float32)).save(work / "vectors")
    write_walks(read_graph([("a", "b"), ("b", "c")]), WalkOptions(walk_length=5), 1, work / "walks", threads=1)
    monkeypatch.setenv("ANY2VEC_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ANY2VEC_DEBUG", raising=False)
    monkeypatch.chdir(work)
    yield work
    assert not list(tmp_path.rglob(".*.tmp")), "a temporary file was left"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check(place: Path, arguments: list[str], said: str) -> None:
    """`arguments` end with code 2 and one sentence with one of `said` (by |), and change nothing."""
    before = contents(place)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ") and result.stderr.count("\n") == 1, result.stderr
    assert any(word in result.stderr.replace("_", "-") for word in said.split("|")), result.stderr
    assert "Value error" not in result.stderr and "Input should" not in result.stderr
    assert contents(place) == before and not (place / "out").exists()


@pytest.mark.parametrize(
    ("content", "arguments", "said"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
@pytest.mark.parametrize("as_json", [False, True], ids=["", "json"])
def test_bad_input(place: Path, content: bytes | None, arguments: list[str], said: str, as_json: bool) -> None:
    if content is not None:
        (place / "in").write_bytes(content)
    check(place, [*arguments, "--json"] if as_json else arguments, said)


def test_truncated_gz_by_name(place: Path) -> None:
    (place / "in.gz").write_bytes(gzip.compress(TEXT.encode())[:-10])
    check(place, ["train", "skipgram", "in.gz", *WORDS[3:]], "in.gz")
    (place / "edges.gz").write_bytes(gzip.compress(b"a b\nb c\n" * 999)[:-10])
    check(place, ["train", "node2vec", "edges.gz", *NODES[3:]], "edges.gz")


def test_an_id_that_overflows(place: Path) -> None:
    (place / "in.mtx").write_text("%%MatrixMarket matrix coordinate pattern general\n9 9 1\n99999999999999999999 2\n")
    check(place, ["train", "node2vec", "in.mtx", *NODES[3:]], "in.mtx")


def test_unreadable_file(place: Path) -> None:
    path = Path("/proc/self/mem")  # unreadable for root too
    if not path.exists():
        pytest.skip("needs Linux: /proc/self/mem")
    check(place, ["train", "skipgram", str(path), *WORDS[3:]], str(path))
    check(place, ["train", "node2vec", str(path), *NODES[3:]], str(path))


def test_empty_folder_and_glob(place: Path) -> None:
    (place / "nothing").mkdir()
    check(place, ["train", "skipgram", "nothing", *WORDS[3:]], "nothing")
    check(place, ["train", "skipgram", "*.zzz", *WORDS[3:]], "*.zzz")


def test_output_that_cannot_be_written(place: Path) -> None:
    (place / "in").write_text(TEXT)
    check(place, [*WORDS, "--out", "/dev/null/out"], "/dev/null/out")
    if Path("/proc/self").exists():  # whose permissions would let root in
        check(place, [*WORDS, "--out", "/proc/nope/out", "--hosts", "2"], "no folder can be made there; choose|denied")
    check(place, ["export", "vectors", "--out", "/dev/null/x.vec"], "/dev/null/x.vec")


def full_disk(path: Path) -> None:
    """The disk of the results is full, that of the cache is not."""
    if "cache" not in Path(path).parts:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("content", "arguments"),
    [
        (TEXT.encode(), [*WORDS, "--min-count", "1"]),
        (b"a b\nb c\nc a\n", NODES),
        (b"a b\nb c\nc a\n", ["walk", "in", "--out", "out", "--quiet"]),
        (b"a b\nb c\nc d\nd e\ne f\nf g\ng a\n", ["split", "in", "--out", "out", "--test-share", "0.4", "--quiet"]),
        (None, ["export", "vectors", "--out", "x.vec"]),
        (None, ["export", "vectors", "--out", "logs/x", "--format", "tensorboard"]),
    ],
    ids=["words", "nodes", "walk", "split", "export", "tensorboard"],
)
def test_full_disk(place: Path, content: bytes | None, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    if content is not None:
        (place / "in").write_bytes(content)
    monkeypatch.setattr("any2vec.data.io.storage.fsync_path", full_disk)
    check(place, arguments, "disk is full")


@pytest.fixture
def tiny_disk(place: Path) -> Iterator[Path]:
    """A file system of 200 kB, where this process may mount one."""
    folder = place / "tiny"
    folder.mkdir()
    try:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(folder)], capture_output=True)
    except OSError:
        mounted = None
    if mounted is None or mounted.returncode:
        pytest.skip("needs the right to mount a small file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_really_full_disk(tiny_disk: Path, place: Path) -> None:
    (place / "in").write_text(" ".join(f"w{i % 997}" for i in range(9970)))
    check(place, ["train", "skipgram", "in", "--dim", "100", "--quiet", "--out", "tiny/out"], "disk is full")
    Embeddings([f"w{i}" for i in range(2000)], np.ones((2000, 50), np.float32)).save(place / "large")
    for name in ("x.vec", "x.bin", "x.npz", "x.safetensors", "x.parquet"):
        check(place, ["export", "large", "--out", f"tiny/{name}"], "disk is full")
    assert not list(tiny_disk.iterdir())
