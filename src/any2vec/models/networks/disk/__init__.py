"""Graph networks whose adjacency lies on disk."""
