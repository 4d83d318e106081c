"""Row servers and their requests."""
