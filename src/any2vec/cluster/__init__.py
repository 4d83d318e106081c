"""Hosts and the bytes between them. Knows nothing of models."""
