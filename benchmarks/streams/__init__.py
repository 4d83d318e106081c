"""Rows about text that never ends."""
