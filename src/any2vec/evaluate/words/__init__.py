"""Scores of word vectors."""
