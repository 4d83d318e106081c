"""any2vec: fast embeddings of words, graph nodes and the categories of clicks, on one machine or many.

import any2vec as a2v

result = a2v.fit(a2v.SkipGram(dim=100), "corpus.txt", epochs=3)
result.embeddings.nearest("word")
"""

# ruff: noqa: F401 (names that __getattr__ brings in, shown here to type checkers)
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from any2vec._version import __version__

if TYPE_CHECKING:
    from any2vec.data.click_schema import ClickSchema
    from any2vec.data.clicks import Clicks, read_clicks
    from any2vec.data.corpus import Corpus
    from any2vec.data.edges import GraphOptions, read_graph
    from any2vec.data.graph import Graph
    from any2vec.data.node_options import NodeOptions
    from any2vec.data.text import TextOptions, encode_text
    from any2vec.data.triple_options import TripleOptions
    from any2vec.data.triples import Triples, read_triples
    from any2vec.embeddings import Embeddings
    from any2vec.errors import (
        Any2VecError,
        DataError,
        FormatError,
        HostError,
        InputError,
        Interrupted,
        StorageError,
    )
    from any2vec.estimators import GAMLPClassifier, NodeEmbedder, WordEmbedder
    from any2vec.models.cbow import CBOW
    from any2vec.models.click_scorer import ClickScorer
    from any2vec.models.complex import ComplEx
    from any2vec.models.deepfm import DeepFM
    from any2vec.models.deepwalk import DeepWalk
    from any2vec.models.distmult import DistMult
    from any2vec.models.dlrm import DLRM
    from any2vec.models.dot import DotProduct
    from any2vec.models.fm import FactorisationMachine
    from any2vec.models.ga_mlp import GAMLP
    from any2vec.models.logistic import LogisticRegression
    from any2vec.models.ngram import NGram
    from any2vec.models.node2vec import Node2Vec
    from any2vec.models.node_classifier import NodeClassifier
    from any2vec.models.rotate import RotatE
    from any2vec.models.skipgram import SkipGram
    from any2vec.models.stream_config import StreamSkipGram
    from any2vec.models.stream_word_config import StreamCharLstm, StreamNGram
    from any2vec.models.transe import TransE
    from any2vec.models.triple_scorer import TripleScorer
    from any2vec.parallel.layer_options import LayerOptions
    from any2vec.sources.options import SourceOptions
    from any2vec.sync.options import HostOptions
    from any2vec.sync.run_hosts import TableHosts
    from any2vec.sync.stream_hosts import StreamHosts
    from any2vec.sync.trainers import TrainerOptions
    from any2vec.train.fit import FitResult, fit
    from any2vec.train.stream import StreamResult, stream
    from any2vec.train.stream_options import StreamOptions
    from any2vec.types import Progress

_HOMES = {
    "Corpus": "data.corpus", "GraphOptions": "data.edges", "read_graph": "data.edges", "Graph": "data.graph",
    "TextOptions": "data.text", "encode_text": "data.text", "Embeddings": "embeddings",
    "Any2VecError": "errors", "DataError": "errors", "FormatError": "errors", "InputError": "errors",
    "HostError": "errors", "Interrupted": "errors", "StorageError": "errors",
    "GAMLPClassifier": "estimators", "NodeEmbedder": "estimators", "WordEmbedder": "estimators",
    "SkipGram": "models.skipgram", "CBOW": "models.cbow", "NGram": "models.ngram", "DeepWalk": "models.deepwalk",
    "Node2Vec": "models.node2vec", "DLRM": "models.dlrm", "DeepFM": "models.deepfm",
    "FactorisationMachine": "models.fm", "LogisticRegression": "models.logistic",
    "Clicks": "data.clicks", "ClickSchema": "data.click_schema", "ClickScorer": "models.click_scorer",
    "ComplEx": "models.complex", "DistMult": "models.distmult", "TransE": "models.transe", "RotatE": "models.rotate",
    "DotProduct": "models.dot", "GAMLP": "models.ga_mlp", "NodeOptions": "data.node_options",
    "LayerOptions": "parallel.layer_options", "NodeClassifier": "models.node_classifier",
    "Triples": "data.triples", "TripleOptions": "data.triple_options",
    "TripleScorer": "models.triple_scorer", "read_triples": "data.triples",
    "read_clicks": "data.clicks", "HostOptions": "sync.options", "TrainerOptions": "sync.trainers",
    "TableHosts": "sync.run_hosts",
    "StreamSkipGram": "models.stream_config", "StreamNGram": "models.stream_word_config",
    "StreamCharLstm": "models.stream_word_config", "SourceOptions": "sources.options",
    "StreamHosts": "sync.stream_hosts", "StreamOptions": "train.stream_options",
    "StreamResult": "train.stream", "stream": "train.stream",
    "FitResult": "train.fit", "fit": "train.fit", "Progress": "types",
}  # fmt: skip

__all__ = [*sorted(_HOMES), "__version__"]


def __getattr__(name: str) -> Any:
    """Names are imported when they are first asked for, so that `import any2vec` stays light."""
    if name not in _HOMES:
        raise AttributeError(f"module 'any2vec' has no attribute {name!r}")
    value = getattr(import_module(f"any2vec.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
