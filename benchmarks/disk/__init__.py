"""Rows about triples, and about tables larger than memory."""
