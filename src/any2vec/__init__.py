"""any2vec: fast embeddings of words, graphs, knowledge graphs, clicks and streams of text, on one machine or many.

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
    from any2vec import evaluate
    from any2vec.callbacks.base import Callback
    from any2vec.callbacks.trackers import MLflow, TensorBoard, WeightsAndBiases
    from any2vec.data.attributed.graph import AttributedGraph
    from any2vec.data.clicks.clicks import Clicks, read_clicks
    from any2vec.data.clicks.schema import ClickSchema
    from any2vec.data.graph.graph import Graph
    from any2vec.data.graph.reader import read_graph
    from any2vec.data.interactions.interactions import Interactions, read_interactions
    from any2vec.data.interactions.options import InteractionOptions
    from any2vec.data.options import GraphOptions, NodeOptions, TripleOptions
    from any2vec.data.text.corpus import Corpus
    from any2vec.data.text.pairs.phrases import Phrases
    from any2vec.data.text.text import TextOptions, encode_text
    from any2vec.data.triples.triples import Triples, read_triples
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
    from any2vec.estimators.classifiers import ClickClassifier, GAMLPClassifier
    from any2vec.estimators.documents import SIFEncoder
    from any2vec.estimators.embedders import KGEmbedder, NodeEmbedder, WordEmbedder
    from any2vec.estimators.networks import GraphNetworkClassifier
    from any2vec.estimators.recommender import ItemRecommender
    from any2vec.models.clicks.config import DLRM, DeepFM, FactorizationMachine, LogisticRegression
    from any2vec.models.clicks.scorer import ClickScorer
    from any2vec.models.layers.classifier import NodeClassifier
    from any2vec.models.layers.ga_mlp import GAMLP
    from any2vec.models.networks.classifier import NetworkClassifier
    from any2vec.models.networks.config.layers import APPNP, GAT, GCN, GIN, GINE, SGC, GATv2, GraphSAGE
    from any2vec.models.networks.config.own import OwnModule
    from any2vec.models.networks.config.relational import RGCN
    from any2vec.models.networks.encoder import NetworkEncoder
    from any2vec.models.recommend.config import ALS, BPR, Item2Vec
    from any2vec.models.recommend.recommender import Recommender
    from any2vec.models.stream.config import StreamCharLstm, StreamNGram, StreamSkipGram
    from any2vec.models.triples.config import ComplEx, DistMult, DotProduct, RotatE, TransE
    from any2vec.models.triples.scorer import TripleScorer
    from any2vec.models.words.config import CBOW, DeepWalk, NGram, Node2Vec, SkipGram
    from any2vec.options.hosts import HostOptions
    from any2vec.options.storage import StorageOptions
    from any2vec.options.sync import SyncOptions
    from any2vec.sampling.loaders.clusters import ClusterLoader
    from any2vec.sampling.loaders.links import LinkNeighborLoader
    from any2vec.sampling.loaders.nodes import NeighborLoader
    from any2vec.sources.base.options import SourceOptions
    from any2vec.tasks.graphs.build import write_graph
    from any2vec.tasks.stream.options import StreamOptions
    from any2vec.tasks.stream.stream import StreamResult, stream
    from any2vec.train.fit import FitResult, fit
    from any2vec.types import Progress

_NAMES = {
    "callbacks.base": ["Callback"],
    "callbacks.trackers": ["MLflow", "TensorBoard", "WeightsAndBiases"],
    "data.attributed.graph": ["AttributedGraph"],
    "data.clicks.clicks": ["Clicks", "read_clicks"],
    "data.clicks.schema": ["ClickSchema"],
    "data.graph.graph": ["Graph"],
    "data.graph.reader": ["read_graph"],
    "data.interactions.interactions": ["Interactions", "read_interactions"],
    "data.interactions.options": ["InteractionOptions"],
    "data.options": ["GraphOptions", "NodeOptions", "TextOptions", "TripleOptions"],
    "data.text.corpus": ["Corpus"],
    "data.text.pairs.phrases": ["Phrases"],
    "data.text.text": ["encode_text"],
    "data.triples.triples": ["read_triples", "Triples"],
    "embeddings": ["Embeddings"],
    "errors": ["Any2VecError", "DataError", "FormatError", "HostError", "InputError", "Interrupted", "StorageError"],
    "estimators.classifiers": ["ClickClassifier", "GAMLPClassifier"],
    "estimators.documents": ["SIFEncoder"],
    "estimators.embedders": ["KGEmbedder", "NodeEmbedder", "WordEmbedder"],
    "estimators.networks": ["GraphNetworkClassifier"],
    "estimators.recommender": ["ItemRecommender"],
    "models.clicks.config": ["DeepFM", "DLRM", "FactorizationMachine", "LogisticRegression"],
    "models.clicks.scorer": ["ClickScorer"],
    "models.layers.classifier": ["NodeClassifier"],
    "models.layers.ga_mlp": ["GAMLP"],
    "models.networks.classifier": ["NetworkClassifier"],
    "models.networks.config.layers": ["APPNP", "GAT", "GATv2", "GCN", "GIN", "GINE", "GraphSAGE", "SGC"],
    "models.networks.config.own": ["OwnModule"],
    "models.networks.config.relational": ["RGCN"],
    "models.networks.encoder": ["NetworkEncoder"],
    "models.recommend.config": ["ALS", "BPR", "Item2Vec"],
    "models.recommend.recommender": ["Recommender"],
    "models.stream.config": ["StreamCharLstm", "StreamNGram", "StreamSkipGram"],
    "models.triples.config": ["ComplEx", "DistMult", "DotProduct", "RotatE", "TransE"],
    "models.triples.scorer": ["TripleScorer"],
    "models.words.config": ["CBOW", "DeepWalk", "NGram", "Node2Vec", "SkipGram"],
    "options.hosts": ["HostOptions"],
    "options.storage": ["StorageOptions"],
    "options.sync": ["SyncOptions"],
    "sampling.loaders.clusters": ["ClusterLoader"],
    "sampling.loaders.links": ["LinkNeighborLoader"],
    "sampling.loaders.nodes": ["NeighborLoader"],
    "sources.base.options": ["SourceOptions"],
    "train.fit": ["fit", "FitResult"],
    "tasks.graphs.build": ["write_graph"],
    "tasks.stream.options": ["StreamOptions"],
    "tasks.stream.stream": ["stream", "StreamResult"],
    "types": ["Progress"],
}
"""module -> its public names"""
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [*sorted(_HOMES), "__version__"]


def __getattr__(name: str) -> Any:
    """Names are imported when they are first asked for, so that `import any2vec` stays light."""
    if name == "evaluate":  # a room, of which what is imported becomes an attribute
        return import_module("any2vec.evaluate")
    if name not in _HOMES:
        raise AttributeError(f"module 'any2vec' has no attribute {name!r}")
    value = getattr(import_module(f"any2vec.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "evaluate"]
