"""What a spec says of a run over a stream."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from any2vec.train.spec import RunSpec
from any2vec.units import MOST_BYTES, quantity

MEMORY = "1GB"
"""for vectors and vocabulary, where nobody says how much"""


def memory_bytes(spec: RunSpec) -> int:
    """Bytes for vectors and vocabulary; they are the same after a day as after a year."""
    return quantity("memory", spec.storage.memory or MEMORY, 1, MOST_BYTES, "B")


def stream_settings(spec: RunSpec) -> dict[str, Any]:
    """What must be the same for the run to go on; whoever opens the sources knows their names."""
    sources = spec.reading["sources"]
    return {
        "model": spec.model.as_dict(), "sources": dict(enumerate(map(str, spec.data))),
        "run": {"memory": spec.storage.memory or MEMORY} | spec.run.settings(),
        "reading": {name: getattr(sources, name) for name in ("form", "field", "id_field", "dedup")},
        "text": asdict(spec.reading["text"]),
    }  # fmt: skip
