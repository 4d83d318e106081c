"""Batches as PyTorch Geometric has them, in the place of PyG's loaders: the one room that needs both."""
