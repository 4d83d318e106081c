"""What is killed: a training of each task by its command, small, on one thread, so that its result has known bits; and
what writes a graph."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from any2vec import write_graph

OFTEN = ("--checkpoint-seconds", "0.02")


@dataclass(frozen=True)
class Case:
    """A command that trains into `out`, and what its folder has to hold in the end."""

    name: str
    arguments: tuple[str, ...]
    sign: Callable[[Path], str]
    """what two runs that lost nothing have in common; takes the run folder"""
    variants: tuple[tuple[str, ...], ...] = ((),)
    """further arguments whose result may stand, too: how a table on disk is cut depends on the memory
    that a process finds"""
    again: tuple[str, ...] = ("--resume",)
    """by which it goes on where its folder is there"""


def make_inputs(folder: Path) -> None:
    """Write what the commands read."""
    rng = np.random.default_rng(1)
    words = np.array([f"w{number}" for number in range(400)])
    text = words[(400 * rng.random((3000, 12)) ** 2).astype(int)]
    (folder / "text.txt").write_text("".join(" ".join(line) + "\n" for line in text))
    edges = {(int(a), int(b)) for a, b in rng.integers(0, 300, (2400, 2)) if a != b}
    (folder / "edges.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in sorted(edges)))
    heads, tails = rng.integers(0, 400, (2, 6000))
    (folder / "triples.tsv").write_text(
        "".join(f"e{head}\tr{(head + tail) % 4}\te{tail}\n" for head, tail in zip(heads, tails, strict=True))
    )
    (folder / "large.tsv").write_text("".join(f"e{one}\tr\te{(one * 7 + 1) % 40_000}\n" for one in range(40_000)))
    clicked, users, items, x = rng.random(6000) < 0.3, *rng.integers(0, 60, (2, 6000)), rng.random(6000)
    rows = zip(clicked.astype(int), users, items, x, strict=True)
    lines = "".join(f"{is_click},u{user},i{item},{number:.3f}\n" for is_click, user, item, number in rows)
    (folder / "clicks.csv").write_text("y,user,item,x\n" + lines)
    (folder / "schema.toml").write_text('label = "y"\ndense = ["x"]\ncategorical = ["user", "item"]\n')
    likes = {*zip(*rng.integers(0, 200, (2, 6000)).tolist(), strict=True)}
    (folder / "likes.tsv").write_text("".join(f"u{user}\ti{item}\n" for user, item in sorted(likes)))
    (folder / "pairs.txt").write_text("".join(f"w{one}\tw{one + 1}\t{one % 7}\n" for one in range(40)))
    classes = np.arange(300) % 3
    np.save(folder / "x.npy", (np.eye(3)[classes] + rng.standard_normal((300, 3))).astype(np.float32))
    (folder / "labels.tsv").write_text("".join(f"{node} c{classes[node]}\n" for node in range(300)))
    part = np.array(["train", "val", "test"])[np.arange(300) // 3 % 3]
    (folder / "split.tsv").write_text("".join(f"{node} {part[node]}\n" for node in range(300)))
    given = {"features": folder / "x.npy", "labels": folder / "labels.tsv", "split": folder / "split.tsv"}
    write_graph(folder / "edges.tsv", folder / "graph", **given)


def signed(*names: str) -> Callable[[Path], str]:
    """A digest of files of a result."""
    return lambda out: hashlib.blake2b(
        b"".join((out / name).read_bytes() for name in names), digest_size=16
    ).hexdigest()


def _lines_once(out: Path) -> str:
    """Of a stream: that each line was trained once."""
    ids = sorted((out / "trained.ids").read_text().split("\n"))
    return f"{len(ids)} lines, {len(set(ids))} different"


_VECTORS = signed("vectors.safetensors", "vocabulary.tsv")
_NETWORK = signed("vectors.safetensors", "network.safetensors")
_TRAIN = ("--threads", "1", "--quiet", *OFTEN)
_NODES = ("--features", "x.npy", "--labels", "labels.tsv", "--split", "split.tsv")
CASES: tuple[Case, ...] = (
    Case("words", ("train", "skipgram", "text.txt", "--dim", "16", "--epochs", "20", *_TRAIN), _VECTORS),
    Case("words, validated", ("train", "cbow", "text.txt", "--dim", "16", "--epochs", "20", "--validate", "pairs.txt",
                              *_TRAIN), _VECTORS),
    Case("words on hosts", ("train", "skipgram", "text.txt", "--dim", "16", "--epochs", "10", "--logical-hosts", "2",
                            *_TRAIN), _VECTORS),
    Case("nodes", ("train", "node2vec", "edges.tsv", "--dim", "16", "--epochs", "4", "--walk-length", "20", *_TRAIN),
         _VECTORS),
    Case("n-grams", ("train", "ngram", "text.txt", "--dim", "16", "--epochs", "8", "--buckets", "1000", *_TRAIN),
         signed("vectors.safetensors", "ngrams.safetensors")),
    Case("triples", ("train", "complex", "triples.tsv", "--dim", "16", "--epochs", "20", *_TRAIN),
         signed("vectors.safetensors", "relations.safetensors")),
    Case("triples on disk", ("train", "complex", "large.tsv", "--dim", "128", "--epochs", "3", "--num-negatives", "100",
                             "--batch-size", "500", "--memory", "440MB", *_TRAIN),
         signed("vectors.safetensors", "relations.safetensors"),
         tuple(("--memory", f"{size}KB") for size in range(438_500, 442_000, 500))),
    Case("clicks", ("train", "deepfm", "clicks.csv", "--schema", "schema.toml", "--dim", "8", "--epochs", "6", *_TRAIN),
         signed("vectors.safetensors", "dense.safetensors")),
    Case("interactions", ("train", "bpr", "likes.tsv", "--dim", "16", "--epochs", "60", *_TRAIN),
         signed("vectors.safetensors", "users.safetensors")),
    Case("layers", ("train", "ga-mlp", "edges.tsv", *_NODES, "--epochs", "60", "--layers", "4", *_TRAIN),
         signed("vectors.safetensors", "classifier.safetensors")),
    Case("graph networks", ("train", "graphsage", "edges.tsv", *_NODES, "--hidden", "16", "--fanouts", "5,5",
                            "--epochs", "20", *_TRAIN), _NETWORK),
    Case("lists on disk", ("train", "graphsage", "graph", "--hidden", "16", "--fanouts", "5,5", "--epochs", "20",
                           "--memory", "2GB", "--adjacency", "disk", "--neighbor-cache", "2KB", *_TRAIN), _NETWORK),
    Case("pruning", ("graph", "prune", "graph", "--block-nodes", "60", "--epochs", "40", "--quiet"),
         signed("indptr.npy", "indices.npy", "meta.json"), again=("--overwrite",)),
    Case("stream", ("stream", "skipgram", "text.txt", "--dim", "16", "--min-count", "1", "--batch-bytes", "4000",
                    "--linger", "0", "--log-ids", "--snapshot-seconds", "0.05", *_TRAIN), _lines_once),
)  # fmt: skip
