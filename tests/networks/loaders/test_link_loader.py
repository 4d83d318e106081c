"""`LinkNeighborLoader`: pairs are the edges' and their negatives', which are none; a twin draws them alike."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from any2vec import LinkNeighborLoader, NeighborLoader, write_graph
from any2vec.errors import InputError
from any2vec.kernels.common.alias import build_alias
from any2vec.kernels.common.rng import PURPOSE_NEGATIVE, stream_key
from any2vec.sampling.loaders.negatives import Negatives, NegativeSampler
from any2vec.sampling.loaders.sources import linked_rows
from marks import uint64_wraps
from naive.models import links as naive

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import Batch, Data, HeteroData  # noqa: E402
from torch_geometric.sampler import NegativeSampling  # noqa: E402
from torch_geometric.transforms import RandomLinkSplit  # noqa: E402

pytestmark = uint64_wraps
NUM, EDGES = 60, 400


def random_data(seed: int = 0, **more: Any) -> Any:
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(0, NUM, (2, EDGES), generator=generator)
    return Data(x=torch.randn(NUM, 4, generator=generator), edge_index=edge_index, **more)


def hetero_data() -> Any:
    generator, data = torch.Generator().manual_seed(1), HeteroData()
    data["user"].x, data["item"].x = torch.randn(40, 3, generator=generator), torch.randn(25, 5, generator=generator)
    bought = torch.stack([torch.randint(0, size, (150,), generator=generator) for size in (40, 25)])
    data["user", "buys", "item"].edge_index, data["item", "rev_buys", "user"].edge_index = bought, bought.flip(0)
    return data


def pairs_of(edge_index: Any) -> list[tuple[int, int]]:
    return [(u, v) for u, v in edge_index.T.tolist()]


def test_binary_batches_hold_the_edges_and_pairs_that_are_none() -> None:
    data = random_data()
    loader = LinkNeighborLoader(
        data, [3, 2], neg_sampling=("binary", 1.5), batch_size=64, shuffle=True, return_e_id=True
    )
    known, epochs = set(pairs_of(data.edge_index)), []
    for _ in range(2):
        edges, negatives = [], []
        for batch in loader:
            num = len(batch.input_id)
            pairs = pairs_of(batch.n_id[batch.edge_label_index])
            assert pairs[:num] == [pairs_of(data.edge_index)[place] for place in batch.input_id]
            assert batch.edge_label.tolist() == [1.0] * num + [0.0] * int(np.ceil(1.5 * num))
            assert len(pairs) == len(batch.edge_label)
            edges += batch.input_id.tolist()
            negatives += pairs[num:]
            assert (batch.x == data.x[batch.n_id]).all() and batch.num_sampled_nodes[0] == len(
                {node for pair in pairs for node in pair}
            )
            assert (data.edge_index[:, batch.e_id] == batch.n_id[batch.edge_index]).all()
        assert sorted(edges) == list(range(EDGES)) and not set(negatives) & known
        assert all(u != v for u, v in negatives)
        epochs.append((edges, negatives))
    assert epochs[0][0] != epochs[1][0] and epochs[0][1] != epochs[1][1]


@pytest.mark.parametrize("amount", [1, 3])
def test_triplets(amount: int) -> None:
    data = random_data(edge_label=torch.ones(EDGES))
    learned = data.edge_index[:, ::4]
    known = set(pairs_of(data.edge_index))
    options: dict[str, Any] = {"edge_label_index": learned, "batch_size": 30, "num_neighbors": [2]}
    for given in (("triplet", amount), {"mode": "triplet", "amount": amount}, NegativeSampling("triplet", amount)):
        found = []
        for batch in LinkNeighborLoader(data, neg_sampling=given, **options):
            num = len(batch.input_id)
            assert batch.dst_neg_index.shape == ((num,) if amount == 1 else (num, amount))
            src, dst = batch.n_id[batch.src_index], batch.n_id[batch.dst_pos_index]
            assert torch.equal(torch.stack([src, dst]), learned[:, batch.input_id])
            negatives = batch.n_id[batch.dst_neg_index].view(num, -1)
            assert not {(u, v) for u, row in zip(src.tolist(), negatives.tolist(), strict=True) for v in row} & known
            assert "edge_label" not in batch and "edge_label_index" not in batch
            found += negatives.tolist()
        assert len(found) == 100 and len({node for row in found for node in row}) > 20


@pytest.mark.parametrize("law", ["uniform", "weights"])
@pytest.mark.parametrize("is_one_type", [True, False])
def test_negatives_are_those_of_a_plain_twin(law: str, is_one_type: bool) -> None:
    """Half of all pairs are linked, so that draws are repeated; node 3 is linked with all."""
    rng = np.random.default_rng(0)
    num_src, num_dst = (20, 20) if is_one_type else (20, 9)
    src, dst = np.nonzero((rng.random((num_src, num_dst)) < 0.5) | (np.arange(num_src) == 3)[:, None])
    linked = linked_rows(src, dst, num_dst)
    rows = [linked.indices[a:b].tolist() for a, b in pairwise(linked.indptr.tolist())]
    assert rows == [sorted(src[dst == node].tolist()) for node in range(num_dst)]
    weights: Any = (None, None) if law == "uniform" else (rng.random(num_src), rng.random(num_dst))
    tables: Any = [None if weight is None else [part.tolist() for part in build_alias(weight)] for weight in weights]
    sampler = NegativeSampler(linked, num_src, Negatives("triplet", 2, *weights), is_one_type, seed=5)
    key = int(stream_key(5, PURPOSE_NEGATIVE, 2))
    given = np.array([3, 0, 7])
    found = sampler.targets(2, 10, given)
    expected = [
        naive.draw_ends(rows, num_src, tables, key, 20 + i, int(node), is_one_type)
        for i, node in enumerate(np.repeat(given, 2))
    ]
    assert found.tolist() == [target for _, target in expected]
    pairs = zip(*(end.tolist() for end in sampler.pairs(2, 3, 16, 8)), strict=True)
    assert list(pairs) == [naive.draw_ends(rows, num_src, tables, key, 96 + i, None, is_one_type) for i in range(16)]


def test_weights_of_ends() -> None:
    data, weight = random_data(), torch.zeros(NUM)
    weight[[7, 9]] = 1
    (batch,) = LinkNeighborLoader(data, [1], neg_sampling={"mode": "binary", "dst_weight": weight}, batch_size=EDGES)
    src, dst = batch.n_id[batch.edge_label_index[:, EDGES:]].tolist()
    assert set(dst) == {7, 9} and len(set(src)) > 20


def test_labels() -> None:
    data = random_data()
    given = torch.arange(EDGES) % 3
    plain = LinkNeighborLoader(data, [1], edge_label=given, batch_size=50)
    binary = LinkNeighborLoader(data, [1], edge_label=given, batch_size=50, neg_sampling_ratio=0.5)
    for one, other in zip(plain, binary, strict=True):
        assert torch.equal(one.edge_label, given[one.input_id]) and one.edge_label_index.shape == (2, 50)
        assert other.edge_label.tolist() == (given[other.input_id] + 1).tolist() + [0] * 25
    (batch,) = LinkNeighborLoader(random_data(edge_label=torch.ones(3)), [1], batch_size=EDGES)
    assert "edge_label" not in batch


def test_batches_of_what_pyg_has_split() -> None:
    """Training edges without negatives: `edge_label_index` of the data has a column for each edge."""
    torch.manual_seed(0)
    split = RandomLinkSplit(num_val=0.1, num_test=0.1, add_negative_train_samples=False)
    train, val, _ = split(random_data())
    for batch in LinkNeighborLoader(
        train, [2], edge_label_index=train.edge_label_index, neg_sampling="binary", batch_size=64
    ):
        num = len(batch.input_id)
        assert torch.equal(batch.n_id[batch.edge_label_index[:, :num]], train.edge_label_index[:, batch.input_id])
    found = [batch.edge_label for batch in LinkNeighborLoader(
        val, [2], edge_label_index=val.edge_label_index, edge_label=val.edge_label, batch_size=64
    )]  # fmt: skip
    assert torch.equal(torch.cat(found), val.edge_label)


def test_no_message_passes_along_the_edges_of_a_batch() -> None:
    data = random_data()
    data.edge_index = torch.cat([data.edge_index, data.edge_index.flip(0)], dim=1)
    options: dict[str, Any] = {"num_neighbors": [-1, -1], "batch_size": 20, "return_e_id": True}
    whole = LinkNeighborLoader(data, **options)
    for batch, all_edges in zip(LinkNeighborLoader(data, exclude_batch_edges=True, **options), whole, strict=True):
        own = {*pairs_of(batch.n_id[batch.edge_label_index])}
        own |= {(v, u) for u, v in own}
        kept, before = (pairs_of(one.n_id[one.edge_index]) for one in (batch, all_edges))
        assert sorted(kept) == sorted(pair for pair in before if pair not in own) and len(kept) < len(before)
        assert sum(batch.num_sampled_edges) == len(kept) == len(batch.e_id)


def test_a_folder_gives_what_its_data_give(tmp_path: Path) -> None:
    data = random_data()
    data.edge_index = torch.unique(data.edge_index.flip(0), dim=1).flip(0)  # by target, and each edge once
    options: dict[str, Any] = {"num_neighbors": [3], "batch_size": 50, "neg_sampling": "binary"}
    graph = write_graph(data, tmp_path / "g")
    pairs = zip(LinkNeighborLoader(data, **options), LinkNeighborLoader(graph, **options), strict=True)
    for one, other in pairs:
        for name in ("n_id", "edge_index", "edge_label_index", "edge_label", "input_id", "x"):
            assert torch.equal(one[name], other[name]), name


@pytest.mark.parametrize("mode", ["binary", "triplet"])
def test_hetero_data(mode: str) -> None:
    data, kind = hetero_data(), ("user", "buys", "item")
    bought = data[kind].edge_index
    known = set(pairs_of(bought))
    for given in (kind, (kind, None), (kind, bought), ("user", "item")):
        edges = []
        for batch in LinkNeighborLoader(data, [4, 2], edge_label_index=given, neg_sampling=mode, batch_size=40):
            user, item, links = batch["user"], batch["item"], batch[kind]
            num = len(links.input_id)
            if mode == "binary":
                src, dst = links.edge_label_index
                assert links.edge_label.tolist() == [1.0] * num + [0.0] * num
                negative = zip(user.n_id[src[num:]].tolist(), item.n_id[dst[num:]].tolist(), strict=True)
                src, dst = src[:num], dst[:num]
            else:
                src, dst = user.src_index, item.dst_pos_index
                negative = zip(user.n_id[src].tolist(), item.n_id[item.dst_neg_index].tolist(), strict=True)
            assert torch.equal(torch.stack([user.n_id[src], item.n_id[dst]]), bought[:, links.input_id])
            assert not set(negative) & known
            assert (item.x == data["item"].x[item.n_id]).all()
            edges += links.input_id.tolist()
        assert edges == list(range(150))


def test_the_same_for_any_number_of_threads_and_after_a_stop(check_passes: Callable[..., None]) -> None:
    data = random_data()
    options: dict[str, Any] = {"num_neighbors": [2], "batch_size": 100, "neg_sampling": "binary", "shuffle": True}
    one, other = (LinkNeighborLoader(data, num_workers=workers, **options) for workers in (1, 3))
    check_passes(one, other, LinkNeighborLoader(data, **options))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"neg_sampling": "both"}, "must be binary or triplet, got 'both'"), ({"neg_sampling_ratio": -1}, "above 0"),
        ({"neg_sampling": ("triplet", 1.5)}, "a whole number above 0"), ({"neg_sampling": {"ratio": 1}}, "has ratio"),
        ({"neg_sampling": {"mode": "binary", "src_weight": [1.0]}}, "src_weight must hold"),
        ({"edge_label_index": [[0], [NUM]]}, "targets of edge_label_index must be from 0 to 59, got 60"),
        ({"edge_label_index": [0, 1]}, r"whole numbers \(2, E\)"), ({"edge_label": [1, 2]}, "for each of 400 edges"),
        ({"edge_label": torch.ones(EDGES), "neg_sampling": "triplet"}, "Triplets have no edge_label"),
        ({"edge_label": ["a"] * EDGES}, "edge_label must be numbers, one or a row for each of 400 edges"),
        ({"edge_label": torch.ones(EDGES, 0), "neg_sampling": "binary"}, r"for each of 400 edges, got \(400, 0\)"),
        ({"edge_label_index": (("a", "b"), [[0, 1], [1, 2]])}, "with a type beside them of HeteroData alone"),
        ({"neg_sampling": ("binary", 1, None, None, 5)}, "neg_sampling has 5 values; it has mode, amount, src_weight"),
        ({"num_neighbors": [0]}, "num_neighbors. must be"), ({"batch_size": 0}, "batch_size must be"),
        ({"data": hetero_data()}, "edge_label_index must be a type of edges"),
        ({"data": hetero_data(), "edge_label_index": (("user", "sells", "item"), None)}, "types are .*'buys'"),
        (
            {"data": hetero_data(), "edge_label_index": ("user", "buys", "item"), "exclude_batch_edges": True},
            "graphs of one type",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        LinkNeighborLoader(**({"data": random_data(), "num_neighbors": [2]} | options))


def test_edges_that_are_learned_take_as_much_memory_as_is_said() -> None:
    loader = LinkNeighborLoader(random_data(), [2], edge_label_index=torch.zeros(2, 50, dtype=torch.int64))
    assert loader._links.edge_2E.nbytes == 8 * 50
    (batch,) = LinkNeighborLoader(random_data(), [2], batch_size=EDGES)
    assert batch.edge_label_index.dtype == batch.n_id.dtype == torch.int64


def test_options_of_pyg_that_mean_nothing_are_taken() -> None:
    data = random_data()
    options: dict[str, Any] = {"is_sorted": True, "filter_per_worker": False, "persistent_workers": True}
    for made in (LinkNeighborLoader, NeighborLoader):
        one, other = next(iter(made(data, [2], batch_size=20))), next(iter(made(data, [2], batch_size=20, **options)))
        assert torch.equal(one.n_id, other.n_id) and torch.equal(one.edge_index, other.edge_index)


def test_a_batch_of_graphs_that_say_their_sizes() -> None:
    """PyG's `Batch` has them under a private name, too."""
    data = Batch.from_data_list([random_data(num_nodes=NUM)] * 2)
    for batch in LinkNeighborLoader(data, [2], batch_size=300):
        assert batch.num_nodes == len(batch.n_id) and (batch.x == data.x[batch.n_id]).all()
        assert (batch.batch == batch.n_id // NUM).all()
