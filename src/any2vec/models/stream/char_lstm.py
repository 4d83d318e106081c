"""The character model over a stream: two generators that read the bytes of words, and no table at all. PyTorch.

Legend: M pairs, X distinct centers, Y distinct contexts and negatives, C negatives, D dim, V rows of the vocabulary.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from any2vec.data.stream.vocabulary import StreamVocabulary
from any2vec.data.vocab.vocabulary import Keys
from any2vec.embeddings import Embeddings
from any2vec.encoders.spelling import READINGS, SYMBOLS, spell, tries
from any2vec.errors import InputError
from any2vec.kernels.common.rng import PURPOSE_TOKEN, stream_key
from any2vec.kernels.skipgram.pairs import list_pairs
from any2vec.models.stream.char_generator import CharGenerator
from any2vec.models.stream.char_step import BatchWords, Step, make_step
from any2vec.models.stream.config import StreamCharLstm
from any2vec.models.stream.token_batch import TokenBatch
from any2vec.sync.drivers.pushed_batches import PushedBatches
from any2vec.sync.drivers.summed_batches import SummedBatches
from any2vec.types import State, Stats, Work

_ENCODED = 4096
"""words of a snapshot that are encoded together"""


def step_loss(center_XD: torch.Tensor, other_YD: torch.Tensor, step: Step) -> torch.Tensor:
    """Sum over the pairs of -log sigmoid(x . y) - share sum over shared negatives n but y of log sigmoid(-x . n).

    Mikolov et al. 2013, arXiv 1310.4546, equation 4.
    """
    device = center_XD.device
    center_M, context_M, negative_C, weight_XC = (
        torch.from_numpy(array).to(device) for array in (step.center_M, step.context_M, step.negative_C, step.weight_XC)
    )
    dot_M = (center_XD.index_select(0, center_M) * other_YD.index_select(0, context_M)).sum(dim=1)
    dot_XC = center_XD @ other_YD.index_select(0, negative_C).T
    return functional.softplus(-dot_M).sum() + (weight_XC * functional.softplus(dot_XC)).sum()


class StreamedCharLstm:
    """Trains the generators "center" and "context" by Adam (Kingma and Ba 2015), one step after the other.

    With one thread on a CPU the result depends on the batches alone.

    Args:
        max_rows: V of the vocabulary; the model has no rows of its own.
        threads: PyTorch's, 1 or more.

    Raises:
        InputError: the device is not there.
    """

    def __init__(self, config: StreamCharLstm, *, max_rows: int, threads: int, seed: int) -> None:
        if config.device == "cuda" and not torch.cuda.is_available():
            raise InputError("device is cuda, and PyTorch finds no GPU here; use cpu or auto.")
        is_gpu = config.device == "cuda" or (config.device == "auto" and torch.cuda.is_available())
        self.config, self.seed = config, seed
        self.device = torch.device("cuda" if is_gpu else "cpu")
        shape = (config.dim, config.hidden, config.byte_dim, config.reading)
        self.center = CharGenerator(*shape, seed).to(self.device)
        self.context = CharGenerator(*shape, seed + 1).to(self.device)
        self._optimizer = torch.optim.Adam(self._parameters().values(), lr=config.learning_rate)
        self.agreement: SummedBatches | PushedBatches | None = None
        """by which all hosts step; None: this one is alone"""
        self.share = 1.0
        """of this host's gradient in a step"""
        self._own_V = np.arange(max_rows, dtype=np.int32)
        self._token_key = stream_key(seed, PURPOSE_TOKEN)
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(threads)

    @staticmethod
    def row_bytes(config: StreamCharLstm) -> int:
        """Memory that a row takes: its vector while a snapshot is written, and its number."""
        return 4 * config.dim + 4

    @staticmethod
    def fixed_bytes(config: StreamCharLstm) -> int:
        """Memory that is taken whatever comes: weights, moments and gradients."""
        way = 4 * config.hidden * (config.hidden + config.byte_dim + 1) + config.dim * config.hidden
        numbers = len(READINGS[config.reading]) * way + SYMBOLS * config.byte_dim + config.dim
        return 2 * 4 * 4 * numbers

    def compile(self) -> None:
        """Load the kernel that lists pairs."""
        tokens = np.zeros(0, np.int32)
        tokens.flags.writeable = False
        self._pairs(TokenBatch(0, tokens, 0, keep_V=np.zeros(1, np.uint64)), 0, 0)

    def prepare(self, tokens: np.ndarray, vocabulary: StreamVocabulary) -> BatchWords | None:
        """The words of a batch and of the negatives of its steps, spelled out; None: there is nothing to train."""
        config = self.config
        row_R = np.unique(tokens[(tokens >= 0) & (tokens < len(self._own_V))])
        if not len(row_R):
            return None
        kept = float(vocabulary.keep(config.subsample)[tokens[(tokens >= 0) & (tokens < len(self._own_V))]].sum())
        steps = max(1, round(kept * (config.window + 1) / config.batch_pairs))
        # The draws depend on the tokens alone, so that a batch is the same whenever it is prepared.
        draws = np.random.Generator(np.random.Philox(key=[self.seed, zlib.crc32(tokens.tobytes())]))
        negatives = _drawn(draws, vocabulary.noise(), (steps, config.shared_negatives))
        used_V = vocabulary.counts_V > 0
        negatives = np.where(used_V[negatives], negatives, row_R[0])  # a word may have gone since the noise was made
        row_R = np.union1d(row_R, negatives).astype(np.int64)
        cuts = np.arange(steps + 1, dtype=np.int64) * tokens.size // steps
        return BatchWords(row_R, *spell(vocabulary.keys(row_R)), cuts, negatives)

    def run(self, work: Work[TokenBatch]) -> Stats:
        """A step for each part of the batch; the loss of each is that before it."""
        batch = work.payload
        words: BatchWords | None = batch.prepared
        items = int(np.count_nonzero((batch.tokens >= 0) & (batch.tokens < len(self._own_V))))
        if words is None:
            return Stats(items, 0.0, 0)
        loss_sum, examples, before = 0.0, 0, time.process_time()
        for number, negative_S in enumerate(words.negatives):
            pair_M2 = self._pairs(batch, int(words.cuts[number]), int(words.cuts[number + 1]))
            if not len(pair_M2):
                continue
            step = make_step(pair_M2, negative_S, self.config.num_negatives / self.config.shared_negatives)
            loss_sum += self._learn(step, words)
            examples += len(pair_M2)
        return Stats(items, loss_sum, examples, time.process_time() - before)

    def learning_rate(self, words: float) -> float:
        return self.config.learning_rate

    def values(self) -> np.ndarray:
        """All parameters one after the other, float32 (Q,), a copy."""
        return np.concatenate([_array(value).reshape(-1) for value in self._parameters().values()])

    def step(self, gradient_Q: np.ndarray) -> None:
        """One step of the optimizer by a gradient, float32 (Q,), in the order of `values`."""
        for value, piece in self._pieces(gradient_Q):
            if value.grad is None:
                value.grad = torch.zeros_like(value)
            value.grad.copy_(piece)
        self._optimizer.step()

    def put(self, value_Q: np.ndarray) -> None:
        """Take parameters, float32 (Q,), in the order of `values`."""
        with torch.no_grad():
            for value, piece in self._pieces(value_Q):
                value.copy_(piece)

    def flat_state(self) -> State:
        """Parameters and moments in the order of `values`: value, mean, square, float32 (Q,); count of steps, int64."""
        state, names = self.state_dict(), list(self._parameters())
        endings = {"value": "", "mean": ".exp_avg", "square": ".exp_avg_sq"}
        found = {
            kind: np.concatenate([state[name + ending].reshape(-1) for name in names])
            for kind, ending in endings.items()
        }
        return found | {"count": np.array(int(state[f"{names[0]}.step"][0]))}

    def load_flat_state(self, state: State) -> None:
        """Go on from `flat_state`."""
        self.put(state["value"])
        moments = zip(self._pieces(state["mean"]), self._pieces(state["square"]), strict=True)
        for (value, mean), (_, square) in moments:
            self._optimizer.state[value] = {
                "step": torch.tensor(float(state["count"])), "exp_avg": mean.clone().to(self.device),
                "exp_avg_sq": square.clone().to(self.device),
            }  # fmt: skip

    def _pieces(self, flat_Q: np.ndarray) -> Iterator[tuple[nn.Parameter, torch.Tensor]]:
        """Each parameter with its part of a flat array."""
        at = 0
        for value in self._parameters().values():
            yield value, torch.from_numpy(flat_Q[at : at + value.numel()].reshape(tuple(value.shape)))
            at += value.numel()

    def state_dict(self) -> State:
        found: dict[str, np.ndarray] = {}
        for name, value in self._parameters().items():
            moments = self._optimizer.state.get(value, {})
            found[name] = _array(value)
            for kind in ("exp_avg", "exp_avg_sq"):
                found[f"{name}.{kind}"] = _array(moments[kind]) if moments else np.zeros_like(found[name])
            found[f"{name}.step"] = np.array([float(moments["step"]) if moments else 0.0], np.float32)
        return found

    def load_state_dict(self, state: State) -> None:
        with torch.no_grad():
            for name, value in self._parameters().items():
                value.copy_(torch.from_numpy(np.array(state[name])))
                self._optimizer.state[value] = {
                    "step": torch.tensor(float(state[f"{name}.step"][0])),
                    **{
                        kind: torch.from_numpy(np.array(state[f"{name}.{kind}"])).to(self.device)
                        for kind in ("exp_avg", "exp_avg_sq")
                    },
                }

    def embeddings(self, vocabulary: StreamVocabulary) -> Embeddings:
        counts_V, rows = vocabulary.counts_V, vocabulary.rows()
        rows = rows[np.argsort(-counts_V[rows], kind="stable")]
        counts = np.maximum(1, np.rint(counts_V[rows])).astype(np.int64)
        meta = {"model": self.config.name, "options": self.config.as_dict()}
        keys = vocabulary.keys(rows)
        return Embeddings(keys, self.encode(keys), None, counts, meta, self.center.encoder())

    def encode(self, keys: Keys) -> np.ndarray:
        """The vectors of words, float32 (N, D)."""
        vectors = np.empty((len(keys), self.config.dim), np.float32)
        symbol_NS, size_N = spell(keys)
        order = np.lexsort(symbol_NS.T[::-1])  # neighbors begin alike
        with torch.no_grad():
            for first in range(0, len(order), _ENCODED):
                own = order[first : first + _ENCODED]
                found = tries(symbol_NS[own], size_N[own], self.config.reading)
                vectors[own] = _array(self.center(found, len(own)))
        return vectors

    def close(self) -> None:
        torch.set_num_threads(self._threads_before)

    def _parameters(self) -> dict[str, torch.nn.Parameter]:
        sides = (("centre", self.center), ("context", self.context))
        return {f"{side}.{name}": value for side, net in sides for name, value in net.named_parameters()}

    def _pairs(self, work: TokenBatch, start: int, stop: int) -> np.ndarray:
        """(context, center) rows of the pairs whose centers are at these positions, int32 (M, 2)."""
        pair_M2 = np.empty((2 * self.config.window * (stop - start), 2), np.int32)
        size = list_pairs(
            work.tokens,
            start,
            stop,
            work.offset,
            work.keep_V,
            self._token_key,
            self.config.window,
            self._own_V,
            pair_M2,
        )
        return pair_M2[:size]

    def _learn(self, step: Step, words: BatchWords) -> float:
        """One step; the sum of the losses of its pairs before it."""
        if self.agreement is not None:
            self.agreement.begin()
        center_XD = self.center(words.tries(step.row_X, self.config.reading), len(step.row_X))
        other_YD = self.context(words.tries(step.row_Y, self.config.reading), len(step.row_Y))
        loss = step_loss(center_XD, other_YD, step)
        self._optimizer.zero_grad()
        (loss / len(step.center_M)).backward()
        if self.agreement is None:
            self._optimizer.step()
        else:
            self.agreement.agree(self._gradient())
        return float(loss.detach())

    def _gradient(self) -> np.ndarray:
        """This host's share of the gradient, in the order of `values`."""
        parts = [
            np.zeros(value.numel(), np.float32) if value.grad is None else _array(value.grad).reshape(-1)
            for value in self._parameters().values()
        ]
        return np.concatenate(parts) * np.float32(self.share)


def _drawn(draws: np.random.Generator, noise: tuple[np.ndarray, np.ndarray], shape: tuple[int, int]) -> np.ndarray:
    """Rows by a noise distribution as `kernels.common.alias` has it, int64."""
    threshold_V, alias_V = noise
    place = draws.integers(0, len(threshold_V), shape)
    is_own = draws.integers(0, 2**32, shape, np.uint64) < threshold_V[place]
    return np.where(is_own, place, alias_V[place]).astype(np.int64)


def _array(tensor: torch.Tensor) -> np.ndarray:
    """On a CPU a view."""
    return np.asarray(tensor.detach().cpu().numpy())
