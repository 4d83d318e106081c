"""Trains a graph network whose batches sample lists of neighbors on disk; all else is as in memory, to the bit.

Nodes are scored from all their neighbors in the order in which lists lie, through the mapped file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from any2vec.data.attributed.edge_features import FeaturedCsr
from any2vec.models.networks.batches import Drawn, Features, LearnerData, Reader, SampledBatches, Seeds
from any2vec.models.networks.config import GraphNetwork
from any2vec.models.networks.features import Moved
from any2vec.models.networks.learner import GraphLearner
from any2vec.models.networks.objectives import Objective
from any2vec.models.networks.stages import BatchStages
from any2vec.sampling.disk_neighbors import CachedLists, DiskNeighborSampler, ListReads
from any2vec.sampling.neighbors import NeighborOptions
from any2vec.types import State

_READS = "lists"


class _Edges(NamedTuple):
    """A `Neighborhood`, and what it took to read it; on its way a batch may wait in a trace, field by field."""

    node_M: np.ndarray
    stop_D1: np.ndarray
    neighbor_S: np.ndarray
    edge_S: np.ndarray
    nodes_by_hop: tuple[int, ...]
    edges_by_hop: tuple[int, ...]
    reads: ListReads


class ListReader(Reader):
    """Counts what sampling the batches that have been trained has read, too."""

    def __init__(self, features: Features) -> None:
        super().__init__(features)
        self.reads = ListReads()

    def count(self, drawn: Drawn, moved: Moved) -> None:
        super().count(drawn, moved)
        self.reads = self.reads.plus(*drawn.edges.reads)


class DiskBatches(SampledBatches):
    """Batches of nodes that sample lists on disk."""

    def __init__(
        self, model: GraphNetwork, data: LearnerData, objective: Objective, seed: int, lists: CachedLists
    ) -> None:
        super().__init__(model, data, objective, seed)
        self.reader = self.list_reader = ListReader(data.features)
        options = NeighborOptions(fanouts=model.fanouts_by_hop, key=model.sample_key, seed=seed)
        self._sampler: DiskNeighborSampler = DiskNeighborSampler(data.csr.indptr, lists, options)

    def _of(self, seeds: Seeds, epoch: int, number: int) -> Drawn:
        found, reads = self._sampler.read(seeds.node_B, epoch, number, isinstance(self._csr, FeaturedCsr))
        return Drawn(
            number, seeds, found.node_M, _Edges(*found, reads), len(found.node_M), len(found.neighbor_S)
        )  # fmt: skip


class DiskLearner(GraphLearner):
    """One host's learner.

    Args:
        data: its `csr` is mapped from the file of the lists.
        lists: are closed with it.
        others: as of `GraphLearner`.
    """

    batches: DiskBatches

    def __init__(
        self, model: GraphNetwork, data: LearnerData, seed: int, threads: int, inference_bytes: int, lists: CachedLists
    ) -> None:
        super().__init__(model, data, seed, threads, inference_bytes)
        self.lists = lists
        self.batches = DiskBatches(model, data, self.objective, seed, lists)
        self.stages = BatchStages(self.batches, threads)

    def summary(self) -> Mapping[str, Any]:
        """What a run's summary says of lists."""
        missed, num_bytes = self.batches.list_reader.reads
        return {
            "lists_missed": missed, "adjacency_bytes_read": num_bytes, "adjacency_bytes_filled": self.lists.bytes_filled
        }  # fmt: skip

    def close(self) -> None:
        super().close()
        self.lists.file.close()

    def memory(self) -> State:
        return super().memory() | {_READS: np.array(self.batches.list_reader.reads)}

    def load_state_dict(self, state: State, memory: State) -> None:
        super().load_state_dict(state, memory)
        if _READS in memory:  # none in what a run with lists in memory has left
            self.batches.list_reader.reads = ListReads(*memory[_READS].tolist())
