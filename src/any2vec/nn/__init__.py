"""Layers of graph networks for torch, by kernels of our own: `SAGEConv`, `GCNConv`, `GATConv`, `GATv2Conv`, `GINConv`,
`GINEConv`, `RGCNConv`, `aggregate` below most of them, `round_rows` for its sums of rows in 16 or 8 bits,
`dense_blocks` for sums over graphs with dense parts, `tune_graph`, which prunes a graph, and `accelerate`, by which
PyG's own layers run so."""

from any2vec.nn.accelerate import accelerate
from any2vec.nn.aggregate import aggregate
from any2vec.nn.blocked import dense_blocks
from any2vec.nn.gat import GATConv, GATv2Conv
from any2vec.nn.gcn import GCNConv
from any2vec.nn.gin import GINConv, GINEConv
from any2vec.nn.rgcn import RGCNConv
from any2vec.nn.rounded import round_rows
from any2vec.nn.sage import SAGEConv
from any2vec.nn.tuning.graph import tune_graph
from any2vec.plan.sharding.pruning import PruneOptions

__all__ = [
    "GATConv",
    "GATv2Conv",
    "GCNConv",
    "GINConv",
    "GINEConv",
    "PruneOptions",
    "RGCNConv",
    "SAGEConv",
    "accelerate",
    "aggregate",
    "dense_blocks",
    "round_rows",
    "tune_graph",
]
