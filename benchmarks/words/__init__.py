"""Rows about words and graphs on one machine."""
