"""Models of text streams."""
