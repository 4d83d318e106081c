"""Graph networks: layers that pass messages along edges, trained on sampled neighborhoods or the whole graph."""
