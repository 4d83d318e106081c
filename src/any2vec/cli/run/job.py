"""What to train, on what, and how: flags and a TOML file become the arguments of `any2vec.fit`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

import any2vec
from any2vec.checks import check_run
from any2vec.cli.config import read_config
from any2vec.cli.options import Flag, flags_of, nearest_match
from any2vec.errors import DataError, InputError
from any2vec.models.clicks.config import CLICK_MODELS
from any2vec.models.layers.ga_mlp import NODE_MODELS
from any2vec.models.layers.options import LayerOptions
from any2vec.models.triples.config import TRIPLE_MODELS
from any2vec.sync.options.hosts import HostOptions
from any2vec.sync.options.run_hosts import TableHosts
from any2vec.sync.options.trainers import TrainerOptions
from any2vec.train.job import MODELS
from any2vec.train.out_of_core.table_options import TableOptions

GRAPH_MODELS = ("deepwalk", "node2vec")
ALL_MODELS = MODELS | CLICK_MODELS | TRIPLE_MODELS | NODE_MODELS
TABLE_MODELS = ("skipgram", *GRAPH_MODELS, *TRIPLE_MODELS)
"""whose table may be larger than memory"""
_LONE_MODELS = ("ngram",)
"""models of sequences that train on one host, and of which no plan is made"""
_SPREAD_MODELS = {name: attribute for name, attribute in MODELS.items() if name not in _LONE_MODELS}
PLANNED_MODELS = _SPREAD_MODELS | CLICK_MODELS
ESTIMATED_MODELS = _SPREAD_MODELS | TRIPLE_MODELS
_HOSTS = dict.fromkeys(CLICK_MODELS, "trainers") | dict.fromkeys(TRIPLE_MODELS, "table_hosts")
_HOSTS |= dict.fromkeys(NODE_MODELS, "layers")
"""model -> whose options say how it is spread; else those of hosts"""
READING = {"text", "graph", "clicks", "triples", "nodes"}
"""owners of how an input is read"""
_APART = dict.fromkeys((*CLICK_MODELS, "trainers", "clicks"), "clicks")
_APART |= dict.fromkeys((*TRIPLE_MODELS, "triples", "table", "table_hosts"), "triples")
_APART |= dict.fromkeys((*NODE_MODELS, "nodes", "layers"), "ga-mlp")
"""owners that are no models of sequences, nor of their reading and hosts -> what they are for"""
_ELSEWHERE = {*_LONE_MODELS, *CLICK_MODELS, *NODE_MODELS, "clicks", "trainers", "hosts"}
_ELSEWHERE |= {"nodes", "layers", "table_hosts"}
"""owners whose flags `estimate` has not"""

_PANELS = {"skipgram": "Model", "cbow": "Model", "ngram": "Model", "deepwalk": "Walks", "node2vec": "Walks"}
_PANELS |= dict.fromkeys(CLICK_MODELS, "Models of clicks")
_PANELS |= dict.fromkeys(TRIPLE_MODELS, "Models of triples")
_PANELS |= dict.fromkeys((*NODE_MODELS, "nodes", "layers"), "Classes of nodes")
_PANELS |= {"run": "Run", "hosts": "Hosts", "trainers": "Hosts of clicks", "table": "Tables larger than memory"}
_PANELS |= {"table_hosts": "Hosts of triples"}
_PANELS |= {"text": "Reading text", "graph": "Reading graphs", "clicks": "Reading clicks", "triples": "Reading triples"}
_OWNERS = {
    "run": "runs", "hosts": "models of words and nodes on several hosts",
    "trainers": "models of clicks on several hosts", "text": "reading text", "graph": "reading graphs",
    "clicks": "reading clicks", "triples": "reading triples",
    "table": "models of triples, and skip-gram over words and nodes",
    "table_hosts": "models of triples on several hosts", "nodes": "ga-mlp", "layers": "ga-mlp on several hosts",
}  # fmt: skip
"""whose option it is, in a user's words; of models their names"""
_LABELS = {"skipgram": "words", "cbow": "words", "ngram": "words", "deepwalk": "nodes", "node2vec": "nodes"}
_LABELS |= {"trainers": "clicks", "hosts": "words and nodes"}


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a run is carried out; the model's own options are in its config."""

    epochs: int | None = None
    """passes over the data, 1 or more; by default 5 for words, 1 for nodes and clicks, 24 for triples, 200 for
    ga-mlp"""
    threads: int = 0
    """training threads; 0 = all usable cores; with 1 the same seed gives the same bits, but on hosts that agree behind
    the training or take changes as they come"""
    seed: int = 1
    """seed of every random draw"""
    resume: bool = False
    """go on from the checkpoint in --out, if there is one"""
    overwrite: bool = False
    """replace what is in --out"""
    init: Path | None = None
    """start from these vectors (a run folder or any file that any2vec reads), matched by word or node id"""
    checkpoint_seconds: float = 300.0
    """seconds between checkpoints"""
    cache_dir: Path | None = None
    """folder of encoded text, graphs and clicks, not for triples; by default $ANY2VEC_CACHE or ~/.cache/any2vec"""

    def __post_init__(self) -> None:
        check_run(self.epochs, self.threads, self.seed, self.checkpoint_seconds)


@dataclass(frozen=True, kw_only=True)
class ClickReading:
    """How clicks are read."""

    schema: str | None = None
    """which columns are what: criteo, avazu, or a TOML file"""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A checked request: `any2vec.fit(job.model, job.data, out=job.out, **job.arguments())`."""

    name: str
    model: Any
    data: str | list[str]
    out: Path | None
    run: RunOptions
    hosts: HostOptions | TrainerOptions | TableHosts | LayerOptions
    text: Any
    graph: Any
    schema: str | None = None
    triples: Any = None
    table: Any = None
    nodes: Any = None
    given: dict[str, Any] = field(default_factory=dict)
    """what flags and file said, for messages"""

    @property
    def is_graph(self) -> bool:
        return self.name in GRAPH_MODELS

    @property
    def is_clicks(self) -> bool:
        return self.name in CLICK_MODELS

    @property
    def is_triples(self) -> bool:
        return self.name in TRIPLE_MODELS

    @property
    def is_classes(self) -> bool:
        return self.name in NODE_MODELS

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of `fit` but for the data, `out` and the callbacks."""
        run = {item.name: getattr(self.run, item.name) for item in fields(self.run)}
        reading = {"text": self.text, "graph": self.graph, "schema": self.schema, "triples": self.triples}
        reading |= {"nodes": self.nodes}
        return run | reading | {"hosts": self.hosts} | ({} if self.table is None else asdict(self.table))


def _owners() -> dict[str, type]:
    models = {name: getattr(any2vec, attribute) for name, attribute in ALL_MODELS.items()}
    hosts = {"hosts": HostOptions, "trainers": TrainerOptions, "table_hosts": TableHosts, "layers": LayerOptions}
    reading = {"text": text_options(), "graph": graph_options(), "clicks": ClickReading, "triples": _triple_options()}
    reading |= {"nodes": _node_options()}
    return models | {"run": RunOptions, "table": TableOptions} | hosts | reading


def text_options() -> type:
    """The dataclass of how text is read."""
    from any2vec.data.text.options import TextOptions

    return TextOptions


def _triple_options() -> type:
    from any2vec.data.triples.options import TripleOptions

    return TripleOptions


def _node_options() -> type:
    from any2vec.data.graph.node_options import NodeOptions

    return NodeOptions


def graph_options() -> type:
    """The dataclass of how a graph is read."""
    from any2vec.data.graph.options import GraphOptions

    return GraphOptions


@cache
def job_flags() -> dict[str, Flag]:
    """Every flag of `train`."""
    return flags_of(_owners(), _PANELS, _LABELS, _APART)


@cache
def lone_flags() -> dict[str, Flag]:
    """Those of one host: every flag of `estimate`."""
    owners = {name: owner for name, owner in _owners().items() if name not in _ELSEWHERE}
    return flags_of(owners, _PANELS, _LABELS, _APART)


def make_job(
    inputs: Sequence[str] | None,
    model: str | None,
    out: Path | None,
    config: Path | None,
    given: Mapping[str, Any],
    needs_input: bool = True,
    models: Mapping[str, str] = ALL_MODELS,
) -> Job:
    """The job that arguments, flags (`given`) and the TOML file ask for; a flag wins over the file.

    models: those that are legal.

    Raises InputError when an option is unknown, not legal, or belongs to another model.
    """
    flags = job_flags()
    own: dict[str, type | tuple[type, ...]] = {"input": (str, list), "model": str, "out": str}
    values = read_config(config, flags, own) if config else {}
    from_file = {name: values.pop(name) for name in own if name in values}
    name = model or from_file.get("model")
    if name is None:
        raise InputError(f"Say which model to train: --model {'|'.join(models)}.")
    if name not in models:
        raise InputError(f"There is no model {name!r} here; {nearest_match(name, list(models))}")
    values |= given
    owners = _owners()
    hosts, reading = _HOSTS.get(name, "hosts"), _reading(name)
    mine = [name, "run", hosts, reading, *(["table"] if name in TABLE_MODELS else [])]
    mine += ["nodes"] * (name in NODE_MODELS)
    for key in values:
        if not any(owner in flags[key].defaults for owner in mine):
            theirs = " and ".join(_OWNERS.get(owner, owner) for owner in flags[key].defaults)
            raise InputError(f"{flags[key].flag} is not an option of {name}; it is for {theirs}.")

    def build(owner: str) -> Any:
        return owners[owner](**{key: value for key, value in values.items() if owner in flags[key].defaults})

    folder = out or (Path(from_file["out"]) if "out" in from_file else None)
    return Job(
        name=name,
        model=build(name),
        data=_data(inputs or from_file.get("input")) if needs_input else [],
        out=folder,
        run=build("run"),
        hosts=build(hosts),
        text=build("text") if reading == "text" else None,
        graph=build("graph") if reading == "graph" else None,
        schema=build("clicks").schema if reading == "clicks" else None,
        triples=build("triples") if reading == "triples" else None,
        table=build("table") if "table" in mine else None,
        nodes=build("nodes") if name in NODE_MODELS else None,
        given=values,
    )


def _reading(name: str) -> str:
    """Whose options of reading a model has."""
    if name in CLICK_MODELS:
        return "clicks"
    if name in TRIPLE_MODELS:
        return "triples"
    return "graph" if name in (*GRAPH_MODELS, *NODE_MODELS) else "text"


def _data(inputs: str | Sequence[str] | None) -> str | list[str]:
    if not inputs:
        raise InputError("Say what to train on: a file, a folder, a glob, or - for standard input.")
    paths = [inputs] if isinstance(inputs, str) else [str(path) for path in inputs]
    for path in paths:
        check_input(path)
    return paths[0] if len(paths) == 1 else paths


def check_input(path: str) -> None:
    """Raise DataError when `path` is neither `-`, nor a glob, nor there."""
    if path != "-" and not any(sign in path for sign in "*?[") and not Path(path).exists():
        raise DataError(
            f"There is no file or folder {path}; check the name, or take a public set: `any2vec data` lists them."
        )
