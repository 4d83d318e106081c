"""From files of triples to what a host needs; and what a call of `fit` may ask of a model of triples."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from any2vec.cluster.launch.join import joined
from any2vec.errors import InputError
from any2vec.sync.options.run_hosts import RunHosts
from any2vec.train.words.prepare import Stage

if TYPE_CHECKING:
    from any2vec.data.triples.options import TripleOptions
    from any2vec.data.triples.triples import Triples


@dataclass(frozen=True)
class PreparedTriples:
    """Triples, ready to be trained on."""

    triples: Triples
    facts: dict[str, Any]
    """what they are, for the report and for a resumed run to compare"""


def prepare_triples(
    data: Any, options: TripleOptions | None, stage: Stage | None, cache_dir: Path | None = None
) -> PreparedTriples:
    """Read a file of triples, or open a stored one.

    Raises:
        InputError: several files are given, or options for what is read already.
        DataError: the file cannot be read.
    """
    from any2vec.data.io.files import fingerprint
    from any2vec.data.triples.triples import read_triples

    def told(done: int, total: int | None) -> None:
        if stage is not None:
            stage("reading", done, total)

    if isinstance(data, list) and data and all(isinstance(item, str) for item in data):
        if len(data) > 1:
            raise InputError(f"Triples are read from one file, got {len(data)}; join them into one file first.")
        data = data[0]
    triples = read_triples(data, options, progress=told, cache_dir=cache_dir)
    digest = fingerprint(
        triples.head,
        triples.relation,
        triples.tail,
        *(keys.arena for keys in (triples.entities, triples.relations)),
    )
    return PreparedTriples(triples, {"kind": "triples", **triples.report.as_dict(), "digest": digest})


def check_triples(hosts: RunHosts, memory: str | int | None, order: str | None, **others: Any) -> None:
    """Raise InputError for an argument of `fit` that does not go with a model of triples."""
    for name, value in others.items():
        if value is not None:
            raise InputError(f"{name} does not apply to models of triples; leave it out.")
    is_several = (hosts.num_ranks or 1) > 1 or hosts.ray is not None or joined()
    if is_several and memory is None:
        raise InputError(
            "Several hosts share the table of a model of triples: say how much memory each may have, as memory 2GB."
        )
    if is_several and order is not None:
        raise InputError(f"order {order} is for one host; several hosts have a plan of their own, so leave it out.")
