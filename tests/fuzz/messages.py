"""Messages between hosts, damaged or made up, and what reads them."""

from __future__ import annotations

import numpy as np
from xxhash import xxh3_64_intdigest

from any2vec.cluster.codec import pack_ids, pack_rows, pack_state, unpack_ids, unpack_lists, unpack_rows, unpack_state
from any2vec.cluster.message import HEAD, KINDS, Message, Part, checksum, decode, encode, from_memory, read_head
from any2vec.cluster.threads import run_logical
from any2vec.cluster.transport import Transport
from any2vec.tables.server.blocks.row_block import Added, RowBlock
from any2vec.tables.server.client import RowClient
from any2vec.tables.server.request import Request, read_request
from any2vec.tables.server.server import RowServer
from fuzz.damage import damaged

_TYPES = (np.uint8, np.int8, np.int16, np.uint16, np.uint32, np.int64, np.float16, np.float32, np.float64)
_ROWS = 7
_VERBS = ("pull", "push", "pool", "call", "tick")


def sample(rng: np.random.Generator) -> list[Part]:
    """The parts of a sound message of one of the kinds that hosts send."""
    rows, ids = np.ones((3, 4), np.float32), np.array([1, 3, 5])
    state = {"a": np.arange(3), "b": np.ones((2, 2))}
    kinds = (
        [Request("pull", 1).part(), pack_ids(ids, _ROWS)],
        [Request("push", 1, 0, 0, 1).part(), pack_ids(ids, _ROWS), *pack_rows(rows)],
        pack_rows(rows, 8),
        pack_state(state),
    )
    return kinds[int(rng.integers(len(kinds)))]


def read_damaged(rng: np.random.Generator) -> None:
    """A message whose bytes are damaged, with checksums that fit in half of the cases."""
    head, pieces = encode(Message(0, 1, 2, "rows", tuple(sample(rng))))
    body = damaged(b"".join(piece.tobytes() for piece in pieces), rng) if rng.random() < 0.7 else b""
    fields = list(HEAD.unpack(head))
    if rng.random() < 0.5:
        fields[6], fields[8] = checksum([np.frombuffer(body, np.uint8)]), len(body)
        head = HEAD.pack(*fields)[:-8]
        head += xxh3_64_intdigest(head).to_bytes(8, "little")
    if rng.random() < 0.5:
        head = damaged(head, rng)
    found = read_head(head)
    if found.size <= len(body):
        read(list(decode(found, from_memory(np.frombuffer(body, np.uint8))).parts), rng)


def drawn_parts(rng: np.random.Generator) -> list[Part]:
    """Parts of any kind, type and shape that a message can carry."""
    parts = sample(rng) if rng.random() < 0.5 else []
    for _ in range(int(rng.integers(0, 4))):
        shape = tuple(int(size) for size in rng.integers(0, 5, int(rng.integers(1, 3))))
        numbers = rng.choice([-1.0, 0.0, 1.0, 3.0, 6.0, 7.0, 255.0, 1e18, np.nan, np.inf], shape)
        with np.errstate(invalid="ignore", over="ignore"):
            array = numbers.astype(_TYPES[int(rng.integers(len(_TYPES)))])
        parts.insert(int(rng.integers(0, len(parts) + 1)), Part(str(rng.choice(KINDS)), array))
    return parts


def read_drawn(rng: np.random.Generator) -> None:
    """Sound messages of senseless parts."""
    read(drawn_parts(rng), rng)


def read(parts: list[Part], rng: np.random.Generator) -> None:
    """Take parts for one of the things that they may stand for."""
    if not parts:
        return
    turn = int(rng.integers(5))
    if turn == 0:
        read_request(parts)
    elif turn == 1:
        unpack_ids(parts[0], _ROWS)
    elif turn == 2 and len(parts) > 1:
        unpack_rows(parts[:2])
    elif turn == 3 and len(parts) > 1:
        unpack_lists([parts[:2]])
    elif turn == 4:
        unpack_state(parts)


def ask_a_server(rng: np.random.Generator) -> None:
    """A row server is asked for nonsense by one host; whatever that gets, the server serves the next."""

    def host(transport: Transport) -> None:
        block = RowBlock(Added(np.ones((_ROWS, 4), np.float32)))
        server = RowServer(transport, {"a": block})
        server.start()
        client = RowClient(server, [0, _ROWS, 2 * _ROWS], 4)
        if transport.rank == 0:
            verb = _VERBS[int(rng.integers(len(_VERBS)))]
            numbers = (int(number) for number in rng.choice([-2, -1, 0, 1, 5, 2**40], 3))
            request = Request(verb, 901, *numbers)
            parts = [request.part(), *drawn_parts(rng)] if rng.random() < 0.8 else drawn_parts(rng)
            transport.send(1, parts, verb, "rows?")
        client.pull({"a": np.arange(2 * _ROWS)})
        client.close()

    run_logical(2, host, patience=20.0)
