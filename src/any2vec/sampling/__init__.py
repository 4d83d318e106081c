"""Seeded and pure: (seed, epoch, item) gives the same windows, walks and negatives on any host, thread and cut."""
