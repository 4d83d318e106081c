"""How a run is carried out, whatever it trains. Light: flags are made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from any2vec.checks import MAX_SEED, MAX_THREADS, Number, Whole, check_fields

if TYPE_CHECKING:
    from any2vec.embeddings import Embeddings


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How long a run trains, with what seed, and where it keeps its result.

    epochs None: as many as the model has by default. With one thread the same seed gives the same bits, unless hosts
    synchronize behind the training or take changes as they come. Start vectors are matched by word or node id.
    """

    epochs: Annotated[int | None, Whole(1, 1_000_000)] = None
    """passes over the data, 1 or more"""
    threads: Annotated[int, Whole(0, MAX_THREADS)] = 0
    """training threads per host; 0: all cores"""
    seed: Annotated[int, Whole(0, MAX_SEED)] = 1
    """random seed, 0 or more"""
    out: Path | None = field(default=None, metadata={"flag": False})
    """run folder; None: the result stays in memory"""
    resume: bool = False
    """continue from the checkpoint in --out, if any"""
    overwrite: bool = False
    """replace the contents of --out"""
    init: Path | None = None
    """start from the vectors of this run folder or file"""
    checkpoint_seconds: Annotated[float, Number(0, 1e9, open_low=True)] = 300.0
    """seconds between checkpoints, more than 0"""
    cache_dir: Path | None = None
    """folder of encoded inputs; by default $ANY2VEC_CACHE or ~/.cache/any2vec"""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("out", "init", "cache_dir"):
            if isinstance(getattr(self, name), str):
                object.__setattr__(self, name, Path(getattr(self, name)))

    def settings(self) -> dict[str, object]:
        """What all hosts of a run must have been asked for alike."""
        return {name: getattr(self, name) for name in ("epochs", "threads", "seed", "resume")}

    @property
    def start(self) -> Embeddings | Path | None:
        """`init` as Python has it: vectors, or where they lie."""
        found: Any = self.init
        return found
