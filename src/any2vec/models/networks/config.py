"""Options of graph networks. Light: no NumPy, no PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Annotated, Any, ClassVar, Literal

from any2vec.checks import Number, Whole
from any2vec.errors import InputError
from any2vec.models.config import ModelConfig
from any2vec.plan.choices import MAX_PARTS

NETWORK = "network.safetensors"
"""file of a trained one in its run folder"""
SUBGRAPHS = ("cluster", "walks")
"""ways of sampling whose batches are nodes with all edges among them"""
MAX_FANOUT = 65_536
_DEFAULT_FANOUT = 10
_OTHERS = "*"
"""types of edges that fan-outs do not name"""
_INVERSE = "inverse of "
"""before the name of a relation: the other way, as `relational_csr` names it"""
_USED: dict[str, tuple[str, ...]] = {
    "classes": (), "links": ("num_negatives", "negatives", "val_share", "test_share"),
    "unsupervised": ("num_negatives", "walk_length"),
}  # fmt: skip
"""options that an objective takes"""


@dataclass(frozen=True, kw_only=True)
class GraphNetwork(ModelConfig):
    """Classes of nodes from features and neighbors (abstract).

    Messages go from in-neighbors. A batch has the sampled neighborhoods of its seeds; what is estimated from a sample
    is, in the mean over samples, what all neighbors give. Validation and results are of all neighbors. The optimizer is
    Adam (Kingma and Ba 2015). After each epoch the validation nodes are scored; the result is the best epoch's.

    Raises:
        InputError: an option is not legal, or would do nothing.
    """

    default_epochs: ClassVar[int] = 50
    takes_edge_features: ClassVar[bool] = False
    """whether it heeds features of edges, where they have some"""

    hidden: Annotated[int, Whole(1, 65_536)] = 128
    """columns of hidden layers, and of the vectors, 1..65,536"""
    num_layers: Annotated[int, Whole(2, 16)] = 2
    """layers, the last one of which scores classes, 2..16"""
    sampling: Literal["neighbors", "labor", "cluster", "walks", "full-graph"] = "neighbors"
    """neighbors: each node its own; labor: shared draws, fewer rows; cluster: joined parts of the graph; walks: nodes
    that random walks reach; of both all edges among their nodes; full-graph: all, one batch an epoch"""
    fanouts: str | None = None
    """sampled neighbors by layer from the seeds, as 15,10; all: each; by default 10 a layer"""
    sample_key: Literal["epoch", "batch"] = "epoch"
    """for how long a node keeps its sample"""
    batch_order: Literal["random", "proximity", "cluster"] = "random"
    """of training nodes: another one each epoch; proximity: near ones together, where batches stay mixed by class;
    cluster: those of a part of the graph together"""
    batch_size: Annotated[int, Whole(1, 1 << 24)] = 1024
    """nodes of a batch: those that it scores; cluster: of its parts, about; walks: where walks begin"""
    node_order: Literal["none", "degree", "rcm", "communities", "metis", "gcod"] = "none"
    """of full-graph, in which nodes lie in memory: as given; hubs first; reverse Cuthill-McKee; near ones together"""
    num_parts: Annotated[int | None, Whole(1, MAX_PARTS)] = None
    """parts of the graph, for cluster; by default so many that parts_per_batch of them have batch_size nodes"""
    parts_per_batch: Annotated[int, Whole(1, MAX_PARTS)] = 10
    """parts of the graph, drawn anew each epoch, that a batch joins"""
    partitioner: Literal["metis", "ldg"] | None = None
    """how parts are found: METIS, or linear deterministic greedy; by default metis where pymetis is installed"""
    halo: Annotated[int, Whole(0, 16)] = 0
    """hops of neighbors around the parts of a batch that pass messages, but are not learned from, 0..16"""
    walk_steps: Annotated[int, Whole(1, 1024)] = 2
    """steps of a walk of sampling walks, 1..1,024"""
    sample_coverage: Annotated[int, Whole(0, 10_000)] = 50
    """epochs of walks that are drawn beforehand, to weigh nodes and edges by how often they come; 0: all alike"""
    dropout: Annotated[float, Number(0, 0.99)] = 0.5
    """share of inputs of each layer that are set to 0 in training, 0..0.99"""
    learning_rate: Annotated[float, Number(0, 10, open_low=True)] = 0.01
    """of Adam, in (0, 10]"""
    weight_decay: Annotated[float, Number(0, 1e6)] = 5e-4
    """times half the squared weights, added to the loss, 0 or more"""

    def __post_init__(self) -> None:
        if isinstance(self.fanouts, list | tuple):
            object.__setattr__(self, "fanouts", ",".join(map(str, self.fanouts)))
        super().__post_init__()
        _ = self.fanouts_by_hop
        if self.node_order != "none" and self.sampling != "full-graph":
            raise InputError(
                f"node_order is of sampling full-graph, and does nothing with {self.sampling}; leave it out."
            )
        self._check_used()

    def _check_used(self) -> None:
        """Raise InputError for an option of batches that is not the default, and does nothing."""
        samples, is_cluster, is_walks = (
            self.sampling in names for names in (("neighbors", "labor"), ("cluster",), ("walks",))
        )
        has_parts = is_cluster or self.batch_order == "cluster"
        is_given = self.num_parts is not None
        used = {
            "fanouts": samples, "sample_key": samples, "batch_order": samples, "num_parts": has_parts,
            "partitioner": has_parts, "parts_per_batch": is_cluster or (has_parts and not is_given),
            "batch_size": samples or is_walks or (is_cluster and not is_given),
            "halo": is_cluster, "walk_steps": is_walks, "sample_coverage": is_walks,
        }  # fmt: skip
        for name, is_used in used.items():
            if not is_used and getattr(self, name) != type(self).__dataclass_fields__[name].default:
                beside = " where num_parts is given" if is_given and name in ("parts_per_batch", "batch_size") else ""
                raise InputError(f"{name} does nothing with sampling {self.sampling}{beside}; leave it out.")

    def parts_of(self, num: int) -> int:
        """Into how many parts a graph is cut from which an epoch's batches take so many nodes in all."""
        if self.num_parts is not None:
            return self.num_parts
        return max(1, min(-(-num * self.parts_per_batch // self.batch_size), num, MAX_PARTS))

    @property
    def dim(self) -> int:
        """Columns of the vectors, which are what the last hidden layer gives."""
        return self.hidden

    def dense_widths(self, num_features: int, num_classes: int) -> tuple[int, ...]:
        """Columns of features, of what each matrix gives, and of scores."""
        return (num_features, *[self.hidden] * (self.num_layers - 1), num_classes)

    def widths(self, num_features: int, num_classes: int) -> tuple[int, ...]:
        """Columns that each layer takes, and those of the last one's scores."""
        return self.dense_widths(num_features, num_classes)

    @property
    def fanouts_by_hop(self) -> tuple[int, ...]:
        """Sampled neighbors by hop from the seeds; -1: all."""
        if self.sampling in ("full-graph", *SUBGRAPHS) or self.fanouts == "all":
            return (-1,) * self.num_layers
        if self.fanouts is None:
            return (_DEFAULT_FANOUT,) * self.num_layers
        found = tuple(_numbers(str(self.fanouts)))
        if len(found) != self.num_layers or any(fanout != -1 and not 1 <= fanout <= MAX_FANOUT for fanout in found):
            raise InputError(
                f"fanouts must be {self.num_layers} whole numbers from 1 to {MAX_FANOUT:,} with commas, one a layer "
                f"({','.join(map(str, (15, 10, 5)[: self.num_layers]))}; -1: all), or all; got {self.fanouts!r}."
            )
        return found


@dataclass(frozen=True, kw_only=True)
class LayeredNetwork(GraphNetwork):
    """Networks of layers with weights, which rows may jump over (abstract)."""

    residual: bool = False
    """add the node's own row, times a matrix, to what each layer gives (He et al. 2016; GATConv's residual in PyG)"""
    jumping_knowledge: Literal["cat", "max", "lstm"] | None = None
    """classes from what all layers give (Xu et al. 2018): cat: side by side; max: largest by column; lstm: their
    mean by attention over a bidirectional LSTM. By default from the last layer"""

    @property
    def dim(self) -> int:
        return self._hidden_columns

    @property
    def _hidden_columns(self) -> int:
        """Columns of what the layers give together."""
        return self.hidden * (self.num_layers if self.jumping_knowledge == "cat" else 1)

    def dense_widths(self, num_features: int, num_classes: int) -> tuple[int, ...]:
        if self.jumping_knowledge is None:
            return super().dense_widths(num_features, num_classes)
        carried = [layer if layer == 1 or self.jumping_knowledge != "max" else 2 for layer in range(1, self.num_layers)]
        return (num_features, *[self.hidden * layers for layers in carried], self._hidden_columns, num_classes)


@dataclass(frozen=True, kw_only=True)
class ObjectiveNetwork(LayeredNetwork):
    """Networks that learn classes, or links, or neither (abstract)."""

    objective: Literal["classes", "links", "unsupervised"] = "classes"
    """classes of nodes; links: the last layer's rows, whose dot product tells edges from other pairs (BCE); or
    unsupervised: rows of nodes on one random walk are alike (Hamilton et al. 2017, equation 1). The last two need no
    labels; batch_size then counts edges, or walks"""
    num_negatives: Annotated[int | None, Whole(1, 1000)] = None
    """links: other pairs for each edge, 1 by default; unsupervised: nodes that all pairs of a batch are set against, 20
    by default; 1..1,000"""
    negatives: Literal["uniform", "degree"] | None = None
    """links: how negatives are drawn: uniform (default), or by degree to the power of 0.75, as unsupervised does"""
    val_share: Annotated[float, Number(0, 0.9)] = 0.05
    """links: share of the edges by which epochs are judged, and along which no messages go, 0..0.9"""
    test_share: Annotated[float, Number(0, 0.9)] = 0.1
    """links: share of the edges for the test, and along which no messages go, 0..0.9"""
    walk_length: Annotated[int, Whole(2, 1000)] = 6
    """unsupervised: nodes of a walk, the first one included, 2..1,000"""

    def __post_init__(self) -> None:
        super().__post_init__()
        default, used = type(self).__dataclass_fields__, _USED[self.objective]
        for name in ("num_negatives", "negatives", "val_share", "test_share", "walk_length"):
            if name not in used and getattr(self, name) != default[name].default:
                raise InputError(f"{name} does nothing with objective {self.objective}; leave it out.")
        if self.objective != "classes" and self.batch_order == "proximity":
            raise InputError("batch_order proximity mixes batches by class: it is for objective classes; leave it out.")
        for name, value in (("sampling", self.sampling), ("batch_order", self.batch_order)):
            if self.objective != "classes" and value in SUBGRAPHS:
                raise InputError(f"{name} {value} is for objective classes; leave it out with {self.objective}.")
        if self.val_share + self.test_share > 0.9:
            raise InputError(
                f"val_share and test_share leave {1 - self.val_share - self.test_share:.2g} of the edges to train; "
                "leave 0.1 or more."
            )

    @property
    def dim(self) -> int:
        return self.hidden if self.objective != "classes" else super().dim

    @property
    def num_drawn(self) -> int:
        """Negatives, of an edge or of a batch."""
        return self.num_negatives or (1 if self.objective == "links" else 20)


def objective_name(model: GraphNetwork) -> str:
    """What it learns: of networks without the option classes."""
    return model.objective if isinstance(model, ObjectiveNetwork) else "classes"


@dataclass(frozen=True, kw_only=True)
class GraphSAGE(ObjectiveNetwork):
    """GraphSAGE (Hamilton, Ying, Leskovec, NeurIPS 2017, algorithm 1)."""

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

    takes_edge_features: ClassVar[bool] = True

    heads: Annotated[int, Whole(1, 1024)] = 8
    """attention heads of hidden layers, which share their columns, 1..1,024"""
    output_heads: Annotated[int, Whole(1, 1024)] = 1
    """attention heads of the last layer, whose mean is taken, 1..1,024"""
    dropout: Annotated[float, Number(0, 0.99)] = 0.5
    """share of inputs of each layer, and of attention weights, that are set to 0 in training, 0..0.99"""

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
    """Graph attention whose order of neighbors depends on who asks (Brody, Alon, Yahav, ICLR 2022, equation 7)."""

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
    takes_edge_features: ClassVar[bool] = True

    train_eps: bool = False
    """learn how much more than a neighbor's a node's own row counts, layer by layer; else as much"""


@dataclass(frozen=True, kw_only=True)
class RGCN(LayeredNetwork):
    """Relational graph convolutional network (Schlichtkrull et al., ESWC 2018, equation 2): edges have types, nodes may
    have features, or a learned row each."""

    name: ClassVar[str] = "rgcn"

    num_bases: Annotated[int | None, Whole(1, 65_536)] = None
    """matrices that a layer's relations are mixtures of (equation 3); by default each relation has its own"""
    inverse: bool = True
    """add the inverse of each relation, of directed graphs"""
    fanouts: str | None = None
    """sampled neighbors by layer from the seeds, as 15,10; all: each; by default 10 a layer; or of each type of edge,
    as cites=10,5;writes=5,0;*=all, where * are types not named, 0 takes none, and -1 all (in Python also a dict)"""

    def __post_init__(self) -> None:
        given: object = self.fanouts
        if isinstance(given, Mapping):
            object.__setattr__(self, "fanouts", _plain(given))
        super().__post_init__()
        if self.residual:
            raise InputError("residual does nothing for rgcn, whose layers add the node's own row, times a matrix.")
        if self.node_order != "none":
            raise InputError("node_order is for edges without types; leave it out with rgcn.")
        for name, value in (("sampling", self.sampling), ("batch_order", self.batch_order)):
            if value in SUBGRAPHS:
                raise InputError(f"{name} {value} is for edges without types; leave it out with rgcn.")

    @property
    def fanouts_by_hop(self) -> tuple[int, ...]:
        """Of any type, the most; -1: all."""
        if not self._are_named:
            return super().fanouts_by_hop
        return tuple(-1 if -1 in hop else max(hop) for hop in zip(*self._named_fanouts.values(), strict=True))

    def fanouts_of(self, relations: Sequence[str]) -> tuple[tuple[int, ...], ...] | None:
        """By relation and hop from the seeds, where they are given so; -1: all, 0: none. An inverse one that is not
        named has its relation's.

        Raises:
            InputError: a relation is not named, and neither are others; or a name is no relation.
        """
        if not self._are_named:
            return None
        named = self._named_fanouts
        known = ", ".join(relations[:10]) + ", ..." * (len(relations) > 10)
        for name in named:
            if name != _OTHERS and name not in relations:
                raise InputError(f"fanouts name {name!r}, which is no type of the graph's edges; these are {known}.")
        found = []
        for name in relations:
            row = named.get(name, named.get(name.removeprefix(_INVERSE), named.get(_OTHERS)))
            if row is None:
                raise InputError(
                    f"fanouts do not name {name!r}, a type of the graph's edges; name it, or give others with *=5,5 "
                    "(of 0: none)."
                )
            found.append(row)
        return tuple(found)

    @property
    def _are_named(self) -> bool:
        return bool(self.fanouts) and (isinstance(self.fanouts, Mapping) or "=" in str(self.fanouts))

    @property
    def _named_fanouts(self) -> dict[str, tuple[int, ...]]:
        given: object = self.fanouts
        if isinstance(given, Mapping):
            return {name: self._row(name, row, f"{name!r}: {row!r}") for name, row in given.items()}
        found: dict[str, tuple[int, ...]] = {}
        for part in str(given).split(";"):
            name, _, text = (word.strip() for word in part.rpartition("="))
            found[name] = self._row("" if name in found else name, text, repr(part.strip()))
        return found

    def _row(self, name: str, given: object, shown: str) -> tuple[int, ...]:
        """Fan-outs by layer of a type, from a text or a list. InputError: they are none, or the type has no name."""
        row = [-1] * self.num_layers if given == "all" else _numbers(given) if isinstance(given, str) else given
        if not name or not isinstance(row, list) or len(row) != self.num_layers or not all(map(_is_fanout, row)):
            example = ",".join(map(str, (10, 5, 5)[: self.num_layers]))
            raise InputError(
                f"fanouts by type of edge are NAME={example};*=all: each type once, {self.num_layers} whole "
                f"numbers from 0 to {MAX_FANOUT:,} (-1: all), one a layer, or all; got {shown}."
            )
        return tuple(row)


def _numbers(text: str) -> list[int]:
    """Fan-outs with commas; for what is no whole number one that is refused."""
    words = [word.strip() for word in text.split(",")]
    return [int(word) if word == "-1" or word.isdecimal() else MAX_FANOUT + 1 for word in words]


def _is_fanout(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -1 <= value <= MAX_FANOUT


def _plain(given: Mapping[Any, Any]) -> dict[str, Any]:
    """Fan-outs by type of edge as JSON holds them: PyG's types of three names are one name, rows are lists.

    Raises:
        InputError: a type is no name, or comes twice.
    """
    found: dict[str, Any] = {}
    for kind, row in given.items():
        name = "__".join(kind) if isinstance(kind, tuple) and all(isinstance(part, str) for part in kind) else kind
        if not isinstance(name, str) or name in found:
            raise InputError(f"fanouts name types of edges by texts, or by three names, each once; got {kind!r}.")
        row = row.tolist() if hasattr(row, "tolist") else row
        if isinstance(row, list | tuple):
            row = [int(one) if isinstance(one, Integral) and not isinstance(one, bool) else one for one in row]
        found[name] = row
    return found


@dataclass(frozen=True, kw_only=True)
class APPNP(GraphNetwork):
    """An MLP whose predictions are propagated by personalized PageRank (Klicpera et al., ICLR 2019, section 3).

    The last matrix, which has no bias, is multiplied behind the propagation: that is the same, and gives vectors.
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


@dataclass(frozen=True, kw_only=True)
class OwnModule(GraphNetwork):
    """A `torch.nn.Module` of PyTorch Geometric's layers, from a package or a file of the current folder.

    It is made as `Class(in_channels=..., out_channels=..., **module_args)`, of the columns of features and number of
    classes, and called as forward(x, edge_index), which gives a row of scores a node. In training the rows of a batch
    are its seeds, then what each hop has found. All nodes are scored layer by layer where torch.fx can trace it.
    """

    name: ClassVar[str] = "module"

    module: str = ""
    """package:Class of the module, or of a function that makes it; in Python also the class, function or module"""
    module_args: str | None = None
    """further arguments of the class, a JSON object; in Python also a dict"""
    accelerate: bool = True
    """run PyG's layers by kernels of any2vec, where they know them"""
    num_layers: Annotated[int, Whole(0, 16)] = 0
    """hops that a batch reaches, one each time that the module passes messages, 1..16; 0: as many as fanouts, or as
    num_layers of module_args says, or 2"""
    hidden: Annotated[int, Whole(0, 0)] = field(default=0, metadata={"flag": False})
    """always 0: the module has its own"""
    dropout: Annotated[float, Number(0, 0)] = field(default=0.0, metadata={"flag": False})
    """always 0: the module has its own"""

    def __post_init__(self) -> None:
        from any2vec.models.modules.imported import arguments, arguments_text, check_place, place_of

        if not self.module:
            raise InputError("module is missing; name a class, like --module models:SAGE.")
        object.__setattr__(self, "module", place_of(self.module))
        check_place(self.module)
        object.__setattr__(self, "module_args", arguments_text(self.module_args))
        if self.num_layers == 0:
            parts = self.fanouts.count(",") + 1 if isinstance(self.fanouts, str) else len(self.fanouts or ())
            said = arguments(self.module_args).get("num_layers", 2)
            hops = parts if self.fanouts not in (None, "all") else said if isinstance(said, int) else 2
            object.__setattr__(self, "num_layers", max(1, min(hops, 16)))
        super().__post_init__()

    @property
    def dim(self) -> int:
        """0: as many as the last layer of the module takes."""
        return 0

    def widths(self, num_features: int, num_classes: int) -> tuple[int, ...]:
        """Columns that each stage takes, and those of the scores. The module is imported, made and traced."""
        from any2vec.models.modules.network import sizes_of

        return sizes_of(self, num_features, num_classes).widths
