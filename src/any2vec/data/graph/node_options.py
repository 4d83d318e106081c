"""What a node classifier reads beside its graph. Light: the command line makes its flags from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class NodeOptions:
    """Features and classes of nodes: files, or what is in memory."""

    features: str | Path | None = None
    """features of the nodes: .npy, .npz (NumPy or SciPy sparse; row r is node r), or vectors that any2vec has trained,
    by node id. In Python also an array (N, D), a SciPy sparse one, or `Embeddings`"""
    labels: str | Path | None = None
    """file of `node class` lines; in Python also int (N,), -1 where a node has no class"""
    split: str | Path | None = None
    """file of `node train|val|test` lines; by default all nodes with a class train. In Python also a dict of name ->
    rows"""
    linear_probe: bool = False
    """tell, too, how well a linear model does on the same augmented features, its penalty chosen on the val nodes"""
    psi: Callable[..., Any] | None = field(default=None, metadata={"flag": False})
    """in Python: what stands beside a node's features instead of the model's psi, see `data.graph.augment.UserPsi`"""
