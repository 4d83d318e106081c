"""The golden runs: what they train, and how. With `calls.py` the one place of the harness that knows any2vec's API.

Each side of a comparison with an earlier commit uses its own copy of these files. A change of the API changes calls
here, and none of the bits that come out. A run has one thread a host and a fixed seed; `data.py` has the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import any2vec as a2v
from golden.calls import (
    Outcome,
    Place,
    Repeat,
    cached,
    commanded,
    fitted,
    from_disk,
    resumed,
    resumed_lines,
    spread,
    streamed,
)
from golden.data import Data


@dataclass(frozen=True)
class Run:
    """One golden run."""

    call: Callable[[Place], Outcome]
    needs: tuple[str, ...] = ()
    """distributions beside the core, such as torch"""
    is_alone: bool = False
    """it has a process for itself: what it does depends on the memory of its process"""
    seconds: float = 600.0
    """after which it is given up; kernels that are not in the cache yet are compiled meanwhile"""


RUNS: dict[str, Run] = {}
DISK_OF_TRIPLES, DISK_OF_PAIRS = 75.5, 109.0
"""MB of a budget beside what the process needs: in the middle of what gives the same partitions, some 8 MB each way"""
LEFT_OUT = {
    "sequences: sync server, server-mean, frequent": "pushes are applied as they come",
    "clicks: sync shadow-*, none with rows of others": "replicas meet by the clock, or rows change as pushes come",
    "clicks: sync fr-*, bounded, async, m-of-n": "rows of others, or gradients, are applied as they come",
    "clicks: cache het of two trainers or more": "clocks of rows move as pushes come; one trainer with servers is here",
    "stream: sync async, bounded": "batches are dealt to whoever is free",
    "stream on hosts: ngram": "the package has no such run: ngram's stream is trained by one process",
    "sources over the network": "lines come by the clock; a file is read in their place",
    "hosts on Ray or under torchrun": "the same program as hosts=N, over the same transport; a cluster takes minutes",
    "bytes of GA-MLP on hosts with more than a layer each": "who has which layers goes by the time that they take",
    "kills": "runs are stopped by SIGTERM; what a kill leaves has tests of its own",
    "more than one thread a host": "Hogwild: bits depend on the scheduling",
    "links that are emulated": "they change the time that messages take and nothing else",
}  # fmt: skip
"""what has no golden run, and why"""


def golden(
    name: str, *, needs: tuple[str, ...] = (), is_alone: bool = False
) -> Callable[[Callable[[Place], Outcome]], Callable[[Place], Outcome]]:
    """Register a function as the run of a name, TASK/MODE or TASK/MODE-VARIANT."""

    def register(call: Callable[[Place], Outcome]) -> Callable[[Place], Outcome]:
        assert name not in RUNS, name
        more = ("linux",) if "/disk" in name or "/shared" in name else ()  # stores of partitions
        RUNS[name] = Run(call, (*needs, *more), is_alone)
        return call

    return register


def fit_run(
    name: str, model: Any, data: Callable[[Data], Any], *, needs: tuple[str, ...] = (), is_alone: bool = False,
    **options: Any,
) -> None:  # fmt: skip
    """Register a run that is one call of `fit`."""

    @golden(name, needs=needs, is_alone=is_alone)
    def call(place: Place) -> Outcome:
        return fitted(model, data(place.data), place, **options)


# ---- words


TEXT: dict[str, Any] = {"epochs": 2}
SKIPGRAM = a2v.SkipGram(dim=16, window=3, min_count=2, learning_rate=0.05, subsample=1e-2)


def text(data: Data) -> Any:
    return str(data.text())


def hosts(number: int, **options: Any) -> dict[str, Any]:
    return spread(logical_hosts=number, **options)


fit_run("skipgram/one", SKIPGRAM, text, **TEXT)
fit_run("skipgram/one-in-memory", SKIPGRAM, text, out=None, **TEXT)
fit_run("skipgram/one-classic", a2v.SkipGram(dim=10, window=3, min_count=2, kernel="classic"), text, **TEXT)
fit_run("skipgram/one-hierarchical", a2v.SkipGram(dim=10, min_count=2, objective="hierarchical"), text, **TEXT)
fit_run("skipgram/logical-1", SKIPGRAM, text, **hosts(1), **TEXT)
fit_run("skipgram/logical-2", SKIPGRAM, text, **hosts(2), **TEXT)
fit_run("skipgram/logical-4", SKIPGRAM, text, **hosts(4), **TEXT)
fit_run(
    "skipgram/logical-adasum-8-bits", SKIPGRAM, text,
    **hosts(3, sync="adasum", scheme="pull-opt", bits=8, rounds_per_epoch=3), **TEXT,
)  # fmt: skip
fit_run("skipgram/logical-16-bits", SKIPGRAM, text, **hosts(3, bits=16), **TEXT)
fit_run("skipgram/logical-overlap", SKIPGRAM, text, **hosts(3, overlap=True, rounds_per_epoch=4), **TEXT)
fit_run("skipgram/logical-parts", SKIPGRAM, lambda data: [str(data.text(part)) for part in range(2)],
        **hosts(2, read="parts"), **TEXT)  # fmt: skip
AGREEMENTS: dict[str, dict[str, Any]] = {
    "adasum": {"sync": "adasum", "scheme": "rep-base"},
    "adasum-symmetric": {"sync": "adasum-symmetric", "scheme": "rep-opt"},
    "mean": {"sync": "mean", "scheme": "pull-base"},
    "sum": {"sync": "sum"},
    "spectral": {"sync": "spectral"},
    "ds-sync": {"sync": "ds-sync"},
    "ds-sync-butterfly": {"sync": "ds-sync:butterfly"},
    "leader": {"sync": "leader:every=2:size=2"},
    "elastic": {"sync": "elastic"},
    "gaia": {"sync": "gaia"},
    "gaia-clock": {"sync": "gaia:clock=1:0.1", "bits": 8},
}
for agreement, options in AGREEMENTS.items():
    fit_run(f"skipgram/logical-{agreement}", SKIPGRAM, text, **hosts(4, rounds_per_epoch=3, **options), **TEXT)
fit_run("skipgram/logical-het", SKIPGRAM, text, **hosts(1, cache="het:4:lfu", cache_rows=0.2), **TEXT)
fit_run("skipgram/processes", SKIPGRAM, text, hosts=2, needs=("torch",), **TEXT)
fit_run("cbow/one", a2v.CBOW(dim=16, window=3, min_count=2), text, **TEXT)
fit_run("cbow/one-hierarchical", a2v.CBOW(dim=16, window=3, min_count=2, objective="hierarchical"), text, **TEXT)
fit_run("cbow/logical-2", a2v.CBOW(dim=16, window=3, min_count=2), text, **hosts(2), **TEXT)
fit_run("ngram/one", a2v.NGram(dim=12, window=3, min_count=2, buckets=500), text, **TEXT)


@golden("skipgram/one-from-vectors")
def from_vectors(place: Place) -> Outcome:
    """A run that starts from the vectors of another."""
    first = a2v.fit(SKIPGRAM, text(place.data), epochs=1, threads=1, seed=1, out=place.aside / "first", **cached(place))
    assert first.path is not None
    return fitted(SKIPGRAM, str(place.data.text(1)), place, init=first.path, **TEXT)


@golden("skipgram/one-resumed")
def resumed_words(place: Place) -> Outcome:
    """Stopped behind the first epoch, and gone on."""
    return resumed(SKIPGRAM, text(place.data), place, stops_at_epoch=True, epochs=3)


@golden("skipgram/logical-resumed")
def resumed_hosts(place: Place) -> Outcome:
    return resumed(SKIPGRAM, text(place.data), place, stops_at_epoch=True, epochs=3, **hosts(3, bits=8))


@golden("skipgram/disk", is_alone=True)
def words_from_disk(place: Place) -> Outcome:
    """A table larger than the budget: each word once or twice, of long vectors."""
    model = a2v.SkipGram(dim=4095, window=1, min_count=1, subsample=0.0)
    return from_disk(model, str(place.data.many_words()), place, DISK_OF_PAIRS, epochs=1)


# ---- nodes


WALKS: dict[str, Any] = {"dim": 16, "window": 4, "walks_per_node": 4, "walk_length": 12}


def graph(data: Data) -> Any:
    return str(data.graph())


fit_run("deepwalk/one", a2v.DeepWalk(**WALKS), graph, epochs=2)
fit_run("deepwalk/logical-2", a2v.DeepWalk(**WALKS), graph, epochs=2, **hosts(2))
fit_run("deepwalk/logical-hash", a2v.DeepWalk(**WALKS), graph, epochs=2, **hosts(3, partition="hash"))
fit_run("deepwalk/logical-contiguous", a2v.DeepWalk(**WALKS), graph, epochs=2, **hosts(2, partition="contiguous"))
fit_run("deepwalk/logical-metis", a2v.DeepWalk(**WALKS), graph, epochs=2, **hosts(2, partition="metis"),
        needs=("pymetis",))  # fmt: skip
fit_run("node2vec/one", a2v.Node2Vec(p=0.5, q=2.0, **WALKS), graph, epochs=2)
fit_run("node2vec/logical-2", a2v.Node2Vec(p=0.5, q=2.0, **WALKS), graph, epochs=2, **hosts(2))
fit_run("node2vec/logical-hash", a2v.Node2Vec(p=0.5, q=2.0, **WALKS), graph, epochs=2, **hosts(3, partition="hash"))
fit_run("node2vec/processes-hash", a2v.Node2Vec(p=0.5, q=2.0, **WALKS), graph, epochs=2, needs=("torch",),
        **spread(hosts=2, partition="hash"))  # fmt: skip


@golden("node2vec/disk", is_alone=True)
def nodes_from_disk(place: Place) -> Outcome:
    model = a2v.Node2Vec(dim=4095, window=1, walks_per_node=1, walk_length=2, p=0.5, q=2.0)
    return from_disk(model, str(place.data.many_nodes()), place, DISK_OF_PAIRS, epochs=1)


# ---- triples


def triples(data: Data) -> Any:
    return str(data.triples())


TRIPLES: dict[str, Any] = {"dim": 16, "batch_size": 100}
fit_run("complex/one", a2v.ComplEx(n3=0.001, relation_weight=0.1, **TRIPLES), triples, epochs=3)
fit_run("complex/one-sampled", a2v.ComplEx(num_negatives=20, degree_share=0.5, batch_negatives=True, **TRIPLES),
        triples, epochs=3)  # fmt: skip
fit_run("rotate/one", a2v.RotatE(num_negatives=30, loss="logistic", **TRIPLES), triples, epochs=3)
fit_run("transe/one", a2v.TransE(loss="margin", reciprocal=False, **TRIPLES), triples, epochs=3)
fit_run("distmult/one", a2v.DistMult(l2=0.001, **TRIPLES), triples, epochs=3)
fit_run("dot/one", a2v.DotProduct(**TRIPLES), triples, epochs=3)
TWO_TABLES = hosts(2)
SHARED: dict[str, Any] = {"storage": "4GB", "epochs": 3}
"""hosts that share a table have partitions even where there is room for all of it"""
fit_run("complex/shared", a2v.ComplEx(**TRIPLES), triples, **TWO_TABLES, **SHARED)
fit_run("rotate/shared", a2v.RotatE(num_negatives=30, degree_share=0.5, **TRIPLES), triples, **TWO_TABLES, **SHARED)
fit_run("transe/shared-3", a2v.TransE(num_negatives=30, **TRIPLES), triples, **hosts(3),
        **SHARED)  # fmt: skip
fit_run("rotate/shared-processes", a2v.RotatE(num_negatives=30, degree_share=0.5, **TRIPLES), triples, hosts=2,
        needs=("torch",), **SHARED)  # fmt: skip


ROUNDS: dict[str, Any] = {"rounds_per_epoch": 3, "epochs": 3}
fit_run("complex/logical-2", a2v.ComplEx(**TRIPLES), triples, **hosts(2, **ROUNDS))
fit_run("complex/logical-adasum-8-bits", a2v.ComplEx(**TRIPLES), triples, **hosts(4, sync="adasum", bits=8, **ROUNDS))
fit_run("rotate/logical-blend-pull", a2v.RotatE(num_negatives=30, degree_share=0.5, **TRIPLES), triples,
        **hosts(3, sync="blend", scheme="pull-opt", bits=16, **ROUNDS))  # fmt: skip
fit_run("complex/processes", a2v.ComplEx(**TRIPLES), triples, **spread(hosts=2, **ROUNDS), needs=("torch",))
fit_run("complex/logical-het", a2v.ComplEx(num_negatives=30, **TRIPLES), triples,
        **hosts(1, cache="het:4:lru", cache_rows=0.2, epochs=3))  # fmt: skip


@golden("complex/logical-resumed")
def resumed_triples_on_hosts(place: Place) -> Outcome:
    options = hosts(2, **(ROUNDS | {"epochs": 12}))
    return resumed(a2v.ComplEx(**TRIPLES), triples(place.data), place, **options)


@golden("complex/one-resumed")
def resumed_triples(place: Place) -> Outcome:
    return resumed(a2v.ComplEx(**TRIPLES), triples(place.data), place, epochs=12)


@golden("rotate/shared-resumed")
def resumed_shared(place: Place) -> Outcome:
    model = a2v.RotatE(num_negatives=30, degree_share=0.5, **TRIPLES)
    return resumed(model, triples(place.data), place, **TWO_TABLES, **(SHARED | {"epochs": 12}))


LONG: dict[str, Any] = {"dim": 4094, "batch_size": 500, "num_negatives": 20}


@golden("complex/disk", is_alone=True)
def triples_from_disk(place: Place) -> Outcome:
    return from_disk(a2v.ComplEx(**LONG), str(place.data.many_triples()), place, DISK_OF_TRIPLES, epochs=2)


@golden("rotate/disk-resumed", is_alone=True)
def distances_resumed(place: Place) -> Outcome:
    """Stopped when the first partitions are committed, and gone on; how many it loads depends on the moment."""
    model = a2v.RotatE(reciprocal=False, **LONG)
    found = from_disk(model, str(place.data.many_triples()), place, DISK_OF_TRIPLES, run=resumed, epochs=2)
    steady = {name: value for name, value in found.summary.items() if name not in ("loads", "stores")}
    return replace(found, summary=steady)


@golden("rotate/disk", is_alone=True)
def distances_from_disk(place: Place) -> Outcome:
    model = a2v.RotatE(reciprocal=False, **LONG)
    return from_disk(model, str(place.data.many_triples()), place, DISK_OF_TRIPLES, epochs=1, order="beta")


# ---- interactions


def interactions(data: Data) -> Any:
    return str(data.interactions())


fit_run("bpr/one", a2v.BPR(dim=10, num_negatives=1), interactions, epochs=3)
fit_run("bpr/one-hardest", a2v.BPR(dim=10, num_negatives=4, popularity_share=0.5, l2_bias=0.01), interactions, epochs=3)
fit_run("als/one", a2v.ALS(dim=10), interactions, epochs=3)
fit_run("item2vec/one", a2v.Item2Vec(dim=10, window=4), interactions, epochs=3)


@golden("bpr/resumed")
def resumed_bpr(place: Place) -> Outcome:
    return resumed(a2v.BPR(dim=10), interactions(place.data), place, epochs=400)


# ---- clicks


SCHEMA = a2v.ClickSchema(
    dense=("price", "age"), categorical=("user", "site", "hour"), multi_valued=("tags",), hash_rows=300,
    column={"site": {"ids": "vocabulary", "min_count": 2}, "tags": {"pooling": "mean"}, "age": {"transform": "none"}},
)  # fmt: skip
TORCH = ("torch",)
DLRM = a2v.DLRM(dim=4, bottom="8", top="8", batch_size=32)


def clicks(data: Data) -> Any:
    return str(data.clicks())


def click_run(name: str, model: Any, **options: Any) -> None:
    """Register a run of a model of clicks; options: epochs, or those of its hosts."""
    epochs = options.pop("epochs", 2)
    fit_run(name, model, clicks, needs=TORCH, epochs=epochs, schema=SCHEMA, **spread(**options))


click_run("dlrm/one", DLRM)
click_run("dlrm/one-adam", a2v.DLRM(dim=4, bottom="8", top="8", batch_size=32, optimizer="adam"))
click_run("deepfm/one", a2v.DeepFM(dim=4, layers="8", batch_size=32))
click_run("fm/one", a2v.FactorizationMachine(dim=4, batch_size=32))
click_run("logistic/one", a2v.LogisticRegression(batch_size=32, optimizer="sgd"))
click_run("dlrm/logical-1", DLRM, logical_hosts=1, sync="bsp")
click_run("dlrm/logical-bsp", DLRM, logical_hosts=2, sync="bsp")
click_run("dlrm/logical-bsp-servers", DLRM, logical_hosts=2, servers=2, sync="bsp")
click_run("deepfm/logical-bsp-adam", a2v.DeepFM(dim=4, layers="8", batch_size=32, optimizer="adam"), logical_hosts=3,
          sync="bsp")  # fmt: skip
click_run("fm/logical-bsp", a2v.FactorizationMachine(dim=4, batch_size=32), logical_hosts=2, sync="bsp")
click_run("dlrm/logical-bagpipe", DLRM, logical_hosts=2, sync="bsp", cache="bagpipe:5")
click_run("deepfm/logical-bagpipe-servers", a2v.DeepFM(dim=4, layers="8", batch_size=32), logical_hosts=2, servers=1,
          sync="bsp", cache="bagpipe:20")  # fmt: skip
for number, policy in enumerate(("static", "lru", "lfu", "lfu-promoted", "tinylfu")):
    click_run(f"dlrm/logical-het-{policy}", DLRM, logical_hosts=1, servers=1 + number % 2, sync="bsp",
              cache=f"het:{5 * number}:{policy}", cache_rows=0.1)  # fmt: skip
click_run("dlrm/processes-server", DLRM, hosts=2, servers=1, sync="bsp")


@golden("dlrm/one-resumed", needs=TORCH)
def resumed_clicks(place: Place) -> Outcome:
    return resumed(DLRM, clicks(place.data), place, epochs=8, schema=SCHEMA)


@golden("dlrm/logical-resumed", needs=TORCH)
def resumed_trainers(place: Place) -> Outcome:
    own = spread(logical_hosts=2, sync="bsp", rounds_per_epoch=4)
    return resumed(DLRM, clicks(place.data), place, epochs=8, schema=SCHEMA, **own)


# ---- layers


GA_MLP: dict[str, Any] = {"layers": 4, "width": 8, "growth": "2", "hops": 2}
EACH = GA_MLP | {"growth": ""}


def layer_run(name: str, model: Any, repeat: Repeat = "none", **options: Any) -> None:
    """Register a run of GA-MLP; options: those of its hosts.

    Which host has which layers goes by the time that they have taken, and so do bytes, but not what is learned; where
    each host has one layer from the start, bytes repeat.
    """

    @golden(name, needs=TORCH)
    def call(place: Place) -> Outcome:
        return replace(classified(model, place, **spread(**options)), bytes_that_repeat=repeat)


def classified(
    model: Any, place: Place, run: Callable[..., Outcome] | None = None, has_types: bool = False,
    has_rows: bool = False, **options: Any,
) -> Outcome:  # fmt: skip
    """A run of a classifier of nodes."""
    files = place.data.typed_edges() if has_types else place.data.nodes()
    paths: dict[str, Any] = {name: str(path) for name, path in files.items()}
    edges = paths.pop("edges")
    if has_rows:
        paths["edge_features"] = str(place.data.edge_rows())
    return (run or fitted)(model, edges, place, nodes=a2v.NodeOptions(**paths), **({"epochs": 20} | options))


layer_run("ga-mlp/one", a2v.GAMLP(**GA_MLP))
layer_run("ga-mlp/one-pagerank", a2v.GAMLP(psi="pagerank", activation="tanh", normalize="row", **GA_MLP))
layer_run("ga-mlp/one-8-bits", a2v.GAMLP(quantize="8", **GA_MLP))
layer_run("ga-mlp/one-grid", a2v.GAMLP(quantize="grid", quantized="p", **GA_MLP))
layer_run("ga-mlp/one-adam", a2v.GAMLP(trainer="adam", **GA_MLP))
layer_run("ga-mlp/logical-2", a2v.GAMLP(**GA_MLP), logical_hosts=2)
layer_run("ga-mlp/logical-dual", a2v.GAMLP(**GA_MLP), logical_hosts=2, dual="computed")
layer_run("ga-mlp/logical-8-bits", a2v.GAMLP(quantize="8", **GA_MLP), logical_hosts=2)
layer_run("ga-mlp/logical-pipeline", a2v.GAMLP(trainer="adam", micro_batches=3, **GA_MLP), logical_hosts=2)
layer_run("ga-mlp/logical-each", a2v.GAMLP(**EACH), "data", logical_hosts=4)
layer_run("ga-mlp/logical-each-8-bits", a2v.GAMLP(quantize="8", **EACH), "data", logical_hosts=4)
layer_run("ga-mlp/logical-each-pipeline", a2v.GAMLP(trainer="gd", micro_batches=2, **EACH), "data", logical_hosts=4)
layer_run("ga-mlp/processes", a2v.GAMLP(**GA_MLP), hosts=2)


@golden("ga-mlp/one-resumed", needs=TORCH)
def resumed_layers(place: Place) -> Outcome:
    return classified(a2v.GAMLP(**GA_MLP), place, resumed, epochs=60)


# ---- graph networks


NETWORK: dict[str, Any] = {"hidden": 8, "fanouts": "3,2", "batch_size": 8}
WHOLE: dict[str, Any] = {"hidden": 8, "sampling": "full-graph"}


def network_run(name: str, model: Any, *, needs: tuple[str, ...] = (), **options: Any) -> None:
    """Register a run of a graph network; options: of `classified`."""

    @golden(name, needs=(*TORCH, *needs))
    def call(place: Place) -> Outcome:
        return classified(model, place, **({"epochs": 4} | options))


def unlabeled_run(name: str, model: Any, run: Callable[..., Outcome] | None = None, epochs: int = 4) -> None:
    """Register a run of a graph network that learns from edges and features alone."""

    @golden(name, needs=TORCH)
    def call(place: Place) -> Outcome:
        paths = place.data.nodes()
        nodes = a2v.NodeOptions(features=str(paths["features"]))
        return (run or fitted)(model, str(paths["edges"]), place, nodes=nodes, epochs=epochs)


network_run("graphsage/one", a2v.GraphSAGE(**NETWORK))
network_run("graphsage/one-full-graph", a2v.GraphSAGE(aggregator="max", residual=True, **WHOLE))
network_run("graphsage/one-labor", a2v.GraphSAGE(**NETWORK | {"sampling": "labor", "sample_key": "batch"}))
network_run("gcn/one", a2v.GCN(jumping_knowledge="cat", **NETWORK))
network_run("gcn/one-full-graph", a2v.GCN(**WHOLE))
network_run("gat/one", a2v.GAT(heads=2, **NETWORK))
network_run("gatv2/one-full-graph", a2v.GATv2(heads=2, **WHOLE))
network_run("gin/one", a2v.GIN(train_eps=True, **NETWORK))
network_run("gine/one", a2v.GINE(**NETWORK), has_rows=True)
network_run("gatv2/one-edge-features", a2v.GATv2(heads=2, **NETWORK), has_rows=True)
network_run("appnp/one", a2v.APPNP(hidden=8, hops=3))
network_run("sgc/one", a2v.SGC())
CLUSTERS: dict[str, Any] = {"hidden": 8, "sampling": "cluster", "num_parts": 9, "parts_per_batch": 2}
network_run("graphsage/one-cluster", a2v.GraphSAGE(partitioner="ldg", halo=1, **CLUSTERS))
network_run("gcn/one-cluster-metis", a2v.GCN(partitioner="metis", **CLUSTERS), needs=("pymetis",))
SUBGRAPHS: dict[str, Any] = {"hidden": 8, "sampling": "walks", "batch_size": 8, "walk_steps": 3}
network_run("graphsage/one-walks", a2v.GraphSAGE(**SUBGRAPHS))
network_run("rgcn/one", a2v.RGCN(num_bases=2, **NETWORK), has_types=True)
network_run("rgcn/one-full-graph", a2v.RGCN(**WHOLE), has_types=True)
LINKS: dict[str, Any] = {"objective": "links", "hidden": 8, "val_share": 0.1, "test_share": 0.1}
SAMPLED_LINKS = a2v.GraphSAGE(fanouts="3,2", batch_size=32, num_negatives=2, negatives="degree", **LINKS)
unlabeled_run("graphsage/one-links", SAMPLED_LINKS)
unlabeled_run("graphsage/one-links-resumed", SAMPLED_LINKS, resumed, 60)
unlabeled_run("gcn/one-links-full-graph", a2v.GCN(sampling="full-graph", **LINKS))
UNSUPERVISED = a2v.GraphSAGE(objective="unsupervised", num_negatives=5, walk_length=4, **NETWORK)
unlabeled_run("graphsage/one-unsupervised", UNSUPERVISED)
unlabeled_run("graphsage/one-unsupervised-resumed", UNSUPERVISED, resumed, 60)


@golden("graphsage/one-resumed", needs=TORCH)
def resumed_network(place: Place) -> Outcome:
    return classified(a2v.GraphSAGE(**NETWORK), place, resumed, epochs=60)


@golden("gcn/one-full-graph-resumed", needs=TORCH)
def resumed_whole_graph(place: Place) -> Outcome:
    return classified(a2v.GCN(**WHOLE), place, resumed, epochs=200)


@golden("rgcn/one-resumed", needs=TORCH)
def resumed_relations(place: Place) -> Outcome:
    return classified(a2v.RGCN(num_bases=2, **NETWORK), place, resumed, has_types=True, epochs=60)


@golden("graphsage/one-cluster-resumed", needs=TORCH)
def resumed_clusters(place: Place) -> Outcome:
    return classified(a2v.GraphSAGE(partitioner="ldg", halo=1, **CLUSTERS), place, resumed, epochs=60)


@golden("graphsage/one-walks-resumed", needs=TORCH)
def resumed_walks(place: Place) -> Outcome:
    return classified(a2v.GraphSAGE(**SUBGRAPHS), place, resumed, epochs=60)


# ---- streams


FADING: dict[str, Any] = {"half_life": 4000, "replay": 0.5}
LIVE_SKIPGRAM = a2v.StreamSkipGram(dim=12, window=3, subsample=1e-2, rate_words=2000)
LIVE_NGRAM = a2v.StreamNGram(dim=12, window=3, subsample=0.0, buckets=400)
LIVE_LSTM = a2v.StreamCharLstm(
    dim=6, hidden=8, byte_dim=6, window=2, batch_pairs=256, shared_negatives=16, device="cpu"
)


def stream_run(name: str, model: Any, *, needs: tuple[str, ...] = (), over: Any = None, **options: Any) -> None:
    """Register a run over a stream that is one call."""

    @golden(name, needs=needs)
    def call(place: Place) -> Outcome:
        return streamed(model, place, over, **options)


def live(number: int, **options: Any) -> Any:
    return spread(logical_hosts=number, **({"sync": "sync"} | options))


stream_run("stream-skipgram/one", LIVE_SKIPGRAM)
stream_run("stream-skipgram/one-fading", LIVE_SKIPGRAM, **FADING)
stream_run("stream-ngram/one", LIVE_NGRAM)
stream_run("stream-char-lstm/one", LIVE_LSTM, needs=TORCH)
stream_run("stream-skipgram/hosts-1", LIVE_SKIPGRAM, over=live(1))
stream_run("stream-skipgram/hosts-2", LIVE_SKIPGRAM, over=live(2))
stream_run("stream-skipgram/hosts-2-servers", LIVE_SKIPGRAM, over=live(2, servers=2))
stream_run("stream-skipgram/hosts-2-dense", LIVE_SKIPGRAM, over=live(2, sync="dense"))
stream_run("stream-char-lstm/hosts-2", LIVE_LSTM, needs=TORCH, over=live(2))
stream_run("stream-skipgram/hosts-processes", LIVE_SKIPGRAM, needs=TORCH,
           over=spread(hosts=2, servers=1, sync="sync"))  # fmt: skip


@golden("stream-skipgram/one-resumed")
def resumed_stream(place: Place) -> Outcome:
    """Ended behind a number of batches, and gone on."""
    return resumed_lines(LIVE_SKIPGRAM, place, None, **FADING)


@golden("stream-ngram/one-resumed")
def resumed_grams(place: Place) -> Outcome:
    return resumed_lines(LIVE_NGRAM, place, None)


@golden("stream-char-lstm/one-resumed", needs=TORCH)
def resumed_lstm(place: Place) -> Outcome:
    return resumed_lines(LIVE_LSTM, place, None)


@golden("stream-skipgram/hosts-2-resumed")
def resumed_live_hosts(place: Place) -> Outcome:
    return resumed_lines(LIVE_SKIPGRAM, place, live(2, servers=1))


# ---- the command line: its words become the same runs


CACHE_DIR = ("--cache-dir", "cache")
"""below the folder in which a command runs"""


@golden("skipgram/command")
def words_by_command(place: Place) -> Outcome:
    """Has the hashes of skipgram/one."""
    return commanded(
        place, "train", "skipgram", place.data.text(), "--dim", 16, "--window", 3, "--min-count", 2,
        "--learning-rate", 0.05, "--subsample", 0.01, "--epochs", 2, *CACHE_DIR,
    )  # fmt: skip


@golden("node2vec/command-walks")
def walks_by_command(place: Place) -> Outcome:
    """Walks that are stored first, by hosts that have a part of the graph each."""
    walks = place.aside / "walks"
    commanded(
        replace(place, out=walks), "walk", place.data.graph(), "--p", 0.5, "--q", 2.0, "--walks-per-node", 4,
        "--walk-length", 12, "--logical-hosts", 2, result=False,
    )  # fmt: skip
    return commanded(place, "train", "node2vec", walks, "--p", 0.5, "--q", 2.0, "--walks-per-node", 4,
                     "--walk-length", 12, "--dim", 16, "--window", 4, "--logical-hosts", 2)  # fmt: skip


@golden("rotate/shared-command")
def triples_by_command(place: Place) -> Outcome:
    return commanded(
        place, "train", "rotate", place.data.triples(), "--dim", 16, "--batch-size", 100,
        "--num-negatives", 30, "--epochs", 3, "--memory", "4GB", "--logical-hosts", 2,
    )  # fmt: skip


@golden("dlrm/command", needs=TORCH)
def clicks_by_command(place: Place) -> Outcome:
    schema = place.aside / "schema.toml"
    schema.write_text('dense = ["price", "age"]\ncategorical = ["user", "site", "hour"]\nhash_rows = 300\n')
    return commanded(
        place, "train", "dlrm", place.data.clicks(), "--schema", schema, "--dim", 4, "--bottom", "8",
        "--top", "8", "--batch-size", 32, "--logical-hosts", 2, "--sync", "bsp", "--cache", "bagpipe:5",
        *CACHE_DIR,
    )  # fmt: skip


@golden("ga-mlp/command", needs=TORCH)
def layers_by_command(place: Place) -> Outcome:
    paths = place.data.nodes()
    outcome = commanded(
        place, "train", "ga-mlp", paths["edges"], "--features", paths["features"], "--labels",
        paths["labels"], "--split", paths["split"], "--layers", 4, "--width", 8, "--growth", "2", "--epochs", 20,
        "--quantize", "8", "--logical-hosts", 2, *CACHE_DIR,
    )  # fmt: skip
    return replace(outcome, bytes_that_repeat="none")


@golden("stream-skipgram/command")
def stream_by_command(place: Place) -> Outcome:
    return commanded(
        place, "stream", "skipgram", place.data.text(0, 900), "--dim", 12, "--window", 3, "--linger", 0,
        "--batch-bytes", 2000, "--min-count", 2, "--memory", "20MB", "--snapshot-seconds", 1e6, "--sync", "sync",
        "--logical-hosts", 2,
    )  # fmt: skip
