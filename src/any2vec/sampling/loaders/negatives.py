"""Pairs that are no edge, for loaders of links: as many as are asked for, ends of them drawn alike or by weights."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from any2vec.data.attributed.tensors import as_numpy
from any2vec.errors import InputError
from any2vec.types import Csr

MAX_AMOUNT = 1000


class Negatives(NamedTuple):
    """What `neg_sampling` of a loader means."""

    mode: str
    """binary: pairs; triplet: targets for the sources of a batch"""
    amount: float
    """for each edge of a batch, above 0; whole of triplets"""
    src_weight: Any = None
    """float (N,), by which ends are drawn; None: each node alike"""
    dst_weight: Any = None


def read_negatives(given: Any, ratio: Any = None) -> Negatives | None:
    """From a mode, (mode, amount), a dict or PyG's `NegativeSampling`; ratio: as PyG has `neg_sampling_ratio`.

    Raises:
        InputError: it is none of these.
    """
    if ratio is not None and ratio != 0:
        given = ("binary", ratio)
    if given is None:
        return None
    names = Negatives._fields
    if isinstance(given, Mapping):
        fields = dict(given)
    elif isinstance(given, tuple | list):
        if len(given) > len(names):
            raise InputError(f"neg_sampling has {len(given)} values; it has {', '.join(names)}, in this order.")
        fields = dict(zip(names, given, strict=False))
    else:
        fields = {name: getattr(given, name) for name in names if hasattr(given, name)} or {"mode": given}
    unknown = ", ".join(map(str, fields.keys() - {*names}))
    if unknown:
        raise InputError(f"neg_sampling has {unknown}; it has {', '.join(names)}.")
    mode, amount = fields.get("mode"), fields.get("amount", 1)
    mode = getattr(mode, "value", mode)
    if mode not in ("binary", "triplet"):
        raise InputError(f"neg_sampling must be binary or triplet, got {mode!r}.")
    is_number = isinstance(amount, Real) and not isinstance(amount, bool)
    if not is_number or not 0 < float(amount) <= MAX_AMOUNT or (mode == "triplet" and amount != int(amount)):
        kind = "a whole number" if mode == "triplet" else "a number"
        raise InputError(f"The amount of {mode} negatives must be {kind} above 0 to {MAX_AMOUNT:,}, got {amount!r}.")
    return Negatives(mode, float(amount), fields.get("src_weight"), fields.get("dst_weight"))


class NegativeSampler:
    """Draws of negatives; any number of threads may call it at once. A draw depends on (seed, epoch, position) alone.

    Args:
        linked: in-neighbors, rows ascending; no negative is an edge of it, as far as 16 draws find one that is none.
        num_src: nodes of which sources are drawn.
        is_one_type: sources and targets are of one type, so that a node is no negative of itself.

    Raises:
        InputError: weights are not legal.
    """

    def __init__(self, linked: Csr, num_src: int, negatives: Negatives, is_one_type: bool, seed: int) -> None:
        self._linked, self.num_src, self._negatives, self._seed = linked, num_src, negatives, seed
        self._is_one_type = is_one_type
        self._src = _table("src_weight", negatives.src_weight, num_src)
        self._dst = _table("dst_weight", negatives.dst_weight, len(linked.indptr) - 1)

    def pairs(self, epoch: int, batch: int, batch_size: int, num_edges: int) -> tuple[np.ndarray, np.ndarray]:
        """(sources, targets) int64 (ceil(num_edges * amount),) of a batch."""
        src = np.empty(ceil(num_edges * self._negatives.amount), np.int64)
        return src, self._drawn(epoch, batch * ceil(batch_size * self._negatives.amount), src, False)

    def targets(self, epoch: int, first: int, src_B: np.ndarray) -> np.ndarray:
        """int64 (B * amount,): for each source some targets, behind each other; first: position of the first source."""
        amount = int(self._negatives.amount)
        return self._drawn(epoch, first * amount, np.repeat(src_B.astype(np.int64), amount), True)

    def _drawn(self, epoch: int, first: int, src_K: np.ndarray, is_given: bool) -> np.ndarray:
        from any2vec.kernels.common.rng import PURPOSE_NEGATIVE, stream_key
        from any2vec.kernels.graph.links import draw_ends

        dst_K = np.empty(len(src_K), np.int64)
        key = stream_key(self._seed, PURPOSE_NEGATIVE, epoch)
        draw_ends(
            self._linked.indptr, self._linked.indices, self.num_src, *self._src, *self._dst, key, first, is_given,
            self._is_one_type, src_K, dst_K,
        )  # fmt: skip
        return dst_K


def _table(name: str, weight: Any, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Alias table of weights; (0,) where each node is alike."""
    from any2vec.kernels.common.alias import build_alias

    if weight is None:
        return np.empty(0, np.uint32), np.empty(0, np.int32)
    given = np.asarray(as_numpy(weight))
    is_legal = given.shape == (num_nodes,) and given.dtype.kind in "iuf" and np.isfinite(given).all()
    if not is_legal or not (given >= 0).all() or not given.sum() > 0:
        raise InputError(f"{name} must hold a finite number of 0 or more for each of {num_nodes:,} nodes, not all 0.")
    return build_alias(given.astype(np.float64))
