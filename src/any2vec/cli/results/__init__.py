"""Commands that use a result."""
