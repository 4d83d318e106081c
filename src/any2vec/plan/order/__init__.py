"""In which order work is done, and by whom."""
