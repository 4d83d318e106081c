"""What all sources of lines share."""
