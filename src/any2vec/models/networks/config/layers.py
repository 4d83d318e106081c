"""Options of networks of one type of edges, by layer. Light: no NumPy, no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from any2vec.checks import Number, Whole
from any2vec.errors import InputError
from any2vec.models.networks.config.base import GraphNetwork, ObjectiveNetwork


@dataclass(frozen=True, kw_only=True)
class GraphSAGE(ObjectiveNetwork):
    """GraphSAGE (Hamilton, Ying, Leskovec, NeurIPS 2017, algorithm 1 without line 7: hidden rows keep their length)."""

    name: ClassVar[str] = "graphsage"

    aggregator: Literal["mean", "max", "pool"] = "mean"
    """of neighbors' rows: mean; max: largest by column; pool: max behind a layer with ReLU"""


@dataclass(frozen=True, kw_only=True)
class GCN(ObjectiveNetwork):
    """Graph convolutional network (Kipf and Welling, ICLR 2017, equation 2), self-loops added."""

    name: ClassVar[str] = "gcn"


@dataclass(frozen=True, kw_only=True)
class AttentionNetwork(ObjectiveNetwork):
    """Networks whose nodes weigh their neighbors and themselves by attention (abstract); ELU between layers."""

    heads: Annotated[int, Whole(1, 1024)] = 8
    """attention heads of hidden layers, which share their columns, 1..1,024"""
    output_heads: Annotated[int, Whole(1, 1024)] = 1
    """attention heads of the last layer, whose mean is taken, 1..1,024"""
    dropout: Annotated[float, Number(0, 0.99)] = 0.5
    """share of inputs of each layer, and of attention weights, that are set to 0 in training, 0..0.99"""

    @property
    def takes_edge_features(self) -> bool:
        return True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden % self.heads:
            nearest = max(1, round(self.hidden / self.heads)) * self.heads
            raise InputError(
                f"hidden must be a multiple of heads, {self.heads}, got {self.hidden}; {nearest} is the nearest."
            )


@dataclass(frozen=True, kw_only=True)
class GAT(AttentionNetwork):
    """Graph attention network (Veličković et al., ICLR 2018, equations 3 to 6), self-loops added."""

    name: ClassVar[str] = "gat"


@dataclass(frozen=True, kw_only=True)
class GATv2(AttentionNetwork):
    """Graph attention that ranks neighbors differently for each node (Brody, Alon, Yahav, ICLR 2022, equation 7)."""

    name: ClassVar[str] = "gatv2"


@dataclass(frozen=True, kw_only=True)
class GIN(ObjectiveNetwork):
    """Graph isomorphism network (Xu et al., ICLR 2019, equation 4.1), with an MLP and batch normalization in
    each layer."""

    name: ClassVar[str] = "gin"

    train_eps: bool = False
    """learn how much more than a neighbor's a node's own row counts, layer by layer; else as much"""


@dataclass(frozen=True, kw_only=True)
class GINE(ObjectiveNetwork):
    """GIN whose messages are ReLU of a neighbor's row and the edge's features, brought to as many columns (Hu et al.,
    ICLR 2020); edges must have features."""

    name: ClassVar[str] = "gine"

    train_eps: bool = False
    """learn how much more than a neighbor's a node's own row counts, layer by layer; else as much"""

    @property
    def takes_edge_features(self) -> bool:
        return True


@dataclass(frozen=True, kw_only=True)
class APPNP(GraphNetwork):
    """An MLP whose predictions are propagated by personalized PageRank (Klicpera et al., ICLR 2019, section 3).

    The last matrix, which has no bias, is applied after the propagation: scores are the same, and vectors exist.
    """

    name: ClassVar[str] = "appnp"

    sampling: Literal["full-graph"] = "full-graph"
    """all nodes, one batch an epoch: samples of so many hops would reach all nodes, too"""
    hops: Annotated[int, Whole(1, 100)] = 10
    """propagations, 1..100"""
    teleport: Annotated[float, Number(0, 1, open_low=True)] = 0.1
    """share of a node's own prediction at each propagation, in (0, 1]"""

    def widths(self, num_features: int, num_classes: int) -> tuple[int, ...]:
        *dense, classes = self.dense_widths(num_features, num_classes)
        return (*dense, *[2 * self.hidden] * (self.hops - 1), self.hidden, classes)


@dataclass(frozen=True, kw_only=True)
class SGC(GraphNetwork):
    """Simplified graph convolution (Wu et al., ICML 2019, equation 8): a linear model of features that convolutions
    without weights have smoothed, once, before training. Vectors are the smoothed features.
    """

    name: ClassVar[str] = "sgc"
    default_epochs: ClassVar[int] = 100

    sampling: Literal["full-graph"] = "full-graph"
    """all nodes, one batch an epoch"""
    hops: Annotated[int, Whole(1, 100)] = 2
    """convolutions, 1..100"""
    hidden: Annotated[int, Whole(0, 0)] = field(default=0, metadata={"flag": False})
    """always 0: there is no hidden layer"""
    num_layers: Annotated[int, Whole(1, 1)] = field(default=1, metadata={"flag": False})
    """always 1"""
    dropout: Annotated[float, Number(0, 0.99)] = 0.0
    """share of smoothed features that are set to 0 in training, 0..0.99"""
    learning_rate: Annotated[float, Number(0, 10, open_low=True)] = 0.2
    """of Adam, in (0, 10]"""

    @property
    def dim(self) -> int:
        """0: as many as the features have columns."""
        return 0

    def dense_widths(self, num_features: int, num_classes: int) -> tuple[int, ...]:
        return (num_features, num_classes)

    def widths(self, num_features: int, num_classes: int) -> tuple[int, ...]:
        return (*[num_features] * (self.hops + 1), num_classes)
