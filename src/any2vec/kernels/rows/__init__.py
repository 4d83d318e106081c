"""Kernels over rows of a table: start values, optimizer steps, merging, rounding."""
