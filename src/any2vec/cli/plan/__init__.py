"""Commands that say beforehand what a run needs."""
