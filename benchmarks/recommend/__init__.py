"""Rows about recommending from implicit feedback."""
