"""Layers of graph networks for torch, by kernels of our own: `SAGEConv`, and `aggregate`, which it is made of."""

from any2vec.nn.aggregate import aggregate
from any2vec.nn.sage import SAGEConv

__all__ = ["SAGEConv", "aggregate"]
