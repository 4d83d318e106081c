"""Queries of knowledge-graph models and the losses of their candidates."""
