"""Models of sequences: words and the nodes of walks."""
