"""Vocabulary and pair counts of text that never ends."""
