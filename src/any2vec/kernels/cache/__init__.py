"""Which rows a cache holds, and their values."""
