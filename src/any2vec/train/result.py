"""The result of a run: vectors, summary, remarks on its data, counts of all hosts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from any2vec.cluster.counters import summed
from any2vec.cluster.launch.join import restarts
from any2vec.embeddings import Embeddings
from any2vec.machine import peak_resident_bytes, resident_bytes
from any2vec.train.progress import Recorder, mean_loss
from any2vec.train.run_folder import Writable
from any2vec.train.spec import Request
from any2vec.types import Progress


class StoredResult(Protocol):
    """What goes into a run folder; it need not be in memory."""

    def __len__(self) -> int:
        """Rows."""

    def save_into(self, folder: Path) -> None: ...

    @property
    def parts(self) -> Mapping[str, Writable]:
        """What stands beside the vectors, by file name."""


@dataclass(frozen=True)
class Result:
    """What rank 0 has at the end; other hosts have nothing."""

    embeddings: Embeddings
    summary: dict[str, Any] = field(default_factory=dict)
    records: list[Progress] = field(default_factory=list)
    scorer: Any = None
    """of a model of clicks its `ClickScorer`, of triples its `TripleScorer`"""
    parts: Mapping[str, Writable] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.embeddings)

    def save_into(self, folder: Path) -> None:
        self.embeddings.save_into(folder)


def run_summary(
    request: Request, rows: int, recorder: Recorder, compile_seconds: float, metadata: dict[str, Any]
) -> dict[str, Any]:
    """The part of the summary that every run has."""
    last = recorder.records[-1] if recorder.records else None
    train_seconds = last.seconds if last is not None else recorder.seconds  # all of it was done before
    again, allowed = restarts()  # by torchrun; a parent that starts the hosts counts for itself
    return {
        "model": request.spec.model.name,
        "rows": rows,
        "dim": request.spec.model.dim,
        "epochs": request.spec.run.epochs,
        "threads": request.threads,
        "seed": request.spec.run.seed,
        "items": recorder.items,
        "items_per_s": recorder.items / max(train_seconds, 1e-9),
        "loss": mean_loss(recorder.epoch),
        "train_seconds": train_seconds,
        "compile_seconds": compile_seconds,
        "seconds": time.perf_counter() - request.started,
        "peak_rss_bytes": peak_resident_bytes(),
        "peak_anon_bytes": max(recorder.peak_anonymous, resident_bytes()[0]),
        "warnings": remarks(metadata),
        "data": metadata,
        **({"restarts": again} if allowed else {}),
    }


def comments_remark(metrics: Mapping[str, Any]) -> list[str]:
    """A remark on lines of comments, where there are some: what looks like one may be a name."""
    count = metrics.get("comments")
    return (
        [f"lines that begin with a comment character, left out (--comment '' reads them): {count:,}"] if count else []
    )


def histogram(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    """Counts by whole numbers, added up and in order."""
    return dict(sorted(summed(counts).items(), key=lambda item: (len(item[0]), item[0])))


def remarks(metrics: dict[str, Any]) -> list[str]:
    """Remarks on the data for the user: a sentence for each thing that was repaired while reading, or has no effect."""
    item = "triples" if metrics.get("kind") == "triples" else "edges"
    odd = {
        "bad_bytes": "invalid bytes in the text, treated as --bad-bytes says",
        "duplicates": f"{item} given more than once, merged",
        "self_loops": "self-loops, kept",
        "isolated": "nodes without edges, whose vectors stay near where they start",
        "unused_weights": "weights of edges, which the model does not use (each edge counts once)",
        "header": "first line taken as a header (--no-header reads it as an edge)",
    }
    found = ((words, metrics.get(name)) for name, words in odd.items())
    sentences = [
        f"{words}: {value if isinstance(value, str) else format(value, ',')}" for words, value in found if value
    ] + list(metrics.get("notes", ()))
    if metrics.get("kind") == "clicks" and metrics["num_clicks"] in (0, metrics["num_examples"]):
        label = int(metrics["num_clicks"] > 0)
        sentences.append(
            f"All {metrics['num_examples']:,} examples have the label {label}: nothing can be learned from them; give "
            "examples of both labels, and check the schema's label."
        )
    return sentences
