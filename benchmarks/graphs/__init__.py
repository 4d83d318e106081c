"""Rows of graph networks on one machine."""
