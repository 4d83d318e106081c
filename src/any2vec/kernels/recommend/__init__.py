"""Kernels of implicit feedback: pairwise ranking, alternating least squares, item sets, the best items of a user."""
