"""Subword encoders: vectors of words that a run has not seen, from their letters."""
