"""The graph that a caller names or holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from any2vec.data.graph.options import GraphOptions
from any2vec.errors import InputError
from any2vec.types import Stage

if TYPE_CHECKING:
    from any2vec.data.graph.graph import Graph


def open_graph(data: Any, options: GraphOptions | None, cache_dir: Path | None, stage: Stage | None) -> Graph:
    """The graph that `data` is or names."""
    from any2vec.data.graph.graph import Graph, is_graph
    from any2vec.data.graph.reader import read_graph

    opened = data if isinstance(data, Graph) else None
    if isinstance(data, list) and len(data) == 1 and isinstance(data[0], str | Path):
        data = data[0]
    if isinstance(data, list) and all(isinstance(item, str | Path) for item in data):
        raise InputError(f"A graph is read from one file, got {len(data)}; join the edge lists into one file first.")
    if isinstance(data, str | Path) and is_graph(data):
        opened = Graph.open(data)
    if opened is not None:
        if options is not None and options != GraphOptions():
            raise InputError("The options of reading graphs do not apply to one that is read already; leave them out.")
        return opened

    def told(done: int, total: int | None) -> None:
        if stage is not None:
            stage("reading", done, total)

    return read_graph(data, options or GraphOptions(), cache_dir=cache_dir, progress=told)
