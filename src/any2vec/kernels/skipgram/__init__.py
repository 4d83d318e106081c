"""Skip-gram and CBOW, and what a stretch of tokens touches."""
