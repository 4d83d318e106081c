"""Runs of models of triples."""
