"""Knowledge graphs: triples of head, relation and tail by row, with the users' names beside them.

On disk, a folder:
    meta.json                                {"format": "any2vec-triples", "version": 1, "report": {...},
                                              "integer_keys": [of entities, of relations]}
    head.npy, relation.npy, tail.npy         int32 (num_triples,)
    entity-words.npy, entity-offsets.npy     the entities' names: UTF-8 bytes, and int64 (num_entities + 1,)
    relation-words.npy, relation-offsets.npy the relations', likewise

Letters: M triples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.checks import is_missing
from any2vec.data.io.files import TABLES, expand_inputs, is_table, table_form
from any2vec.data.io.storage import atomic_folder, read_meta, write_json
from any2vec.data.options import ProgressCall, TripleOptions, chosen_columns, columns_there, usual_columns
from any2vec.data.triples.rows import KnownRows, TripleStack, num_duplicates
from any2vec.data.triples.text import (
    HEADS,
    TAILS,
    TripleColumns,
    check_full,
    named_columns,
    read_triple_text,
    triple_notes,
)
from any2vec.data.vocab.found_texts import FoundTexts
from any2vec.data.vocab.user_keys import INTEGERS, text_of
from any2vec.data.vocab.vocabulary import Keys, open_array
from any2vec.errors import DataError, FormatError, InputError
from any2vec.machine import cache_root

FORMAT = "any2vec-triples"
VERSION = 1
LINK = "linked"
"""the relation of edges that have none"""
_COLUMNS = ("head", "relation", "tail")
_KEYS = ("entity", "relation")
_TABLE_ROWS = 1 << 20
"""of a table that are read at a time"""


@dataclass(frozen=True, kw_only=True)
class TripleReport:
    """What was found while reading triples."""

    num_triples: int
    num_entities: int
    num_relations: int
    duplicates: int = 0
    """triples given more than once; they are kept, and count as often"""
    ignored_columns: int = 0
    literals: int = 0
    """statements of N-Triples whose object is no entity, left out"""
    comments: int = 0
    """lines of comments, left out"""
    notes: list[str] = field(default_factory=list)
    """sentences for the user on how they were read"""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Triples:
    """Triple m is (entities[head_M[m]], relations[relation_M[m]], entities[tail_M[m]]); rows int32."""

    def __init__(
        self, head_M: np.ndarray, relation_M: np.ndarray, tail_M: np.ndarray, entities: Keys, relations: Keys,
        report: TripleReport,
    ) -> None:  # fmt: skip
        self.head, self.relation, self.tail = head_M, relation_M, tail_M
        self.entities, self.relations = entities, relations
        self.report = report

    def __repr__(self) -> str:
        found = self.report
        return f"Triples({found.num_triples:,} of {found.num_entities:,} entities, {found.num_relations:,} relations)"

    def __len__(self) -> int:
        return len(self.head)

    def rows(self) -> np.ndarray:
        """int64 (M, 3): head, relation, tail."""
        return np.stack([self.head, self.relation, self.tail], axis=1).astype(np.int64)

    def check_known(self) -> None:
        """DataError: a triple has a name that was not known when it was read, and so no row."""
        if min(int(column_M.min(initial=0)) for column_M in (self.head, self.relation, self.tail)) < 0:
            raise DataError(
                "The triples have names that were not known when they were read; read them without known=, "
                "or leave out those with a row of -1."
            )

    def degrees(self) -> np.ndarray:
        """Triples in which each entity stands, int64 (V,); one with itself counts twice."""
        return np.bincount(np.concatenate([self.head, self.tail]), minlength=len(self.entities))

    def save(self, folder: Path | str, overwrite: bool = False) -> None:
        """Write the triples to `folder`, atomically; overwrite: where triples stand.

        Raises:
            StorageError: the folder is taken or cannot be written.
        """
        with atomic_folder(folder, overwrite, FORMAT) as made:
            for name in _COLUMNS:
                np.save(made / f"{name}.npy", np.ascontiguousarray(getattr(self, name), np.int32))
            for name, keys in zip(_KEYS, (self.entities, self.relations), strict=True):
                np.save(made / f"{name}-words.npy", np.ascontiguousarray(keys.arena, np.uint8))
                np.save(made / f"{name}-offsets.npy", np.ascontiguousarray(keys.offsets, np.int64))
            meta = {"format": FORMAT, "version": VERSION, "report": self.report.as_dict()}
            integers = [self.entities.are_integers, self.relations.are_integers]
            write_json(made / "meta.json", meta | {INTEGERS: integers})

    @classmethod
    def open(cls, folder: Path | str) -> Triples:
        """Open a folder of triples, memory-mapped.

        Raises:
            FormatError: the folder holds no triples, is newer than this version reads, or is damaged.
        """
        folder = Path(folder)
        meta = read_meta(folder, FORMAT, VERSION, "a folder of any2vec triples")
        damaged = FormatError(f"{folder} is damaged; write it again.")
        columns = [open_array(folder, name, np.int32) for name in _COLUMNS]
        keys = [
            Keys(open_array(folder, f"{name}-words", np.uint8), open_array(folder, f"{name}-offsets", np.int64))
            for name in _KEYS
        ]
        try:
            known = {field.name for field in fields(TripleReport)}
            report = TripleReport(**{name: value for name, value in meta["report"].items() if name in known})
        except (KeyError, TypeError, AttributeError):
            raise damaged from None
        sizes = (report.num_entities, report.num_relations)
        is_whole = all(len(column) == report.num_triples for column in columns) and all(
            len(one.offsets) == size + 1 and one.offsets[0] == 0 and one.offsets[-1] == len(one.arena)
            for size, one in zip(sizes, keys, strict=True)
        )
        if not is_whole:
            raise damaged
        (head_M, relation_M, tail_M), (entities, relations) = columns, keys
        said = list(meta.get(INTEGERS) or ()) if isinstance(meta.get(INTEGERS), list) else []
        entities.are_integers, relations.are_integers = True in said[:1], True in said[1:]
        return cls(head_M, relation_M, tail_M, entities, relations, report)


def read_triples(
    source: Any, options: TripleOptions | None = None, *, known: Triples | None = None,
    progress: ProgressCall | None = None, cache_dir: Path | str | None = None, is_relation_last: bool = False,
    is_of_training: bool = False,
) -> Triples:  # fmt: skip
    """Read triples.

    source: a file: TSV, CSV or N-Triples (plain, gz, zst, xz; `-`: standard input), Parquet, Arrow, Feather or JSON
    Lines (columns head, relation, tail or their usual names, else the first three; or as named); a folder that
    `Triples.save` wrote; a table in memory (pandas, Polars, Arrow, a Dataset of Hugging Face, a dict of columns); a
    list of (head, relation, tail), an array or tensor (M, 3), or a tuple of three. Those with two columns hold edges of
    one relation. Rows are in order of first appearance, heads before tails in each piece that is read.

    Args:
        known: take the rows of these: names that it lacks get row -1 (of a test set, say).
        progress: called with (bytes read, bytes in all or None).
        cache_dir: where rows of many triples are put, in files without a name; by default the cache of any2vec.
        is_relation_last: columns are head, tail, relation.
        is_of_training: options are those of the data of training, which others follow where they can: a table that has
            the columns, text of the delimiter.

    Memory: O(names), some 80 bytes each and the text; of triples beyond some millions the rows are mapped.

    Raises:
        DataError: the source is missing, empty, damaged, binary, or a line is no triple: file and line.
        InputError: the source is of no known kind.
        FormatError: a folder holds no triples, or is damaged.
        StorageError: the disk is full.
    """
    options = options or TripleOptions()
    if isinstance(source, str | Path) and Path(source).is_dir() and not (Path(source) / "dataset_info.json").is_file():
        source = Triples.open(source)
    if isinstance(source, Triples):
        return source if known is None else _in_rows_of(source, known)
    with TripleStack(cache_root(cache_dir) / "triples") as stack:
        pieces = triple_columns(source, options, progress, is_of_training, is_relation_last)
        return _encoded(map(_with_relation_last, pieces) if is_relation_last else pieces, known, stack)


def _with_relation_last(found: TripleColumns) -> TripleColumns:
    """Columns of head, tail and relation, in the usual order."""
    if len(found.columns) != 3:
        raise DataError("A relation behind head and tail needs three columns, got two.")
    head, tail, relation = found.columns
    return found._replace(columns=[head, relation, tail])


def _in_rows_of(found: Triples, known: Triples) -> Triples:
    """Triples that have rows of their own, by the rows of others; -1, of names that were not known before, stays -1."""
    from any2vec.data.io.arrow import packed

    entity_V, relation_R = (  # the last one is that of row -1
        np.append(KnownRows(theirs).rows_of(packed(mine.offsets, mine.arena)), np.int32(-1))
        for theirs, mine in ((known.entities, found.entities), (known.relations, found.relations))
    )
    columns = entity_V[found.head], relation_R[found.relation], entity_V[found.tail]
    return Triples(*columns, known.entities, known.relations, found.report)


def triple_columns(
    source: Any, options: TripleOptions, progress: ProgressCall | None, is_of_training: bool = False,
    is_as_given: bool = False,
) -> Iterator[TripleColumns]:  # fmt: skip
    """Columns of names, a piece at a time, of whatever `read_triples` takes but folders; raises as it does.

    is_as_given: columns of text stand as they do there, whatever a header says.
    """
    if isinstance(source, str | Path):
        names = expand_inputs(str(source))
        if len(names) != 1:
            raise InputError(f"{source} names {len(names)} files; triples are read from one, so join them first.")
        if (form := table_form(names[0])) in TABLES:
            if is_as_given:
                raise InputError(f"{names[0]} is a table; give the name of the column that holds relations.")
            return _table_columns(names[0], form, options, is_of_training)
        if options.use_columns is not None and is_as_given and not is_of_training:
            raise InputError(f"use_columns does not go with relations that stand last in {names[0]}; leave one out.")
        return read_triple_text(names[0], options, progress, is_of_training, is_by_header=not is_as_given)
    return _table_columns(source, None, options, is_of_training) if is_table(source) else _list_columns(source)


def _chosen(names: list[str], name: str, use_columns: str | None) -> list[str]:
    """The columns of heads, relations and tails, or of heads and tails."""
    if chosen := chosen_columns(use_columns, names, name):
        return chosen
    if named := named_columns(names):
        return named
    if len(names) < 2:
        raise DataError(f"{name} has {len(names)} column; a triple has three: head, relation and tail.")
    head, tail = usual_columns(names, HEADS, TAILS)
    if head and tail and [head, tail] != names[:3:2]:
        raise DataError(
            f"{name} has heads in column {head} and tails in {tail}, and no column of relations by its name; "
            f"say which with use_columns: {head},RELATION,{tail}, or {head},{tail} for one relation."
        )
    return names[:3]


def _table_columns(
    source: Any, form: str | None, options: TripleOptions, is_of_training: bool
) -> Iterator[TripleColumns]:
    from any2vec.data.io.arrow import TableReader, pa

    table = TableReader(source, form)
    name, names = table.name, table.names
    asked = columns_there(options.use_columns, names) if is_of_training else options.use_columns
    chosen = _chosen(names, name, asked)
    num_rows, notes = 0, triple_notes(names, chosen, asked)
    for batch in table.batches(chosen, _TABLE_ROWS):
        columns = []
        integers = [pa.types.is_integer(batch[column].type) for column in chosen]
        for column, found in batch.items():
            if found.null_count:
                raise DataError(f"{name} has empty values in column {column}; fill or drop them.")
            if not (pa.types.is_integer(found.type) or pa.types.is_large_binary(found.type)):
                raise DataError(f"{name} has {found.type} in column {column}; names are strings or integers.")
            with table.errors():
                columns.append(found.cast(pa.large_string()))
        check_full(columns, name, num_rows, chosen)
        num_rows += len(columns[0])
        yield TripleColumns(columns, len(names) - len(chosen), are_integers=_of_sides(integers), notes=notes)
    if not num_rows:
        raise DataError(f"{name} holds no triples; give at least one.")


def _of_sides(integers: list[bool]) -> tuple[bool, bool]:
    """Whether entities, and relations, are integers, by column."""
    return integers[0] and integers[-1], len(integers) == 3 and integers[1]


def _list_columns(source: Any) -> Iterator[TripleColumns]:
    """The columns of rows, of an array or tensor (M, 3), or of a tuple of arrays of one axis."""
    from any2vec.data.io.arrow import pa

    if isinstance(source, tuple) and all(getattr(part, "ndim", 0) == 1 for part in source):
        columns, sizes = [list(part.tolist()) for part in source], {len(source)}
        if len({len(column) for column in columns}) > 1:
            raise DataError(f"Triples need as many names of each kind, got {[len(column) for column in columns]}.")
    else:
        try:
            rows = [tuple(row) for row in (source.tolist() if hasattr(source, "tolist") else source)]
        except TypeError:
            raise InputError(
                "Triples are a file, a folder, a table (a frame, a dict of columns), a list of (head, relation, tail), "
                f"an array (M, 3) or a tuple of three, got {type(source).__name__}."
            ) from None
        sizes = {len(row) for row in rows}
        columns = [list(column) for column in zip(*rows, strict=True)] if len(sizes) == 1 else []
    if len(sizes) > 1 or not sizes <= {2, 3}:
        raise DataError(f"Triples have three names each, edges two; got rows of {sorted(sizes)}.")
    if not columns or not columns[0]:
        raise DataError("There are no triples; give at least one.")
    texts = [pa.array(_texts(column), pa.large_string()) for column in columns]
    for text, column in zip(texts, columns, strict=True):
        if text.null_count:
            row = int(np.argmax(text.is_null().to_numpy(zero_copy_only=False)))
            raise DataError(
                f"Triple {row + 1:,} has {column[row]!r} for a name; names are strings or integers: leave it out."
            )
    integers = [all(text_of(name) and not isinstance(name, str) for name in column) for column in columns]
    yield TripleColumns(texts, are_integers=_of_sides(integers))


def _texts(column: list[Any]) -> list[str | None]:
    """Names as text; None for what is empty, missing, or a number with a fraction."""
    if not {*map(type, column)} <= {str, int}:
        column = [name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in column]
        column = ["" if is_missing(name) or isinstance(name, float | np.floating) else name for name in column]
    return [str(name) or None for name in column]


def _encoded(pieces: Iterable[TripleColumns], known: Triples | None, stack: TripleStack) -> Triples:
    """Names become rows."""
    from any2vec.data.io.arrow import pa

    names: list[FoundTexts] | list[KnownRows]
    if known is None:
        names = [FoundTexts("A column of names", "give other names") for _ in _KEYS]
    else:
        names = [KnownRows(keys) for keys in (known.entities, known.relations)]
    ignored = literals = comments = 0
    integers, notes = np.ones(2, bool), dict[str, None]()
    for found in pieces:
        head, tail, size = found.columns[0], found.columns[-1], len(found.columns[0])
        relations = found.columns[1] if len(found.columns) == 3 else pa.array([LINK][:size], pa.large_string())
        relation_M = np.broadcast_to(names[1].rows_of(relations), size)
        stack.add(names[0].rows_of(head), relation_M, names[0].rows_of(tail))
        integers &= found.are_integers
        ignored, literals = max(ignored, found.ignored_columns), literals + found.literals
        comments += found.comments
        notes |= dict.fromkeys(found.notes)
    all_entities, all_relations = (rows.keys() for rows in names)
    if known is None:
        all_entities.are_integers, all_relations.are_integers = integers.tolist()
    columns = stack.columns()
    report = TripleReport(
        num_triples=len(columns[0]), num_entities=len(all_entities), num_relations=len(all_relations),
        duplicates=num_duplicates(*columns), ignored_columns=ignored, literals=literals,
        comments=comments, notes=[*notes],
    )  # fmt: skip
    return Triples(*columns, all_entities, all_relations, report)
