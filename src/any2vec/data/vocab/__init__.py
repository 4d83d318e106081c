"""Texts become row numbers."""
