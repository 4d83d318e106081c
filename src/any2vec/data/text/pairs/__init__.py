"""Words that stand near each other: counted in bounded memory, and joined where they are phrases."""
