"""Which rows a cache holds: the policies, one file each, and the slots that they decide about. Never a value."""
