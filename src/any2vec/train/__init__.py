"""From data to embeddings: the loop, checkpoints, progress records."""
