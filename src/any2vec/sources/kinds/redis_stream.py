"""Redis streams.

Delivery is exactly once: what follows an entry's id can be asked for, as long as the server keeps it. What it trims
before it is read is gone, and no server reports it.
"""

from __future__ import annotations

import contextlib
from typing import Any

from any2vec.errors import InputError
from any2vec.sources.base.address import Address
from any2vec.sources.base.cutter import Position
from any2vec.sources.base.options import SourceOptions
from any2vec.sources.base.pump import MOMENT, Attempts, Batches
from any2vec.sources.base.records import Records, is_utf8
from any2vec.sources.base.source import PacedSource

_MOST_ENTRIES = 512
_WANTED_BYTES = 1 << 18
"""of one answer, about"""


class RedisStream(PacedSource):
    """Entries of one stream: the field of each that holds its text, or the one field that holds a JSON object.

    Begins with the oldest entry. An entry's id is what its id field says, else the server's. As many are asked for at
    once as the last ones were small. Position: `last` (the server's id of the last one), `number` (entries that came).
    """

    def __init__(self, address: Address, number: int, options: SourceOptions, seed: int) -> None:
        database = address.options.get("db", "0")
        if not database.isdecimal():
            raise InputError(f"db must be a number from 0, got {database!r} in {address.name}.")
        super().__init__(address.name, options.rate)
        self._address, self._database, self._options = address, int(database), options
        self._records = Records(number, options, self._tally)
        self._attempts = Attempts(options.retries, seed, number, self._tally, lambda: self._is_closed)
        self._last, self._number = "0-0", 0
        self._most = _MOST_ENTRIES
        self._client: Any = None

    def close(self) -> None:
        super().close()
        if (client := self._client) is not None:
            with contextlib.suppress(Exception):
                client.connection_pool.disconnect()  # wakes a reader that a silent server holds

    def _batches(self, position: Position | None) -> Batches:
        import redis

        if position is not None:
            self._last, self._number = str(position["last"]), int(position["number"])
        nonsense = (ValueError, TypeError, AttributeError, LookupError)  # what another server provokes in the client
        return self._attempts.repeat(self._attempt, (redis.RedisError, OSError, *nonsense), self._warned)

    def _attempt(self) -> Batches:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        address, patience = self._address, self._options.patience
        self._client = redis.Redis(
            host=address.host,
            port=address.port or 6379,
            db=self._database,
            username=address.user or None,
            password=address.password,
            ssl=address.kind == "rediss",
            ssl_check_hostname=True,
            socket_timeout=max(patience, 3 * MOMENT),  # more than an answer may take by what is asked
            socket_connect_timeout=patience,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
        )
        try:
            while not self._is_closed:
                most = min(self._most, self._options.most_lines)
                answer = self._client.xread({self._address.path: self._last}, most, int(MOMENT * 1000))
                entries = _entries_of(answer)
                self._attempts.succeeded()
                for id, fields in entries:
                    self._add(id.decode("ascii", "replace"), fields)
                batch = self._records.take({"last": self._last, "number": self._number})
                self._tally.lines += len(batch or ())
                self._tally.state = "waiting" if batch is None else "reading"
                yield batch
                if not entries and not self._options.follow:
                    return
        finally:
            self._client.close()

    def _add(self, id: str, fields: dict[bytes, bytes]) -> None:
        size = sum(len(name) + len(value) for name, value in fields.items())
        self._most = max(1, min(_MOST_ENTRIES, 2 * self._most, _WANTED_BYTES // max(1, size)))
        self._tally.bytes += size
        self._last = id
        number, self._number = self._number, self._number + 1
        is_json = self._options.form == "ndjson"
        text = fields.get(self._options.field.encode())
        if is_json and len(fields) == 1:
            text = next(iter(fields.values()))
        if text is None:
            self._tally.bad(f"no field {self._options.field}")
            return
        if not is_utf8(text):
            self._tally.bad("not UTF-8")
        if is_json:
            self._records.add_json(number, text, name=id)
            return
        own = fields.get(self._options.id_field.encode())
        self._records.add(number, text, None if own is None else own.decode("utf-8", "replace"), name=id)

    def _warned(self, error: BaseException) -> str:
        return f"{self.name}: {str(error).rstrip('.') or type(error).__name__}."


def _entries_of(answer: Any) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """The entries of the one stream that was asked for, those that were deleted left out."""
    return [(id, fields) for id, fields in answer[0][1] if fields is not None] if answer else []
