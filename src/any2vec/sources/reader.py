"""`python -m any2vec.sources.reader`: reads one source in its own process and writes its batches as messages.

The order is a line of JSON on standard input (an address may hold a password, which no list of processes is to show):
address, number, options, seed, text, position. Each message on standard output has a batch or the end, as
JSON, and the arrays of a batch, if there is one. The pipe is the bounded queue: while nobody takes, the reader waits
and reads nothing. It ends with its parent, whose end is that of standard input; a line there that says STOP closes the
source, of which what was read still comes.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

from any2vec.cluster.message import Message, Part, encode
from any2vec.cluster.transport import text_of, text_part
from any2vec.data.options import TextOptions
from any2vec.errors import Any2VecError
from any2vec.sources.base.cutter import LineBatch
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.base.source import Source
from any2vec.sources.opening import open_source
from any2vec.units import visible

STOP = b"stop"
REFUSED = 3
"""exit code of a reader that would fail again"""


def main() -> None:
    """Read until the source ends."""
    order = json.loads(_line())
    out = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints is no message
    try:
        reading, text = SourceOptions(**order["options"]), TextOptions(**order["text"])
        source = open_source(order["address"], order["number"], reading, order["seed"], text)
    except Any2VecError as error:
        print(visible(str(error)), file=sys.stderr)
        sys.exit(REFUSED)
    threading.Thread(target=_watch_parent, args=(source,), daemon=True).start()
    for batch in source.batches(order["position"]):
        _write(out, message_of(batch, source.metrics(), False))
    _write(out, message_of(None, source.metrics(), True))


def message_of(batch: LineBatch | None, metrics: dict[str, Any], is_last: bool) -> Message:
    """The message of a batch, or of none.

    metrics: of the source; is_last: it has ended.
    """
    about: dict[str, Any] = {"metrics": metrics, "is_last": is_last}
    parts: list[Part] = []
    if batch is not None:
        about |= {"source": batch.source, "position": batch.position, "names": None}
        if batch.names is not None:
            about["names"] = list(batch.names)
        arrays = (batch.text_B, batch.stop_N, batch.key_N, batch.offset_N)
        parts = [Part("dense", array) for array in arrays]
    return Message(0, 0, 0, "lines", (text_part(json.dumps(about)), *parts))


def received(message: Message) -> tuple[LineBatch | None, dict[str, Any], bool]:
    """The parts of a message of `message_of`: (batch, metrics, is_last)."""
    about = json.loads(text_of(message.parts[0]))
    batch = None
    if len(message.parts) == 5:
        text_B, stop_N, key_N, offset_N = (part.array for part in message.parts[1:])
        batch = LineBatch(about["source"], text_B, stop_N, key_N, offset_N, about["position"], about["names"])
    return batch, about["metrics"], about["is_last"]


def _write(out: int, message: Message) -> None:
    head, pieces = encode(message)
    for piece in (memoryview(head), *(piece.data for piece in pieces)):
        view = piece.cast("B")
        while view:
            view = view[os.write(out, view) :]


def _line() -> bytes:
    """The next line of standard input, and nothing behind it."""
    found = bytearray()
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        found += byte
    return bytes(found)


def _watch_parent(source: Source) -> None:
    while _line() == STOP:
        source.close()
    os._exit(1)


if __name__ == "__main__":
    main()
