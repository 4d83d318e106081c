"""What can be trained: one file per model, its config beside what it configures; the learner does one piece of work."""

from any2vec.models.cbow import CBOW
from any2vec.models.deepwalk import DeepWalk
from any2vec.models.node2vec import Node2Vec
from any2vec.models.skipgram import SkipGram

__all__ = ["CBOW", "DeepWalk", "Node2Vec", "SkipGram"]
