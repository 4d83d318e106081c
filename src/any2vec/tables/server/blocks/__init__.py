"""What a row server does with the rows that it owns."""
