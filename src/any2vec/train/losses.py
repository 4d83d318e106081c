"""What a lost host has cost: updates of rows since the last checkpoint, as the trainers that were left have counted."""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from pathlib import Path

from any2vec.data.io.storage import atomic_file

_FILES = "lost-*.json"


def note_loss(out: Path, rank: int, updates: int) -> None:
    """Leave word in the run folder for whoever goes on: so many updates of this trainer are in no checkpoint.

    It says nothing where the folder cannot be written: the error that ends this host is told all the same.
    """
    with suppress(OSError):
        out.mkdir(parents=True, exist_ok=True)
        file = out / f"lost-{rank}-{uuid.uuid4().hex[:12]}.json"
        with atomic_file(file) as temporary:
            temporary.write_text(json.dumps({"rank": rank, "updates": updates}), encoding="ascii")


def updates_lost(out: Path) -> int:
    """All that was left word of, since the run began."""
    total = 0
    for file in out.glob(_FILES):
        with suppress(OSError, ValueError, KeyError, TypeError):
            total += int(json.loads(file.read_text(encoding="ascii"))["updates"])
    return total


def forget_losses(out: Path) -> None:
    """Remove the words: the run has ended, or begins anew."""
    for file in out.glob(_FILES):
        file.unlink(missing_ok=True)
