"""Makers: what makes a vector of any word, seen in training or not, from its characters."""
