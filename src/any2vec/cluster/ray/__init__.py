"""Hosts on a Ray cluster."""
