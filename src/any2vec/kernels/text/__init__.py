"""Kernels over bytes, tokens, windows and counts."""
