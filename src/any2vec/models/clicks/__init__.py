"""Click models: configs, networks, learner, scorer."""
