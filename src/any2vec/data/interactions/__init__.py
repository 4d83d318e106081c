"""Interactions of users and items: files, tables and matrices become compressed sparse rows."""
