"""How a run over a stream is carried out: flags of the command line are made of it. Light: no NumPy."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from any2vec.checks import MAX_SEED, MAX_THREADS, check_choice, check_number, check_whole
from any2vec.errors import InputError


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """Limits and intervals of a run over a stream.

    words and steps count those before a resume, too; seconds are of this process. A batch that is not full is trained
    after `linger` seconds; with 0 it always waits, so that the same lines of one source give the same bits. Processes
    that read are started again when they are lost. No more than a twentieth of the time is spent on checkpoints, and
    likewise on snapshots. A line of window_lines takes 16 to 24 bytes, a word of replay_words 4 and as many for its
    line. Drift is the cosine to a word's vector of the snapshot before.
    """

    out: Path | None = field(default=None, metadata={"flag": False})
    """run folder of checkpoints, snapshots and records; None: the result stays in memory"""
    min_count: int = 5
    """ignore words seen less often, 1 or more"""
    half_life: int | None = None
    """words after which counts are halved; default never"""
    words: int | None = None
    """stop after so many words, 1 or more"""
    steps: int | None = None
    """stop after so many batches, 1 or more"""
    seconds: float | None = None
    """stop after so many seconds, more than 0"""
    batch_bytes: int = 1 << 19
    """bytes per batch, 64..1,048,576"""
    linger: float = 5.0
    """seconds to fill a batch; 0: no limit"""
    threads: int = 0
    """training threads; 0: all cores"""
    readers: Literal["threads", "processes"] = "threads"
    """of sources"""
    seed: int = 1
    """random seed, 0 or more"""
    checkpoint_seconds: float = 60.0
    """least seconds between checkpoints, > 0"""
    snapshot_seconds: float = 30.0
    """least seconds between snapshots, > 0"""
    window_lines: int = 1_000_000
    """lines to find duplicates in, 1..2**30"""
    replay: float = 0.0
    """old lines replayed per new line, 0..10"""
    replay_words: int | None = None
    """words to replay from, 8 or more; default 1,000,000"""
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
        check_whole("min_count", self.min_count, 1, 2**31 - 1)
        if self.half_life is not None:
            check_whole("half_life", self.half_life, 1, 2**50)
        for name in ("words", "steps"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), 1, 2**62)
        if self.seconds is not None:
            check_number("seconds", self.seconds, 0, 1e12, open_low=True)
        check_whole("batch_bytes", self.batch_bytes, 64, 1 << 20)
        check_number("linger", self.linger, 0, 1e9)
        check_whole("window_lines", self.window_lines, 1, 1 << 30)
        check_number("replay", self.replay, 0, 10)
        if self.replay_words is not None:
            check_whole("replay_words", self.replay_words, 8, 2**31)
            if not self.replay:
                raise InputError("replay_words is of replay, and nothing is replayed; give replay a share.")
        check_whole("threads", self.threads, 0, MAX_THREADS)
        check_choice("readers", self.readers, ("threads", "processes"))
        check_whole("seed", self.seed, 0, MAX_SEED)
        check_number("checkpoint_seconds", self.checkpoint_seconds, 0, 1e9, open_low=True)
        check_number("snapshot_seconds", self.snapshot_seconds, 0, 1e9, open_low=True)
        if self.resume and self.overwrite:
            raise InputError("resume goes on with what is in out, overwrite removes it; give one of the two.")

    @property
    def watched(self) -> list[str]:
        """The words of `drift_words`."""
        return [word for word in (self.drift_words or "").split(",") if word]

    def settings(self) -> dict[str, object]:
        """What must be the same for a run to go on."""
        names = (
            "min_count", "half_life", "batch_bytes", "linger", "window_lines", "replay", "replay_words",
            "seed", "log_ids",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}
