"""GA-MLP: its config, its classifier, its layers on hosts."""
