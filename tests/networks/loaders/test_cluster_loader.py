"""`ClusterLoader`: each node once an epoch, with the edges among the parts of its batch, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from any2vec import ClusterLoader, write_graph
from any2vec.errors import InputError
from marks import uint64_wraps, with_metis

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import Batch, Data, HeteroData  # noqa: E402
from torch_geometric.utils import subgraph  # noqa: E402

pytestmark = uint64_wraps
NUM = 80


def random_data(**more: Any) -> Any:
    """With equal edges and loops; in no order."""
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(0, NUM, (2, 500), generator=generator)
    attributes = {"y": torch.arange(NUM) % 3, "edge_attr": torch.randn(500, 2, generator=generator)}
    return Data(x=torch.randn(NUM, 4, generator=generator), edge_index=edge_index, **attributes, **more)


@pytest.mark.parametrize("method", ["ldg", with_metis("metis")])
@pytest.mark.parametrize("batch_size", [1, 3, 7])
def test_batches_hold_their_parts_and_the_edges_among_them(method: str, batch_size: int) -> None:
    data, orders = random_data(name="graph"), []
    loader = ClusterLoader(data, 7, batch_size=batch_size, method=method, shuffle=True, return_e_id=True)
    assert len(loader) == -(-7 // batch_size)
    for _ in range(2):
        seen, parts = [], []
        for batch in loader:
            assert len(batch.input_id) <= batch_size and batch.name == "graph"
            assert set(loader.part_of[batch.n_id.numpy()].tolist()) <= set(batch.input_id.tolist())
            assert (batch.x == data.x[batch.n_id]).all() and (batch.y == data.y[batch.n_id]).all()
            assert (data.edge_index[:, batch.e_id] == batch.n_id[batch.edge_index]).all()
            assert (batch.edge_attr == data.edge_attr[batch.e_id]).all()
            _, numbers = subgraph(batch.n_id, data.edge_index, edge_attr=torch.arange(500), num_nodes=NUM)
            assert sorted(batch.e_id.tolist()) == numbers.tolist()
            seen += batch.n_id.tolist()
            parts += batch.input_id.tolist()
        assert sorted(seen) == list(range(NUM)) and sorted(parts) == list(range(7))
        orders.append(parts)
    assert orders[0] != orders[1]


@pytest.mark.parametrize("method", ["ldg", with_metis("metis")])
def test_two_cliques_are_two_parts(method: str) -> None:
    pairs = [(u, v) for u in range(10) for v in range(10) if u != v and u % 2 == v % 2]
    data = Data(edge_index=torch.tensor([*pairs, (0, 1), (1, 0)]).T, num_nodes=10)
    found = list(ClusterLoader(data, 2, method=method))
    assert sorted(batch.n_id.tolist() for batch in found) == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]
    assert [batch.num_edges for batch in found] == [20, 20] and found[0].num_nodes == 5
    (whole,) = ClusterLoader(data, 2, method=method, batch_size=2)
    assert whole.num_edges == 42


def same(one: Any, other: Any) -> bool:
    return all(torch.equal(one[name], other[name]) for name in ("n_id", "edge_index", "x", "input_id"))


def test_a_folder_gives_what_its_data_give(tmp_path: Path) -> None:
    data = random_data()
    data.edge_index = torch.unique(data.edge_index.flip(0), dim=1).flip(0)  # by target, and each edge once
    del data.edge_attr
    graph = write_graph(data, tmp_path / "g")
    pairs = zip(ClusterLoader(data, 5, batch_size=2), ClusterLoader(graph, 5, batch_size=2), strict=True)
    assert all(same(one, other) for one, other in pairs)


def test_the_same_for_any_number_of_threads_and_after_a_stop(check_passes: Callable[..., None]) -> None:
    data = random_data()
    one, other, again = (
        ClusterLoader(data, 8, batch_size=2, shuffle=True, num_workers=workers) for workers in (1, 3, 0)
    )
    check_passes(one, other, again)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_parts": 0}, "num_parts must be"), ({"num_parts": NUM + 1}, "num_parts must be"),
        ({"method": "random"}, "method must be one of metis, ldg"), ({"batch_size": 0}, "batch_size must be"),
        ({"data": HeteroData()}, "got HeteroData; write_graph"), ({"data": 3}, "got int"),
    ],
)  # fmt: skip
def test_what_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        ClusterLoader(**({"data": random_data(), "num_parts": 4, "method": "ldg"} | options))


@pytest.mark.parametrize("name", ["batch_size", "num_workers", "prefetch", "seed"])
def test_options_are_checked_before_the_graph_is_cut(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("any2vec.sampling.loaders.clusters.find_clusters", None)
    with pytest.raises(InputError, match=f"{name} must be"):
        ClusterLoader(random_data(), 4, method="ldg", **{name: -1})


def test_a_batch_of_graphs_that_say_their_sizes() -> None:
    """PyG's `Batch` has them under a private name, too."""
    data = Batch.from_data_list([random_data(num_nodes=NUM)] * 2)
    for batch in ClusterLoader(data, 3, return_e_id=True):
        assert batch.num_nodes == len(batch.n_id) and (batch.x == data.x[batch.n_id]).all()
        assert (batch.batch == batch.n_id // NUM).all() and (batch.edge_attr == data.edge_attr[batch.e_id]).all()
