"""Options of a run, one class each for all tasks. Light: flags of the command line are made of them."""
