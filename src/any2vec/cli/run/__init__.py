"""Commands that train, and that follow a run."""
