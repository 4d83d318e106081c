"""`NeighborLoader`: batches of sampled neighborhoods as PyTorch Geometric's `Data`, in the place of PyG's own loader.

The one file of this room that needs torch and torch_geometric.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.checks import MAX_THREADS, check_whole
from any2vec.data.attributed.graph import SPLITS, AttributedGraph, is_attributed
from any2vec.data.attributed.tensors import as_numpy, edges_of
from any2vec.errors import InputError
from any2vec.plan.order.shuffle import random_order
from any2vec.sampling.neighbors import Neighborhood, NeighborOptions, NeighborSampler
from any2vec.types import Csr, State

_PATIENCE = 600.0
"""seconds that a batch may take"""


class NeighborLoader:
    """Batches of seeds with the neighborhoods that they sample, one PyG `Data` each, made ahead by threads.

    A script with PyG's `NeighborLoader` runs with its import changed, unless it has heterogeneous data or options of
    PyG's that are not here. Seeds come first in `n_id`; `batch_size`,
    `num_sampled_nodes`, `num_sampled_edges` and `input_id` are as PyG has them, `e_id` where it is asked for; whatever
    `data` has by node or by edge comes along for those sampled. Which neighbors are sampled depends on the seed, epoch,
    node and hop alone (`key="batch"`: on the batch, too), not on the number of threads. Each pass is the next epoch.

    Args:
        data: PyG's `Data`; or an `AttributedGraph`, or its folder, whose features stay on disk.
        num_neighbors: fan-outs by hop from the seeds, 1 or more; -1 takes all neighbors.
        batch_size: seeds of a batch, 1 or more.
        input_nodes: the seeds, all different: numbers (B,), a mask (N,), or train, val or test; by default all nodes.
        replace: sample with replacement. weight_attr: sample by this attribute of the edges, > 0 (of an
            `AttributedGraph`: weights). law: labor, see `NeighborOptions`. key, seed: likewise.
        shuffle: another order of seeds each epoch. drop_last: leave out a last batch that is smaller.
        return_e_id: numbers of the sampled edges. transform: called with each `Data`.
        num_workers: threads that make batches ahead; 0 is 1. prefetch: batches that each makes ahead, 1..64.
        split: of an `AttributedGraph` with several splits, which one `input_nodes` and masks mean.
        persistent_workers: taken for scripts written for PyG; it means nothing, for there are no processes.
        pin_memory: put batches into pinned memory, where there is a GPU.
        disjoint, subgraph_type: as PyG has them by default, and no other.

    Memory: 4 bytes a node and thread; of `Data` the in-neighbors, 12 bytes an edge.

    Raises:
        InputError: an option is not legal, or torch or torch_geometric is missing.
        DataError: `data` has edges outside its nodes.
    """

    def __init__(
        self, data: Any, num_neighbors: Sequence[int], *, batch_size: int = 1, input_nodes: Any = None,
        replace: bool = False, weight_attr: str | None = None, law: str | None = None, key: str = "epoch",
        seed: int = 1, shuffle: bool = False, drop_last: bool = False, return_e_id: bool = False,
        transform: Callable[[Any], Any] | None = None, num_workers: int = 0, prefetch: int = 2, split: int = 0,
        persistent_workers: bool = False, pin_memory: bool = False, disjoint: bool = False,
        subgraph_type: Any = "directional",
    ) -> None:  # fmt: skip
        check_whole("batch_size", batch_size, 1, (1 << 31) - 1)
        check_whole("num_workers", num_workers, 0, MAX_THREADS)
        check_whole("prefetch", prefetch, 1, 64)
        if disjoint or getattr(subgraph_type, "value", subgraph_type) != "directional":
            raise InputError(
                "disjoint neighborhoods, and subgraph_type but directional, are not there; leave them out."
            )
        if weight_attr is not None and law not in (None, "weighted"):
            raise InputError(f"weight_attr samples by weights, and law is {law!r}; give one of them.")
        options: dict[str, Any] = {"fanouts": num_neighbors, "replace": replace, "key": key, "seed": seed}
        options["law"] = "weighted" if weight_attr is not None else law or "uniform"
        if hasattr(num_neighbors, "tolist"):
            options["fanouts"] = num_neighbors.tolist()
        chosen = NeighborOptions(**options)
        data = AttributedGraph.open(data) if is_attributed(data) else data
        _check_libraries()
        source: _OfData | _OfFolder
        if isinstance(data, AttributedGraph):
            source = _OfFolder(data, split)
        elif hasattr(data, "edge_index") and hasattr(data, "is_node_attr"):
            source = _OfData(weight_attr if chosen.law == "weighted" else None, data)
        else:
            path = f"the path {data}, which is none (any2vec graph build makes one)"
            kind = path if isinstance(data, str | Path) else type(data).__name__
            if hasattr(data, "node_types"):
                kind += "; write_graph lays its types behind each other, in a folder whose batches have edge_type"
            raise InputError(f"data must be PyG's Data, an AttributedGraph or its folder, got {kind}.")
        self.data = data
        self.batch_size, self.drop_last, self.shuffle = batch_size, drop_last, shuffle
        self.transform, self._return_e_id = transform, return_e_id
        self._is_pinned = pin_memory and _has_gpu()
        self._source, self._sampler = source, NeighborSampler(source.csr, chosen)
        self._seeds = _seeds(input_nodes, source, self._sampler.num_nodes)
        self._threads, self._depth = max(1, num_workers), prefetch * max(1, num_workers)
        self._epoch = self._batch = 0
        self._is_loaded = False

    def __len__(self) -> int:
        size, rest = divmod(len(self._seeds), self.batch_size)
        return size + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Any]:
        if self._batch and not self._is_loaded:
            self._epoch, self._batch = self._epoch + 1, 0
        self._is_loaded = False
        epoch, done, order = self._epoch, self._batch, self._order()
        waiting: deque[Future[Any]] = deque()
        pool = ThreadPoolExecutor(self._threads, thread_name_prefix="any2vec-neighbors")
        try:
            ahead = done
            while done < len(self):
                while ahead < len(self) and len(waiting) < self._depth:
                    waiting.append(pool.submit(self._make, order, epoch, ahead))
                    ahead += 1
                batch = waiting.popleft().result(_PATIENCE)
                done += 1
                self._note(epoch, done)
                batch = batch.pin_memory() if self._is_pinned else batch
                yield batch if self.transform is None else self.transform(batch)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def state_dict(self) -> State:
        """Where the loader stands: behind the batch that was given last."""
        is_over = self._batch == len(self)
        epoch, batch = (self._epoch + 1, 0) if is_over else (self._epoch, self._batch)
        return {"epoch": np.array(epoch), "batch": np.array(batch)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there: the next pass begins with the batch behind it.

        Raises:
            InputError: it is of no such loader.
        """
        with suppress(KeyError, TypeError, ValueError):
            epoch, batch = int(state["epoch"]), int(state["batch"])
            if epoch >= 0 and 0 <= batch < max(1, len(self)):
                self._epoch, self._batch, self._is_loaded = epoch, batch, True
                return
        raise InputError(f"The state is of another loader: it needs an epoch and a batch below {len(self):,}.")

    def _note(self, epoch: int, done: int) -> None:
        """So many batches of an epoch have been given: where the loader stands, unless a later pass has begun."""
        if epoch == self._epoch:
            self._batch = done

    def _order(self) -> np.ndarray:
        """Places of the seeds, int64, in the order of the epoch."""
        if not self.shuffle:
            return np.arange(len(self._seeds))
        return random_order(len(self._seeds), self._sampler.options.seed, self._epoch)

    def _make(self, order: np.ndarray, epoch: int, batch: int) -> Any:
        import torch

        input_id = order[batch * self.batch_size : (batch + 1) * self.batch_size]
        with_edges = self._return_e_id or self._source.needs_edges(self.data)
        found = self._sampler.sample(self._seeds[input_id], epoch, batch, with_edges)
        made, e_id = self._source.collate(self.data, found, with_edges)
        made.n_id = torch.from_numpy(found.node_M.astype(np.int64))
        if e_id is not None:
            made.e_id = e_id
        made.num_sampled_nodes, made.num_sampled_edges = list(found.nodes_by_hop), list(found.edges_by_hop)
        made.input_id, made.batch_size = torch.from_numpy(input_id), len(input_id)
        return made


def _check_libraries() -> None:
    try:
        import torch  # noqa: F401
        import torch_geometric.data  # noqa: F401
    except ImportError as error:
        raise InputError('NeighborLoader gives PyG\'s Data; pip install "any2vec[pyg]".') from error


def _has_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_available())


class _OfData:
    """A PyG `Data` in memory: in-neighbors of its edges, each kept, and the edges' numbers."""

    def __init__(self, weight_attr: str | None, data: Any) -> None:
        from any2vec.kernels.graph.neighbors import group_by_target

        src, dst, num_nodes = edges_of(data)
        indptr, indices = np.zeros(num_nodes + 1, np.int64), np.empty(len(src), np.int32)
        self.edge_id = np.empty(len(src), np.int64)
        group_by_target(src, dst, indptr, indices, self.edge_id)
        weights = np.empty(0, np.float32)
        if weight_attr is not None:
            given = as_numpy(getattr(data, weight_attr, None))
            if given is None or given.size != len(src) or not (np.isfinite(given) & (given > 0)).all():
                raise InputError(f"data.{weight_attr} must hold a finite number above 0 for each edge.")
            weights = given.reshape(-1).astype(np.float32)[self.edge_id]
        self.csr = Csr(indptr, indices, weights)
        self.masks = {part: as_numpy(getattr(data, f"{part}_mask", None)) for part in SPLITS}

    @staticmethod
    def needs_edges(data: Any) -> bool:
        """Whether something but `edge_index` belongs to edges."""
        return any(data.is_edge_attr(name) for name in data.to_dict() if name != "edge_index")

    def collate(self, data: Any, found: Neighborhood, with_edges: bool) -> tuple[Any, Any]:
        """(`Data` of what is sampled, e_id or None)."""
        import torch

        made = copy.copy(data)
        n_id = torch.from_numpy(found.node_M.astype(np.int64))
        e_id = torch.from_numpy(self.edge_id[found.edge_S]) if with_edges else None
        for name, value in data.to_dict().items():
            if name == "edge_index":
                continue
            if name == "num_nodes":
                made.num_nodes = len(n_id)
            elif data.is_node_attr(name):
                made[name] = _taken(value, n_id, found.node_M)
            elif data.is_edge_attr(name):
                made[name] = value[e_id]
        made.edge_index = torch.from_numpy(found.edge_index())
        return made, e_id


class _OfFolder:
    """A mapped graph."""

    def __init__(self, graph: AttributedGraph, split: int) -> None:
        graph.check_edges()
        self.csr = graph.csr
        parts = SPLITS if len(graph.splits) else ()
        for part in parts:
            graph.rows(part, split)  # refuses a split that is not there
        self.masks = {part: graph.splits[split] == number for number, part in enumerate(parts)}

    @staticmethod
    def needs_edges(graph: AttributedGraph) -> bool:
        """Whether weights or types belong to edges."""
        return len(graph.csr.weights) > 0 or len(graph.edge_types) > 0

    def collate(self, graph: AttributedGraph, found: Neighborhood, with_edges: bool) -> tuple[Any, Any]:
        """(`Data` of what is sampled, e_id or None: places of the edges in the graph's `csr`)."""
        import torch
        from torch_geometric.data import Data

        made, nodes = Data(edge_index=torch.from_numpy(found.edge_index()), num_nodes=len(found.node_M)), found.node_M
        if graph.features is not None:
            made.x = torch.from_numpy(graph.features.take(nodes))
        if graph.labels is not None:
            made.y = torch.from_numpy(graph.labels[nodes].astype(np.int64 if graph.labels.ndim == 1 else np.float32))
        for part, mask in self.masks.items():
            made[f"{part}_mask"] = torch.from_numpy(mask[nodes])
        for name, values in (("edge_weight", graph.csr.weights), ("edge_type", graph.edge_types.astype(np.int64))):
            if len(values):
                made[name] = torch.from_numpy(values[found.edge_S])
        return made, torch.from_numpy(found.edge_S) if with_edges else None


def _taken(value: Any, n_id: Any, nodes: np.ndarray) -> Any:
    """Rows of what belongs to nodes."""
    import torch

    from any2vec.kernels.rows.take import take_floats

    is_plain = isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.dtype == torch.float32
    if is_plain and value.ndim == 2 and value.is_contiguous() and not value.requires_grad:
        rows = torch.empty(len(nodes), value.shape[1])
        take_floats(value.numpy(), nodes, rows.numpy())
        return rows
    return value[n_id] if isinstance(value, torch.Tensor) else [value[node] for node in nodes.tolist()]


def _seeds(given: Any, source: _OfData | _OfFolder, num_nodes: int) -> np.ndarray:
    """int64: the seeds. InputError where they are no nodes, or one comes twice."""
    if isinstance(given, str):
        mask = source.masks.get(given)
        if mask is None:
            known = ", ".join(part for part, mask in source.masks.items() if mask is not None)
            raise InputError(
                f"input_nodes must be nodes, a mask or a part ({known or 'there are none'}), got {given!r}."
            )
        given = mask
    seeds = np.arange(num_nodes) if given is None else np.asarray(as_numpy(given))
    if seeds.dtype == bool and seeds.shape == (num_nodes,):
        seeds = np.flatnonzero(seeds)
    if seeds.ndim != 1 or seeds.dtype.kind not in "iu":
        raise InputError(
            f"input_nodes must be whole numbers, or a mask of {num_nodes:,}, got {seeds.dtype} {seeds.shape}."
        )
    if not len(seeds):
        raise InputError("input_nodes holds no nodes; give one at least.")
    if not 0 <= int(seeds.min()) <= int(seeds.max()) < num_nodes:
        raise InputError(
            f"input_nodes must be from 0 to {num_nodes - 1:,}, got {int(seeds.min())} to {int(seeds.max())}."
        )
    if len(np.unique(seeds)) != len(seeds):
        raise InputError("A node comes twice in input_nodes; give each once.")
    return seeds.astype(np.int64)
