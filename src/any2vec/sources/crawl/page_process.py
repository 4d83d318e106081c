"""`python -m any2vec.sources.crawl.page_process`: reads pages in a process of its own.

A parser holds Python's lock, and a page of some kilobytes can be made to need gigabytes and minutes. Here that costs
the page alone. Standard input has, for each page, JSON and the body; standard output has JSON, a greeting first: each
behind its length, 4 bytes. The process ends with its parent, whose end is that of standard input.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import struct
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from any2vec.checks import parse_json
from any2vec.sources.crawl.page import BadPageError, Page, read_page

_LENGTH = struct.Struct(">I")
_MEMORY = 1 << 30
"""bytes of address space that pages may take, beside what the process has without them"""
_STARTING = 120.0
"""seconds"""
_SPARE = 2.0
"""seconds beyond the patience after which a process whose parent is gone ends itself"""


class PageProcess:
    """Reads one page after the other, without blocking the event loop. Its process is started when there is a page, and
    anew where a page was its end.

    Args:
        patience: seconds that a page takes at most, from when its turn comes.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._turn = asyncio.Lock()
        self.process: asyncio.subprocess.Process | None = None

    async def read(self, body: bytes, content_type: str, robots_tag: str = "") -> Page:
        """As `read_page`.

        Raises:
            BadPageError: as there; or the page takes too long or too much memory to read.
            OSError, TimeoutError: the process does not start.
        """
        about = {"type": content_type, "tag": robots_tag, "patience": self._patience}
        async with self._turn:
            process = await self._started()
            assert process.stdin is not None
            try:
                async with asyncio.timeout(self._patience):
                    process.stdin.writelines([_framed(json.dumps(about).encode()), _framed(body)])
                    await process.stdin.drain()
                    found = await _answer_of(process)
            except (EOFError, ConnectionError, TimeoutError) as error:
                await self.close()
                raise BadPageError("page takes too long or too much memory to read") from error
            except asyncio.CancelledError:  # its answer would be taken for that of the next page
                await self.close()
                raise
        if "bad" in found:
            raise BadPageError(found["bad"])
        return Page(found["text"], tuple(found["links"]), found["base"])

    async def close(self) -> None:
        """End the process."""
        process, self.process = self.process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _started(self) -> asyncio.subprocess.Process:
        if self.process is not None and self.process.returncode is None:
            return self.process
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "any2vec.sources.crawl.page_process",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in a terminal is this process's affair
        )  # fmt: skip
        try:
            async with asyncio.timeout(_STARTING):
                await _answer_of(self.process)
        except BaseException as error:
            await self.close()
            if isinstance(error, EOFError):
                raise OSError("the process that reads pages does not start") from error
            raise
        return self.process


def _framed(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


async def _answer_of(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    (length,) = _LENGTH.unpack(await process.stdout.readexactly(_LENGTH.size))
    found: dict[str, Any] = parse_json(await process.stdout.readexactly(length))
    return found


def main() -> None:
    """Read pages until nobody asks."""
    import resiliparse.extract.html2text
    import resiliparse.parse.encoding
    import resiliparse.parse.html  # noqa: F401  its memory is not the pages'

    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError):  # where there is no such file, the patience has to do
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + _MEMORY, held + _MEMORY))
    _write(out, {})
    while (order := _frame(sys.stdin.buffer)) is not None:
        about, body = parse_json(order), _frame(sys.stdin.buffer)
        if body is None:
            return
        signal.setitimer(signal.ITIMER_REAL, about["patience"] + _SPARE)
        try:
            found = asdict(read_page(body, about["type"], about["tag"]))
        except BadPageError as error:
            found = {"bad": str(error)}
        signal.setitimer(signal.ITIMER_REAL, 0)
        _write(out, found)


def _frame(stream: IO[bytes]) -> bytes | None:
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    return data if len(data) == length else None


def _write(out: IO[bytes], found: dict[str, Any]) -> None:
    out.write(_framed(json.dumps(found).encode()))
    out.flush()


if __name__ == "__main__":
    main()
