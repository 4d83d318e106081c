"""What may be chosen of hosts and of how they agree. Light: no NumPy, for options are checked at the door."""

from __future__ import annotations

SCHEMES = ("rep-base", "rep-opt", "pull-base", "pull-opt")
"""what travels when replicas agree (GraphAny2Vec)"""
PARTITIONS = ("contiguous", "hash", "metis")
"""how a graph is cut into parts"""
MAX_PARTS = 1 << 16
"""of a graph"""
BITS = (32, 16, 8)
"""of a number that travels"""
MOST_PLANNED = 4096
"""hosts that may be planned for; `cluster.launch.processes.MOST_PROCESSES` can be started"""
