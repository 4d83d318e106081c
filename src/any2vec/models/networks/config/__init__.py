"""Options of graph networks."""
