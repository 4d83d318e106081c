"""Standard input and named pipes, TCP and Unix sockets: lines that are read once, as fast as they come.

Delivery is at most once, but where standard input is a file (`< FILE`): then a position can be found again.

TCP and Unix sockets: a server that sends lines.

Delivery is at most once: what a server sent is gone when the job is. With `?resume=1` it is exactly once: behind each
connection the client says `RESUME OFFSET` and a line feed, and the server goes on at that byte of its stream.
"""

from __future__ import annotations

import os
import select
import socket
import stat
import time

from any2vec.errors import InputError
from any2vec.sources.base.address import Address
from any2vec.sources.base.cutter import LineCutter, Position, is_before
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.base.pump import Attempts, Batches, cut_all, pump
from any2vec.sources.base.source import Delivery, PacedSource


class Pipe(PacedSource):
    """Lines of a file descriptor. A line's number is its first byte's.

    Position: `offset`, bytes of lines read; of a file also `at`, the same in this file, `mark` and `marked`: one in
    whose place another has come is read from its beginning.

    path: a named pipe that is opened; None: standard input. A named pipe may be opened and closed by many writers, one
    after the other, while it is followed; standard input ends where its writer closes it.
    """

    def __init__(self, path: str | None, name: str, number: int, options: SourceOptions) -> None:
        super().__init__(name, options.rate)
        self._path, self._options = path, options
        self._cutter = LineCutter(number, options, self._tally)
        self._is_file = path is None and _is_file(0)
        self.delivery: Delivery = "exactly once" if self._is_file else "at most once"
        self._file = self._start = 0
        """`_start`: the number of the first byte of a file"""
        self._has_come = False

    def _batches(self, position: Position | None) -> Batches:
        offset = 0 if position is None else int(position["offset"])
        self._cutter.restart(offset)
        if self._path is not None:
            self._file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        elif self._is_file:
            at = 0 if position is None else self._place(position)
            self._start = offset - at
            os.lseek(self._file, at, os.SEEK_SET)
        try:
            is_json = self._options.form == "ndjson"
            yield from pump(self._read, self._cutter, self._position, is_json, self._options, self._tally)
            self._cutter.finish()
            yield from cut_all(self._cutter, self._position, is_json, self._options, self._tally)
            self._tally.state = "closed" if self._is_closed else "ended"
        finally:
            if self._path is not None:
                os.close(self._file)

    def _place(self, position: Position) -> int:
        """Where the file of a position goes on; 0: it is another, or the lines before came from a pipe."""
        if "at" not in position:
            return 0
        at, marked = int(position["at"]), int(position["marked"])
        before = os.pread(self._file, marked, at - marked)
        if is_before(before, position):
            self._cutter.tail = before
            return at
        self._tally.bad("file cut short")
        self._tally.trouble = "Standard input is another file than the one read before; it is read from its beginning."
        return 0

    def _position(self) -> Position:
        if not self._is_file:
            return {"offset": self._cutter.offset}
        return {"offset": self._cutter.offset, "at": self._cutter.offset - self._start, **self._cutter.mark}

    def _read(self, room: memoryview, seconds: float) -> int | None:
        if self._is_closed:
            return 0
        if not select.select([self._file], [], [], seconds)[0]:
            return None
        try:
            size = os.readv(self._file, [room])
        except BlockingIOError:
            return None
        except OSError as error:  # a terminal that has gone
            self._tally.trouble = f"Cannot read {self.name}: {error.strerror}."
            return 0
        self._has_come |= size > 0
        if size == 0 and self._path is not None and (self._options.follow or not self._has_come):
            time.sleep(seconds)
            return None
        return size


def _is_file(descriptor: int) -> bool:
    try:
        return stat.S_ISREG(os.fstat(descriptor).st_mode)
    except OSError:
        return False


_PROBES = 3


class SocketLines(PacedSource):
    """Lines of a socket that we connect to, again where it breaks. A line's number is its first byte's.

    Position: `offset`, bytes of lines read, those of earlier connections counted in. A line that a connection breaks in
    is dropped and counted. Where the server closes in order, the source ends, unless it is followed: then it connects
    again. A silent connection stands as long as the other machine answers the kernel's probes (`patience` seconds).
    """

    def __init__(self, address: Address, number: int, options: SourceOptions, seed: int) -> None:
        super().__init__(address.name, options.rate)
        self._address, self._options = address, options
        resume = address.options.get("resume", "0")
        if resume not in ("0", "1"):
            raise InputError(f"resume must be 0 or 1, got {resume!r} in {address.name}.")
        self._resumes = resume == "1"
        self.delivery: Delivery = "exactly once" if self._resumes else "at most once"
        self._cutter = LineCutter(number, options, self._tally)
        self._attempts = Attempts(options.retries, seed, number, self._tally, lambda: self._is_closed)
        self._socket: socket.socket | None = None

    def _batches(self, position: Position | None) -> Batches:
        self._cutter.restart(0 if position is None else int(position["offset"]))
        return self._attempts.repeat(self._attempt, (OSError,), self._warned)

    def _attempt(self) -> Batches:
        is_json = self._options.form == "ndjson"
        offset, began = self._cutter.offset, time.monotonic()
        with self._connect() as self._socket:
            try:
                if self._resumes:
                    self._socket.sendall(b"RESUME %d\n" % offset)
                for batch in pump(self._read, self._cutter, self._position, is_json, self._options, self._tally):
                    if batch is not None:
                        self._attempts.succeeded()
                    yield batch
                if not self._options.follow and not self._is_closed:
                    self._cutter.finish()
                    yield from cut_all(self._cutter, self._position, is_json, self._options, self._tally)
            finally:
                if self._cutter.held:
                    self._tally.bad("half a line")
                self._cutter.restart(self._cutter.offset)
        if self._options.follow and not self._is_closed:
            if time.monotonic() - began >= self._options.patience:  # no failure: it has stood, and was silent
                self._attempts.succeeded()
            raise ConnectionResetError("the server has closed the connection")

    def _connect(self) -> socket.socket:
        patience = self._options.patience
        if self._address.kind == "unix":
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connected.settimeout(patience)
                connected.connect(self._address.path)
            except BaseException:
                connected.close()
                raise
        else:
            connected = socket.create_connection((self._address.host, self._address.port), patience)
            seconds = max(1, int(patience / (_PROBES + 1)))
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in (("TCP_KEEPIDLE", seconds), ("TCP_KEEPINTVL", seconds), ("TCP_KEEPCNT", _PROBES)):
                if hasattr(socket, option):
                    connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        return connected

    def _read(self, room: memoryview, seconds: float) -> int | None:
        assert self._socket is not None
        if self._is_closed:
            return 0
        if not select.select([self._socket], [], [], seconds)[0]:
            return None
        return self._socket.recv_into(room)

    def _position(self) -> Position:
        return {"offset": self._cutter.offset}

    def _warned(self, error: BaseException) -> str:
        return f"{self.name}: {getattr(error, 'strerror', None) or str(error) or 'no answer'}."
