"""What can be trained, one folder for each task: configs, learners and scorers; `registry` finds models by name."""
