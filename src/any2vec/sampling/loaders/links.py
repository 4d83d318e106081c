"""`LinkNeighborLoader`: batches of edges with sampled neighborhoods of their ends, in the place of PyG's own loader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from any2vec.data.attributed.tensors import as_numpy
from any2vec.errors import InputError
from any2vec.sampling.loaders.base import BatchLoader
from any2vec.sampling.loaders.negatives import NegativeSampler, read_negatives
from any2vec.sampling.loaders.opening import open_sampled
from any2vec.sampling.loaders.sources import Source, linked_rows
from any2vec.sampling.typed_neighbors import EdgeType


class LinkNeighborLoader(BatchLoader):
    """Batches of edges, their negatives, and the neighborhoods that the ends of both sample, one PyG `Data` each.

    A script with PyG's `LinkNeighborLoader` runs with its import changed, unless it has options of PyG's that are not
    here. `edge_label_index`, `edge_label`, `input_id`, or of triplets `src_index`, `dst_pos_index` and `dst_neg_index`,
    are as PyG has them: numbers of nodes of the batch; of `HeteroData` they stand with the type of edge, or of node.
    The rest of a batch is as `NeighborLoader` has it. Negatives depend on the seed, the epoch and their place in it.
    Unlike PyG's they are no edges of the graph, none of `edge_label_index` and no loops, as far as 16 draws find such.

    Args:
        data, num_neighbors: see `NeighborLoader`.
        edge_label_index: edges that are learned, (source, target), int (2, E); by default all of the graph. Of
            `HeteroData` a type of edges, or (type, edges).
        edge_label: a label for each, (E, ...); with binary negatives, which have 0, labels from 0 on are raised by 1.
        neg_sampling: binary, triplet, (mode, amount), a dict of mode, amount, src_weight and dst_weight, or PyG's
            `NegativeSampling`; amount: negatives for each edge, at most 1,000. neg_sampling_ratio: amount of binary
            ones.
        exclude_batch_edges: no message passes between the two ends of an edge of the batch, so that it is not learned
            from itself (PyG has no such option); of graphs of one type.
        others: see `NeighborLoader`.

    Memory: that of `NeighborLoader`, 8 bytes an edge of `edge_label_index`, and with negatives 4 for each edge of both.

    Raises:
        InputError: an option is not legal, or torch or torch_geometric is missing.
        DataError: `data` has edges outside its nodes.
    """

    def __init__(
        self, data: Any, num_neighbors: Sequence[int] | Mapping[Any, Sequence[int]], *, edge_label_index: Any = None,
        edge_label: Any = None, neg_sampling: Any = None, neg_sampling_ratio: float | None = None,
        exclude_batch_edges: bool = False, batch_size: int = 1, replace: bool = False, weight_attr: str | None = None,
        law: str | None = None, key: str = "epoch", seed: int = 1, shuffle: bool = False, drop_last: bool = False,
        return_e_id: bool = False, transform: Callable[[Any], Any] | None = None, num_workers: int = 0,
        prefetch: int = 2, split: int = 0, persistent_workers: bool = False, pin_memory: bool = False,
        disjoint: bool = False, subgraph_type: Any = "directional", is_sorted: bool = False,
        filter_per_worker: bool | None = None,
    ) -> None:  # fmt: skip
        negatives = read_negatives(neg_sampling, neg_sampling_ratio)
        self.data, self._source = open_sampled(
            "LinkNeighborLoader", data, num_neighbors, law=law, weight_attr=weight_attr, split=split,
            disjoint=disjoint, subgraph_type=subgraph_type, replace=replace, key=key, seed=seed,
        )  # fmt: skip
        self._links = links = _links(self._source, edge_label_index)
        if exclude_batch_edges and links.kind is not None:
            raise InputError("exclude_batch_edges is for graphs of one type of nodes and edges; leave it out.")
        self._excludes, self._return_e_id = exclude_batch_edges, return_e_id
        self._mode = None if negatives is None else negatives.mode
        self._label = _label(edge_label, links.edge_2E.shape[1], self._mode)
        self._negatives: NegativeSampler | None = None
        if negatives is not None:
            src, dst = np.concatenate([self._source.edges(links.kind), links.edge_2E], axis=1)
            linked = linked_rows(src, dst, self._source.num_nodes(links.dst))
            num_src = self._source.num_nodes(links.src)
            self._negatives = NegativeSampler(linked, num_src, negatives, links.src == links.dst, seed)
        super().__init__(
            links.edge_2E.shape[1], batch_size=batch_size, seed=seed, shuffle=shuffle, drop_last=drop_last,
            transform=transform, num_workers=num_workers, prefetch=prefetch, pin_memory=pin_memory,
        )  # fmt: skip

    def _make(self, places: np.ndarray, epoch: int, batch: int) -> Any:
        import torch

        kind, src_kind, dst_kind, edge_2E = self._links
        edge_2B = edge_2E[:, places].astype(np.int64)
        src, dst = edge_2B
        if self._negatives is not None and self._mode == "binary":
            more_src, more_dst = self._negatives.pairs(epoch, batch, self.batch_size, len(places))
            src, dst = np.concatenate([src, more_src]), np.concatenate([dst, more_dst])
        elif self._negatives is not None:
            dst = np.concatenate([dst, self._negatives.targets(epoch, batch * self.batch_size, src)])
        if src_kind == dst_kind:
            nodes, number = np.unique(np.concatenate([src, dst]), return_inverse=True)
            seeds, src_id, dst_id = {src_kind: nodes}, number[: len(src)], number[len(src) :]
        else:
            (src_nodes, src_id), (dst_nodes, dst_id) = (np.unique(end, return_inverse=True) for end in (src, dst))
            seeds = {src_kind: src_nodes, dst_kind: dst_nodes}
        left_out = np.concatenate([edge_2B, edge_2B[::-1]], axis=1) if self._excludes else None
        made = self._source.sample(self.data, seeds, epoch, batch, self._return_e_id, left_out)
        of_links = made if kind is None else made[kind]
        of_links.input_id = torch.from_numpy(places)
        ends = torch.from_numpy(src_id.astype(np.int64)), torch.from_numpy(dst_id.astype(np.int64))
        if self._mode == "triplet":
            self._write_triplets(made, *ends)
            return made
        of_links.edge_label_index = torch.stack(ends)
        label = self._labels(places, len(src) - len(places))
        _set_or_drop(of_links, "edge_label", label)
        return made

    def _labels(self, places: np.ndarray, num_negatives: int) -> Any:
        """Of a batch's edges and negatives, or None."""
        import torch

        chosen = self._label
        if chosen is not None:
            chosen = chosen[torch.from_numpy(places)]
        elif self._mode is not None:
            chosen = torch.ones(len(places))
        return torch.cat([chosen, chosen.new_zeros(num_negatives, *chosen.shape[1:])]) if self._mode else chosen

    def _write_triplets(self, made: Any, src_id: Any, dst_id: Any) -> None:
        """As PyG has them; what `data` has of the names of pairs is left out."""
        kind, src_kind, dst_kind, _ = self._links
        of_src, of_dst = (made if end is None else made[end] for end in (src_kind, dst_kind))
        num = len(src_id)
        of_src.src_index, of_dst.dst_pos_index = src_id, dst_id[:num]
        of_dst.dst_neg_index = dst_id[num:].view(num, -1).squeeze(-1)
        for name in ("edge_label_index", "edge_label"):
            _set_or_drop(made if kind is None else made[kind], name, None)


class _Links(NamedTuple):
    """Edges that are learned."""

    kind: EdgeType | None
    src: str | None
    dst: str | None
    edge_2E: np.ndarray
    """int32 (2, E)"""


def _links(source: Source, given: Any) -> _Links:
    """InputError where they are no edges between nodes."""
    kind = src = dst = None
    if source.edge_types is not None:
        parts: Any = given if isinstance(given, tuple | list) else (given,)
        is_type = all(isinstance(part, str) for part in parts)
        named, given = (parts, None) if is_type or len(parts) != 2 else parts
        kind = _kind_of(source.edge_types, named)
        src, _, dst = kind
    edge_2E = source.edges(kind) if given is None else _as_array(given)
    if edge_2E.ndim != 2 or len(edge_2E) != 2 or edge_2E.dtype.kind not in "iu" or not edge_2E.size:
        raise InputError(
            f"edge_label_index must be one or more edges, whole numbers (2, E), got {edge_2E.dtype} {edge_2E.shape}."
        )
    for end, name, of_end in zip(edge_2E, ("sources", "targets"), (src, dst), strict=True):
        number = source.num_nodes(of_end)
        if not 0 <= int(end.min()) <= int(end.max()) < number:
            raise InputError(
                f"The {name} of edge_label_index must be from 0 to {number - 1:,}, got {int(end.min())} to "
                f"{int(end.max())}."
            )
    return _Links(kind, src, dst, edge_2E.astype(np.int32))


def _as_array(given: Any) -> np.ndarray:
    try:
        return np.asarray(as_numpy(given))
    except ValueError:
        raise InputError(
            "edge_label_index must be edges, whole numbers (2, E), with a type beside them of HeteroData alone; got "
            "rows of different lengths."
        ) from None


def _kind_of(known: Sequence[EdgeType], named: Any) -> EdgeType:
    """A type of edges of the data, by its three names, or by the types of its ends where one type joins them."""
    names = tuple(named) if isinstance(named, tuple | list) else (named,)
    found = [kind for kind in known if names in (kind, (kind[0], kind[2]))]
    if len(found) == 1:
        return found[0]
    types = ", ".join(map(str, known))
    raise InputError(f"edge_label_index must be a type of edges, or (type, edges); types are {types}.")


def _label(given: Any, num_edges: int, mode: str | None) -> Any:
    """As a tensor (E, ...), or None."""
    import torch

    if given is None:
        return None
    if mode == "triplet":
        raise InputError("Triplets have no edge_label: src_index, dst_pos_index and dst_neg_index say what is what.")
    try:
        label = torch.as_tensor(given)
    except (TypeError, ValueError):
        raise InputError(f"edge_label must be numbers, one or a row for each of {num_edges:,} edges.") from None
    if not label.ndim or len(label) != num_edges or not label.numel():
        raise InputError(f"edge_label must have a label for each of {num_edges:,} edges, got {tuple(label.shape)}.")
    return label + 1 if mode == "binary" and float(label.min()) == 0 else label


def _set_or_drop(store: Any, name: str, value: Any) -> None:
    if value is not None:
        store[name] = value
    elif name in store:
        del store[name]
