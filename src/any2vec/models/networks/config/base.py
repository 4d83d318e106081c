"""Options that graph networks share. Light: no NumPy, no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

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
    """times half the squared weights and biases of all layers, added to the loss, 0 or more"""

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

    @property
    def takes_edge_features(self) -> bool:
        """Whether it heeds features of edges, where they have some."""
        return False

    @property
    def rate(self) -> float:
        """Of Adam."""
        return self.learning_rate

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
        found = tuple(fanout_numbers(str(self.fanouts)))
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
    learning_rate: Annotated[float | None, Number(0, 10, open_low=True)] = None  # type: ignore[assignment]
    """of Adam; default 0.01, or 0.001 without classes"""

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
    def rate(self) -> float:
        if self.learning_rate is not None:
            return self.learning_rate
        # where nodes have hundreds of features, larger steps of pairs move all rows to the dead side of ReLU
        return 0.01 if self.objective == "classes" else 0.001

    @property
    def num_drawn(self) -> int:
        """Negatives, of an edge or of a batch."""
        return self.num_negatives or (1 if self.objective == "links" else 20)


def objective_name(model: GraphNetwork) -> str:
    """What it learns: of networks without the option classes."""
    return model.objective if isinstance(model, ObjectiveNetwork) else "classes"


def fanout_numbers(text: str) -> list[int]:
    """Fan-outs with commas; for what is no whole number one that is refused."""
    words = [word.strip() for word in text.split(",")]
    return [int(word) if word == "-1" or word.isdecimal() else MAX_FANOUT + 1 for word in words]
