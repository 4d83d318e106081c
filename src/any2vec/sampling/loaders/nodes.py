"""`NeighborLoader`: batches of sampled neighborhoods of nodes, in the place of PyG's own loader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from any2vec.sampling.loaders.base import BatchLoader
from any2vec.sampling.loaders.opening import open_sampled


class NeighborLoader(BatchLoader):
    """Batches of seeds with the neighborhoods that they sample, one PyG `Data` each, made ahead by threads.

    A script with PyG's `NeighborLoader` runs with its import changed, unless it has options of PyG's that are not here,
    or reads `e_id`, which is there with `return_e_id=True`. Seeds come first in `n_id`; `batch_size`,
    `num_sampled_nodes`, `num_sampled_edges` and `input_id` are as PyG has them; whatever `data` has by node or by edge
    comes along for those sampled. Of `HeteroData` batches are `HeteroData`, with these by type. Which neighbors are
    sampled depends on the seed, epoch, type of edge, node and hop alone (`key="batch"`: on the batch, too), not on the
    number of threads, nor on `torch.manual_seed`. Each pass is the next epoch.

    Args:
        data: PyG's `Data` or `HeteroData`; or an `AttributedGraph`, or its folder, whose features stay on disk.
        num_neighbors: fan-outs by hop from the seeds, 1 or more; -1 takes all neighbors. Of `HeteroData` for each type
            of edges, or a dict of them by type, where 0 takes none.
        batch_size: seeds of a batch, 1 or more.
        input_nodes: the seeds, all different: numbers (B,), a mask (N,), or train, val or test; by default all nodes.
            Of `HeteroData` a type of nodes, or (type, numbers or mask).
        replace: sample with replacement. weight_attr: sample by this attribute of the edges, > 0 (of an
            `AttributedGraph`: weights). law: labor, see `NeighborOptions`. key, seed: likewise.
        shuffle: another order of seeds each epoch. drop_last: leave out a last batch that is smaller.
        return_e_id: numbers of the sampled edges. transform: called with each `Data`.
        num_workers: threads that make batches ahead; 0 is 1. prefetch: batches that each makes ahead, 1..64.
        split: of an `AttributedGraph` with several splits, which one `input_nodes` and masks mean.
        persistent_workers, is_sorted, filter_per_worker: taken for scripts written for PyG; they mean nothing, for
            there are no processes, and edges are grouped by target in any case.
        pin_memory: put batches into pinned memory, where there is a GPU.
        disjoint, subgraph_type: as PyG has them by default, and no other.

    Memory: 4 bytes a node and thread; of `Data` and `HeteroData` the in-neighbors, 12 bytes an edge.

    Raises:
        InputError: an option is not legal, or torch or torch_geometric is missing.
        DataError: `data` has edges outside its nodes.
    """

    def __init__(
        self, data: Any, num_neighbors: Sequence[int] | Mapping[Any, Sequence[int]], *, batch_size: int = 1,
        input_nodes: Any = None, replace: bool = False, weight_attr: str | None = None, law: str | None = None,
        key: str = "epoch", seed: int = 1, shuffle: bool = False, drop_last: bool = False, return_e_id: bool = False,
        transform: Callable[[Any], Any] | None = None, num_workers: int = 0, prefetch: int = 2, split: int = 0,
        persistent_workers: bool = False, pin_memory: bool = False, disjoint: bool = False,
        subgraph_type: Any = "directional", is_sorted: bool = False, filter_per_worker: bool | None = None,
    ) -> None:  # fmt: skip
        self.data, self._source = open_sampled(
            "NeighborLoader", data, num_neighbors, law=law, weight_attr=weight_attr, split=split, disjoint=disjoint,
            subgraph_type=subgraph_type, replace=replace, key=key, seed=seed,
        )  # fmt: skip
        self._return_e_id, self._input = return_e_id, self._source.input_nodes(input_nodes)
        super().__init__(
            len(self._input.node_B), batch_size=batch_size, seed=seed, shuffle=shuffle, drop_last=drop_last,
            transform=transform, num_workers=num_workers, prefetch=prefetch, pin_memory=pin_memory,
        )  # fmt: skip

    def _make(self, places: np.ndarray, epoch: int, batch: int) -> Any:
        import torch

        kind, node_B, id_B = self._input
        made = self._source.sample(self.data, {kind: node_B[places]}, epoch, batch, self._return_e_id)
        seeds = made if kind is None else made[kind]
        seeds.input_id, seeds.batch_size = torch.from_numpy(id_B[places]), len(places)
        return made
