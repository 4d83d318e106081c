"""Runs over streams on several hosts."""
