"""The names at the top level: few, pinned, documented, imported when asked for."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import any2vec
import any2vec.evaluate

NAMES = {
    "__version__",
    "fit", "FitResult", "Progress",
    "SkipGram", "CBOW", "NGram", "DeepWalk", "Node2Vec",
    "Embeddings", "WordEmbedder", "NodeEmbedder", "SIFEncoder", "KGEmbedder", "ClickClassifier",
    "Callback", "TensorBoard", "MLflow", "WeightsAndBiases",
    "Corpus", "Phrases", "TextOptions", "encode_text",
    "Graph", "GraphOptions", "read_graph",
    "AttributedGraph", "ClusterLoader", "LinkNeighborLoader", "NeighborLoader", "write_graph",
    "DLRM", "DeepFM", "FactorizationMachine", "LogisticRegression",
    "ComplEx", "DistMult", "TransE", "RotatE", "DotProduct",
    "Triples", "TripleOptions", "TripleScorer", "read_triples",
    "BPR", "ALS", "Item2Vec", "Interactions", "InteractionOptions", "read_interactions", "Recommender",
    "ItemRecommender",
    "Clicks", "ClickSchema", "ClickScorer", "read_clicks",
    "GAMLP", "GAMLPClassifier", "NodeOptions", "NodeClassifier",
    "GraphSAGE", "GCN", "GAT", "GATv2", "GIN", "GINE", "RGCN", "APPNP", "SGC", "OwnModule", "NetworkClassifier",
    "NetworkEncoder", "GraphNetworkClassifier",
    "stream", "StreamResult", "StreamSkipGram", "StreamNGram", "StreamCharLstm", "StreamOptions",
    "SourceOptions",
    "HostOptions", "SyncOptions", "StorageOptions",
    "Any2VecError", "InputError", "DataError", "StorageError", "FormatError", "HostError", "Interrupted",
}  # fmt: skip


def test_each_evaluation_stands_in_one_module() -> None:
    for what in ("similarity", "analogy", "pip", "nodes", "links", "triples", "clicks", "recommend"):
        assert callable(getattr(any2vec.evaluate, f"evaluate_{what}")), what


def test_the_list_is_pinned() -> None:
    """A new name is a promise: add it here, to the README or a docstring, and to the changelog."""
    assert set(any2vec.__all__) == NAMES
    assert sorted(dir(any2vec)) == sorted({*NAMES, "evaluate"})


def test_the_evaluations_are_imported_when_asked_for() -> None:
    said = """
import sys, any2vec
assert "numpy" not in sys.modules and "any2vec.evaluate" not in sys.modules
assert callable(any2vec.evaluate.triples.evaluate_triple_file) and "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", said], check=True)


@pytest.mark.parametrize("name", sorted(NAMES - {"__version__"}))
def test_every_name_is_there_and_documented(name: str) -> None:
    value = getattr(any2vec, name)
    assert inspect.getdoc(value) and value.__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = any2vec.no_such_name


@pytest.mark.parametrize(
    "model", ["SkipGram", "CBOW", "DeepWalk", "Node2Vec", "DLRM", "DeepFM", "ComplEx", "DotProduct", "GAMLP", "GCN"]
)
def test_configs_are_frozen_and_keyword_only(model: str) -> None:
    config = getattr(any2vec, model)
    with pytest.raises(TypeError):
        config(100)
    with pytest.raises(AttributeError):
        config().dim = 3
    assert all(one.kind is one.KEYWORD_ONLY for one in inspect.signature(config).parameters.values())
