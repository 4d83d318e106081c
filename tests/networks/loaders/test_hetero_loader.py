"""`NeighborLoader` of `HeteroData`: batches hold what the data hold, by type; full ones give what the graph gives."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from any2vec import NeighborLoader
from any2vec.errors import DataError, InputError
from marks import uint64_wraps

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import HeteroData  # noqa: E402
from torch_geometric.nn import SAGEConv, to_hetero  # noqa: E402
from torch_geometric.sampler import NumNeighbors  # noqa: E402

pytestmark = uint64_wraps
NODES = {"paper": 120, "author": 80, "topic": 6}
KINDS = {
    ("author", "writes", "paper"): 300, ("paper", "by", "author"): 300, ("paper", "cites", "paper"): 250,
    ("topic", "of", "paper"): 120, ("paper", "about", "topic"): 120,
}  # fmt: skip


def random_data(seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    data = HeteroData(name="graph")
    for number, (kind, size) in enumerate(NODES.items()):
        data[kind].x = torch.randn(size, 3 + number, generator=generator)
    data["paper"].y = torch.randint(0, 3, (120,), generator=generator)
    data["paper"].train_mask = torch.arange(120) % 2 == 1
    for (src, name, dst), size in KINDS.items():
        ends = [torch.randint(0, NODES[kind], (size,), generator=generator) for kind in (src, dst)]
        data[src, name, dst].edge_index = torch.stack(ends)
    data["paper", "cites", "paper"].edge_attr = torch.randn(250, 2, generator=generator)
    return data


def check(batch: Any, data: Any) -> None:
    """What holds of every batch."""
    for kind in data.node_types:
        n_id = batch[kind].n_id
        assert len(n_id.unique()) == len(n_id) == sum(batch[kind].num_sampled_nodes) == batch[kind].num_nodes
        assert (batch[kind].x == data[kind].x[n_id]).all()
    assert (batch["paper"].y == data["paper"].y[batch["paper"].n_id]).all()
    for src, name, dst in data.edge_types:
        edges = batch[src, name, dst]
        ends = torch.stack([batch[src].n_id[edges.edge_index[0]], batch[dst].n_id[edges.edge_index[1]]])
        assert (data[src, name, dst].edge_index[:, edges.e_id] == ends).all()
        assert len(edges.e_id.unique()) == len(edges.e_id) == sum(edges.num_sampled_edges)
    cited = batch["paper", "cites", "paper"]
    assert (cited.edge_attr == data["paper", "cites", "paper"].edge_attr[cited.e_id]).all() and batch.name == "graph"


def test_arrays_and_what_stands_in_columns_are_as_pyg_has_them() -> None:
    data = random_data()
    data["paper"].rows = np.arange(240.0).reshape(120, 2)
    cites = data["paper", "cites", "paper"]
    cites.edge_label_index, cites.weight = torch.arange(500).view(2, 250), np.arange(250)
    batch = next(iter(NeighborLoader(data, [3], input_nodes="paper", batch_size=20)))
    assert torch.equal(batch["paper"].rows, torch.from_numpy(data["paper"].rows)[batch["paper"].n_id])
    found = batch["paper", "cites", "paper"]
    assert torch.equal(found.edge_label_index, cites.edge_label_index[:, found.e_id])
    assert torch.equal(found.weight, found.e_id)


@pytest.mark.parametrize("num_neighbors", [[3, 2], {kind: [3, 2] for kind in KINDS}, NumNeighbors([3, 2])])
def test_batches_hold_what_the_data_hold(num_neighbors: Any) -> None:
    data = random_data()
    before = {name: value.clone() for name, value in data["paper"].items()}
    loader = NeighborLoader(
        data, num_neighbors, batch_size=25, input_nodes=("paper", data["paper"].train_mask), shuffle=True
    )
    for _ in range(2):
        seeds: list[int] = []
        for batch in loader:
            check(batch, data)
            paper = batch["paper"]
            of_batch = paper.n_id[: paper.batch_size].tolist()
            assert of_batch == paper.input_id.tolist() and paper.num_sampled_nodes[0] == paper.batch_size
            assert "batch_size" not in batch["author"] and batch["author"].num_sampled_nodes[0] == 0
            taken = torch.bincount(batch["author", "writes", "paper"].edge_index[1], minlength=len(paper.n_id))
            degree = torch.bincount(data["author", "writes", "paper"].edge_index[1], minlength=120)[paper.n_id]
            assert (taken[: paper.batch_size] == degree[: paper.batch_size].clamp(max=3)).all()
            seeds += of_batch
        assert sorted(seeds) == list(range(1, 120, 2)) and len(loader) == 3
    assert all(torch.equal(data["paper"][name], value) for name, value in before.items())


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = SAGEConv((-1, -1), 8), SAGEConv((-1, -1), 4)

    def forward(self, x: Any, edge_index: Any) -> Any:
        return self.two(self.one(x, edge_index).relu(), edge_index)


def test_full_neighborhoods_are_those_of_a_search_and_give_what_the_graph_gives() -> None:
    data = random_data()
    torch.manual_seed(0)
    model = to_hetero(Net(), data.metadata())
    whole = model(data.x_dict, data.edge_index_dict)["paper"]
    loader = NeighborLoader(data, [-1, -1], batch_size=30, input_nodes="paper", return_e_id=True)
    for batch in loader:
        check(batch, data)
        seeds = batch["paper"].n_id[: batch["paper"].batch_size]
        found: dict[str, set[int]] = {kind: set() for kind in NODES}
        found["paper"] = set(seeds.tolist())
        edges: dict[Any, set[int]] = {kind: set() for kind in KINDS}
        for _ in range(2):
            reached = {kind: set(nodes) for kind, nodes in found.items()}
            for src, name, dst in KINDS:
                for number, (u, v) in enumerate(data[src, name, dst].edge_index.T.tolist()):
                    if v in found[dst]:
                        reached[src].add(u)
                        edges[src, name, dst].add(number)
            found = reached
        assert all(set(batch[kind].n_id.tolist()) == nodes for kind, nodes in found.items())
        assert all(set(batch[kind].e_id.tolist()) == numbers for kind, numbers in edges.items())
        out = model(batch.x_dict, batch.edge_index_dict)["paper"][: len(seeds)]
        assert torch.allclose(out, whole[seeds], atol=1e-5)


def test_the_same_for_any_number_of_threads_and_after_a_stop(check_passes: Callable[..., None]) -> None:
    data = random_data()
    options: dict[str, Any] = {"num_neighbors": [3, 2], "batch_size": 25, "input_nodes": "author", "key": "batch"}
    one = NeighborLoader(data, shuffle=True, num_workers=1, **options)
    other = NeighborLoader(data, shuffle=True, num_workers=3, **options)
    check_passes(one, other, NeighborLoader(data, shuffle=True, **options))


def test_weights_steer_the_types_that_have_them() -> None:
    data = random_data()
    weight = torch.full((300,), 1e-6)
    weight[::3] = 1.0
    data["author", "writes", "paper"].w = weight
    (batch,) = NeighborLoader(data, [1], batch_size=120, input_nodes="paper", weight_attr="w")
    heavy = torch.bincount(data["author", "writes", "paper"].edge_index[1][::3], minlength=120) > 0
    assert int((batch["author", "writes", "paper"].w == 1).sum()) == int(heavy.sum())


def test_types_of_edges_that_are_left_out(same_batch: Callable[[Any, Any], bool]) -> None:
    data = random_data()
    num_neighbors = {kind: [0, 0] for kind in KINDS} | {("topic", "of", "paper"): [-1, 0]}
    (batch,) = NeighborLoader(data, num_neighbors, batch_size=120, input_nodes="paper")
    assert [batch[kind].edge_index.shape[1] for kind in KINDS] == [0, 0, 0, 120, 0]
    assert batch["author"].x.shape == (0, 4) and batch["paper", "cites", "paper"].edge_attr.shape == (0, 2)
    by_default = NumNeighbors({("topic", "of", "paper"): [-1, 0]}, default=[0, 0])
    (other,) = NeighborLoader(data, by_default, batch_size=120, input_nodes="paper")
    assert same_batch(batch, other)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"input_nodes": None}, r"a type of nodes \(paper, author, topic\)"), ({"input_nodes": "venue"}, "'venue'"),
        ({"input_nodes": ("paper", [120])}, "from 0 to 119, got 120"), ({"input_nodes": torch.ones(3)}, "got Tensor"),
        ({"input_nodes": ("paper", torch.ones(3, dtype=torch.bool))}, "a mask of 120"),
        ({"num_neighbors": {("paper", "cites", "paper"): [2]}}, "no fan-outs of author__writes__paper, paper__by"),
        ({"num_neighbors": {kind: [2] for kind in KINDS} | {"a__b__c": [2]}}, "'a__b__c', which is no type of edges"),
        ({"num_neighbors": [0]}, "num_neighbors. must be"), ({"weight_attr": "w"}, "No type of edges has weights w"),
        ({"weight_attr": "edge_attr"}, "edge_attr of paper__cites__paper must hold"), ({"disjoint": True}, "not there"),
        ({"batch_size": 0}, "batch_size must be"), ({"law": "weighted"}, "no weights"),
    ],
)  # fmt: skip
def test_what_is_refused(options: dict[str, Any], said: str) -> None:
    given = {"data": random_data(), "num_neighbors": [2], "input_nodes": "paper"} | options
    with pytest.raises(InputError, match=said):
        NeighborLoader(**given)


def test_data_that_are_damaged_are_refused() -> None:
    outside, none, unsaid, less = (copy.copy(random_data()) for _ in range(4))
    less["paper", "to", "journal"].edge_index = torch.empty(2, 0, dtype=torch.int64)
    outside["topic", "of", "paper"].edge_index = torch.tensor([[6], [0]])
    none["topic", "of", "paper"].edge_index = torch.ones(2, 3)
    del unsaid["topic"].x
    for data, said in (
        (outside, "topic__of__paper lead outside the 6 nodes of topic"), (none, "topic__of__paper .* integer"),
        (unsaid, "set data.'topic'..num_nodes"), (less, "paper__to__journal leads to nodes of journal, which"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=said):
            NeighborLoader(data, [2], input_nodes="paper")
    unsaid["topic"].num_nodes = 6
    (batch,) = NeighborLoader(unsaid, [1], batch_size=120, input_nodes="paper")
    assert batch["topic"].num_nodes == len(batch["topic"].n_id) <= 6
