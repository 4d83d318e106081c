"""What a node classifier reads beside its graph. Light: the command line makes its flags from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class NodeOptions:
    """Features and classes of nodes: files, or what is in memory.

    In Python features are also an array (N, D), a SciPy sparse one (.npz holds one, too), or `Embeddings`; labels also
    int (N,), -1 where a node has no class; split also a dict of name -> rows. The linear model has the same augmented
    features, its penalty chosen on the val nodes.
    """

    features: str | Path | None = None
    """node features: .npy, .npz, or vectors by node id"""
    labels: str | Path | None = None
    """file of lines `node class`"""
    split: str | Path | None = None
    """file of lines `node train|val|test`; default train"""
    linear_probe: bool = False
    """report the accuracy of a linear model, too"""
    psi: Callable[..., Any] | None = field(default=None, metadata={"flag": False})
    """in Python: what stands beside a node's features instead of the model's psi, see `data.graph.augment.UserPsi`"""
