"""Public data sets: what is known, where it lies, how it is downloaded; and text that ships with Python."""

from __future__ import annotations

import ast
import hashlib
import http.client
import os
import re
import sys
import sysconfig
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from any2vec._version import __version__
from any2vec.checks import did_you_mean
from any2vec.data.io.storage import storage_errors
from any2vec.errors import DataError, InputError

_GITHUB = "https://raw.githubusercontent.com"


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """One file with its exact address and content."""

    name: str
    address: str
    num_bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """One public set. `files` holds those that may be fetched and checked; `where` says how to get the rest."""

    name: str
    family: str
    what: str
    license: str
    cite: str = ""
    where: str = ""
    files: tuple[SourceFile, ...] = ()

    @property
    def is_downloadable(self) -> bool:
        return bool(self.files)

    @property
    def num_bytes(self) -> int:
        """Size of the files that can be fetched."""
        return sum(file.num_bytes for file in self.files)


def _read_sets() -> tuple[DataSet, ...]:
    """The sets of sets.toml."""
    found = tomllib.loads((Path(__file__).parent / "sets.toml").read_text("utf-8"))["sets"]
    return tuple(DataSet(**{**one, "files": tuple(_github(*file) for file in one.get("files", ()))}) for one in found)


def _github(repository: str, commit: str, path: str, num_bytes: int, sha256: str) -> SourceFile:
    """A file of a GitHub repository ("owner/name") at a commit, under its own name."""
    address = f"{_GITHUB}/{repository}/{commit}/{path}"
    return SourceFile(name=path.rpartition("/")[2], address=address, num_bytes=num_bytes, sha256=sha256)


_WORD = re.compile(r"[a-z_][a-z0-9_]*|[0-9]+")
_SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+|\n\s*\n")
_SKIPPED = {"__pycache__", "idlelib", "lib-dynload", "lib2to3", "site-packages", "test", "tests", "turtledemo"}


def demo_text() -> list[list[str]]:
    """The help texts of `pydoc_data.topics` as sentences of lower-case words: some 65 000 words, 4 900 sentences.

    A sentence ends at a full stop, a question or exclamation mark, a colon, a semicolon or an empty line; a word is an
    identifier or a number; sentences of one word are dropped. The text differs a little from Python to Python.

    Raises DataError where a Python was installed without `pydoc_data`.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise DataError("This Python came without its help texts (pydoc_data); install its full package.") from error
    sentences = []
    for name in sorted(topics):
        for sentence in _SENTENCE_END.split(topics[name].lower()):
            words = _WORD.findall(sentence)
            if len(words) > 1:
                sentences.append(words)
    return sentences


def import_graph() -> list[tuple[str, str]]:
    """Who imports whom in the standard library: sorted pairs (module, module that it imports), each once.

    A package counts as one module (`email.message` is `email`); imports inside functions count too; tests, demos and
    private modules (`_json`) are left out. Modules written in C appear as imported only. Takes 2 to 3 seconds.

    Raises DataError where the standard library has no sources to read.
    """
    folder = Path(sysconfig.get_paths()["stdlib"])
    sources: dict[str, list[Path]] = {}
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if path.suffix == ".py" and not path.stem.startswith("_sysconfigdata"):
                sources[path.stem] = [path]
            elif path.name not in _SKIPPED and (path / "__init__.py").is_file():
                sources[path.name] = [
                    file for file in sorted(path.rglob("*.py")) if _SKIPPED.isdisjoint(file.relative_to(folder).parts)
                ]
    public = {name for name in (*sources, *sys.stdlib_module_names) if not name.startswith("_")} - _SKIPPED
    edges = {
        (module, imported)
        for module, paths in sources.items()
        if module in public
        for path in paths
        for imported in _imported_modules(path)
        if imported != module and imported in public
    }
    if not edges:
        raise DataError(f"The standard library in {folder.name} has no sources to read; install Python's full package.")
    return sorted(edges)


def _imported_modules(path: Path) -> Iterator[str]:
    """Top-level names of the absolute imports in one file; nothing if the file does not parse."""
    try:
        statements: list[ast.AST] = list(ast.parse(path.read_bytes()).body)
    except (OSError, SyntaxError, ValueError):
        return
    while statements:
        node = statements.pop()
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0 and node.module:
                yield node.module.partition(".")[0]
        else:  # only statements hold statements: expressions need no visit
            for field in ("body", "orelse", "finalbody", "handlers", "cases"):
                inner = getattr(node, field, ())
                statements += inner if isinstance(inner, list) else ()


CATALOG: dict[str, DataSet] = {one.name: one for one in _read_sets()}
"""every set that any2vec knows, by name"""

_BLOCK = 1 << 16
_STALL_SECONDS = 30.0
_NO_SUCH_RANGE = 416
_PERMANENT = {400, 401, 403, 404, 405, 410, 451}


class _FetchError(Exception):
    """One attempt failed; `is_final` says that another one would not help, `code` what the server answered."""

    def __init__(self, why: str, is_final: bool = False, code: int = 0) -> None:
        super().__init__(why)
        self.is_final = is_final
        self.code = code


def find(name: str) -> DataSet:
    """The set of that name. InputError with the nearest names for one that is not there."""
    if name in CATALOG:
        return CATALOG[name]
    hint = did_you_mean(name, CATALOG, "`any2vec data` lists the names.")
    raise InputError(f"{name!r} is not in the catalog; {hint}")


def local_folder(name: str) -> Path | None:
    """The set's folder below `$ANY2VEC_DATA`, if that is there."""
    root = os.environ.get("ANY2VEC_DATA")
    folder = Path(root) / find(name).name if root else None
    return folder if folder is not None and folder.is_dir() else None


def download(
    name: str,
    folder: Path | str,
    *,
    base_url: str | None = None,
    timeout: float = 600.0,
    retries: int = 3,
    pause: float = 1.0,
    progress: Callable[[str, int, int], None] | None = None,
) -> Path:
    """Fetch every file of a set into `folder/<name>/`; files that are there and right are not fetched again.

    A file comes under a hidden name first; a broken transfer is taken up where it ended if the server can, else anew.
    It gets its name after its size and SHA-256 were found right, so a file under its own name is always whole.

    Args:
        base_url: another host with the same paths, such as a mirror ("http://localhost:8000").
        timeout: seconds for one attempt at one file (a stall of 30 s ends it earlier), > 0.
        retries: further attempts after the first, >= 0; not after answers such as "404 not found".
        pause: seconds before the first retry; doubles each time.
        progress: called with (file name, bytes so far, bytes in all).

    Returns:
        The folder of the set.

    Raises:
        InputError: unknown set, or one that cannot be fetched (the message says where to get it).
        DataError: no answer, or other bytes than those that are known. StorageError: the folder cannot be written.
    """
    chosen = find(name)
    if not chosen.is_downloadable:
        raise InputError(f"{name} cannot be fetched from here; get it yourself: {chosen.where}")
    if not timeout > 0 or retries < 0:
        raise InputError(f"timeout must be > 0 and retries >= 0, got {timeout} and {retries}.")
    target = Path(folder) / name
    _check_base(base_url)
    with storage_errors(target):
        target.mkdir(parents=True, exist_ok=True)
    for file in chosen.files:
        address = _at(file.address, base_url)
        _fetch(file, address, target, timeout=timeout, retries=retries, pause=pause, progress=progress)
    return target


def _check_base(base_url: str | None) -> None:
    """Raise InputError for what is no address."""
    if base_url is None:
        return
    try:
        parts = urlsplit(base_url)
        is_known = bool(parts.scheme == "file" or (parts.scheme in ("http", "https") and parts.hostname))
    except ValueError:
        is_known = False
    if not is_known:
        raise InputError(f"base_url must be like http://HOST[:PORT][/PATH], or file:///FOLDER, got {base_url!r}.")


def _at(address: str, base_url: str | None) -> str:
    parts = urlsplit(address)
    host = base_url.rstrip("/") if base_url else f"{parts.scheme}://{parts.netloc}"
    return host + quote(parts.path)


def _fetch(
    file: SourceFile,
    address: str,
    target: Path,
    *,
    timeout: float,
    retries: int,
    pause: float,
    progress: Callable[[str, int, int], None] | None,
) -> None:
    path = target / file.name
    part = target / f".{file.name}.part"
    with storage_errors(path):
        if path.is_file() and path.stat().st_size == file.num_bytes and _sha256(path) == file.sha256:
            return
        for attempt in range(retries + 1):
            try:
                _attempt(file, address, part, timeout, progress)
                part.replace(path)
                return
            except _FetchError as error:
                if error.code == _NO_SUCH_RANGE:
                    part.unlink(missing_ok=True)
                if error.is_final or attempt == retries:
                    tries = f" after {attempt + 1} attempts" if attempt else ""
                    raise DataError(f"{file.name} could not be fetched{tries}: {error}.") from error
                time.sleep(pause * 2**attempt)


def _attempt(
    file: SourceFile, address: str, part: Path, timeout: float, progress: Callable[[str, int, int], None] | None
) -> None:
    """One transfer, then the check. Leaves a short `part` for the next attempt, and no wrong one."""
    done = part.stat().st_size if part.is_file() else 0
    if done >= file.num_bytes:
        part.unlink()
        done = 0
    with part.open("ab") as output:
        for start, block in _blocks(address, done, time.monotonic() + timeout, min(timeout, _STALL_SECONDS)):
            if start is not None:  # where the server begins: at `done`, or at 0 when it cannot resume
                output.truncate(start)
                done = start
            output.write(block)
            done += len(block)
            if done > file.num_bytes:
                break
            if progress is not None:
                progress(file.name, done, file.num_bytes)
        output.flush()
        os.fsync(output.fileno())
    if done < file.num_bytes:
        raise _FetchError(f"the connection ended after {done:,} of {file.num_bytes:,} bytes")
    found = _sha256(part) if done == file.num_bytes else None
    if found != file.sha256:
        part.unlink()
        what = f"SHA-256 {found[:16]}… instead of {file.sha256[:16]}…" if found else "more bytes than it should have"
        raise _FetchError(f"what came is not the file that is known ({what})")


def _blocks(address: str, done: int, deadline: float, stall: float) -> Iterator[tuple[int | None, bytes]]:
    """Blocks of the answer's body; with the first one, the position in the file where the server starts."""
    headers = {"User-Agent": f"any2vec/{__version__}", "Accept-Encoding": "identity"}
    if done:
        headers["Range"] = f"bytes={done}-"
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=stall) as answer:
            start: int | None = done if answer.status == 206 else 0
            while block := answer.read1(_BLOCK):
                yield start, block
                start = None
                if time.monotonic() > deadline:
                    raise _FetchError("it took longer than the time limit")
    except urllib.error.HTTPError as error:
        with suppress(OSError):
            error.close()
        is_final = error.code in _PERMANENT
        raise _FetchError(f"the server answers {error.code} ({error.reason})", is_final, error.code) from error
    except TimeoutError as error:
        raise _FetchError("the server stopped sending") from error
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        words = "the server stopped sending" if isinstance(reason, TimeoutError) else f"no connection ({reason})"
        raise _FetchError(words) from error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
