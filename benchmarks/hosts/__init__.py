"""Rows about many hosts."""
