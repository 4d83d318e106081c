"""`python -m any2vec`, and thereby `torchrun -m any2vec`: the command line."""

from any2vec.cli import main

main()
