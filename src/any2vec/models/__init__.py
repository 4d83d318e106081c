"""What can be trained: one file per model, its config beside what it configures; the learner does one piece of work."""

from any2vec.models.words.config import CBOW, DeepWalk, Node2Vec, SkipGram

__all__ = ["CBOW", "DeepWalk", "Node2Vec", "SkipGram"]
