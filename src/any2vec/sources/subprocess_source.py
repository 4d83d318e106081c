"""A source that a process of its own reads. It is started again, behind the last line that came, where it is lost."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import numpy as np

from any2vec.cluster.message import HEAD, Message, decode, from_memory, read_head
from any2vec.data.options import TextOptions
from any2vec.errors import InputError, MessageError
from any2vec.sources.base.cutter import LineBatch, Position
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.base.source import Delivery, Source
from any2vec.sources.opening import open_source
from any2vec.sources.reader import REFUSED, STOP, received

MOMENT = 0.1
_SILENCE = 20.0
"""seconds beyond the source's patience without a sign of the reader's life, after which it is ended; it gives one each
moment"""
_STARTING = 120.0
"""the same for the first one"""
_ENDING = 10.0
"""seconds that a reader has, once closed, to give what it has read"""
_ADDED = ("lines", "bytes", "reconnects", "bad")


class SubprocessSource:
    """A `Source` read by a process.

    A reader that is killed, crashes or hangs is started again, `options.retries` times in a row at most, and counts as
    a reconnect; what it had read and nobody has got is read again. Once closed, it gives what it has read of a source
    that cannot be asked again.

    Args:
        address, number, options, seed, text: as `open_source`; no standard input and no iterable.

    Raises:
        InputError, DataError: as `open_source`.
    """

    def __init__(
        self, address: str, number: int, options: SourceOptions, seed: int = 1, text: TextOptions | None = None
    ) -> None:
        like = open_source(address, number, options, seed, text)
        self.name: str = like.name
        self.delivery: Delivery = like.delivery
        self.reader: int | None = None
        """its process"""
        self._order = {
            "address": address, "number": number, "options": asdict(options), "seed": seed,
            "text": asdict(text or TextOptions()),
        }  # fmt: skip
        self._options = options
        self._metrics = like.metrics()
        self._before: Counter[str] = Counter()
        """what readers that were lost had counted"""
        self._bad_before: Counter[str] = Counter()
        self._trouble: str | None = None
        self._is_closed = False

    def batches(self, position: Position | None) -> Iterator[LineBatch | None]:
        failures = 0
        while not self._is_closed:
            reader = _Reader(self._order | {"position": position})
            self.reader = reader.process.pid
            try:
                for message in reader.messages(self._options.patience + _SILENCE):
                    if self._is_closed and (self.delivery != "at most once" or reader.stop(_ENDING)):
                        return
                    if message is None:
                        yield None
                        continue
                    batch, self._metrics, is_last = received(message)
                    if batch is not None:
                        position, failures = batch.position, 0
                    if is_last:
                        return
                    yield batch
            finally:
                reader.end()
            if self._is_closed:
                return
            failures += 1
            self._lost(reader, failures)
            if failures > self._options.retries or reader.process.returncode == REFUSED:
                self._metrics |= {"state": "given up"}
                return
            until = time.monotonic() + min(30.0, 0.1 * 2**failures)
            while time.monotonic() < until and not self._is_closed:
                time.sleep(MOMENT / 2)
                yield None

    def close(self) -> None:
        self._is_closed = True

    def metrics(self) -> dict[str, Any]:
        """Those of the reader, and of the readers before it; each start again is a reconnect."""
        metrics = dict(self._metrics)
        for name in _ADDED:
            metrics[name] += self._before[name]
        metrics["bad_by"] = dict(self._bad_before + Counter(metrics["bad_by"]))
        return metrics | {"trouble": metrics["trouble"] or self._trouble}

    def _lost(self, reader: _Reader, failures: int) -> None:
        """Count what the reader had counted, and say what became of it."""
        self._before.update({name: self._metrics[name] for name in _ADDED} | {"reconnects": 1})
        self._bad_before.update(self._metrics["bad_by"])
        self._metrics |= {**dict.fromkeys(_ADDED, 0), "bad_by": {}, "trouble": None, "state": "retrying"}
        allowed = self._options.retries
        again = f"it is started again ({failures} of {allowed} in a row)" if failures <= allowed else "it is given up"
        self._trouble = f"The reader {reader.fate()}; {again}."


class _Reader:
    """One process that reads."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  a pipe that nobody reads would fill up
        self._why = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "any2vec.sources.reader"],
            stdin=subprocess.PIPE,  # for the order; its end tells the reader that this process is gone
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C in a terminal is this process's affair
        )
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it is gone already, which will be seen
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()
        self._until: float | None = None
        """when it must have ended, once it is to stop"""

    def stop(self, seconds: float) -> bool:
        """Tell it to read nothing more; what it has read still comes. True: so many seconds have gone since."""
        assert self.process.stdin is not None
        if self._until is None:
            self._until = time.monotonic() + seconds
            with suppress(BrokenPipeError):
                os.write(self.process.stdin.fileno(), STOP + b"\n")
        return time.monotonic() > self._until

    def messages(self, silence: float) -> Iterator[Message | None]:
        """What it writes, until its end; None where nothing has come for a moment.

        silence: seconds without anything after which it is ended.
        """
        assert self.process.stdout is not None
        out, held, wanted, head = self.process.stdout.fileno(), bytearray(), HEAD.size, None
        last, patience = time.monotonic(), _STARTING
        while True:
            ready, _, _ = select.select([out], [], [], MOMENT)
            if not ready:
                if time.monotonic() - last > patience:
                    self._why = f"gave no sign of life for {patience:g} s"
                    return
                yield None
                continue
            piece = os.read(out, 1 << 20)
            if not piece:
                return
            last, patience = time.monotonic(), silence
            held += piece
            while len(held) >= wanted:
                try:
                    if head is None:
                        head = read_head(bytes(held[:wanted]))
                        del held[:wanted]
                        wanted = head.size
                        continue
                    message = decode(head, from_memory(np.frombuffer(bytes(held[:wanted]), np.uint8)))
                except MessageError as error:
                    self._why = f"wrote what is no message ({error})"
                    return
                del held[:wanted]
                head, wanted = None, HEAD.size
                yield message
                last = time.monotonic()

    def end(self) -> None:
        """Leave nothing behind."""
        if self.process.poll() is None:
            try:
                self.process.wait(MOMENT)
            except subprocess.TimeoutExpired:
                self._why = self._why or "was ended"
                with suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 4096))
        self._said = self._errors.read().decode(errors="replace").strip().rpartition("\n")[2]
        self._errors.close()

    def fate(self) -> str:
        """What became of it."""
        code = self.process.returncode
        if self._why:
            return self._why
        if code is not None and code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with exit code {code}" + (f" ({self._said})" if self._said else "")


def open_subprocesses(
    addresses: Sequence[str | Iterable[Any]], options: SourceOptions, seed: int = 1, text: TextOptions | None = None
) -> list[Source]:
    """As `open_sources`, each read by a process.

    Raises:
        InputError, DataError: as `open_source`; or a source is of this process alone.
    """
    found: list[Source] = []
    for number, address in enumerate(addresses):
        if not isinstance(address, str) or address == "-":
            what = "Standard input" if address == "-" else "An iterable"
            raise InputError(f"{what} is read by this process; leave out --readers processes.")
        found.append(SubprocessSource(address, number, options, seed, text))
    return found
