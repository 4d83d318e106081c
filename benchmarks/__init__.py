"""any2vec beside its peers: the same data, threads and settings, alternating runs on one machine."""
