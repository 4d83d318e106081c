"""Models of triples: configs, learner, scorer."""
