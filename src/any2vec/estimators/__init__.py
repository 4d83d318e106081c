"""Estimators with scikit-learn's protocol."""

from __future__ import annotations

from any2vec.estimators.classifiers import ClickClassifier, GAMLPClassifier
from any2vec.estimators.documents import SIFEncoder
from any2vec.estimators.embedders import KGEmbedder, NodeEmbedder, WordEmbedder
from any2vec.estimators.networks import GraphNetworkClassifier
from any2vec.estimators.recommender import ItemRecommender

__all__ = [
    "ClickClassifier",
    "GAMLPClassifier",
    "GraphNetworkClassifier",
    "ItemRecommender",
    "KGEmbedder",
    "NodeEmbedder",
    "SIFEncoder",
    "WordEmbedder",
]
