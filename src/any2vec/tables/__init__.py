"""Rows addressed by integer id: where they live, which stay close, how fresh they must be."""
