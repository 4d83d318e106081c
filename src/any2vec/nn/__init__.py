"""Layers of graph networks for torch, by kernels of our own: `SAGEConv`, `GCNConv`, and `aggregate` below them."""

from any2vec.nn.aggregate import aggregate
from any2vec.nn.gcn import GCNConv
from any2vec.nn.sage import SAGEConv

__all__ = ["GCNConv", "SAGEConv", "aggregate"]
