"""Models of implicit feedback."""
