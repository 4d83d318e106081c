"""`NeighborLoader`: what its batches hold is the data's, whoever made them; passes, resuming, and what is refused."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from any2vec import NeighborLoader, write_graph
from any2vec.errors import DataError, InputError
from marks import uint64_wraps

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import Batch, Data  # noqa: E402
from torch_geometric.loader.utils import filter_data  # noqa: E402
from torch_geometric.nn import GraphSAGE  # noqa: E402
from torch_geometric.utils import trim_to_layer  # noqa: E402

pytestmark = uint64_wraps
NUM = 200


def random_data(seed: int = 0, num_edges: int = 1500, **more: Any) -> Any:
    """With equal edges and loops; in no order."""
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(0, NUM, (2, num_edges), generator=generator)
    x, y = torch.randn(NUM, 6, generator=generator), torch.randint(0, 3, (NUM,), generator=generator)
    masks = {part: torch.arange(NUM) % 3 == place for place, part in enumerate(("train", "val", "test"))}
    return Data(x=x, y=y, edge_index=edge_index, **{f"{part}_mask": mask for part, mask in masks.items()}, **more)


def check(batch: Any, data: Any, seeds: Any) -> None:
    """What holds of every batch."""
    assert batch.n_id[: batch.batch_size].tolist() == list(seeds) == seeds_of(batch)
    assert (data.edge_index[:, batch.e_id] == batch.n_id[batch.edge_index]).all()
    assert len(batch.e_id.unique()) == len(batch.e_id)
    for name in ("x", "y", "train_mask", "val_mask", "test_mask"):
        assert (batch[name] == data[name][batch.n_id]).all()
    assert sum(batch.num_sampled_nodes) == batch.num_nodes and sum(batch.num_sampled_edges) == batch.num_edges
    assert batch.is_directed is not None and batch.num_sampled_nodes[0] == batch.batch_size


def seeds_of(batch: Any) -> list[int]:
    return [int(node) for node in batch.n_id[: batch.batch_size]]


@pytest.mark.parametrize("key", ["epoch", "batch"])
def test_batches_hold_what_the_data_hold(key: Any) -> None:
    data = random_data(edge_attr=torch.randn(1500, 2), name="graph")
    loader = NeighborLoader(
        data, num_neighbors=[4, 3], batch_size=30, input_nodes=data.train_mask, shuffle=True, key=key, return_e_id=True
    )
    nodes = data.train_mask.nonzero().flatten().tolist()
    orders = []
    for _ in range(3):
        batches = list(loader)
        assert len(batches) == len(loader) == 3
        orders.append([node for batch in batches for node in seeds_of(batch)])
        assert sorted(orders[-1]) == nodes
        for batch in batches:
            check(batch, data, batch.input_id.tolist())  # of a mask the nodes, as in PyG
            assert (batch.edge_attr == data.edge_attr[batch.e_id]).all() and batch.name == "graph"
            taken = torch.bincount(batch.edge_index[1], minlength=batch.num_nodes)
            degree = torch.bincount(data.edge_index[1], minlength=NUM)[batch.n_id]
            seeds = slice(batch.batch_size)
            assert (taken[seeds] == degree[seeds].clamp(max=4)).all()
    assert orders[0] != orders[1] != orders[2] != orders[0]


def test_full_neighborhoods_give_what_the_full_graph_gives() -> None:
    data = random_data()
    model = GraphSAGE(6, 8, num_layers=2, out_channels=3).eval()
    whole = model(data.x, data.edge_index)
    for batch in NeighborLoader(data, num_neighbors=[-1, -1], batch_size=64):
        found = model(
            batch.x, batch.edge_index,
            num_sampled_nodes_per_hop=batch.num_sampled_nodes, num_sampled_edges_per_hop=batch.num_sampled_edges,
        )  # fmt: skip
        assert torch.allclose(found[: batch.batch_size], whole[batch.n_id[: batch.batch_size]], atol=1e-5)
        x, edge_index, _ = trim_to_layer(1, batch.num_sampled_nodes, batch.num_sampled_edges, batch.x, batch.edge_index)
        assert len(x) == sum(batch.num_sampled_nodes[:2]) and edge_index.shape[1] == batch.num_sampled_edges[0]


def same(one: Any, other: Any) -> bool:
    return sorted(one.keys()) == sorted(other.keys()) and all(
        torch.equal(value, other[name]) if isinstance(value, torch.Tensor) else value == other[name]
        for name, value in one.to_dict().items()
    )


def test_the_same_for_any_number_of_threads() -> None:
    data = random_data()
    passes = []
    for workers in (0, 3):
        loader = NeighborLoader(
            data, num_neighbors=[5, 2], batch_size=17, shuffle=True, num_workers=workers, key="batch", seed=4
        )
        passes.append([batch for _ in range(2) for batch in loader])
    assert all(same(one, other) for one, other in zip(*passes, strict=True))


def test_a_loader_goes_on_where_another_stood() -> None:
    data = random_data()

    def make() -> NeighborLoader:
        return NeighborLoader(data, num_neighbors=[3], batch_size=20, shuffle=True)

    whole = [batch for loader in [make()] for _ in range(3) for batch in loader]
    first = make()
    given = list(first)
    running = iter(first)
    given += [next(running) for _ in range(4)]
    state = first.state_dict()
    running.close()
    second = make()
    second.load_state_dict(state)
    given += [batch for _ in range(2) for batch in second]
    assert len(given) == len(whole) == 30
    assert all(same(one, other) for one, other in zip(given, whole, strict=True))
    assert {name: value.tolist() for name, value in second.state_dict().items()} == {"epoch": 3, "batch": 0}


def test_a_loader_goes_on_behind_the_last_batch_of_a_pass() -> None:
    data = random_data()
    options: dict[str, Any] = {"num_neighbors": [3], "batch_size": 80, "shuffle": True}
    first, second = NeighborLoader(data, **options), NeighborLoader(data, **options)
    for _ in first:
        state = first.state_dict()
    second.load_state_dict(state)
    assert all(same(one, other) for one, other in zip(first, second, strict=True))


def test_a_pass_within_a_pass() -> None:
    outer = NeighborLoader(random_data(), num_neighbors=[3], batch_size=80)
    pairs = [(seeds_of(one)[0], [seeds_of(other)[0] for other in outer]) for one in outer]
    assert pairs == [(first, [0, 80, 160]) for first in (0, 80, 160)]


def test_batches_without_edges_have_no_edges_attributes(tmp_path: Path) -> None:
    edges = {"edge_index": torch.tensor([[0, 1], [1, 2]]), "edge_weight": torch.tensor([1.0, 2.0])}
    data = Data(num_nodes=3, **edges)
    for source in (data, write_graph(data, tmp_path / "g")):
        batches = list(NeighborLoader(source, num_neighbors=[2]))
        assert [batch.edge_weight.tolist() for batch in batches] == [[], [1.0], [2.0]]
        assert [batch.e_id.tolist() for batch in batches] == [[], [0], [1]]


def test_a_pass_that_is_left_is_not_gone_on_with_and_leaves_no_thread() -> None:
    loader = NeighborLoader(random_data(), num_neighbors=[3], batch_size=20, num_workers=2)
    before = threading.active_count()
    for batch in loader:
        first = batch
        break
    del batch
    again = list(loader)
    assert len(again) == 10 and not same(first, again[0])  # another epoch
    assert threading.active_count() == before


def test_a_folder_gives_what_its_data_give(tmp_path: Path) -> None:
    data = random_data()
    data.edge_index = torch.unique(data.edge_index.flip(0), dim=1).flip(0)  # by target, and each edge once
    graph = write_graph(data, tmp_path / "g")
    options: dict[str, Any] = {"num_neighbors": [4, 4], "batch_size": 32, "input_nodes": "val", "return_e_id": True}
    for source in (graph, tmp_path / "g"):
        pairs = zip(NeighborLoader(data, **options), NeighborLoader(source, **options), strict=True)
        for one, other in pairs:
            one.num_nodes = other.num_nodes
            assert same(one, other)


def test_weights_and_types_of_a_folder_come_along(tmp_path: Path) -> None:
    data = random_data(edge_weight=torch.rand(1500) + 0.1, edge_type=torch.arange(1500) % 4)
    graph = write_graph(data, tmp_path / "g", feature_type="int8")
    for batch in NeighborLoader(graph, num_neighbors=[3], batch_size=50, law="weighted"):
        places = batch.e_id.numpy()
        assert (batch.edge_weight.numpy() == graph.csr.weights[places]).all()
        assert (batch.edge_type.numpy() == graph.edge_types[places]).all()
        assert graph.features is not None
        assert (batch.x.numpy() == graph.features.take(batch.n_id.numpy())).all()


def test_weights_steer_the_sample() -> None:
    heavy = torch.full((1500,), 1e-6)
    heavy[torch.arange(0, 1500, 3)] = 1.0
    data = random_data(edge_weight=heavy)
    found = next(iter(NeighborLoader(data, num_neighbors=[2], batch_size=NUM, weight_attr="edge_weight")))
    heavy_degree = torch.bincount(data.edge_index[1][heavy == 1], minlength=NUM)
    assert int((found.edge_weight == 1).sum()) == int(heavy_degree.clamp(max=2).sum())


def test_what_belongs_to_nodes_may_change_between_passes() -> None:
    """As scripts do that evaluate layer by layer."""
    data = random_data()
    loader = NeighborLoader(copy.copy(data), num_neighbors=[-1], batch_size=NUM)
    del loader.data.x, loader.data.y
    loader.data.num_nodes, loader.data.n_id = NUM, torch.arange(NUM)
    (batch,) = loader
    assert "x" not in batch and batch.num_nodes == NUM and batch.n_id.tolist() == list(range(NUM))
    loader = NeighborLoader(data, [2], batch_size=150, drop_last=True, transform=lambda batch: int(batch.n_id[0]))
    assert list(loader) == [0] and len(loader) == 1


@pytest.mark.parametrize("weight", [1e-50, 1e39, 0.0, float("nan")])
def test_weights_are_numbers_above_zero_as_they_are_sampled_by(weight: float) -> None:
    """In float64 the first is above 0 and the second is finite."""
    weights = torch.ones(1500, dtype=torch.float64)
    NeighborLoader(random_data(edge_weight=weights), [2], weight_attr="edge_weight")
    weights[7] = weight
    with pytest.raises(InputError, match=r"data.edge_weight must hold a finite number above 0, as float32, for each"):
        NeighborLoader(random_data(edge_weight=weights), [2], weight_attr="edge_weight")


def test_attributes_of_every_kind_are_those_of_pygs_loader() -> None:
    """Arrays come as tensors, and what stands in columns is taken by column."""
    generator = np.random.default_rng(3)
    data = random_data(
        rows=generator.normal(size=(NUM, 2)).astype(np.float32), is_old=generator.random(NUM) < 0.5,
        node_index=torch.arange(2 * NUM).view(2, NUM), face=torch.arange(3 * NUM).view(3, NUM),
        edge_rows=generator.normal(size=(1500, 3)), edge_label_index=torch.arange(3000).view(2, 1500),
        edge_halves=torch.randn(1500, 2).half(), edge_attr=torch.randn(1500, 2),
    )  # fmt: skip
    batch = next(iter(NeighborLoader(data, [3, 2], batch_size=30, return_e_id=True)))
    node, edge = batch.n_id, batch.e_id
    expected = filter_data(data, node, *batch.edge_index, edge)
    for name, value in expected.to_dict().items():
        assert torch.equal(batch[name], value), name
    assert batch.face.shape == (3, len(node)) and batch.edge_label_index.shape == (2, len(edge))


def test_lists_and_arrays_of_names_come_along() -> None:
    names = [f"node {number}" for number in range(NUM)]
    batch = next(iter(NeighborLoader(random_data(names=names, array=np.array(names)), [3], batch_size=9)))
    assert batch.names == batch.array.tolist() == [names[node] for node in batch.n_id.tolist()]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_neighbors": []}, "num_neighbors. must be"), ({"num_neighbors": [0]}, "num_neighbors. must be"),
        ({"num_neighbors": "ab"}, "fanouts"), ({"batch_size": 0}, "batch_size must be"), ({"key": "day"}, "key must"),
        ({"law": "fair"}, "law must be one of"), ({"num_workers": -1}, "num_workers must be"),
        ({"prefetch": 0}, "prefetch must be"), ({"input_nodes": [3, 3]}, "twice in input_nodes"),
        ({"input_nodes": [NUM]}, "from 0 to 199, got 200"), ({"input_nodes": []}, "input_nodes"),
        ({"input_nodes": torch.ones(3, dtype=torch.bool)}, "a mask of 200, got bool"),
        ({"input_nodes": "training"}, "train, val, test"), ({"weight_attr": "w"}, "There is no data.w"),
        ({"weight_attr": "x"}, "data.x must hold"),
        ({"weight_attr": "x", "law": "labor"}, "give one of them"),
        ({"input_nodes": torch.zeros(NUM, dtype=torch.bool)}, "no nodes"),
        ({"data": "nowhere"}, "got the path nowhere, .* graph build"), ({"data": 3}, "got int"),
        ({"law": "weighted"}, "no weights"), ({"disjoint": True}, "are not there"),
        ({"subgraph_type": "induced"}, "are not there"),
        ({"num_neighbors": {("a", "to", "b"): [2]}}, "by type of edge is for HeteroData"),
    ],
)  # fmt: skip
def test_what_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        NeighborLoader(**({"data": random_data(), "num_neighbors": [2]} | options))


def test_options_of_pyg_that_change_nothing_are_taken() -> None:
    from torch_geometric.sampler.base import SubgraphType

    (one,) = NeighborLoader(random_data(), [2], batch_size=NUM)
    more = {"pin_memory": True, "disjoint": False, "subgraph_type": SubgraphType.directional}
    (other,) = NeighborLoader(random_data(), [2], batch_size=NUM, **more)
    assert torch.equal(one.edge_index, other.edge_index)


def test_edges_outside_the_nodes_are_refused() -> None:
    with pytest.raises(DataError, match="outside its 3 nodes"):
        NeighborLoader(Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0], [3]])), [2])


@pytest.mark.parametrize(
    "state", [{}, {"epoch": 0, "batch": 99}, {"epoch": -1, "batch": 0}, {"epoch": "a", "batch": 0}]
)
def test_a_state_of_another_loader_is_refused(state: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="state is of another loader"):
        NeighborLoader(random_data(), [2], batch_size=50).load_state_dict(state)


def test_a_batch_that_is_stuck_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    freed = threading.Event()
    monkeypatch.setattr("any2vec.sampling.loaders.base._PATIENCE", 0.05)
    monkeypatch.setattr(NeighborLoader, "_make", lambda *_: freed.wait())
    timer = threading.Timer(20, freed.set)
    timer.start()
    try:
        with pytest.raises(TimeoutError, match="Batch 0 has not been made within"):
            next(iter(NeighborLoader(random_data(), [2], batch_size=50)))
        assert not freed.is_set()
    finally:
        timer.cancel()
        freed.set()


def test_a_script_may_end_within_a_pass(tmp_path: Path) -> None:
    script = """
import torch
from torch_geometric.data import Data
from any2vec import NeighborLoader
data = Data(x=torch.randn(60, 4), edge_index=torch.randint(0, 60, (2, 400)))
it = iter(NeighborLoader(data, [2], batch_size=4, num_workers=2))
next(it)
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_lists_of_edges_come_along() -> None:
    names = [f"edge {number}" for number in range(1500)]
    for batch in NeighborLoader(random_data(edge_names=names), [3], batch_size=90, return_e_id=True):
        assert batch.edge_names == [names[number] for number in batch.e_id.tolist()]


@pytest.mark.parametrize("device", ["meta", "cuda"])
def test_tensors_of_another_device_stay_there(device: str) -> None:
    """meta has shapes alone, and takes indices of any device; a GPU does not."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    data = random_data(edge_attr=torch.zeros(1500, 2, device=device))
    data.x = torch.zeros(NUM, 6, device=device)
    data.edge_index = data.edge_index.to("cpu" if device == "meta" else device)
    batch = next(iter(NeighborLoader(data, [3], batch_size=20)))
    assert batch.x.device.type == batch.edge_attr.device.type == device
    assert batch.edge_index.device.type == data.edge_index.device.type
    assert batch.x.shape == (batch.num_nodes, 6) and batch.edge_attr.shape == (batch.num_edges, 2)


DATA = Path(os.environ.get("ANY2VEC_DATA", "nowhere")) / "graph-planetoid"


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="needs the folder that ANY2VEC_DATA names")
def test_a_script_of_pygs_form_reaches_its_accuracy() -> None:
    """The same model on the full graph, without a loader, is what it is held against."""
    from examples import sage_loader

    torch.set_num_threads(1)
    found = np.mean([sage_loader.main(DATA, seed) for seed in range(3)])
    data = sage_loader.read(DATA)
    reference = np.mean([full_graph_accuracy(sage_loader.SAGE, data, seed) for seed in range(3)])
    assert found > reference - 0.015 and found > 0.79, (found, reference)


def full_graph_accuracy(kind: Any, data: Any, seed: int) -> float:
    torch.manual_seed(seed)
    model = kind(data.num_features, 64, 7)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best = (0.0, 0.0)
    for epoch in range(1, 81):
        model.train()
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)[data.train_mask]
        torch.nn.functional.cross_entropy(out, data.y[data.train_mask]).backward()
        optimizer.step()
        if epoch % 10 == 0:
            model.eval()
            with torch.no_grad():
                is_right = model(data.x, data.edge_index).argmax(dim=-1) == data.y
            best = max(best, tuple(float(is_right[mask].float().mean()) for mask in (data.val_mask, data.test_mask)))
    return best[1]


def test_a_batch_of_graphs_that_say_their_sizes() -> None:
    """PyG's `Batch` has them under a private name, too."""
    data = Batch.from_data_list([random_data(num_nodes=NUM)] * 2)
    for batch in NeighborLoader(data, [2], batch_size=150, return_e_id=True):
        assert batch.num_nodes == len(batch.n_id) and (batch.x == data.x[batch.n_id]).all()
        assert (data.edge_index[:, batch.e_id] == batch.n_id[batch.edge_index]).all()
        assert (batch.batch == batch.n_id // NUM).all()
