"""A name of a file for each format of vectors."""

from __future__ import annotations

NAMES = {
    "folder": "run",
    "word2vec": "v.txt",
    "word2vec-binary": "v.bin",
    "fasttext": "v.fasttext.bin",
    "glove": "v.glove",
    "safetensors": "v.safetensors",
    "parquet": "v.parquet",
    "arrow": "v.arrow",
    "npz": "v.npz",
    "npy": "v.npy",
    "tensorboard": "projector",
    "kv": "v.kv",
}
