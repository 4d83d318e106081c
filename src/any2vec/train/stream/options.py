"""How a run over a stream is carried out: flags of the command line are made of it. Light: no NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from any2vec.checks import MAX_SEED, MAX_THREADS, check_choice, check_number, check_whole
from any2vec.errors import InputError
from any2vec.train.out_of_core.table_options import parse_size

LEAST_MEMORY = 1 << 20


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """Limits, budgets and intervals of a run over a stream."""

    memory: str = "1GB"
    """bytes for vectors and vocabulary, such as 500MB or 4GB; they are the same after a day as after a year: where they
    are used up the rarest words go"""
    min_count: int = 5
    """a word gets a vector when it has come so often, 1 or more"""
    half_life: int | None = None
    """words of the stream after which a count is worth half; by default counts do not fade"""
    words: int | None = None
    """end behind the batch with which so many words of the stream are trained, those before a resume too"""
    steps: int | None = None
    """end behind so many batches, those before a resume too"""
    seconds: float | None = None
    """end after so many seconds of this process"""
    batch_bytes: int = 1 << 19
    """text of a batch, at least, in whole lines; 64 to 1,048,576"""
    linger: float = 5.0
    """seconds of waiting for lines after which a batch that is not full is trained; 0: it always waits, so that the
    same lines of one source give the same bits"""
    threads: int = 0
    """training threads; 0 = all usable cores"""
    readers: Literal["threads", "processes"] = "threads"
    """what reads the sources, one each: threads, or processes, which are started again where they are lost"""
    seed: int = 1
    """seed of every random draw"""
    checkpoint_seconds: float = 60.0
    """seconds between checkpoints, at least: no more than a twentieth of the time is spent on them"""
    snapshot_seconds: float = 30.0
    """seconds between snapshots of the vectors, at least, likewise"""
    window_lines: int = 1_000_000
    """a line is left out as a duplicate where it has come among the last so many new ones, 1..2**30; 16 to 24 bytes
    each"""
    replay: float = 0.0
    """for each new line so many of the last ones are trained once more, drawn at random, 0..10"""
    replay_words: int | None = None
    """words that are kept to be drawn from, by default 1,000,000; 4 bytes each and 4 for their lines"""
    log_ids: bool = False
    """write the id of each trained line to trained.ids"""
    drift_words: str | None = None
    """words, with commas between, whose cosine to their vector of the snapshot before is recorded"""
    resume: bool = False
    """go on from the checkpoint in --out, if there is one"""
    overwrite: bool = False
    """begin anew in --out"""

    def __post_init__(self) -> None:
        if self.memory_bytes < LEAST_MEMORY:
            raise InputError(f"memory must be at least 1MiB, got {self.memory!r}.")
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
    def memory_bytes(self) -> int:
        return parse_size(self.memory)

    @property
    def watched(self) -> list[str]:
        """The words of `drift_words`."""
        return [word for word in (self.drift_words or "").split(",") if word]

    def settings(self) -> dict[str, object]:
        """What must be the same for a run to go on."""
        names = (
            "memory", "min_count", "half_life", "batch_bytes", "linger", "window_lines", "replay", "replay_words",
            "seed", "log_ids",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}
