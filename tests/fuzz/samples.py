"""Sound inputs of every kind, small, which are then damaged: files, and folders that commands have written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from scipy import sparse

from any2vec.embeddings import Embeddings
from any2vec.tables.disk.partition_store import PartitionStore
from fuzz.commands import call

WORDS = [f"w{number}" for number in range(12)]
SCHEMA = """label = "y"
dense = ["x"]
multi_valued = ["a"]
ids = "vocabulary"
separator = "|"
[column.a]
min_count = 1
"""
_EDGES = "\n".join(f"{number}\t{(number * 5 + 1) % 12}" for number in range(12)) + "\n0\t3\n"
TEXTS = {
    "a.txt": "\n".join(" ".join(np.roll(WORDS, number)) for number in range(40)) + "\n",
    "lines.jsonl": "".join(json.dumps({"id": number, "text": "a b c d"}) + "\n" for number in range(20)),
    "edges.txt": _EDGES,
    "weighted.csv": "src,dst,weight\n" + "".join(f"{one},{(one + 1) % 9},{one + 0.5}\n" for one in range(9)),
    "graph.mtx": "%%MatrixMarket matrix coordinate real general\n3 3 3\n1 2 1.5\n2 3 2\n3 1 1\n",
    "triples.tsv": "".join(f"e{one}\tr{one % 2}\te{(one * 3 + 1) % 9}\n" for one in range(30)),
    "triples.csv": "head,relation,tail\n" + "".join(f'e{one},"r {one % 2}",e{one + 1}\n' for one in range(9)),
    "triples.nt": "".join(f"<http://a/{one}> <r> <http://a/{one + 1}> .\n" for one in range(9)),
    "clicks.csv": "y,a,x\n" + "".join(f"{one % 2},k{one % 5},{one / 3:.3f}\n" for one in range(60)),
    "schema.toml": SCHEMA,
    "run.toml": 'input = "a.txt"\ndim = 4\nepochs = 1\nmin-count = 1\nthreads = 1\nlearning-rate = 0.05\n',
    "pairs.txt": "".join(f"{one}\tw{place}\t{place % 10}\n" for place, one in enumerate(WORDS)),
    "questions.txt": ": capitals\nw0 w1 w2 w3\nw1 w2 w3 w4\n: gram1\nw4 w5 w6 w7\n",
    "labels.txt": "".join(f"{node} c{node % 3}\n" for node in range(12)),
    "likes.tsv": "".join(f"u{one % 6}\ti{one * one % 11}\t{one % 3 + 1}\n" for one in range(30)),
    "queries.tsv": "e1\tr0\t?\n?\tr1\te2\ne1\t?\te4\n",
    "users.txt": "u1\nu2\n",
    "feed.xml": "<?xml version='1.0'?><rss version='2.0'><channel><title>t</title>"
    "<item><guid>1</guid><description>a b c</description></item></channel></rss>",
}  # fmt: skip


def make_samples(folder: Path) -> None:
    """Write the texts, arrays and results below a folder; commands run in it."""
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    rng = np.random.default_rng(0)
    np.save(folder / "x.npy", rng.standard_normal((12, 4)).astype(np.float32))
    sparse.save_npz(folder / "x.npz", sparse.random(12, 5, 0.4, "csr", np.float32, rng=rng))
    np.savez(folder / "split.npz", split=np.arange(12)[None] // 4)
    np.save(folder / "ids.npy", np.arange(60) % 7)
    vectors = Embeddings(WORDS, rng.standard_normal((12, 4)), counts=np.arange(12) + 1)
    for name in ("v.txt", "v.bin", "v.glove", "v.safetensors", "v.parquet", "v.arrow", "v.npz", "v.npy"):
        vectors.save(folder / name, overwrite=True)  # two share a vocabulary
    PartitionStore.create(folder / "store", [0, 3, 6], 4, lambda number, row_RC: None).close()
    call(folder, "train", "skipgram", "--config", "run.toml", "--out", "words", "--quiet")
    call(folder, "train", "ngram", "a.txt", "--dim", "4", "--epochs", "1", "--min-count", "1", "--out", "subwords",
         "--quiet")  # fmt: skip
    call(folder, "train", "complex", "triples.tsv", "--dim", "4", "--epochs", "1", "--out", "entities", "--quiet")
    call(folder, "train", "deepfm", "clicks.csv", "--schema", "schema.toml", "--dim", "4", "--out", "clicks", "--quiet")
    call(folder, "split", "edges.txt", "--out", "cut", "--test-share", "0.2", "--negatives", "5")
    call(folder, "walk", "edges.txt", "--out", "walks", "--walk-length", "6", "--quiet")
    call(folder, "graph", "build", "edges.txt", "--features", "x.npy", "--labels", "labels.txt", "--split", "split.npz",
         "--out", "graph", "--quiet")  # fmt: skip
    call(folder, "train", "bpr", "likes.tsv", "--dim", "4", "--epochs", "1", "--out", "likes", "--quiet")
    call(folder, "train", "graphsage", "graph", "--hidden", "4", "--fanouts", "2,2", "--epochs", "1", "--out", "sage",
         "--quiet")  # fmt: skip
    call(folder, "phrases", "a.txt", "--out", "joined.txt", "--save", "phrases.json", "--min-count", "1", "--threshold",
         "0.01", "--quiet")  # fmt: skip
    call(folder, "embed", "words", "a.txt", "--out", "documents.npy", "--save", "documents.sif", "--quiet")
    call(folder, "export", "subwords", "--out", "v.fasttext.bin")
    call(folder, "stream", "skipgram", "a.txt", "--dim", "4", "--min-count", "1", "--out", "stream", "--quiet")
