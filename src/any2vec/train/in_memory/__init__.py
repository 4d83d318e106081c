"""Runs whose rows are all in memory."""
