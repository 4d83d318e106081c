"""When hosts agree: between rounds, at each step, behind the training."""
