"""Models of triples."""
