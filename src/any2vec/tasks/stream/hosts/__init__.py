"""Streams on several hosts."""
