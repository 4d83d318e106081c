"""Rows of features that are mostly 0, and what matrices make of them."""
