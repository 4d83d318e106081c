"""Kernels over edges and graphs in compressed sparse rows: reading, walking, cutting."""
