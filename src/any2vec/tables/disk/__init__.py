"""Tables larger than memory, in partitions on disk."""
