"""Runs of click models."""
