"""Runs over streams."""
