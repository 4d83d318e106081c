"""Scores of node vectors."""
