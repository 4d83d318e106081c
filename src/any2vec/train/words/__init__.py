"""Runs of models of sequences."""
