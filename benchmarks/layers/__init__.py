"""Rows about layers on hosts."""
