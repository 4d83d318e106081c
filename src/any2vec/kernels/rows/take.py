"""Rows at random places of a table, as float32, whatever the table keeps: float32, float16, or int8 with a scale a row.

Legend: V rows of the table, D columns, K rows taken.
"""

from __future__ import annotations

import numpy as np

from any2vec.kernels.common.jit import jit
from any2vec.kernels.common.prefetch import prefetch_place, prefetch_read

_AHEAD = 8
_TO_FLOAT = np.float32(2.0**112)
"""between the exponents' biases of float32 and float16"""
_SIGN, _REST = np.uint32(0x8000), np.uint32(0x7FFF)
_13, _16 = np.uint32(13), np.uint32(16)


@jit
def take_floats(table_VD: np.ndarray, id_K: np.ndarray, rows_KD: np.ndarray) -> None:
    """rows[k] = table[id[k]], float32."""
    for k in range(id_K.size):
        if k + _AHEAD < id_K.size:
            prefetch_read(table_VD, id_K[k + _AHEAD])
        row = id_K[k]
        for d in range(table_VD.shape[1]):
            rows_KD[k, d] = table_VD[row, d]


@jit
def take_codes(scale_V: np.ndarray, code_VD: np.ndarray, id_K: np.ndarray, rows_KD: np.ndarray) -> None:
    """rows[k] = scale[id[k]] code[id[k]]; codes int8."""
    dim = code_VD.shape[1]
    for k in range(id_K.size):
        if k + _AHEAD < id_K.size:
            prefetch_read(code_VD, id_K[k + _AHEAD])
            prefetch_place(scale_V, id_K[k + _AHEAD])
        row = id_K[k]
        for d in range(dim):
            rows_KD[k, d] = scale_V[row] * np.float32(code_VD[row, d])


@jit
def take_halves(bits_VD: np.ndarray, id_K: np.ndarray, bits_KD: np.ndarray, rows_KD: np.ndarray) -> None:
    """rows[k] = the finite float16 numbers whose bits, uint16, are bits[id[k]]; bits_KD: rows_KD itself as uint32."""
    dim = bits_VD.shape[1]
    for k in range(id_K.size):
        if k + _AHEAD < id_K.size:
            prefetch_read(bits_VD, id_K[k + _AHEAD])
        row = id_K[k]
        for d in range(dim):
            bits = np.uint32(bits_VD[row, d])
            bits_KD[k, d] = ((bits & _SIGN) << _16) | ((bits & _REST) << _13)
        for d in range(dim):
            rows_KD[k, d] *= _TO_FLOAT
