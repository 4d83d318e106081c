"""One file for each kind of source."""
