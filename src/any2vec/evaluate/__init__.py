"""How good embeddings are: word similarity, analogies, node classification, link prediction."""

from __future__ import annotations

from any2vec.evaluate.analogy import AnalogyResult, evaluate_analogy
from any2vec.evaluate.links import LinksResult, Split, evaluate_links, split_graph
from any2vec.evaluate.nodes import NodesResult, evaluate_nodes
from any2vec.evaluate.similarity import SimilarityResult, evaluate_similarity

__all__ = [
    "AnalogyResult",
    "LinksResult",
    "NodesResult",
    "SimilarityResult",
    "Split",
    "evaluate_analogy",
    "evaluate_links",
    "evaluate_nodes",
    "evaluate_similarity",
    "split_graph",
]
