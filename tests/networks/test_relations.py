"""Relational graph convolutions: PyG's numbers with PyG's weights, the twin's, gradients that differences confirm."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from any2vec.errors import InputError
from marks import uint64_wraps
from naive.models import relations as naive

torch = pytest.importorskip("torch")
geometric = pytest.importorskip("torch_geometric.nn")

from any2vec.nn import RGCNConv  # noqa: E402
from any2vec.nn.aggregate import Neighbors  # noqa: E402
from any2vec.nn.relations import BasisMix, RelationGroups, RelationProduct  # noqa: E402

pytestmark = uint64_wraps
RELATIONS = 5
WAYS: list[dict[str, int]] = [{}, {"num_bases": 3}, {"num_blocks": 2}]


def typed_edges(num: int, sources: int, targets: int, seed: int = 0) -> tuple[Any, Any]:
    """With equal ones, of relations the last but one of which has none."""
    draws = np.random.default_rng(seed)
    edge_index = np.stack([draws.integers(0, sources, num), draws.integers(0, targets, num)])
    types = draws.choice([0, 1, 2, RELATIONS - 1], num)
    return torch.from_numpy(edge_index), torch.from_numpy(types)


def grouped(edge_index: Any, types: Any, num: int) -> RelationGroups:
    order = edge_index[1].argsort(stable=True)
    src, dst = edge_index[:, order].numpy()
    return RelationGroups(Neighbors(np.searchsorted(dst, np.arange(num + 1)), src), types[order].numpy(), RELATIONS)


def as_list(edge_index: Any, types: Any) -> list[tuple[int, int, int]]:
    order = edge_index[1].argsort(stable=True)
    return [(s, t, r) for (s, t), r in zip(edge_index.T[order].tolist(), types[order].tolist(), strict=True)]


@pytest.mark.parametrize("num", [0, 1, 200])
def test_groups_are_those_of_the_twin(num: int) -> None:
    edge_index, types = typed_edges(num, 30, 20)
    found, expected = grouped(edge_index, types, 22), naive.group_by_relation(as_list(edge_index, types))
    stop, neighbor, *_ = found.neighbors
    assert [neighbor[a:b].tolist() for a, b in pairwise(stop)] == list(expected.values())
    assert found.type_G.tolist() == [relation for relation, _ in expected]
    of_nodes = [found.groups.neighbor_S[a:b] for a, b in pairwise(found.groups.stop_F1)]
    assert [(found.type_G[g], node) for node, own in enumerate(of_nodes) for g in own] == sorted(
        expected, key=lambda one: (one[1], one[0])
    )
    assert len(found) == 22 and len(found.type_S) == num


def test_layer_equals_one_edge_at_a_time() -> None:
    edge_index, types = typed_edges(300, 40, 25)
    layer = RGCNConv((7, 6), 4, RELATIONS).double()
    x, own = torch.randn(40, 7, dtype=torch.float64), torch.randn(25, 6, dtype=torch.float64)
    expected = naive.convolve(x.numpy(), as_list(edge_index, types), layer.weight.detach().numpy(), 25)
    assert np.allclose(layer((x, own), edge_index, types).detach(), expected + (own @ layer.root.detach()).numpy())


@pytest.mark.parametrize("threads", [1, 3])
def test_mixed_bases_equal_the_twin(threads: int) -> None:
    edge_index, types = typed_edges(20_000, 500, 400)
    found, before = grouped(edge_index, types, 400), torch.get_num_threads()
    share, basis = torch.randn(RELATIONS, 3, dtype=torch.float64), torch.randn(3, 500, 4, dtype=torch.float64)
    stop, row, *_ = found.neighbors
    groups = [(relation, row[stop[g] : stop[g + 1]].tolist()) for g, relation in enumerate(found.type_G)]
    torch.set_num_threads(threads)
    mixed = BasisMix.apply(share, basis, found, row)
    torch.set_num_threads(before)
    assert np.allclose(mixed, naive.mix_bases(groups, share.numpy(), basis.numpy()))


def test_gradients_equal_differences() -> None:
    edge_index, types = typed_edges(60, 12, 9)
    found = grouped(edge_index, types, 10)
    options: dict[str, Any] = {"dtype": torch.float64, "requires_grad": True}
    share, basis = torch.randn(RELATIONS, 2, **options), torch.randn(2, 12, 3, **options)
    rows = found.neighbors.neighbor_S
    assert torch.autograd.gradcheck(lambda s, b: BasisMix.apply(s, b, found, rows), (share, basis))
    x = torch.randn(len(found.type_G), 4, **options)
    for weight in (torch.randn(RELATIONS, 4, 3, **options), torch.randn(RELATIONS, 2, 2, 3, **options)):
        assert torch.autograd.gradcheck(lambda x, w: RelationProduct.apply(x, w, found.cut_R1), (x, weight))


def both(sizes: tuple[Any, ...], **options: Any) -> tuple[Any, Any]:
    theirs, ours = geometric.RGCNConv(*sizes, **options), RGCNConv(*sizes, **options)
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    return theirs, ours


def assert_equal(theirs: Any, ours: Any, x: Any, *edges: Any) -> None:
    """What they give, and the gradients of all parameters and of x, to 1e-5."""
    found = []
    for layer in (theirs, ours):
        rows = x.clone().requires_grad_() if x is not None and x.is_floating_point() else x
        out = layer(rows, *edges)
        out.pow(2).sum().backward()
        grads = [parameter.grad for parameter in layer.parameters()]
        found.append([out.detach(), *grads, *([rows.grad] if rows is not None and rows.requires_grad else [])])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("parts", [{}, {"root_weight": False}, {"bias": False}])
def test_layer_gives_pygs_numbers_and_gradients(way: dict[str, int], parts: dict[str, bool]) -> None:
    edge_index, types = typed_edges(300, 40, 40)
    assert_equal(*both((8, 6, RELATIONS), **way, **parts), torch.randn(40, 8), edge_index, types)


@pytest.mark.parametrize("way", WAYS[:2])
@pytest.mark.parametrize("x", [None, torch.arange(39, -1, -1), torch.tensor([3, 3, 0, *range(37)])])
def test_layer_of_nodes_without_features_gives_pygs_numbers_and_gradients(way: dict[str, int], x: Any) -> None:
    edge_index, types = typed_edges(300, 40, 40)
    assert_equal(*both((40, 6, RELATIONS), **way), x, edge_index, types)


def test_layer_starts_as_pygs_does() -> None:
    for part in ("weight", "comp", "root", "bias"):
        torch.manual_seed(1)
        theirs = getattr(geometric.RGCNConv(30, 20, 9, num_bases=4), part)
        torch.manual_seed(1)
        assert torch.equal(getattr(RGCNConv(30, 20, 9, num_bases=4), part), theirs)


def test_layer_gives_the_same_bits_again() -> None:
    edge_index, types = typed_edges(3000, 400, 400)
    found = []
    for _ in range(2):
        torch.manual_seed(1)
        first, last = RGCNConv(400, 16, RELATIONS, num_bases=3), RGCNConv(16, 4, RELATIONS, num_bases=3)
        last(first(None, edge_index, types).relu(), edge_index, types).sum().backward()
        found.append([parameter.grad for layer in (first, last) for parameter in layer.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x, e, t: RGCNConv(0, 3, 2), "in_channels must be"),
        (lambda x, e, t: RGCNConv(4, 3, 0), "num_relations must be"),
        (lambda x, e, t: RGCNConv(4, 3, 2, num_bases=0), "num_bases must be"),
        (lambda x, e, t: RGCNConv(4, 4, 2, num_bases=1, num_blocks=2), "give one of them"),
        (lambda x, e, t: RGCNConv(4, 3, 2, num_blocks=2), "must divide in_channels and out_channels, 4 and 3, got 2"),
        (lambda x, e, t: RGCNConv(4, 3, 2)(x, e, t), "edge_type must be from 0 to 1, got 0 to 4"),
        (lambda x, e, t: RGCNConv(4, 3, 5)(x, e), "must be whole numbers, one for each of 50 edges, got None"),
        (lambda x, e, t: RGCNConv(4, 3, 5)(x, e, t[1:]), "one for each of 50 edges"),
        (lambda x, e, t: RGCNConv(4, 3, 5)(x, e + 9, t), r"edge_index\[0\] must be from 0 to 11"),
        (lambda x, e, t: RGCNConv(4, 3, 5)(torch.arange(12), e, t), "must be nodes, .* from 0 to 3"),
        (lambda x, e, t: RGCNConv(12, 3, 5)((torch.arange(12), torch.arange(1, 13)), e, t), "must be nodes, .* to 11"),
        (lambda x, e, t: RGCNConv(12, 3, 5)(torch.arange(12).short(), e, t), "must be nodes, int64"),
        (lambda x, e, t: RGCNConv(12, 4, 5, num_blocks=2)(None, e, t), "num_blocks is for nodes with features"),
    ],
)  # fmt: skip
def test_what_is_not_legal_is_refused(call: Any, says: str) -> None:
    edge_index, types = typed_edges(50, 12, 12)
    with pytest.raises(InputError, match=says):
        call(torch.randn(12, 4), edge_index, types)
