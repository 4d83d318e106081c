"""Triples of a knowledge graph: read, split, bucketed."""
