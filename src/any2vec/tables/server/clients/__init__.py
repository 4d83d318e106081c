"""Rows of servers, as a trainer uses them."""
