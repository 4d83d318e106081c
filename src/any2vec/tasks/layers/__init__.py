"""Node classifiers: GA-MLP."""
