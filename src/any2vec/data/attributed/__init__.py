"""Graphs with features, classes and splits, in one folder that is mapped, not read."""
