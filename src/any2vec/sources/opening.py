"""From an address to a source."""

from __future__ import annotations

import glob
import importlib.util
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from any2vec.cluster.transport import Transport
from any2vec.data.io.files import packing_of, read_head, text_form
from any2vec.data.options import TextOptions
from any2vec.errors import DataError, InputError
from any2vec.sources.base.address import Address, is_crawl, parse_address
from any2vec.sources.base.options import SourceOptions, check_seed
from any2vec.sources.base.source import PackedFile, Source
from any2vec.sources.kinds.column_lines import FORMS, ColumnLines
from any2vec.sources.kinds.files import FollowedFile
from any2vec.sources.kinds.http import HttpLines
from any2vec.sources.kinds.kafka import KafkaTopic
from any2vec.sources.kinds.python_lines import PythonLines
from any2vec.sources.kinds.redis_stream import RedisStream
from any2vec.sources.kinds.sockets import Pipe, SocketLines

if TYPE_CHECKING:
    from any2vec.sources.crawl.nodes import NodeService

_NEEDS = {
    "http": ("httpx",), "https": ("httpx",), "kafka": ("confluent_kafka",), "redis": ("redis",), "rediss": ("redis",),
    "crawl": ("httpx", "protego", "resiliparse"),
}  # fmt: skip


def open_sources(
    addresses: Sequence[str | Iterable[Any]], options: SourceOptions, seed: int = 1, text: TextOptions | None = None
) -> list[Source]:
    """The sources that are named, numbered as they stand; what `open_source` says holds for each."""
    return [open_source(address, number, options, seed, text) for number, address in enumerate(addresses)]


def open_source(
    address: str | Iterable[Any], number: int, options: SourceOptions, seed: int = 1, text: TextOptions | None = None
) -> Source:
    """The source of an address (a path, `-`, or one with a scheme), or of an iterable of texts.

    Nothing is read, and no server is asked, before `batches`.

    number: of the run's sources, which, from 0; it makes their keys differ. seed: of the jitter between attempts. text:
    names the column of files of columns.

    Raises:
        InputError: it is no address, or a library for it is missing; or it has no columns, of which one is named.
        DataError: there is no such file, or no such column.
    """
    check_seed(seed)
    if not isinstance(address, str):
        return PythonLines(address, f"python-{number}", number, options)
    parsed = parse_address(address)
    if parsed.kind == "file" and (form := _form_of_columns(parsed.path, options)):
        return _open_columns(parsed, form, number, options, text or TextOptions())
    if text is not None and text.column is not None:
        raise InputError(
            f"column is for files of CSV, TSV, Parquet and Arrow, and {parsed.name} is none; of JSON Lines name the "
            "field (--field, SourceOptions(field=...))."
        )
    if parsed.kind == "stdin":
        return Pipe(None, "-", number, options)
    if parsed.kind == "file":
        return _open_file(parsed, number, options)
    if parsed.kind in ("tcp", "unix"):
        return SocketLines(parsed, number, options, seed)
    source: Source
    if parsed.kind == "kafka":
        source = KafkaTopic(parsed, number, options, seed)
    elif parsed.kind in ("redis", "rediss"):
        source = RedisStream(parsed, number, options, seed)
    elif parsed.kind == "crawl":
        from any2vec.sources.crawl.source import Crawler  # late: its requests import much that other sources need not

        source = crawler = Crawler(parsed, number, options)
    else:
        source = HttpLines(parsed, number, options, seed)
    _check_library(parsed.kind)  # last: what is wrong with an address is said whatever is installed
    if parsed.kind == "crawl":
        crawler.start  # noqa: B018  what only the library sees
    return source


def crawl_services(transport: Transport, addresses: Sequence[Any]) -> list[NodeService]:
    """What a host runs beside its work, so that the crawls among these addresses, which rank 0 reads, fetch there too.

    Raises:
        InputError: a library for it is missing.
    """
    numbers = [number for number, one in enumerate(addresses) if is_crawl(one)]
    if not numbers:
        return []
    _check_library("crawl")
    from any2vec.sources.crawl.nodes import NodeService, channel_of

    return [NodeService(transport, channel_of(number)) for number in numbers]


def _check_library(kind: str) -> None:
    missing = [library for library in _NEEDS[kind] if importlib.util.find_spec(library) is None]
    if missing:
        what, extra = ("crawl:", "crawl") if kind == "crawl" else (f"{kind}://", "streams")
        raise InputError(f"{what} sources need {' and '.join(missing)}; in a clone: pip install -e '.[{extra}]'.")


def _open_file(address: Address, number: int, options: SourceOptions) -> Source:
    path = address.path
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError as error:
        if options.follow and any(Path(path).parent.glob(f"{glob.escape(Path(path).name)}[.-]*")):
            return FollowedFile(path, address.name, number, options, _is_json(path, options))  # between two rotations
        raise DataError(f"There is no file {path}; check the path, or make it before it is followed.") from error
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror}.") from error
    if stat.S_ISDIR(mode):
        raise DataError(f"{path} is a folder; name the file in it that is to be followed.")
    if not stat.S_ISREG(mode):
        return Pipe(path, address.name, number, options)
    if not os.access(path, os.R_OK):
        raise DataError(f"Cannot read {path}: permission denied.")
    is_json = _is_json(path, options)
    if packing_of(path, read_head(path)) is not None:
        return PackedFile(path, address.name, number, options, is_json)
    return FollowedFile(path, address.name, number, options, is_json)


def _form_of_columns(path: str, options: SourceOptions) -> str | None:
    """One of FORMS, or array, of a file that is there; None: it has lines, or is to be read as if it had."""
    form = None
    with suppress(OSError):  # which is said where it is opened
        form = text_form(path) if Path(path).is_file() and os.access(path, os.R_OK) else None
    return form if form in (*FORMS, "array") and not (form in ("csv", "tsv") and options.form == "lines") else None


def _open_columns(address: Address, form: str, number: int, options: SourceOptions, text: TextOptions) -> Source:
    path = address.path
    if form == "array":
        raise DataError(f"{path} is an array of NumPy; a stream learns from text.")
    if options.form == "ndjson":
        raise InputError(f"{path} has columns and no objects; leave out form (--form), or name it .jsonl.")
    is_text = form in ("csv", "tsv")
    if is_text and text.column is None:
        raise InputError(
            f"{path} is {form.upper()}: name the column that holds the text (--column, TextOptions(column=...)), or "
            'have its lines read as they are (--form lines, SourceOptions(form="lines")).'
        )
    if options.follow:
        as_lines = " or read its lines as they are (form lines)" if is_text else ""
        raise InputError(f"{path} is read by a column, once to its end; leave out follow{as_lines}.")
    return PythonLines(ColumnLines(path, text, form), address.name, number, options)


def _is_json(path: str, options: SourceOptions) -> bool:
    """By the name: log.jsonl, log.jsonl.zst, log.jsonl.1."""
    names = {suffix.lower() for suffix in Path(path).suffixes[-2:]}
    return options.form == "ndjson" or (options.form == "auto" and bool({".jsonl", ".ndjson"} & names))
