"""Runs whose table is larger than memory."""
