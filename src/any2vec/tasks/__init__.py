"""Kinds of models, each registered in one place: what it reads, what it has, how a host of it runs."""
