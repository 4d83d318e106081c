"""Words of streams."""
