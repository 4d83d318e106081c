"""Text becomes a corpus of token ids."""
