"""Where text that never ends comes from: one file for each kind of source."""
