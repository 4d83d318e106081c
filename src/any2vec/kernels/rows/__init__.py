"""Kernels over rows of a table: start values, sums over bags, optimizer steps, buckets, merging, rounding."""
