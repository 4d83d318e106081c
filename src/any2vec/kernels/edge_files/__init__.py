"""Kernels with which a file of edges becomes a graph folder."""
