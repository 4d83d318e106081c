"""How good embeddings are: word similarity, analogies, PIP loss, nodes' classes, links, triples, clicks, lists."""

from __future__ import annotations

from any2vec.evaluate.clicks import ClicksResult, evaluate_clicks
from any2vec.evaluate.graph.links import LinksResult, Split, evaluate_links, split_graph
from any2vec.evaluate.graph.nodes import NodesResult, evaluate_nodes
from any2vec.evaluate.recommend import RecommendResult, evaluate_recommend
from any2vec.evaluate.triples import TriplesResult, evaluate_triples
from any2vec.evaluate.words.analogy import AnalogyResult, evaluate_analogy
from any2vec.evaluate.words.dimension import DimensionResult, choose_dimension
from any2vec.evaluate.words.pip import PipBetweenResult, PipResult, compare_embeddings, evaluate_pip
from any2vec.evaluate.words.similarity import SimilarityResult, evaluate_similarity
from any2vec.evaluate.words.target_options import DimensionOptions, TargetOptions

__all__ = [
    "AnalogyResult",
    "ClicksResult",
    "DimensionOptions",
    "DimensionResult",
    "LinksResult",
    "NodesResult",
    "PipBetweenResult",
    "PipResult",
    "RecommendResult",
    "SimilarityResult",
    "Split",
    "TargetOptions",
    "TriplesResult",
    "choose_dimension",
    "compare_embeddings",
    "evaluate_analogy",
    "evaluate_clicks",
    "evaluate_links",
    "evaluate_nodes",
    "evaluate_pip",
    "evaluate_recommend",
    "evaluate_similarity",
    "evaluate_triples",
    "split_graph",
]
