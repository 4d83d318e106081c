"""`SparseRows`: rows that are mostly 0, as a matrix multiplies them: bags of words have thousands of columns, of which
a node has some tens.

`torch.nn.functional.linear`, and so each `torch.nn.Linear`, takes them in place of a tensor; nothing else does. Their
sums go over the numbers that are there in the order of their columns, and the gradient of the matrix over them in the
order of the rows: the same from run to run, on any number of threads.

Legend: M rows, D columns, S numbers that are not 0, H columns of what a matrix makes of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from scipy import sparse

from any2vec.nn.dropout import draw_of
from any2vec.nn.threads import over_nodes

LARGEST_SHARE = 0.05
"""of numbers that are not 0, above which all are multiplied: with 64 columns and more a product of those alone is twice
as fast up to 0.1, with 16 it pays up to 0.05"""
_SAMPLE = 1024
"""rows by which the share is estimated"""
_CHUNK_BYTES = 1 << 26


class Rows(Protocol):
    """Rows of nodes, wherever they are."""

    @property
    def columns(self) -> int:
        """D"""

    def take(self, ids: np.ndarray) -> np.ndarray:
        """float32 (K, D) of ids, integers (K,)."""


@dataclass(frozen=True)
class _Pattern:
    """Where numbers stand, by row and by column."""

    stop_M1: np.ndarray
    """int64: the numbers of row i are [stop[i], stop[i + 1])"""
    column_S: np.ndarray
    """int32, ascending within a row"""
    columns: int
    """D"""

    @cached_property
    def by_column(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(int64 (D + 1,): where each column's numbers stop, int32 (S,): their rows, integers (S,): their places)."""
        shape = len(self.stop_M1) - 1, self.columns
        found = sparse.csr_array((np.arange(len(self.column_S)), self.column_S, self.stop_M1), shape).tocsc()
        return found.indptr.astype(np.int64), found.indices.astype(np.int32), found.data


@dataclass(frozen=True)
class SparseRows:
    """float32 (M, D)."""

    pattern: _Pattern
    value_S: np.ndarray
    """float32"""

    @classmethod
    def of(cls, rows: Rows, num: int) -> SparseRows | None:
        """The first `num` rows; None: too many of a sample's numbers are not 0."""
        sample_KD = rows.take(np.unique(np.linspace(0, num - 1, _SAMPLE).astype(np.int64)))
        if np.count_nonzero(sample_KD) > LARGEST_SHARE * sample_KD.size:
            return None
        step = max(1, _CHUNK_BYTES // (4 * rows.columns))
        found = sparse.vstack(
            [sparse.csr_array(rows.take(np.arange(i, min(i + step, num)))) for i in range(0, num, step)], format="csr"
        )
        return cls._with(found)

    def __len__(self) -> int:
        return len(self.pattern.stop_M1) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """(M, D)"""
        return len(self), self.pattern.columns

    @property
    def columns(self) -> int:
        """D"""
        return self.pattern.columns

    @property
    def dtype(self) -> torch.dtype:
        """float32"""
        return torch.float32

    def __getitem__(self, part: slice) -> SparseRows:
        """The first rows. ValueError: others are asked for."""
        first, stop, step = part.indices(len(self))
        if (first, step) != (0, 1):
            raise ValueError(f"of sparse rows the first ones go alone, got {part}")
        return self if stop == len(self) else self._with(self._matrix[:stop])

    def among(self, ids: np.ndarray) -> SparseRows:
        """Some rows; ids: integers (K,) in [0, M)."""
        return self._with(self._matrix[ids])

    def take(self, ids: np.ndarray) -> np.ndarray:
        """float32 (K, D): the same with their zeros."""
        found: np.ndarray = self._matrix[ids].toarray()
        return found

    @cached_property
    def _matrix(self) -> sparse.csr_array:
        return sparse.csr_array((self.value_S, self.pattern.column_S, self.pattern.stop_M1), self.shape)

    @classmethod
    def _with(cls, matrix: sparse.csr_array) -> SparseRows:
        places = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False)
        return cls(_Pattern(*places, matrix.shape[1]), matrix.data)

    def dropped(self, share: float, draws: torch.Generator) -> SparseRows:
        """As `any2vec.nn.dropout` of the rows with their zeros: to the bit the same numbers are dropped."""
        from any2vec.kernels.rows.dropout import drop_entries

        draw = draw_of(share, draws)
        if draw is None:
            return self
        value_S = self.value_S.copy()
        drop_entries(value_S, self.pattern.stop_M1, self.pattern.column_S, self.pattern.columns, *draw)
        return replace(self, value_S=value_S)

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, arguments: Sequence[Any] = (),
        named: Mapping[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        named = named or {}
        if function is torch.nn.functional.linear and isinstance(arguments[0], cls):
            return _linear(*arguments, **named)
        if function in (torch.addmm, torch.Tensor.addmm_) and isinstance(arguments[1], cls):
            out_MH, rows, matrix_DH = arguments
            return out_MH + _Times.apply(matrix_DH, rows)
        return NotImplemented


def rows_among(rows: Any, ids: np.ndarray) -> torch.Tensor | SparseRows:
    """What a layer takes of some rows, (K, D): of `SparseRows` again such, of all else what `take` gives."""
    return rows.among(ids) if isinstance(rows, SparseRows) else torch.from_numpy(rows.take(ids))


def _linear(rows: SparseRows, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    found: torch.Tensor = _Times.apply(weight.T, rows)
    return found if bias is None else found + bias


class _Times(torch.autograd.Function):
    """Rows times a matrix (D, H)."""

    @staticmethod
    def forward(ctx: Any, matrix_DH: torch.Tensor, rows: SparseRows) -> torch.Tensor:
        ctx.rows = rows
        pattern = rows.pattern
        return _summed(pattern.stop_M1, pattern.column_S, rows.value_S, matrix_DH)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_MH: torch.Tensor) -> tuple[torch.Tensor, None]:
        stop_D1, row_S, place_S = ctx.rows.pattern.by_column
        return _summed(stop_D1, row_S, ctx.rows.value_S[place_S], grad_MH), None


def _summed(stop_F1: np.ndarray, row_S: np.ndarray, value_S: np.ndarray, x: torch.Tensor) -> torch.Tensor:
    """For each list the sum of rows of x times values, (F, H)."""
    from any2vec.kernels.graph.aggregate import sum_valued

    x_MH = x.detach().contiguous().numpy()
    out = x.new_empty(len(stop_F1) - 1, x.shape[1])
    out_FH, own_S = out.numpy(), value_S.astype(x_MH.dtype, copy=False)

    def work(first: int, stop: int) -> None:
        sum_valued(stop_F1[first : stop + 1], row_S, own_S, x_MH, out_FH[first:stop])

    over_nodes(work, stop_F1, x_MH.shape[1])
    return out
