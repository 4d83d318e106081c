"""PIP loss: how far the inner products of all pairs of vectors are from those of a target, |E E' - M| (Frobenius).

Yin and Shen 2018 (arXiv 1812.04224, definition 1). It does not change when vectors are rotated, and compares vectors
of any two dimensions. Nothing of V x V is ever made: for a sparse symmetric M

    |E E' - M|^2 = |E' E|^2 - 2 tr(E' M E) + |M|^2,

and against other vectors F, |E E' - F F'|^2 = |E' E|^2 - 2 |E' F|^2 + |F' F|^2: sums over rows of numbers of D x D.

Legend: V vocabulary, D dim, F dim of the other vectors, S rows of a shard, N pairs.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.data.io.direct import Spill
from any2vec.data.io.storage import RESULT_FORMAT, format_of_folder
from any2vec.data.options import TextOptions
from any2vec.data.text.pairs.pair_counts import Stage
from any2vec.embeddings import Embeddings
from any2vec.errors import DataError, InputError
from any2vec.evaluate.reading import check_embeddings
from any2vec.evaluate.words.target import Pairs, RowBlocks, count_pairs, read_corpus, step
from any2vec.evaluate.words.target_options import TargetOptions


@dataclass(frozen=True)
class PipSums:
    """What PIP loss is made of: sums over rows, so those of shards add up to those of the whole."""

    gram_DD: np.ndarray
    """E' E, float64"""
    cross: float
    """tr(E' M E)"""
    square: float
    """|M|^2"""

    def __add__(self, other: PipSums) -> PipSums:
        return PipSums(self.gram_DD + other.gram_DD, self.cross + other.cross, self.square + other.square)

    @property
    def own(self) -> float:
        """|E E'|^2"""
        return float(np.einsum("ij,ij->", self.gram_DD, self.gram_DD))

    def loss(self, scale: float = 1.0) -> float:
        """|scale E E' - M|"""
        return max(0.0, scale**2 * self.own - 2 * scale * self.cross + self.square) ** 0.5

    def relative(self, scale: float = 1.0) -> float:
        """The loss over |M|, which is that of vectors of zeros."""
        return self.loss(scale) / self.square**0.5

    @property
    def best_scale(self) -> float:
        """By which E E' is to be multiplied so that the loss is least, 0 or more."""
        return max(0.0, self.cross / self.own) if self.own > 0 else 0.0


def pip_sums(shard_SD: np.ndarray, target_SV: Any, vector_VD: np.ndarray) -> PipSums:
    """The sums of one shard of rows: their vectors, their rows of the sparse target, and the vectors of its columns."""
    square = float(target_SV.data @ target_SV.data)
    return PipSums(shard_SD.T @ shard_SD, float(np.einsum("ij,ij->", shard_SD, target_SV @ vector_VD)), square)


def pip_against(vector_VD: np.ndarray, target: RowBlocks) -> PipSums:
    """The sums of vectors float64 (V, D) against a sparse target."""
    shards = (pip_sums(vector_VD[start:stop], block, vector_VD) for start, stop, block in target.spans())
    dim = vector_VD.shape[1]
    return sum(shards, PipSums(np.zeros((dim, dim)), 0.0, 0.0))


def pip_between(vector_VD: np.ndarray, other_VF: np.ndarray) -> PipSums:
    """The sums of vectors against the inner products of other vectors (V, F) float64 of the same rows."""
    across, others = vector_VD.T @ other_VF, other_VF.T @ other_VF
    return PipSums(
        vector_VD.T @ vector_VD, float(np.einsum("ij,ij->", across, across)),
        float(np.einsum("ij,ij->", others, others)),
    )  # fmt: skip


def balanced(vector_VD: np.ndarray, output_VD: np.ndarray) -> np.ndarray:
    """U sqrt(S) (V, D) of the SVD U S V' of vectors x output rows', both float64 (V, D).

    Skip-gram fixes that product alone: any G turns (W, C) into (W G, C G^-T), of the same loss and another W W'. Only
    W' W and C' C, sums over rows, are decomposed.
    """
    values_D, basis_DD = np.linalg.eigh(vector_VD.T @ vector_VD)
    others_D, other_basis_DD = np.linalg.eigh(output_VD.T @ output_VD)
    kept = values_D > values_D[-1] * 1e-13 * len(values_D)  # beyond that the Gram matrix knows nothing of a direction
    root_D, other_root_D = np.sqrt(values_D[kept]), np.sqrt(np.maximum(others_D, 0))
    middle = (root_D[:, None] * basis_DD[:, kept].T) @ (other_basis_DD * other_root_D)
    left, singular, _ = np.linalg.svd(middle, full_matrices=False)
    return np.asarray(vector_VD @ (basis_DD[:, kept] / root_D @ left * np.sqrt(singular)))


# ---- against a corpus


@dataclass(frozen=True, kw_only=True)
class PipResult:
    """PIP loss over the norm of the target: vectors of zeros have 1."""

    relative: float
    """of the vectors, balanced where they have output rows"""
    relative_scaled: float
    """the same with all inner products multiplied by `scale`, the best number there is; 0..1"""
    scale: float
    relative_unbalanced: float
    """of the vectors as they are"""
    relative_unbalanced_scaled: float
    zero: float = 1.0
    svd: float | None = None
    """of U sqrt(S) of the target's SVD, cut to the same dimension; None where it was not asked for"""
    optimum: float | None = None
    """the least that any vectors of this dimension can have"""
    loss: float
    target_norm: float
    product_error: float | None = None
    """root of the weighted mean square of vectors x output rows less PMI - log k, over the pairs that come; None
    without output rows"""
    product_error_of_zero: float | None = None
    is_balanced: bool
    dim: int
    words: int
    """of the corpus that have a vector"""
    pairs: int
    """entries of the target that are not 0"""
    options: dict[str, Any]
    protocol: str = (
        "|E E' - SPPMI| over |SPPMI|, symmetric SPPMI with pair marginals and the trainer's weights and noise"
    )

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"task": "pip", "against": "corpus", **asdict(self)}


def options_of(embeddings: Embeddings, **given: Any) -> TargetOptions:
    """The options that the vectors were trained with, as far as they say, but for those given.

    Raises:
        InputError: an option is not legal, or the vectors were trained without negatives.
    """
    model = embeddings.meta.get("model")
    model = model if isinstance(model, dict) else {}
    if model.get("objective", "negative") != "negative" and "num_negatives" not in given:
        raise InputError(
            "These vectors were trained with hierarchical softmax, which fits no shifted PMI; say which shift to "
            "compare with, --num-negatives (num_negatives)."
        )
    names = ("window", "subsample", "min_count", "max_vocab", "num_negatives")
    return TargetOptions(**{name: model[name] for name in names if model.get(name) is not None} | given)


def evaluate_pip(
    embeddings: Embeddings,
    data: Any,
    *,
    options: TargetOptions | None = None,
    text: TextOptions | None = None,
    references: bool = True,
    cache_dir: Path | str | None = None,
    spill: Spill | None = None,
    stage: Stage | None = None,
) -> PipResult | PipBetweenResult:
    """PIP loss of vectors against a corpus, or against other vectors.

    Args:
        embeddings: rows of words; with output rows they are balanced first.
        data: what `encode_text` reads: best the text of training, read alike; or Embeddings, or their native folder.
        options: of the target; by default those that the vectors were trained with.
        text: how the corpus is read.
        references: find `svd` and `optimum`, too; that takes most of the time.
        cache_dir: where encoded text is kept.
        spill: how much memory counts and target may take, 512 MiB each by default, and where the rest goes.
        stage: called with the progress of reading and counting.

    Raises:
        InputError: options that do not go with the data.
        DataError: the corpus cannot be read, has too few words in common with the vectors, or no pair in it comes
            more often than chance and the shift by log(num_negatives) ask for.
        StorageError: what is beyond the budget of memory cannot be written.

    Memory: O(budget + V D); time O(tokens x window + D x pairs).
    """
    check_embeddings(embeddings)
    if isinstance(data, Embeddings) or (isinstance(data, str | Path) and format_of_folder(Path(data)) == RESULT_FORMAT):
        if options is not None or text is not None:
            raise InputError("Options of counting and reading text do not go with other vectors; leave them out.")
        return compare_embeddings(embeddings, data if isinstance(data, Embeddings) else Embeddings.load(data))
    options = options or options_of(embeddings)
    corpus = read_corpus(data, text, cache_dir, stage)
    with spill or Spill() as spill:
        pairs = count_pairs(corpus, embeddings.__contains__, options, spill, stage)
        return pip_of_pairs(embeddings, pairs, references=references, stage=stage)


def pip_of_pairs(
    embeddings: Embeddings, pairs: Pairs, *, references: bool = True, stage: Stage | None = None
) -> PipResult:
    """PIP loss of vectors against what is counted of a corpus; all of its words have a vector.

    Raises:
        DataError: no pair in it comes more often than chance and the shift ask for.
    """
    row_V = embeddings.rows(pairs.keys)
    vector_VD = _finite(embeddings.vectors[row_V])
    output_VD = None if embeddings.output is None else _finite(embeddings.output[row_V])
    target = positive_target(pairs)
    plain = pip_against(vector_VD, target)
    own = plain if output_VD is None else pip_against(balanced(vector_VD, output_VD), target)
    svd = optimum = None
    if references:
        with step(stage, "references"):
            svd, optimum = _references(target, embeddings.dim)
    error, of_zero = (None, None) if output_VD is None else product_error(vector_VD, output_VD, pairs)
    return PipResult(
        relative=own.relative(), relative_scaled=own.relative(own.best_scale), scale=own.best_scale,
        relative_unbalanced=plain.relative(), relative_unbalanced_scaled=plain.relative(plain.best_scale),
        svd=svd, optimum=optimum, loss=own.loss(), target_norm=target.norm, product_error=error,
        product_error_of_zero=of_zero, is_balanced=output_VD is not None, dim=embeddings.dim, words=len(pairs.keys),
        pairs=target.num_pairs, options=asdict(pairs.options),
    )  # fmt: skip


def positive_target(pairs: Pairs) -> RowBlocks:
    """The SPPMI of the whole corpus. DataError where it is 0 everywhere."""
    target = pairs.sppmi()
    if target.num_pairs == 0:
        raise DataError(
            f"No pair of words comes more often than chance and {pairs.options.num_negatives} negatives ask for: the "
            "target is empty; give more text or a smaller --num-negatives."
        )
    return target


def _references(target: RowBlocks, dim: int) -> tuple[float, float]:
    """(svd, optimum) of `PipResult`.

    U sqrt(S) has the inner products |M|, so a negative eigenvalue of M, which no inner products can have, is missed
    twice over; the optimum leaves those out (Eckart and Young among positive semidefinite matrices).
    """
    value, _ = target.top_pairs(dim + dim // 4 + 8)
    top = value[:dim]
    positive = value[value > 0][:dim]
    if len(positive) < dim and len(value) < target.num_rows:  # too many of the largest by magnitude are negative
        positive = np.maximum(target.top_pairs(dim, "LA")[0], 0)
    square = target.norm**2
    svd = square + float(top @ top) - 2 * float(np.abs(top) @ top)
    return (max(0.0, svd) / square) ** 0.5, (max(0.0, square - float(positive @ positive)) / square) ** 0.5


def product_error(vector_VD: np.ndarray, output_VD: np.ndarray, pairs: Pairs) -> tuple[float, float]:
    """Root mean square of x_w y_c - (log(#(w, c) / (#(w) P(c))) - log k) over all pairs, weighted by #(w, c).

    The same of a product of zeros comes second.
    """
    from any2vec.kernels.text.cell_errors import weighted_square_error

    log_pairs, log_noise = pairs.offsets()
    total = error = of_zero = 0.0
    for block in pairs.counts.blocks():
        row_N, other_N, weight_N = pairs.cells(block)
        wanted_N = np.log(weight_N / pairs.options.num_negatives) - log_pairs[row_N] - log_noise[other_N]
        total += float(weight_N.sum())
        of_zero += float(weight_N @ wanted_N**2)
        error += weighted_square_error(vector_VD, output_VD, row_N, other_N, wanted_N, weight_N)
    return (error / total) ** 0.5, (of_zero / total) ** 0.5


# ---- against other vectors


@dataclass(frozen=True, kw_only=True)
class PipBetweenResult:
    """PIP loss between two tables of vectors, over the norm of the second's inner products."""

    relative: float
    """balanced where both have output rows"""
    relative_scaled: float
    """with the first's inner products multiplied by `scale`, the best number there is; 0..1"""
    scale: float
    relative_unbalanced: float
    relative_unbalanced_scaled: float
    zero: float = 1.0
    loss: float
    target_norm: float
    is_balanced: bool
    dim: int
    other_dim: int
    words: int
    """that both have"""
    protocol: str = "|E E' - F F'| over |F F'| for the words that both have"

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"task": "pip", "against": "vectors", **asdict(self)}


def compare_embeddings(embeddings: Embeddings, other: Embeddings) -> PipBetweenResult:
    """PIP loss between the vectors of `embeddings` and of `other`, the target, over the keys that both have.

    Raises:
        DataError: they have no key in common, or the second's vectors are zeros.
    """
    check_embeddings(embeddings)
    check_embeddings(other)
    row_N = other.rows(embeddings.keys)
    mine, theirs = np.flatnonzero(row_N >= 0), row_N[row_N >= 0]
    if len(mine) == 0:
        raise DataError("The two tables have no key in common; compare vectors of the same words.")
    pair = [_finite(embeddings.vectors[mine]), _finite(other.vectors[theirs])]
    plain = own = pip_between(*pair)
    is_balanced = embeddings.output is not None and other.output is not None
    if embeddings.output is not None and other.output is not None:
        outputs = [_finite(embeddings.output[mine]), _finite(other.output[theirs])]
        own = pip_between(*(balanced(*both) for both in zip(pair, outputs, strict=True)))
    if min(own.square, plain.square) == 0:
        raise DataError("The vectors to compare with are all zeros; give others.")
    return PipBetweenResult(
        relative=own.relative(), relative_scaled=own.relative(own.best_scale), scale=own.best_scale,
        relative_unbalanced=plain.relative(), relative_unbalanced_scaled=plain.relative(plain.best_scale),
        loss=own.loss(), target_norm=own.square**0.5, is_balanced=is_balanced, dim=embeddings.dim,
        other_dim=other.dim, words=len(mine),
    )  # fmt: skip


def _finite(vectors: np.ndarray) -> np.ndarray:
    """The vectors in float64. DataError where one holds a number that is not finite."""
    wide = np.asarray(vectors, dtype=np.float64)
    if not np.isfinite(wide).all():
        raise DataError("A vector holds NaN or infinity; train again, or leave such rows out.")
    return wide
