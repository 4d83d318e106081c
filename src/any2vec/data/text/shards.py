"""One host's part of a text: which bytes of which files are its own, and the corpus that it makes of them alone."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from any2vec.data.io.cache import Cache, Sources, signature_of
from any2vec.data.io.files import STDIN, is_regular, packing_of, read_blocks, read_head, text_form
from any2vec.data.options import TextOptions
from any2vec.data.text.corpus import Corpus, CorpusWriter
from any2vec.data.text.encoding import Encoding, Meter, ProgressCall
from any2vec.data.text.text import corpora, file_names, place_of
from any2vec.errors import DataError, InputError


class Span(NamedTuple):
    """What a host reads of one file."""

    file: int
    """its number among the files"""
    name: str
    start: int
    stop: int
    """bytes [start, stop)"""
    is_cut: bool
    """plain text, read from one line end to another; else a whole file that cannot be cut"""


class TextParts(NamedTuple):
    """The text of a run, cut for its hosts."""

    names: list[str]
    sizes: list[int]
    """bytes of each file, as it lies on the disk"""
    spans: list[tuple[Span, ...]]
    """by rank; what a host reads of the files, in their order, and none twice"""


def cut_text(source: Any, hosts: int) -> TextParts:
    """Cut the files that `source` names into `hosts` contiguous parts, in bytes as equal as line ends allow.

    Where a file is compressed, Parquet, Arrow or an array, whole files are shared out instead. Pure but for a look at
    the beginning of each file and at the cuts, so every host finds the same.

    Raises:
        InputError: the source is no file, or files that cannot be cut are fewer than the hosts.
        DataError: a file is missing, unreadable or misnamed, or all are empty.
    """
    names = file_names(source)
    if names is None or not all(is_regular(name) for name in names):
        what = "Sentences in memory" if names is None else "Standard input" if STDIN in names else "A pipe"
        raise InputError(f"{what} cannot be read in parts; write the text to a file, or leave out read parts.")
    sizes = [signature_of(name)[2] for name in names]
    if sum(sizes) == 0:
        raise DataError(f"{names[0]} is empty; give text with words in it.")
    ends = list(accumulate(sizes, initial=0))
    fixed = next((name for name in names if not _is_plain(name)), None)
    if fixed is None:
        cuts = _line_cuts(names, ends, hosts)
    else:
        filled = [end for end, size in zip(ends[1:], sizes, strict=True) if size]
        if len(filled) < hosts:
            raise InputError(
                f"{fixed} is compressed or no plain text and cannot be cut, so hosts read whole files, and there are "
                f"{len(filled)} of them for {hosts} hosts; unpack it, or leave out read parts."
            )
        cuts = _file_cuts(filled, hosts)
    return TextParts(names, sizes, [_spans(names, ends, *cut, fixed is None) for cut in pairwise(cuts)])


def _is_plain(name: str) -> bool:
    return text_form(name) == "text" and packing_of(name, read_head(name)) is None


def _line_cuts(names: Sequence[str], ends: Sequence[int], hosts: int) -> list[int]:
    """Bytes of all files one after the other where parts begin, int (hosts + 1): each the first line at or behind."""
    cuts, total = [0], ends[-1]
    for host in range(1, hosts):
        at = total * host // hosts
        if at > cuts[-1]:  # else the line that the last part ends with reaches beyond this cut, too
            file = bisect_right(ends, at) - 1
            at = at if at == ends[file] else ends[file] + _line_end(names[file], at - ends[file] - 1)
        cuts.append(max(at, cuts[-1]))
    return [*cuts, total]


def _line_end(name: str, at: int) -> int:
    """Where the line with byte `at` of a file ends: behind its line feed, or the end of the file."""
    size = signature_of(name)[2]
    for block in read_blocks(name, allow_empty=True, span=(at, size)):
        found = block.find(b"\n")
        if found >= 0:
            return at + found + 1
        at += len(block)
    return size


def _file_cuts(filled: Sequence[int], hosts: int) -> list[int]:
    """The same at ends of files: the first end at or behind an equal share that leaves a file for every other host.

    filled: bytes up to the end of each file that is not empty, at least as many as hosts.
    """
    cuts, before = [0], 0
    for host in range(1, hosts):
        wanted = bisect_left(filled, filled[-1] * host // hosts) + 1
        before = min(max(wanted, before + 1), len(filled) - (hosts - host))
        cuts.append(filled[before - 1])
    return [*cuts, filled[-1]]


def _spans(names: Sequence[str], ends: Sequence[int], low: int, high: int, is_cut: bool) -> tuple[Span, ...]:
    """What bytes [low, high) of all files are in each of them."""
    return tuple(
        Span(file, name, max(low, start) - start, min(high, stop) - start, is_cut)
        for file, (name, (start, stop)) in enumerate(zip(names, pairwise(ends), strict=True))
        if max(low, start) < min(high, stop)
    )


def encode_part(
    spans: Sequence[Span],
    options: TextOptions,
    *,
    cache_dir: Path | None = None,
    progress: ProgressCall | None = None,
) -> Corpus | None:
    """The corpus of one part, found in the cache when the same bytes were encoded so before; None: it has no words.

    Its vocabulary is that of the part; meta.json adds "bad_by_span", invalid bytes of each span that is cut.
    progress: called with (bytes read, bytes of the part). Memory O(different words + blocks).

    Raises:
        DataError, StorageError: as `encode_text`.
    """
    if not spans:
        return None
    cache = corpora(cache_dir)
    cache.prepare()
    sources = Sources([span.name for span in spans])
    total = sum(span.stop - span.start for span in spans)

    def make(path: Path) -> Corpus | None:
        with CorpusWriter(path) as writer:
            encoding = Encoding(writer, options, Meter(progress, total))
            bad_bytes = [encoding.add_span(span.name, span.start, span.stop) for span in spans if span.is_cut]
            if not bad_bytes:
                encoding.add_files(sources.names)
            sources.check_unchanged()
            return encoding.finish(bad_by_span=bad_bytes) if encoding.num_types else None

    read = [_identity(cache, span, signature) for span, signature in zip(spans, sources.signatures, strict=True)]
    return cache.get(place_of(cache, options, ["part", *read]), make, total, progress)  # type: ignore[arg-type]


def _identity(cache: Cache[Corpus], span: Span, signature: tuple[int, ...]) -> str:
    """What a span is, for the name of its corpus: its form, its place and a hash of its bytes."""
    if not span.is_cut:
        return f"{text_form(span.name)} {cache.hash_file(span.name, signature)}"
    return f"text {span.start} {span.stop} {cache.hash_file(span.name, signature, span.start, span.stop)}"
