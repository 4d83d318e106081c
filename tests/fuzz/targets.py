"""What is given damaged input: every reader, commands with odd flags, folders of results, messages."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from any2vec.cluster.link import parse_link
from any2vec.data.attributed.features import open_matrix
from any2vec.data.attributed.graph import AttributedGraph
from any2vec.data.clicks.clicks import read_clicks
from any2vec.data.clicks.schema import ClickSchema
from any2vec.data.graph.reader import read_graph
from any2vec.data.interactions.interactions import read_interactions
from any2vec.data.text.pairs.phrases import Phrases
from any2vec.data.text.text import encode_text
from any2vec.data.triples.triples import read_triples
from any2vec.embeddings import Embeddings
from any2vec.errors import Any2VecError
from any2vec.evaluate.graph.nodes import read_labels
from any2vec.evaluate.graph.split import Split
from any2vec.evaluate.words.analogy import read_questions
from any2vec.evaluate.words.similarity import read_pairs
from any2vec.models.clicks.scorer import ClickScorer
from any2vec.models.recommend.recommender import Recommender
from any2vec.models.triples.scorer import TripleScorer
from any2vec.report.live import LiveRun
from any2vec.report.run import read_run
from any2vec.sources.base.address import parse_address
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.base.records import BadRecordError, read_object
from any2vec.sources.kinds.feeds import BadFeedError, read_feed
from any2vec.tables.disk.checking import check_folders
from any2vec.tables.disk.partition_store import PartitionStore
from any2vec.units import quantity
from fuzz import messages
from fuzz.commands import ODD, call, draw_flags
from fuzz.damage import damaged

Rng = np.random.Generator


class Target(NamedTuple):
    """One thing that is tried."""

    name: str
    samples: tuple[str, ...]
    """names of files and folders that are copied into the work folder"""
    run: Callable[[Path, Rng], object]
    """takes the work folder; damages what it will; AnswerError or another error that is none of any2vec's: a failure"""
    legal: tuple[type[Exception], ...] = ()
    """errors by which it may refuse besides any2vec's own"""
    ask: Callable[[Path, Rng], list[str]] | None = None
    """damages what it will, and gives the arguments of the command that is then asked; for those that are commands"""


def _damage(path: Path, rng: Rng) -> None:
    """Damage a file, or one in a folder; now and then it is gone, or is a folder."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and not file.is_symlink())
        path = files[int(rng.integers(len(files)))]
    data, fate = path.read_bytes(), rng.random()
    if fate < 0.97:
        path.write_bytes(damaged(data, rng))
    else:
        path.unlink()
        if fate > 0.985:
            path.mkdir()


def _reader(name: str, read: Callable[[Path], object], *beside: str) -> Target:
    def run(work: Path, rng: Rng) -> None:
        _damage(work / name, rng)
        read(work / name)

    return Target(f"read {name}", (name, *beside), run)


def _text(name: str, read: Callable[[bytes], object], *legal: type[Exception]) -> Target:
    def run(work: Path, rng: Rng) -> None:
        read(damaged((work / name).read_bytes(), rng))

    return Target(f"parse {name}", (name,), run, legal)


def _clicks(path: Path) -> object:
    return read_clicks(path, path.parent / "schema.toml", cache_dir=path.parent / "cache")


def _network(path: Path) -> object:
    """PyTorch is there where networks are."""
    from any2vec.models.networks.classifier import NetworkClassifier

    return NetworkClassifier.load(path)


def _store(path: Path) -> None:
    check_folders(path)
    PartitionStore.open(path).close()


def asking(name: str, samples: tuple[str, ...], ask: Callable[[Path, Rng], list[str]]) -> Target:
    """A command."""

    def run(work: Path, rng: Rng) -> None:
        call(work, *ask(work, rng), is_sound=False)

    return Target(name, samples, run, ask=ask)


def command(what: str, samples: tuple[str, ...], *arguments: str) -> Target:
    """A command whose first sample is damaged."""

    def ask(work: Path, rng: Rng) -> list[str]:
        _damage(work / samples[0], rng)
        return list(arguments)

    return asking(f"{what} {samples[0]}", samples, ask)


def _small_language(work: Path, rng: Rng) -> None:
    """A text of one of the small languages of options."""
    whole = (
        "1gbit/1ms",
        "1gbit",
        "tcp://a:1",
        "http://a/b?c#d",
        "unix:///a",
        "redis://a/b",
        "10 GB",
        "1_000k",
        "5e3B/s",
    )
    text = damaged(whole[int(rng.integers(len(whole)))].encode(), rng).decode("utf-8", "replace")
    text = ODD[int(rng.integers(len(ODD)))] if rng.random() < 0.2 else text
    for parse in (parse_link, parse_address, lambda found: quantity("--x", found, 1, 10**18)):
        try:
            parse(text)
        except ValueError as error:
            if not isinstance(error, Any2VecError):
                raise


_RUN = ("words", "a.txt", "run.toml")
_TRAIN = ("train", "skipgram", "--config", "run.toml", "--quiet", "--out")
_RANKS = ["evaluate", "entities", "--task", "triples", "--data", "triples.tsv"]
_RECOMMEND = ("recommend", "likes", "--users", "users.txt", "--exclude-seen", "likes.tsv", "--out", "out.tsv")
_PREDICT = ("predict", "entities", "--queries", "queries.tsv", "--exclude", "triples.tsv")
_PHRASES = ("phrases", "a.txt", "--phrases", "phrases.json", "--out", "out.txt", "--quiet")
_EMBED = ("embed", "words", "a.txt", "--encoder", "documents.sif", "--out", "out.npy", "--quiet")
_SAGE = ("train", "graphsage", "graph", "--hidden", "4", "--fanouts", "2,2", "--epochs", "1", "--out", "out", "--quiet")
_PRUNE = ("graph", "prune", "graph", "--block-nodes", "4", "--rounds", "1", "--steps", "2", "--epochs", "2", "--out",
          "out", "--quiet")  # fmt: skip
_FLAGGED = ("a.txt", "triples.tsv", "clicks.csv", "schema.toml", "likes.tsv")
_VECTORS = ("v.txt", "v.bin", "v.fasttext.bin", "v.glove", "v.parquet", "v.arrow", "v.npz", "words", "subwords")
TARGETS: tuple[Target, ...] = (
    *(_reader(name, lambda path: encode_text(path, cache_dir=path.parent / "cache")) for name in ("a.txt", "ids.npy")),
    *(
        _reader(name, lambda path: read_graph(path, cache_dir=path.parent / "cache"))
        for name in ("edges.txt", "weighted.csv", "graph.mtx")
    ),
    *(_reader(name, read_triples) for name in ("triples.tsv", "triples.csv", "triples.nt")),
    _reader("clicks.csv", _clicks, "schema.toml"),
    _reader("schema.toml", ClickSchema.load),
    *(_reader(name, Embeddings.load) for name in _VECTORS),
    *(_reader(name, Embeddings.load, "v.vocabulary.tsv") for name in ("v.safetensors", "v.npy")),
    _reader("likes.tsv", read_interactions),
    _reader("likes", Recommender.load),
    _reader("phrases.json", Phrases.load),
    _reader("sage", _network),
    _reader("pairs.txt", read_pairs),
    _reader("questions.txt", read_questions),
    _reader("labels.txt", read_labels),
    _reader("x.npy", lambda path: open_matrix(path, path.name)),
    _reader("x.npz", lambda path: open_matrix(path, path.name)),
    _reader("cut", Split.open),
    _reader("graph", AttributedGraph.open),
    _reader("entities", TripleScorer.load),
    _reader("clicks", ClickScorer.load),
    _reader("store", _store),
    _reader("words", read_run),
    _reader("stream", lambda path: LiveRun(path).view().as_dict()),
    _text("lines.jsonl", lambda text: read_object(text.split(b"\n")[0], SourceOptions()), BadRecordError),
    _text("feed.xml", read_feed, BadFeedError),
    Target("parse options", (), _small_language),
    Target("message, damaged", (), lambda work, rng: messages.read_damaged(rng)),
    Target("message, made up", (), lambda work, rng: messages.read_drawn(rng)),
    Target("row server", (), lambda work, rng: messages.ask_a_server(rng)),
    *[asking("flags", _FLAGGED, lambda work, rng: draw_flags(rng))] * 4,
    command("train --config", ("run.toml", "a.txt"), "train", "--config", "run.toml", "--out", "out", "--quiet"),
    command("train", ("a.txt", "run.toml"), *_TRAIN, "out"),
    command("train --resume", _RUN, *_TRAIN, "words", "--resume"),
    command("train --init", _RUN, *_TRAIN, "out", "--init", "words"),
    command("nearest", ("words",), "nearest", "words", "w1", "w2"),
    command("nearest", ("clicks",), "nearest", "clicks", "a=k1"),
    command("watch", ("words",), "watch", "words", "--once"),
    command("watch", ("stream",), "watch", "stream", "--once"),
    command("export", ("words",), "export", "words", "--out", "out.vec"),
    command("links", ("cut", "words"), "evaluate", "words", "--task", "links", "--data", "cut"),
    command("triples", ("entities", "triples.tsv"), *_RANKS),
    command("triples", ("triples.tsv", "entities"), *_RANKS),
    command("score", ("clicks", "clicks.csv"), "score", "clicks", "clicks.csv"),
    command("score", ("clicks.csv", "clicks"), "score", "clicks", "clicks.csv"),
    command("similarity", ("pairs.txt", "words"), "evaluate", "words", "--task", "similarity", "--data", "pairs.txt"),
    command("train walks", ("walks",), "train", "deepwalk", "walks", "--dim", "4", "--out", "out", "--quiet"),
    command("split", ("edges.txt",), "split", "edges.txt", "--out", "out"),
    command("graph show", ("graph",), "graph", "show", "graph"),
    command("train bpr", ("likes.tsv",), "train", "bpr", "likes.tsv", "--dim", "4", "--out", "out", "--quiet"),
    *(command("recommend", (name, *{"likes", "likes.tsv", "users.txt"} - {name}), *_RECOMMEND)
      for name in ("likes", "likes.tsv", "users.txt")),
    *(command("predict", (name, *{"entities", "queries.tsv", "triples.tsv"} - {name}), *_PREDICT)
      for name in ("entities", "queries.tsv")),
    *(command("phrases", (name, *{"a.txt", "phrases.json"} - {name}), *_PHRASES)
      for name in ("a.txt", "phrases.json")),
    *(command("embed", (name, *{"words", "a.txt", "documents.sif"} - {name}), *_EMBED)
      for name in ("words", "documents.sif")),
    command("train graphsage", ("graph",), *_SAGE),
    command("train graphsage, lists on disk", ("graph",), *_SAGE, "--memory", "2GB", "--adjacency", "disk",
            "--neighbor-cache", "16B"),
    command("graph prune", ("graph",), *_PRUNE),
    command("score", ("sage", "graph"), "score", "sage", "graph", "--out", "out.tsv"),
    command("compare", ("words", "entities"), "compare", "words", "entities"),
    command("stream", ("a.txt",), "stream", "skipgram", "a.txt", "--dim", "4", "--out", "out", "--quiet"),
    command("stream", ("lines.jsonl",), "stream", "skipgram", "lines.jsonl", "--dim", "4", "--out", "out", "--quiet"),
)  # fmt: skip


def copy(samples: Path, work: Path, names: tuple[str, ...]) -> None:
    """Bring samples into the work folder."""
    for name in names:
        source = samples / name
        shutil.copytree(source, work / name, symlinks=True) if source.is_dir() else shutil.copy(source, work / name)
