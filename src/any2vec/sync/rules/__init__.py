"""What hosts make of each other's changes: arithmetic in rank order."""
