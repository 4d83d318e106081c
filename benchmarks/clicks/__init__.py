"""Rows about models of clicks."""
