"""Words and the nodes of walks."""
