"""When a cached row is too old to be read, and when its changes must go to its owner: one file a policy."""
