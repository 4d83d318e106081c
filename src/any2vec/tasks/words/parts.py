"""Preparation of a text that no host reads whole: each encodes its own part, and they count the vocabulary together."""

from __future__ import annotations

import hashlib
import json
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.checks import parse_json
from any2vec.cluster.transport import LONG_WORK, Transport, gather_json, text_of, text_part
from any2vec.data.options import TextOptions
from any2vec.data.text.corpus import Corpus
from any2vec.data.text.normalize import check_bad_bytes
from any2vec.data.text.shards import TextParts, cut_text, encode_part
from any2vec.data.text.shared_vocabulary import PHASE, count_together, renamed_tokens
from any2vec.errors import DataError, InputError, JobError
from any2vec.models.words.config import SequenceModel
from any2vec.models.words.source import PartTokens
from any2vec.tasks.words.prepare import Counted, Prepared, prepare_tokens, stored_corpus
from any2vec.types import Stage, as_reading

_PROBE_BYTES = 4096
"""bytes at both ends of each file that hosts compare"""


def check_parts(model: SequenceModel, data: Any) -> None:
    """Raise InputError unless `data` is something that hosts can read in parts, as far as its kind says."""
    if model.is_graph:
        raise InputError(f"read parts is for text, and {model.name} reads a graph; leave it out.")
    if (corpus := stored_corpus(data)) is not None:
        raise InputError(f"{corpus.path} is encoded already, and hosts share its pages; leave out read parts.")


def prepare_part(
    model: SequenceModel,
    data: Any,
    transport: Transport,
    *,
    text: TextOptions | None,
    cache_dir: Path | None,
    stage: Stage | None,
) -> Prepared:
    """Read this host's part of the text that `data` names: a collective call.

    Keys, counts and metadata are those of the whole text, positions those that its tokens would have there; a host has
    its own tokens alone, and the words that the model keeps.

    Raises:
        InputError: the data cannot be read in parts, or are too few for the hosts.
        DataError, StorageError: as `encode_text`.
        HostError: a host is lost, or the hosts see other files.
    """
    check_parts(model, data)
    options = text or TextOptions()
    cut = cut_text(data, transport.hosts)
    _check_same_files(transport, cut)

    corpus = encode_part(
        cut.spans[transport.rank],
        options,
        cache_dir=cache_dir,
        progress=as_reading(stage if transport.rank == 0 else None),
    )
    parts = _all_parts(transport, corpus)
    _check_parts_read(parts, cut)
    assert corpus is not None
    shared = count_together(transport, corpus.vocabulary, corpus.tokens, model.min_count, model.max_vocab)
    tokens = renamed_tokens(corpus, shared.rows)
    bounds = list(accumulate((part["num_slots"] for part in parts), initial=0))
    names = hashlib.blake2b("".join(part["name"] for part in parts).encode(), digest_size=16).hexdigest()
    found = Counted(
        origin={"parts": {str(transport.hosts): names}}, kind=parts[0]["kind"], num_slots=bounds[-1],
        num_types=shared.num_types, digest=shared.digest,
        **{name: sum(part[name] for part in parts) for name in ("num_tokens", "num_sentences", "bad_bytes")},
    )  # fmt: skip
    offset = bounds[transport.rank]
    return prepare_tokens(
        model, shared.kept, found, lambda unit: PartTokens(tokens, unit, offset, bounds[-1]), bounds=bounds
    )


def _check_same_files(transport: Transport, cut: TextParts) -> None:
    """Raise JobError, the same at all hosts, unless they see files of the same names, sizes, ends and cuts."""
    seen = [
        [Path(name).name, size, _probe(name, size), [list(span[2:4]) for part in cut.spans for span in part]]
        for name, size in zip(cut.names, cut.sizes, strict=True)
    ]
    wrong = ""
    for rank, other in enumerate(gather_json(transport, seen, PHASE)):
        if other != seen:
            wrong = f"Rank {rank} sees {_difference(other, seen)}; give all hosts the same files."
            break
    wrong = text_of(transport.share([text_part(wrong)], PHASE)[0])
    if wrong:
        raise JobError(wrong)


def _probe(name: str, size: int) -> str:
    """A hash of both ends of a file."""
    digest = hashlib.blake2b(digest_size=8)
    with Path(name).open("rb") as file:
        digest.update(file.read(_PROBE_BYTES))
        file.seek(max(0, size - _PROBE_BYTES))
        digest.update(file.read(_PROBE_BYTES))
    return digest.hexdigest()


def _difference(other: list[Any], seen: list[Any]) -> str:
    """In words, what another host sees otherwise than rank 0."""
    if len(other) != len(seen):
        return f"{len(other)} files where rank 0 sees {len(seen)}"
    found, expected = next(pair for pair in zip(other, seen, strict=True) if pair[0] != pair[1])
    if found[:2] != expected[:2]:
        return f"{found[0]} of {found[1]} bytes where rank 0 sees {expected[0]} of {expected[1]}"
    return f"other contents of {found[0]} than rank 0"


def _all_parts(transport: Transport, corpus: Corpus | None) -> list[dict[str, Any]]:
    """What each host has read, by rank, at every host; they wait for the slowest reader."""
    own: dict[str, Any] = {"num_slots": 0}
    if corpus is not None:
        own = {"name": corpus.path.name, "num_slots": len(corpus.tokens)} | {
            name: corpus.meta[name] for name in ("kind", "num_tokens", "num_sentences", "bad_bytes", "bad_by_span")
        }
    by_host = gather_json(transport, own, PHASE, timeout=LONG_WORK)
    every = transport.share([text_part(json.dumps(by_host))], PHASE, timeout=LONG_WORK)[0]
    parts: list[dict[str, Any]] = parse_json(text_of(every))
    return parts


def _check_parts_read(parts: list[dict[str, Any]], cut: TextParts) -> None:
    """Raise the same error at all hosts where parts are empty, are of several kinds, or hold what is no text."""
    empty = [rank for rank, part in enumerate(parts) if part["num_slots"] == 0]
    what = cut.names[0] if len(cut.names) == 1 else f"The input ({len(cut.names)} files)"
    if len(empty) == len(parts):
        raise DataError(f"{what} holds no words; give text with words in it.")
    if empty:
        raise InputError(
            f"The data are too few for {len(parts)} hosts: rank {empty[0]} would have no whole sentence to train; "
            "use fewer hosts."
        )
    if len({part["kind"] for part in parts}) > 1:
        raise DataError(f"{what}: some hold ids and others text; encode them apart.")
    bad_bytes = np.zeros(len(cut.names), np.int64)
    for part, spans in zip(parts, cut.spans, strict=True):
        for span, bad in zip(spans, part["bad_by_span"], strict=False):  # whole files have been judged already
            bad_bytes[span.file] += bad
    for name, bad, size in zip(cut.names, bad_bytes.tolist(), cut.sizes, strict=True):
        if bad:
            check_bad_bytes(name, bad, size)
