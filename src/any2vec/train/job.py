"""A call of `fit` as JSON: what a parent hands to the processes that train for it. Nothing is pickled."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from any2vec.models.clicks.config import CLICK_MODELS, ClickModel
from any2vec.models.layers.ga_mlp import GAMLP, NODE_MODELS
from any2vec.models.triples.config import TRIPLE_MODELS, TripleModel
from any2vec.models.words.config import SequenceModel

MODELS = {
    "skipgram": "SkipGram", "cbow": "CBOW", "ngram": "NGram", "deepwalk": "DeepWalk", "node2vec": "Node2Vec",
}  # fmt: skip
"""name of a model on the command line, and of its module -> its class, also its name in `any2vec`"""


@dataclass(frozen=True, kw_only=True)
class TrainJob:
    """Arguments of `fit` that a file can hold: data and start vectors are paths."""

    worker: ClassVar[str] = "any2vec.train.worker"

    model: SequenceModel | ClickModel | TripleModel | GAMLP
    data: list[str]
    arguments: dict[str, Any]
    """epochs, threads, seed, out, overwrite, resume, init, checkpoint_seconds, cache_dir; memory and its kin"""
    text: Any = None
    graph: Any = None
    schema: Any = None
    triples: Any = None
    nodes: Any = None
    """features, labels and split as files"""
    hosts: Any = None

    def to_json(self) -> str:
        options = {
            name: None if value is None else asdict(value)
            for name, value in (
                ("text", self.text),
                ("graph", self.graph),
                ("triples", self.triples),
                ("hosts", self.hosts),
            )
        }
        options["nodes"] = None if self.nodes is None else stored_nodes(self.nodes)
        arguments = {name: str(value) if isinstance(value, Path) else value for name, value in self.arguments.items()}
        options["schema"] = None if self.schema is None else self.schema.to_dict()
        return json.dumps({"model": self.model.as_dict(), "data": self.data, "arguments": arguments} | options)

    @classmethod
    def from_json(cls, text: str) -> TrainJob:
        """Raises ValueError, KeyError or TypeError for a text that `to_json` did not make."""
        from any2vec.data.graph.node_options import NodeOptions
        from any2vec.data.graph.options import GraphOptions
        from any2vec.data.text.options import TextOptions
        from any2vec.data.triples.options import TripleOptions
        from any2vec.models.layers.options import LayerOptions
        from any2vec.sync.options.hosts import HostOptions
        from any2vec.sync.options.run_hosts import TableHosts
        from any2vec.sync.options.trainers import TrainerOptions
        from any2vec.train.clicks.prepare import schema_from_dict

        found = json.loads(text)
        options = dict(found["model"])
        name = options.pop("model")
        kinds = (
            (MODELS, "words", HostOptions),
            (CLICK_MODELS, "clicks", TrainerOptions),
            (TRIPLE_MODELS, "triples", TableHosts),
            (NODE_MODELS, "layers", LayerOptions),
        )
        names, folder, kind = next(own for own in kinds if name in own[0])
        home = import_module(f"any2vec.models.{folder}.{name.replace('-', '_')}")
        model = getattr(home, names[name])(**options)

        def made(kind: type, key: str) -> Any:
            return None if found[key] is None else kind(**found[key])

        return cls(
            model=model, data=found["data"], arguments=found["arguments"], text=made(TextOptions, "text"),
            graph=made(GraphOptions, "graph"), hosts=made(kind, "hosts"), schema=schema_from_dict(found["schema"]),
            triples=made(TripleOptions, "triples"), nodes=made(NodeOptions, "nodes"),
        )  # fmt: skip


def stored_nodes(nodes: Any) -> dict[str, Any]:
    """`NodeOptions` that have nothing in memory."""
    found = {name: getattr(nodes, name) for name in ("features", "labels", "split")}
    files = {name: None if value is None else str(value) for name, value in found.items()}
    return files | {"linear_probe": nodes.linear_probe}
