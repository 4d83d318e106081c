"""Sums of bags, dot products of fields, planted clicks."""
