"""Rows about what graph networks learn, beside their peers."""
