"""Triples of a knowledge graph: files and tables become arrays of rows."""
