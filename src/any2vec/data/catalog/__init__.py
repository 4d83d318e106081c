"""Public sets by name, and data that ship with Python."""
