"""`python -m any2vec.cli`."""

from any2vec.cli import main

main()
