"""How a run over a stream is carried out: flags of the command line are made of it. Light: no NumPy."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from any2vec.checks import MAX_SEED, MAX_THREADS, Number, Whole, check_fields
from any2vec.errors import InputError
from any2vec.units import MOST_BYTES, quantity


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """Limits and intervals of a run over a stream.

    words and steps include those before a resume; seconds are those of this process. The last batch before `words` ends
    with the line that reaches the limit, so a run resumed there has other batches than one that never stopped. A
    batch that is not full is trained after `linger` seconds; with 0 it always waits, so that the same lines of one
    source give the same bits. Lost reader processes are restarted. Checkpoints take at most a twentieth of the
    time, and so do snapshots. A line of window_lines takes 16 to 24 bytes, a word of replay_words 4,
    plus 4 for its line. Drift is the cosine to a word's vector in the previous snapshot.
    """

    out: Path | None = field(default=None, metadata={"flag": False})
    """run folder of checkpoints, snapshots and records; None: the result stays in memory"""
    min_count: Annotated[int, Whole(1, 2**31 - 1)] = 5
    """ignore words seen less often, 1 or more"""
    half_life: Annotated[int | None, Whole(1, 2**50)] = None
    """words after which counts are halved; default never"""
    words: Annotated[int | None, Whole(1, 2**62)] = None
    """stop with the line that reaches it, 1 or more"""
    steps: Annotated[int | None, Whole(1, 2**62)] = None
    """stop after so many batches, 1 or more"""
    seconds: Annotated[float | None, Number(0, 1e12, open_low=True)] = None
    """stop after so many seconds, more than 0"""
    batch_bytes: Annotated[int, Whole(64, 1 << 20)] = 1 << 19
    """bytes per batch, 64..1,048,576"""
    linger: Annotated[float, Number(0, 1e9)] = 5.0
    """seconds to fill a batch; 0: no limit"""
    threads: Annotated[int, Whole(0, MAX_THREADS)] = 0
    """training threads; 0: all cores"""
    readers: Literal["threads", "processes"] = "threads"
    """of sources"""
    seed: Annotated[int, Whole(0, MAX_SEED)] = 1
    """random seed, 0 or more"""
    checkpoint_seconds: Annotated[float, Number(0, 1e9, open_low=True)] = 60.0
    """least seconds between checkpoints, > 0"""
    snapshot_seconds: Annotated[float, Number(0, 1e9, open_low=True)] = 30.0
    """least seconds between snapshots, > 0"""
    window_lines: Annotated[int, Whole(1, 1 << 30)] = 1_000_000
    """lines to find duplicates, 1..2**30"""
    replay: Annotated[float, Number(0, 10)] = 0.0
    """old lines replayed per new line, 0..10"""
    replay_words: Annotated[int | None, Whole(8, 2**31)] = None
    """words to replay from, 8 or more; default 1,000,000"""
    replay_alpha: Annotated[float, Number(0, 1)] = 0.0
    """exponent of losses, 0..1; 0: uniform"""
    replay_beta: Annotated[float, Number(0, 1)] = 1.0
    """importance-sampling exponent, 0..1"""
    pair_memory: str | None = None
    """memory to count pairs in, for PIP losses; like 64MB"""
    log_ids: bool = False
    """write the id of each trained line to trained.ids"""
    drift_words: str | None = None
    """words like a,b,c whose drift is recorded"""
    resume: bool = False
    """continue from the checkpoint in --out, if any"""
    overwrite: bool = False
    """replace the contents of --out"""

    def __post_init__(self) -> None:
        if isinstance(self.out, str):
            object.__setattr__(self, "out", Path(self.out))
        check_fields(self)
        if self.pair_memory is not None:
            object.__setattr__(self, "pair_memory", str(self.pair_memory))
            quantity("pair_memory", self.pair_memory, 1 << 16, MOST_BYTES, "B")
        for name, is_given in (("replay_words", self.replay_words is not None), ("replay_alpha", self.replay_alpha)):
            if is_given and not self.replay:
                raise InputError(f"{name} is of replay, and nothing is replayed; give replay a share.")
        if self.replay_beta != 1 and not self.replay_alpha:
            raise InputError("replay_beta is for lines drawn by their losses, and all are drawn alike; leave it out.")
        if self.resume and self.overwrite:
            raise InputError("resume goes on with what is in out, overwrite removes it; give one of the two.")

    @property
    def pair_bytes(self) -> int:
        """Bytes of `pair_memory`; 0: pairs are not counted."""
        return 0 if self.pair_memory is None else quantity("pair_memory", self.pair_memory, 1 << 16, MOST_BYTES, "B")

    @property
    def watched(self) -> list[str]:
        """The words of `drift_words`."""
        return [word for word in (self.drift_words or "").split(",") if word]

    def settings(self) -> dict[str, object]:
        """What must be the same for a run to go on."""
        names = (
            "min_count", "half_life", "batch_bytes", "linger", "window_lines", "replay", "replay_words",
            "seed", "log_ids", *(("replay_alpha", "replay_beta") if self.replay_alpha else ()),
            *(("pair_memory",) if self.pair_memory else ()),
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}
