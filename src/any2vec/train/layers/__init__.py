"""Runs of GA-MLP."""
