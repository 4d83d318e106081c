"""Which rows travel between hosts, and to whom."""
