"""The runs that are served, by their names: opened, and opened anew when their folders are published anew.

A request keeps the run that it began with: a new one takes the place of the old in one step, when it is open and whole.
What is served is held in memory, whatever becomes of its files; only tables that are too large for it stay mapped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from any2vec.background import Background
from any2vec.data.attributed.predictions import PredictedClasses
from any2vec.data.io.held import SHARE, in_memory, kept
from any2vec.embeddings import Embeddings
from any2vec.errors import FormatError, InputError, UnknownKeyError
from any2vec.formats.native import file_stamp
from any2vec.formats.snapshots import LATEST, has_snapshots
from any2vec.formats.vocabulary import beside
from any2vec.models.clicks.keys import trained_keys
from any2vec.train.registry import task_of_run

EVERY = 1.0
"""seconds between two looks at the folders"""
_PATIENCE = 2.0
"""seconds that closing waits for an opening under way"""
_TRIES = 20
"""openings of a folder that changes meanwhile"""
Stamp = tuple[Any, ...]
_WITH_KEYS_BESIDE = (".safetensors", ".npy")
"""suffixes of files whose keys stand in another"""


@dataclass(frozen=True)
class ServedRun:
    """A run as it was published at one moment."""

    name: str
    stamp: Stamp
    task: str
    """of the run; "": the folder or file holds vectors alone"""
    embeddings: Embeddings
    scorer: Any = None
    """what its task scores with; None: nothing"""
    classes: PredictedClasses | None = None
    """of its nodes, where it is a classifier"""
    is_approximate: bool = False
    """whether neighbors come from an index by default"""
    mapped: tuple[Path, ...] = ()
    """files of tables that are too large to be held in memory"""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """for what only one request may do at a time"""


class Catalog(Background):
    """Runs by name; a context, in which folders are watched.

    Args:
        folders: name -> run folder, or any file of vectors.
        approximate: build an index of each, for neighbors.
        complain: is called with a sentence when a new publication cannot be opened, and the old one is served on; and
            when a table stays mapped.

    Raises:
        InputError, FormatError: one of them cannot be opened.
    """

    def __init__(
        self, folders: Mapping[str, Path], approximate: bool = False, complain: Callable[[str], None] = lambda _: None,
        every: float = EVERY,
    ) -> None:  # fmt: skip
        super().__init__([("catalog", self._watch)], _PATIENCE)
        self._folders, self._approximate, self._complain, self._every = dict(folders), approximate, complain, every
        self._runs = {name: self._open(name) for name in folders}
        self._failed: dict[str, Stamp] = {}

    def __getitem__(self, name: str) -> ServedRun:
        """As it is now. UnknownKeyError: there is none of that name."""
        if name not in self._runs:
            raise UnknownKeyError(f"There is no run {name!r}; there are {', '.join(sorted(self._runs))}.")
        return self._runs[name]

    def runs(self) -> list[ServedRun]:
        """As they are now, in the order given."""
        return list(self._runs.values())

    def refresh(self) -> None:
        """Open anew what has been published since."""
        for name, folder in self._folders.items():
            stamp = stamp_of(folder)
            if stamp is None or stamp in (self._runs[name].stamp, self._failed.get(name)):
                continue  # None: it is just being replaced
            try:
                self._runs[name] = self._open(name)
                self._failed.pop(name, None)
            except Exception as error:  # whatever it is, the service goes on
                self._failed[name] = stamp
                with suppress(OSError, ValueError):  # a log that nobody reads any more
                    self._complain(
                        f"{name} was published anew and cannot be opened ({error}); the one before is served."
                    )

    def _open(self, name: str) -> ServedRun:
        run = open_run(name, self._folders[name], self._approximate)
        for file in run.mapped:
            self._complain(
                f"{name}: {file} is larger than {SHARE:.0%} of the free memory and stays mapped; put a new one in its "
                "place by renaming it (mv), for writing over it ends the server."
            )
        return run

    def _watch(self) -> None:
        while not self._is_over:
            with self._condition:
                self._condition.wait_for(lambda: self._is_over, self._every)
            if not self._is_over:
                self.refresh()


def open_run(name: str, folder: Path, approximate: bool) -> ServedRun:
    """A run, all of whose parts are of one publication, with what the first request would else wait for.

    Raises:
        InputError, FormatError: it cannot be opened.
    """
    for _ in range(_TRIES):
        before = stamp_of(folder)
        if before is None:  # says what is wrong, or that a run has not ended
            Embeddings.load(folder)
            continue
        task = None if has_snapshots(folder) else task_of_run(folder)
        try:
            with in_memory() as held:
                embeddings, scorer = Embeddings.load(folder), None if task is None else task.scorer(folder)
                _hold(scorer)
            classes = None if task is None else PredictedClasses.read(folder)
            if classes is not None and len(classes.predicted) != len(embeddings):
                raise FormatError(f"{folder} is damaged: its predictions are of other nodes than its vectors.")
        except (FormatError, OSError):
            if stamp_of(folder) == before:
                raise
            continue
        if stamp_of(folder) != before:
            continue
        embeddings = trained_keys(embeddings)
        _ = embeddings.norms, embeddings.keys.by_name()
        if approximate:
            embeddings.index()
        named = "" if task is None else task.name
        return ServedRun(name, before, named, embeddings, scorer, classes, approximate, tuple(sorted(held.mapped)))
    raise FormatError(f"{folder} changes faster than it can be opened; serve it when it has come to rest.")


def _hold(scorer: Any) -> None:
    """Take what its own reader has mapped, such as the triples of training, into memory."""
    for name, value in list(getattr(scorer, "__dict__", {}).items()):
        if isinstance(value, np.memmap):
            object.__setattr__(scorer, name, kept(value))  # frozen ones, too


def stamp_of(folder: Path) -> Stamp | None:
    """What changes when a run is published anew; None: there is nothing whole."""
    try:
        latest = folder / LATEST
        place = folder / latest.readlink() if has_snapshots(folder) else folder
        found = file_stamp(place / "meta.json" if place.is_dir() else place)
    except OSError:
        return None
    keys = [beside(place), place.with_name("vocabulary.tsv")] if place.suffix in _WITH_KEYS_BESIDE else []
    return None if found is None else (str(place), found, *map(file_stamp, keys))


def named_folders(given: Sequence[str]) -> dict[str, Path]:
    """`DIR` or `NAME=DIR`, each of a name of its own, by default that of its folder.

    Raises:
        InputError: a name comes twice, or nothing is there.
    """
    found: dict[str, Path] = {}
    for text in given:
        name, is_named, place = ("", "", "") if Path(text).exists() else text.partition("=")
        folder = Path(place if is_named else text)
        name = name if is_named else folder.absolute().name
        if not name or "/" in name:
            raise InputError(f"A name is what stands before = and has no /, got {text!r}.")
        if name in found:
            raise InputError(f"Two runs are called {name}; give one another name, like other={folder}.")
        if not folder.exists():
            raise InputError(f"There is no {folder}; give the folder of a run, or a file of vectors.")
        found[name] = folder
    return found
