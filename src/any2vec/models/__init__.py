"""What can be trained: one file per model, its config beside what it configures; the learner does one piece of work."""

from any2vec.models.words.cbow import CBOW
from any2vec.models.words.deepwalk import DeepWalk
from any2vec.models.words.node2vec import Node2Vec
from any2vec.models.words.skipgram import SkipGram

__all__ = ["CBOW", "DeepWalk", "Node2Vec", "SkipGram"]
