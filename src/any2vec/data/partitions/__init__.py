"""Tables cut into partitions: which partition a row is in, and data on disk by pairs of partitions."""
