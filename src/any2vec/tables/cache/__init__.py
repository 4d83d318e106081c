"""Caches of rows: residency, versions, lookahead."""
