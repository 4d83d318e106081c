"""Logs of clicks with a schema become columns of rows."""
