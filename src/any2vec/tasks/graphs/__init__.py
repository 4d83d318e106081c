"""Graph networks: what their graphs are made of."""
