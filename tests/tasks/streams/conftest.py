"""Checkpoints of short runs."""

from __future__ import annotations

import pytest

from any2vec.tasks.stream import monitor


@pytest.fixture(autouse=True)
def checkpoints_whenever_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long one takes beside the run."""
    monkeypatch.setattr(monitor, "MOST_SHARE", 0)
