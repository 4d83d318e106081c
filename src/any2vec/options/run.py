"""How a run is carried out, whatever it trains. Light: flags are made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from any2vec.checks import check_run

if TYPE_CHECKING:
    from any2vec.embeddings import Embeddings


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How long a run trains, with what seed, and where it keeps what it makes."""

    epochs: int | None = None
    """passes over the data, 1 or more; by default the model's own number"""
    threads: int = 0
    """training threads of each host; 0 = all usable cores; with 1 the same seed gives the same bits, but on hosts that
    agree behind the training or take changes as they come"""
    seed: int = 1
    """seed of every random draw"""
    out: Path | None = field(default=None, metadata={"flag": False})
    """run folder; None: the result stays in memory"""
    resume: bool = False
    """go on from the checkpoint in --out, if there is one"""
    overwrite: bool = False
    """replace what is in --out"""
    init: Path | None = None
    """start from these vectors (a run folder or any file that any2vec reads), matched by word or node id"""
    checkpoint_seconds: float = 300.0
    """seconds between checkpoints"""
    cache_dir: Path | None = None
    """folder of encoded text, graphs and clicks; by default $ANY2VEC_CACHE or ~/.cache/any2vec"""

    def __post_init__(self) -> None:
        check_run(self.epochs, self.threads, self.seed, self.checkpoint_seconds)
        for name in ("out", "init", "cache_dir"):
            if isinstance(getattr(self, name), str):
                object.__setattr__(self, name, Path(getattr(self, name)))

    @property
    def start(self) -> Embeddings | Path | None:
        """`init` as Python has it: vectors, or where they lie."""
        found: Any = self.init
        return found
