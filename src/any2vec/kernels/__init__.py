"""Numba kernels over arrays. No Python objects, no I/O, no globals; each has a plain twin in `tests/naive/`."""
