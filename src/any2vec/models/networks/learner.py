"""Trains a graph network batch after batch (`batches.py`), as they come (`stages.py`), by what its objective
(`objectives.py`) makes of them.

What a step does depends on (seed, epoch, batch) alone: seeds' order, neighbors and dropout. So a run that goes on from
a checkpoint gives the bits of one that was never stopped, where one thread trains.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cached_property

import numpy as np
import torch

from any2vec.data.attributed.edge_features import edge_columns_of
from any2vec.data.attributed.features import FeatureRows, NodeNumbers
from any2vec.data.attributed.relations import Relations
from any2vec.data.attributed.row_file import Reads
from any2vec.errors import InputError
from any2vec.models.networks.batches import Batch, Features, LearnerData, WholeBatches, batches_of
from any2vec.models.networks.config.base import GraphNetwork
from any2vec.models.networks.inference import Inference, inference_over
from any2vec.models.networks.network import load_weights, make_network
from any2vec.models.networks.node_order import OrderedFeatures
from any2vec.models.networks.objectives import objective_of
from any2vec.models.networks.stages import BatchStages
from any2vec.nn.sparse.rows import SparseRows
from any2vec.sampling.disk_neighbors import CachedLists
from any2vec.types import Span, State, Stats, Work

_NET, _FIRST, _SECOND, _STEP = "net.", "adam.first.", "adam.second.", "adam.step."
_ABOUT, _LISTS = "about", "lists"
_INIT, _DROPOUT = 1, 2
"""numbers of random streams beside those of sampling"""


class GraphLearner:
    """One host's learner.

    Args:
        threads: 2 or more: batches are made beside the training.
        inference_bytes: of memory for layers of all nodes; 0: half of the machine's.
        lists: those that batches sample, where not all are in memory; `data.csr` is then mapped from their file. They
            are closed with it. All nodes are scored in the order in which lists lie, through the mapped file.
    """

    def __init__(
        self, model: GraphNetwork, data: LearnerData, seed: int, threads: int, inference_bytes: int = 0,
        lists: CachedLists | None = None,
    ) -> None:  # fmt: skip
        self.model, self.data, self.seed, self._inference_bytes = model, data, seed, inference_bytes
        self.lists = lists
        self.objective = objective_of(model, data, seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(_stream(seed, _INIT))
            relations = Relations.of(data.csr, data.features)
            sizes = data.features.columns, self.objective.num_columns
            self.network = make_network(model, *sizes, relations, edge_columns_of(data.csr))
        self._optimizer = torch.optim.Adam(self.network.parameters(), lr=model.rate, weight_decay=model.weight_decay)
        self.batches = batches_of(model, data, self.objective, self.network, seed, lists)
        self.stages = BatchStages(self.batches, threads)

    def use_features(self, features: Features) -> None:
        """Read them in place of those given."""
        self.data = self.data._replace(features=features)
        self.batches.reader.features = features

    def use_sparse_features(self) -> None:
        """Keep only what is not 0 of features, where that is little and the network multiplies them first."""
        features = self.data.features
        if isinstance(features, FeatureRows | OrderedFeatures) and getattr(self.network, "multiplies_first", False):
            self.use_features(SparseRows.of(features, len(self.data.csr.indptr) - 1) or features)

    @property
    def num_batches(self) -> int:
        """Of an epoch."""
        return self.stages.per_epoch

    def compile(self) -> None:
        """Compile the kernels, or load them from the cache."""
        drawn, before = self.batches.trial(), _copied(weights_of(self.network))
        x_MD = None if drawn.node_M is None else self.batches.reader.rows(drawn.node_M)
        self._loss(self.batches.make(drawn, x_MD), 0).backward()
        self._optimizer.zero_grad()
        load_weights(self.network, before)  # what a network has seen of batches, too

    def run(self, work: Work[Span]) -> Stats:
        """Train the batches of some positions of an epoch.

        Raises:
            InputError: the loss is no number any more.
        """
        began, total, items, spent = time.process_time(), 0.0, 0, self.stages.spent["train"]
        size, step = self.batches.batch_size, work.epoch * self.num_batches
        for batch in self.stages.steps(step + work.payload.start // size, step - (-work.payload.stop // size)):
            if not batch.size:
                continue
            started = time.perf_counter()
            loss = self._loss(batch, work.epoch)
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()
            total += float(loss.detach()) * batch.size
            items += batch.size
            del batch, loss  # before the next one is made, or all nodes are scored
            spent.at_work += time.perf_counter() - started
        if not np.isfinite(total):
            raise InputError("The loss is no number any more: the training has diverged; lower learning_rate.")
        return Stats(items, total, items, time.process_time() - began)

    def learning_rate(self, progress: float) -> float:
        """Always the same."""
        return self.model.rate

    def close(self) -> None:
        """Nothing follows."""
        self.stages.close()
        self.batches.reader.close()
        if self.lists is not None:
            self.lists.file.close()

    @cached_property
    def inference(self) -> Inference:
        """What scores nodes from all their neighbors."""
        if isinstance(self.batches, WholeBatches) and not isinstance(self.data.features, NodeNumbers):
            x_ND, blocks = self.batches.whole()
            rows = x_ND if isinstance(x_ND, SparseRows) else FeatureRows(x_ND.numpy(), np.empty(0, np.float32))
            found = inference_over(self.model, self.data.csr, rows, self._inference_bytes, self.network.num_fixed)
            found.sums = blocks[0].sums
            return found
        return inference_over(self.model, self.data.csr, self.data.features, self._inference_bytes)

    def validate(self) -> Mapping[str, float]:
        """Scores of the network at hand by name, from all neighbors; more is better."""
        began, spent = time.perf_counter(), self.stages.spent["validate"]
        found = self.objective.validate(self.network, self.inference)
        spent.at_work += time.perf_counter() - began
        return found

    def state_dict(self) -> State:
        """Weights."""
        return {_NET + name: array for name, array in weights_of(self.network).items()}

    def memory(self) -> State:
        """What a run goes on from besides: what the optimizer remembers, and counts."""
        found: State = {}
        steps = 0.0
        for name, parameter in self.network.named_parameters():
            if kept := self._optimizer.state.get(parameter):
                first, second = (np.atleast_1d(kept[part].numpy()) for part in ("exp_avg", "exp_avg_sq"))
                found[_FIRST + name], found[_SECOND + name] = first, second
                found[_STEP + name] = np.array([float(kept["step"])])  # of batches that the parameter took part in
                steps = max(steps, float(kept["step"]))
        reader = self.batches.reader
        lists = {} if self.lists is None else {_LISTS: np.array(reader.lists)}
        return found | lists | {_ABOUT: np.array([steps, reader.sampled, reader.num_edges, *reader.reads])}

    def load_state_dict(self, state: State, memory: State) -> None:
        """Go on from there. KeyError or ValueError where it is no such state."""
        steps, sampled, num_edges, missed, num_bytes = memory[_ABOUT].tolist()
        reader = self.batches.reader
        reader.sampled, reader.num_edges = int(sampled), int(num_edges)
        reader.reads = Reads(int(missed), int(num_bytes))
        if _LISTS in memory:  # none in what a run with all lists in memory has left
            reader.lists = Reads(*memory[_LISTS].tolist())
        load_weights(self.network, network_weights(state))
        for name, parameter in self.network.named_parameters():
            if steps and _FIRST + name in memory:  # one that no forward of a module uses has none
                own = memory.get(_STEP + name)  # older checkpoints have one for all
                self._optimizer.state[parameter] = {
                    "step": torch.tensor(float(steps if own is None else own[0])),
                    "exp_avg": torch.tensor(memory[_FIRST + name]).reshape(parameter.shape),
                    "exp_avg_sq": torch.tensor(memory[_SECOND + name]).reshape(parameter.shape),
                }  # fmt: skip

    def _loss(self, batch: Batch, epoch: int) -> torch.Tensor:
        draws = torch.Generator().manual_seed(_stream(self.seed, _DROPOUT, epoch, batch.number))
        given = self.network(batch.x_MD, batch.blocks, draws, are_owned=self.batches.is_owned)
        return self.objective.loss(given.index_select(0, batch.row_B), batch.target)  # twice as fast as given[row_B]


def weights_of(network: torch.nn.Module) -> State:
    """By name; arrays that training changes."""
    return {name: np.atleast_1d(tensor.numpy()) for name, tensor in network.state_dict().items()}


def _copied(state: State) -> State:
    """That nothing changes any more."""
    return {name: array.copy() for name, array in state.items()}


def network_weights(state: State) -> State:
    """Those of the network, copied, in what `GraphLearner.state_dict` gave."""
    return {name.removeprefix(_NET): np.array(array) for name, array in state.items() if name.startswith(_NET)}


def _stream(*numbers: int) -> int:
    """A number for a generator."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
