"""Click models."""
