"""A trained graph network that scores nodes of any graph whose features mean the same: inductive."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from any2vec.checks import parse_json
from any2vec.data.attributed.edge_features import FeaturedCsr
from any2vec.data.attributed.features import NodeNumbers
from any2vec.data.attributed.predictions import class_shares
from any2vec.data.attributed.relations import RelationalCsr, Relations, relational_csr
from any2vec.errors import FormatError, InputError
from any2vec.formats.safetensors_file import read_arrays, read_safetensors, write_arrays
from any2vec.models.networks.config.base import NETWORK, GraphNetwork, objective_name
from any2vec.models.networks.config.layers import APPNP, GAT, GCN, GIN, GINE, SGC, GATv2, GraphSAGE
from any2vec.models.networks.config.own import OwnModule
from any2vec.models.networks.config.relational import RGCN
from any2vec.types import Csr, State

if TYPE_CHECKING:
    from any2vec.data.attributed.graph import AttributedGraph
    from any2vec.models.networks.inference import Inference

MAX_COLUMNS = 1 << 31
Made = TypeVar("Made")
_MODELS: dict[str, type[GraphNetwork]] = {
    kind.name: kind for kind in (GraphSAGE, GCN, GAT, GATv2, GIN, GINE, RGCN, APPNP, SGC, OwnModule)
}


class OtherNetworkError(FormatError):
    """A network is whole, but of another kind than the one that was asked for."""


class NetworkClassifier:
    """Predicts the classes of nodes, each from all its in-neighbors.

    Args:
        weights: of the network, by name. classes: names of the C classes. is_multi_label: a node may have several.
        relations: of the edges, where they have types. nodes: hash of the nodes' keys, where they had no features.
        num_edge_features: columns; 0: edges had none.
    """

    def __init__(
        self, model: GraphNetwork, weights: State, num_features: int, classes: Sequence[str], is_multi_label: bool,
        relations: Relations | None = None, nodes: str = "", num_edge_features: int = 0,
    ) -> None:  # fmt: skip
        self.model, self.weights, self.num_features = model, weights, num_features
        self.classes, self.is_multi_label = list(classes), is_multi_label
        self.relations, self._nodes, self.num_edge_features = relations, nodes, num_edge_features
        self._is_allowed = True
        """whether a user's module may be imported: of a folder only where its user names it"""

    def __repr__(self) -> str:
        return f"NetworkClassifier({self.model.name}, {self.num_features:,} features, {len(self.classes)} classes)"

    def score(
        self, graph: AttributedGraph | Path | str, nodes: np.ndarray | None = None, *, budget_bytes: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """(vectors, float32 (K, hidden): the last hidden layer's; scores of classes, (K, C)) of nodes, or of all.

        Args:
            graph: or its folder. nodes: rows, integers (K,), or a mask, bool (N,); of others only what these need is
                computed.
            budget_bytes: of memory for layers; 0: half of the machine's. What does not fit is mapped from a file.

        Raises:
            InputError: the graph is none; it has no features, or not as many as the training, of nodes or of edges, or
                not these nodes; it is of other nodes than a network without features has learned; a relation is
                unknown; the budget is too small; the network is a module of a user's, and the folder was opened
                without naming it.
            FormatError: the folder is no graph, or damaged. StorageError: the disk is full.
        """
        from any2vec.models.networks.inference import inference_over

        graph = opened(graph)
        features: Any = graph.features
        if self.relations is not None and self.relations.num_nodes:
            check_same_nodes(graph, self.relations.num_nodes, self._nodes)
            features = NodeNumbers(len(graph))
        elif features is None or graph.num_features != self.num_features:
            raise InputError(f"The network takes {self.num_features:,} features a node, got {graph.num_features:,}.")
        check_edge_features(self.model, graph, self.num_edge_features)
        nodes = None if nodes is None else checked_nodes(nodes, len(graph))
        csr = edges_for(self.model, graph)
        if isinstance(csr, RelationalCsr) and self.relations is not None:
            csr = csr.named(self.relations.names)
        return self.score_with(inference_over(self.model, csr, features, budget_bytes), nodes)

    def score_with(self, inference: Inference, nodes: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """As `score`, of a graph that is at hand in `inference`."""
        return inference.hidden_and_scores(self._network(), nodes)

    def probabilities(self, score_NC: np.ndarray) -> np.ndarray:
        """Of scores, score_NC of `score`: shares of 1 over the classes; of several classes a node each class's own."""
        if self.is_multi_label:
            return np.asarray(0.5 * (1 + np.tanh(score_NC.astype(np.float64) / 2)))
        return class_shares(score_NC)

    def to_pyg(self) -> Any:
        """The network as a `torch.nn.Module` of PyTorch Geometric, in evaluation mode, called as (x, edge_index), or,
        where it takes features of edges, (x, edge_index, edge_attr); its `state_dict` has copies of the weights. Of a
        user's module: the module, with its weights.

        Scores are these to 1e-5; of gcn, appnp and sgc where no node is its own neighbor: PyG counts such loops once.

        Raises:
            InputError: PyG has no such layers, or is not installed; or as of `score`.
        """
        if importlib.util.find_spec("torch_geometric") is None:
            raise InputError('to_pyg gives modules of PyG; in a clone: pip install -e ".[pyg]".')
        network = self._network()
        if isinstance(self.model, OwnModule):
            return network.module.eval()
        from any2vec.models.modules.exported import to_pyg

        return to_pyg(self.model, network)

    def to_onnx(self, path: Path | str) -> None:
        """Write what `to_pyg` gives to `path` as ONNX.

        Inputs are x, float32 (nodes, features), and edge_index, int64 (2, edges); the output is scores; numbers of
        nodes and edges are free.

        Raises:
            InputError: a library is missing, torch cannot write this network as ONNX, or it takes features of edges;
                or as of `to_pyg`.
            StorageError: the file is there, or cannot be written.
        """
        if self.num_edge_features:
            raise InputError("ONNX files are of networks that take x and edge_index alone; to_pyg gives this one.")
        from any2vec.models.modules.onnx_file import write_onnx

        write_onnx(self.to_pyg(), self.num_features, Path(path))

    def write(self, path: Path) -> None:
        """Write it to the file `path`."""
        about = {
            "model": self.model.as_dict(), "num_features": self.num_features, "classes": self.classes,
            "is_multi_label": self.is_multi_label,
        }  # fmt: skip
        if self.relations is not None:
            about |= {**self.relations._asdict(), "nodes": self._nodes}
        if self.num_edge_features:
            about["num_edge_features"] = self.num_edge_features
        write_network(path, self.weights, about)

    @classmethod
    def load(cls, folder: Path | str, module: Any = None) -> NetworkClassifier:
        """Open the folder of a finished run.

        Args:
            module: of a run of `OwnModule`: what its option `module` takes. Scoring runs that code, which is therefore
                not taken from the folder: without it the classifier scores nothing.

        Raises:
            FormatError: it is none of a graph network, or damaged.
            InputError: the module is none, its weights are others, or the network is no module of a user's.
        """
        return read_network(folder, cls.of).with_module(module)

    @classmethod
    def of(cls, model: GraphNetwork, weights: State, about: Mapping[str, Any]) -> NetworkClassifier:
        """By what `write` has written. ValueError, KeyError, TypeError where it is damaged."""
        if objective_name(model) != "classes":
            raise OtherNetworkError("The network gives vectors of nodes and no classes; NetworkEncoder.load opens it.")
        classes = [str(name) for name in about["classes"]]
        relations = None
        if "names" in about:
            relations = Relations(tuple(map(str, about["names"])), int(about["num_nodes"]))
        found = cls(
            model, weights, int(about["num_features"]), classes, bool(about["is_multi_label"]), relations,
            str(about.get("nodes", "")), int(about.get("num_edge_features", 0)),
        )  # fmt: skip
        found._check()
        return found

    def with_module(self, module: Any) -> NetworkClassifier:
        """This one, a user's module, which may run from now on; None: nothing changes. Raises as `load`."""
        if module is None:
            return self
        if not isinstance(self.model, OwnModule):
            raise InputError(f"The network is {self.model.name}, and no module of your own; leave out --module.")
        recorded, self.model, self._is_allowed = self.model.module, replace(self.model, module=module), True
        try:
            self._network()
        except ValueError as error:
            what = " ".join(str(error).split())
            raise InputError(f"{self.model.module} has other weights than {recorded} of the run: {what}") from error
        return self

    def _check(self) -> None:
        if not all(np.isfinite(array).all() for array in self.weights.values()):
            raise ValueError("its weights are not all numbers")
        num_columns = self.num_features or (self.relations.num_nodes if self.relations else 0)
        if not 0 < num_columns <= MAX_COLUMNS or len(self.classes) < 2:
            raise ValueError(f"it has {self.num_features} features and {len(self.classes)} classes")
        if isinstance(self.model, OwnModule):
            self._is_allowed = False
        else:
            self._network()

    def _network(self) -> Any:
        if isinstance(self.model, OwnModule) and not self._is_allowed:
            raise InputError(
                f"The network is a module of your own, {self.model.module}, and scoring runs its code; give --module "
                f"{self.model.module} (in Python NetworkClassifier.load(folder, module=...)) if you trust it."
            )
        from any2vec.models.networks.network import network_of

        sizes = self.num_features, len(self.classes)
        return network_of(self.model, *sizes, self.weights, self.relations, self.num_edge_features)


def write_network(path: Path, weights: State, about: Mapping[str, Any]) -> None:
    """Write weights, and what they are of, JSON-ready, to a file; each of its own type, as a module's buffers have."""
    arrays = {
        name: array if array.dtype.kind in "fiub" else np.asarray(array, np.float32) for name, array in weights.items()
    }
    with path.open("wb") as file:
        write_arrays(file, arrays, {"any2vec": json.dumps(about)})


def read_network(folder: Path | str, made: Callable[[GraphNetwork, State, Mapping[str, Any]], Made]) -> Made:
    """What `made` makes of the network of a finished run: its model, its weights, and what was written beside them.

    Raises:
        FormatError: there is none, it is of another kind, or it is damaged: `made` raises ValueError, KeyError or
            TypeError, too.
    """
    file = Path(folder) / NETWORK
    if not file.exists():
        raise FormatError(f"{folder} holds no graph network; give the folder of a finished run of one.")
    try:
        tensors, metadata = read_safetensors(file, mmap=False, ranks=(1, 2, 3, 4))
        about = parse_json(metadata["any2vec"])
        options: dict[str, Any] = dict(about["model"])
        model = _MODELS[options.pop("model")](**options)
        if isinstance(model, OwnModule):  # its buffers may be whole numbers, or float64
            tensors = {name: np.array(array) for name, array in read_arrays(file)[0].items()}
        return made(model, dict(tensors), about)
    except OtherNetworkError:
        raise
    except (FormatError, InputError, OSError, ValueError, TypeError) as error:
        raise FormatError(f"{file} is damaged: {' '.join(str(error).split())}") from error
    except KeyError as error:
        raise FormatError(f"{file} is damaged: it lacks {error}; train again.") from error


def checked_nodes(nodes: np.ndarray, num: int) -> np.ndarray:
    """Rows of nodes that are asked for. InputError: there are no such."""
    found = np.asarray(nodes)
    if found.dtype == bool and found.shape == (num,):
        return np.flatnonzero(found)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise InputError(f"nodes must be whole numbers or a mask ({num:,},), got {found.dtype} of {found.shape}.")
    if (outside := found[(found < 0) | (found >= num)]).size:
        raise InputError(f"nodes must be from 0 to {num - 1:,}, got {outside[0]:,}.")
    return found


def opened(graph: Any) -> AttributedGraph:
    """A graph, or that of a folder. InputError: it is neither; FormatError: the folder is none of a graph."""
    from any2vec.data.attributed.graph import AttributedGraph

    if isinstance(graph, AttributedGraph):
        return graph
    if not isinstance(graph, str | Path):
        raise InputError(
            f"graph must be a graph folder or an AttributedGraph, got {type(graph).__name__}; any2vec.write_graph "
            "makes one of Data, of edges and of arrays."
        )
    return AttributedGraph.open(graph)


def edges_for(model: GraphNetwork, graph: AttributedGraph) -> Csr:
    """What a network passes messages along; features of edges are left out where it makes nothing of them.

    Raises:
        InputError: the network takes edges with types, and these have none. FormatError: the folder is damaged.
    """
    if isinstance(model, RGCN):
        return relational_csr(graph, model.inverse)
    graph.check_edges()
    if graph.edge_features is None or not model.takes_edge_features:
        return graph.csr
    return FeaturedCsr.of(graph.csr, graph.edge_features)


def check_edge_features(model: GraphNetwork, graph: AttributedGraph, num: int) -> None:
    """Raise InputError unless edges have as many features as those that a network has learned from, if it heeds any."""
    if model.takes_edge_features and graph.num_edge_features != num:
        raise InputError(f"The network takes {num:,} features an edge, got {graph.num_edge_features:,}.")


def nodes_digest(graph: AttributedGraph) -> str:
    """By which a graph is known to have the same nodes: a hash of their keys; empty where they are numbers."""
    return str(graph.metadata["arrays"].get("words", {}).get("blake2b", ""))


def check_same_nodes(graph: AttributedGraph, num_nodes: int, digest: str) -> None:
    """Raise InputError unless these are the nodes that a network without features has rows of."""
    if len(graph) != num_nodes or nodes_digest(graph) != digest:
        raise InputError(
            f"The network has learned a row for each of its {num_nodes:,} nodes, for they had no features, and scores "
            "these alone; the graph has others. Train with features to score other graphs."
        )
