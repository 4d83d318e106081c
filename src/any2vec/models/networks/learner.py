"""Trains a graph network batch after batch, and scores nodes from all their neighbors.

What a step does depends on (seed, epoch, batch) alone: seeds' order, neighbors and dropout. So a run that goes on from
a checkpoint gives the bits of one that was never stopped, where one thread trains.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from any2vec.data.attributed.features import FeatureRows
from any2vec.errors import InputError
from any2vec.models.networks.config import GraphNetwork
from any2vec.models.networks.features import CachedFeatures, Moved
from any2vec.models.networks.inference import Inference
from any2vec.models.networks.network import Block, Network, block_of, blocks_of, load_weights
from any2vec.plan.lookahead.oracle import NextUseOracle
from any2vec.plan.order.proximity import ProximityOrder
from any2vec.plan.order.shuffle import random_order
from any2vec.sampling.neighbors import NeighborOptions, NeighborSampler
from any2vec.types import Csr, Span, State, Stats, Work

Features = FeatureRows | CachedFeatures
_NET, _FIRST, _SECOND = "net.", "adam.first.", "adam.second."
_ABOUT = "about"
_INIT, _DROPOUT = 1, 2
"""numbers of random streams beside those of sampling"""


class LearnerData(NamedTuple):
    """What a network learns from."""

    csr: Csr
    """in-neighbors"""
    features: Features
    labels: np.ndarray
    """int32 (N,), or uint8 (N, C), several classes a node"""
    num_classes: int
    rows: Mapping[str, np.ndarray]
    """int64: nodes of train, val and test"""


class _Batch(NamedTuple):
    x_MD: torch.Tensor
    blocks: list[Block]
    rows: torch.Tensor
    """of what the last layer answers for, those whose classes are known"""
    label: torch.Tensor
    number: int


class GraphLearner:
    """One host's learner.

    Args:
        threads: 2 or more: batches are sampled ahead beside the training.
        inference_bytes: of memory for layers of all nodes; 0: half of the machine's.
    """

    def __init__(
        self, model: GraphNetwork, data: LearnerData, seed: int, threads: int, inference_bytes: int = 0
    ) -> None:
        self.model, self.data, self.seed, self._inference_bytes = model, data, seed, inference_bytes
        self._is_whole = model.sampling == "full-graph"
        options = NeighborOptions(
            fanouts=model.fanouts_by_hop, law="labor" if model.sampling == "labor" else "uniform",
            key=model.sample_key, seed=seed,
        )  # fmt: skip
        self._sampler = NeighborSampler(data.csr, options)
        self._degree_N = np.diff(data.csr.indptr).astype(np.float32)
        self._ahead = ThreadPoolExecutor(1, thread_name_prefix="any2vec-batches") if threads > 1 else None
        self._whole: tuple[torch.Tensor, Block] | None = None
        self._ordered = -1, np.empty(0, np.int64)
        """an epoch, and its order of the training nodes"""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(_stream(seed, _INIT))
            self.network = Network(model, data.features.columns, data.num_classes)
        self._optimizer = torch.optim.Adam(
            self.network.parameters(), lr=model.learning_rate, weight_decay=model.weight_decay
        )
        self.sampled = 0
        """nodes whose features batches have read"""
        self.moved = Moved()
        """what they came to, where features are on disk"""

    @property
    def batch_size(self) -> int:
        """Nodes of a batch."""
        return max(1, len(self.data.rows["train"])) if self._is_whole else self.model.batch_size

    @property
    def num_batches(self) -> int:
        """Of an epoch."""
        return -(-len(self.data.rows["train"]) // self.batch_size)

    @property
    def batch_order(self) -> str:
        """Of the training nodes, and why it is not by proximity where that was asked for."""
        if self._proximity is None:
            return "random"
        number = self._proximity.num_sequences
        return f"proximity, {number} sequences" if number else "random: near nodes are too much of one class"

    @property
    def bytes_filled(self) -> int:
        """Read from the disk before the first batch."""
        features = self.data.features
        return features.bytes_filled if isinstance(features, CachedFeatures) else 0

    def compile(self) -> None:
        """Compile the kernels, or load them from the cache."""
        sampled, moved, before = self.sampled, self.moved, _copied(weights_of(self.network))
        batch = self._make(self.data.rows["train"][:1], 0, 0, is_planned=False)
        self._loss(batch, 0).backward()
        self._optimizer.zero_grad()
        load_weights(self.network, before)  # what a network has seen of batches, too
        self.sampled, self.moved = sampled, moved

    def look_ahead(self, first_step: int, num_steps: int, batches: int) -> None:
        """Let features on disk know what so many batches to come will read; steps are batches, over all epochs."""
        features, per_epoch = self.data.features, self.num_batches
        if isinstance(features, CachedFeatures) and features.residency.policy.needs_next_uses:
            features.oracle = NextUseOracle(
                lambda step: self.nodes_of(*divmod(step, per_epoch)), first_step, num_steps, batches
            )

    def nodes_of(self, epoch: int, number: int) -> np.ndarray:
        """int64, ascending: the nodes whose features a batch reads."""
        start = number * self.batch_size
        seeds = self._order(epoch)[start : start + self.batch_size]
        return np.sort(self._sampler.sample(seeds, epoch, number).node_M.astype(np.int64))

    def run(self, work: Work[Span]) -> Stats:
        """Train the batches of some positions of an epoch.

        Raises:
            InputError: the loss is no number any more.
        """
        began, total, items = time.process_time(), 0.0, 0
        for batch in self._batches(work):
            loss = self._loss(batch, work.epoch)
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()
            total += float(loss.detach()) * len(batch.rows)
            items += len(batch.rows)
            del batch, loss  # before the next one is made, or all nodes are scored
        if not np.isfinite(total):
            raise InputError("The loss is no number any more: the training has diverged; lower learning_rate.")
        return Stats(items, total, items, time.process_time() - began)

    def learning_rate(self, progress: float) -> float:
        """Always the same."""
        return self.model.learning_rate

    def close(self) -> None:
        """Nothing follows."""
        if self._ahead is not None:
            self._ahead.shutdown(wait=True, cancel_futures=True)
        if isinstance(self.data.features, CachedFeatures):
            self.data.features.close()

    @cached_property
    def inference(self) -> Inference:
        """What scores nodes from all their neighbors."""
        if self._is_whole:
            rows = FeatureRows(self.whole()[0].numpy(), np.empty(0, np.float32))
            return Inference(self.data.csr, rows, self._inference_bytes, self.network.num_fixed)
        return Inference(self.data.csr, self.data.features, self._inference_bytes)

    def whole(self) -> tuple[torch.Tensor, Block]:
        """(features of all nodes, behind fixed layers; what layers pass messages along over all edges), made once."""
        if self._whole is None:
            x_ND = torch.from_numpy(self.data.features.take(np.arange(len(self._degree_N))))
            block = block_of(self.data.csr, is_learned=True)
            with torch.no_grad():
                for number in range(self.network.num_fixed):
                    x_ND = self.network.infer(number, x_ND, block)
            self._whole = x_ND, block
        return self._whole

    def state_dict(self) -> State:
        """Weights."""
        return {_NET + name: array for name, array in weights_of(self.network).items()}

    def memory(self) -> State:
        """What a run goes on from besides: what the optimizer remembers, and counts."""
        found: State = {}
        steps = 0.0
        for name, parameter in self.network.named_parameters():
            if kept := self._optimizer.state.get(parameter):
                found[_FIRST + name], found[_SECOND + name] = kept["exp_avg"].numpy(), kept["exp_avg_sq"].numpy()
                steps = float(kept["step"])
        return found | {_ABOUT: np.array([steps, self.sampled, *self.moved])}

    def load_state_dict(self, state: State, memory: State) -> None:
        """Go on from there. KeyError or ValueError where it is no such state."""
        steps, sampled, missed, num_bytes = memory[_ABOUT].tolist()
        self.sampled, self.moved = int(sampled), Moved(int(missed), int(num_bytes))
        load_weights(self.network, network_weights(state))
        for name, parameter in self.network.named_parameters():
            if steps:
                self._optimizer.state[parameter] = {
                    "step": torch.tensor(float(steps)),
                    "exp_avg": torch.tensor(memory[_FIRST + name]), "exp_avg_sq": torch.tensor(memory[_SECOND + name]),
                }  # fmt: skip

    def _batches(self, work: Work[Span]) -> Iterator[_Batch]:
        """Those of a work, in order; with several threads the next one is made meanwhile."""
        seeds, size = self._order(work.epoch), self.batch_size
        numbers = range(work.payload.start // size, -(-work.payload.stop // size))
        asked = [(seeds[number * size : (number + 1) * size], work.epoch, number) for number in numbers]
        if self._ahead is None:
            yield from (self._make(*one) for one in asked)
            return
        coming = [self._ahead.submit(self._make, *one) for one in asked[:1]]
        for one in asked[1:]:
            coming.append(self._ahead.submit(self._make, *one))
            yield coming.pop(0).result()
        for last in coming:
            yield last.result()

    def _make(self, seeds: np.ndarray, epoch: int, number: int, is_planned: bool = True) -> _Batch:
        if self._is_whole:
            (x_ND, block), rows = self.whole(), self.data.rows["train"]
            self.sampled += len(x_ND)
            return _Batch(x_ND, [block], torch.from_numpy(rows), self._label(rows), number)
        found = self._sampler.sample(seeds, epoch, number)
        self.sampled += len(found.node_M)
        x_MD, blocks = self._rows(found.node_M, is_planned), blocks_of(found, self._degree_N)
        return _Batch(x_MD, blocks, torch.arange(len(seeds)), self._label(seeds), number)

    def _rows(self, node_M: np.ndarray, is_planned: bool) -> torch.Tensor:
        features = self.data.features
        if not isinstance(features, CachedFeatures):
            return torch.from_numpy(features.take(node_M))
        before = features.moved
        x_MD = torch.from_numpy(features.take(node_M, is_planned))
        self.moved = self.moved.plus(*np.subtract(features.moved, before).tolist())
        return x_MD

    def _label(self, rows: np.ndarray) -> torch.Tensor:
        label = self.data.labels[rows]
        return torch.from_numpy(label.astype(np.int64 if label.ndim == 1 else np.float32))

    def _loss(self, batch: _Batch, epoch: int) -> torch.Tensor:
        """Mean cross-entropy over the batch's nodes; of several classes a node, also over classes."""
        draws = torch.Generator().manual_seed(_stream(self.seed, _DROPOUT, epoch, batch.number))
        scores = self.network(batch.x_MD, batch.blocks, draws, are_owned=not self._is_whole)[batch.rows]
        if batch.label.ndim == 1:
            return torch.nn.functional.cross_entropy(scores, batch.label)
        return torch.nn.functional.binary_cross_entropy_with_logits(scores, batch.label)

    def _order(self, epoch: int) -> np.ndarray:
        """The training nodes, in the order of an epoch."""
        rows = self.data.rows["train"]
        if self._ordered[0] != epoch:
            by_nearness = self._proximity
            places = by_nearness.order(epoch) if by_nearness else random_order(len(rows), self.seed, epoch)
            self._ordered = epoch, rows[places]
        return self._ordered[1]

    @cached_property
    def _proximity(self) -> ProximityOrder | None:
        """What orders the training nodes; None: nothing but chance."""
        if self.model.batch_order == "random":
            return None
        rows = self.data.rows["train"]
        return ProximityOrder(self.data.csr, rows, self.data.labels[rows], self.batch_size, self.seed)


def weights_of(network: Network) -> State:
    """By name; arrays that training changes."""
    return {name: tensor.numpy() for name, tensor in network.state_dict().items()}


def _copied(state: State) -> State:
    """That nothing changes any more."""
    return {name: array.copy() for name, array in state.items()}


def network_weights(state: State) -> State:
    """Those of the network, copied, in what `GraphLearner.state_dict` gave."""
    return {name.removeprefix(_NET): np.array(array) for name, array in state.items() if name.startswith(_NET)}


def _stream(*numbers: int) -> int:
    """A number for a generator."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
