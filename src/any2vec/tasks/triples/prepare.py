"""From files of triples to what a host needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from any2vec.errors import InputError
from any2vec.train.result import comments_remark, remarks
from any2vec.types import Stage, as_reading

if TYPE_CHECKING:
    import numpy as np

    from any2vec.data.options import TripleOptions
    from any2vec.data.triples.triples import Triples


@dataclass(frozen=True)
class PreparedTriples:
    """Triples, ready to be trained on."""

    triples: Triples
    metadata: dict[str, Any]
    """what they are, for the report and for a resumed run to compare"""
    held_M3: np.ndarray | None = None
    """int64 (M, 3): those held out to validate on, by row"""

    def held_out(self, share: float, seed: int) -> PreparedTriples:
        """The same with about this share of the triples held out; raises as `validation.held_out`."""
        from any2vec.tasks.triples.validation import held_out

        triples, held_M3 = held_out(self.triples, share, seed)
        metadata = self.metadata | {"num_triples": len(triples), "num_validation": len(held_M3)}
        return PreparedTriples(triples, metadata, held_M3)


def prepare_triples(
    data: Any, options: TripleOptions | None, stage: Stage | None, cache_dir: Path | None = None
) -> PreparedTriples:
    """Read a file of triples, or open a stored one.

    Raises:
        InputError: several files are given, or options for what is read already.
        DataError: the file cannot be read, or a triple has a name that was not known when it was read.
    """
    from any2vec.data.io.files import fingerprint
    from any2vec.data.triples.triples import read_triples

    if isinstance(data, list) and data and all(isinstance(item, str) for item in data):
        if len(data) > 1:
            raise InputError(f"Triples are read from one file, got {len(data)}; join them into one file first.")
        data = data[0]
    triples = read_triples(data, options, progress=as_reading(stage), cache_dir=cache_dir)
    triples.check_known()
    digest = fingerprint(
        triples.head,
        triples.relation,
        triples.tail,
        *(keys.arena for keys in (triples.entities, triples.relations)),
    )
    said = {
        name: value for name, value in triples.report.as_dict().items() if value or name not in ("comments", "notes")
    }
    return PreparedTriples(triples, {"kind": "triples", **said, "digest": digest})


def remarks_on(metadata: dict[str, Any]) -> list[str]:
    """As `remarks` of a run, but triples given more than once are kept."""
    count = metadata.get("duplicates", 0)
    again = [f"triples given more than once, each counts: {count:,}"] if count else []
    return [*again, *comments_remark(metadata), *remarks(metadata | {"duplicates": 0})]
