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
    validate: str | None = None
    """file, or share of the data to hold out: score each epoch by it, and keep the best one"""
    patience: Annotated[int, Whole(0, 1_000_000)] = 0
    """stop after so many epochs without a better score; 0: never"""
    cache_dir: Path | None = None
    """folder of encoded inputs; by default $ANY2VEC_CACHE or ~/.cache/any2vec"""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("out", "init", "cache_dir"):
            if isinstance(getattr(self, name), str):
                object.__setattr__(self, name, Path(getattr(self, name)))

    def settings(self) -> dict[str, object]:
        """What all hosts of a run must have been asked for alike."""
        return {name: getattr(self, name) for name in ("epochs", "threads", "seed", "resume", "validate", "patience")}

    @property
    def validation_share(self) -> float | None:
        """The share of the data that is held out to validate on, between 0 and 1; None: none is."""
        given: Any = self.validate
        if isinstance(given, bool) or not isinstance(given, str | int | float):
            return None
        try:
            share = float(given)
        except ValueError:
            return None
        return share if 0 < share < 1 else None

    def validation_settings(self) -> dict[str, object]:
        """What must be the same for a run that validates to go on: files by name and digest, wherever they lie."""
        found: dict[str, object] = {"patience": self.patience} if self.patience else {}
        given: Any = self.validate
        if given is None:
            return found
        if self.validation_share is not None:
            return found | {"validate": self.validation_share}
        are_paths = isinstance(given, list | tuple) and all(isinstance(one, str | Path) for one in given)
        return found | {"validate": [_named(one) for one in given] if are_paths else _named(given)}

    @property
    def start(self) -> Embeddings | Path | None:
        """`init` as Python has it: vectors, or where they lie."""
        found: Any = self.init
        return found


def _named(data: Any) -> str:
    """A file by name and digest; of data in memory their type."""
    if isinstance(data, str | Path) and Path(data).is_file():
        from any2vec.data.io.files import content_hash

        return f"{Path(data).name}, {content_hash(data)}"
    return str(data) if isinstance(data, str | Path) else type(data).__name__
