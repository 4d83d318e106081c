"""The table of the main job: words and graph nodes on one machine."""

from __future__ import annotations

from benchmarks.table import Table
from benchmarks.words import estimates, memory, nodes, roofline, serving
from benchmarks.words import text as words

TABLE = Table(
    name="words-and-graphs",
    title="Words and graph nodes on one machine, any2vec beside gensim, PecanPy and fastnode2vec",
    rows=(*words.ROWS, *nodes.ROWS, *memory.ROWS, *estimates.ROWS, *serving.ROWS, *roofline.ROWS),
)
