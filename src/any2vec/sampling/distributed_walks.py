"""Walks on a graph that fits no host: walkers travel to the host that owns the node, in supersteps.

In a superstep each host lets its walkers go as far as it can, then all exchange messages: walkers that leave, walk
segments for the hosts that sent them out, edge queries and their answers. A second-order step whose coin does not
settle it asks whether the candidate is a neighbor of the last node: here where either row is (in a directed graph only
the last node's), else the owner of the last node, who answers in the next superstep while the walker waits. Where a
step must be enumerated (see `kernels.graph.walk`), that owner sends the row of the last node. The walks are those of
`sampling.walks.Walker`.
"""

from __future__ import annotations

import zlib
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np

from any2vec.checks import check_whole
from any2vec.cluster.message import Part
from any2vec.cluster.transport import Transport
from any2vec.errors import HostError, InputError, MessageError
from any2vec.kernels.common.rng import PURPOSE_ORDER, PURPOSE_WALK, stream_key
from any2vec.kernels.graph import segments, walk
from any2vec.kernels.graph import walk_parts as kernels
from any2vec.sampling.parts import GraphPart
from any2vec.sampling.walker_messages import Message, pack_walkers
from any2vec.sampling.walks import WalkOptions, biases_of

PHASE = "walk"
IN_FLIGHT = 1 << 17
"""walkers under way at once, over all hosts"""
ROW_ROOM = 1 << 16
"""words of copied rows that a host sends another in one superstep, unless a single row is longer"""
_MOST_TICKETS = (1 << 31) - 2
_FIRST_ORDER = (kernels.TICKET, kernels.NODE, kernels.DONE)
_SECOND_ORDER = (*_FIRST_ORDER, kernels.LAST, kernels.DRAWS)


@dataclass
class DistributedWalkStats:
    """What one host saw of distributed walks, since it began."""

    supersteps: int = 0
    crossings: int = 0
    """walkers that left it for another host"""
    edges_asked: int = 0
    rows_asked: int = 0
    most_walkers: int = 0
    """the most walkers that it held at once"""
    most_bytes: int = 0
    """the most bytes that it held at once beside its part and the walks that it asked for"""


def bytes_in_flight(in_flight: int, walk_length: int, hosts: int, widest_row: int) -> int:
    """What a host holds at most beside its part and the walks that it asked for, in bytes.

    A walker twice (in the batch, and on its way or waiting), the nodes of its walk three times (made, sent, received),
    its own and another's query; and rows on their way to and from each other host. widest_row: entries of the
    longest.
    """
    walker = 2 * 8 * kernels.COLUMNS + 3 * 4 * (walk_length + 2) + 64
    return in_flight * walker + 2 * 4 * hosts * max(ROW_ROOM, widest_row + 1)


class DistributedWalker:
    """One host's end of the walks of a graph that lies on several. All hosts make one, alike but for the part.

    Memory: the part (see `GraphPart`) and what is in flight: at most `in_flight` walkers stand or wait at a host, for
    no more are under way in all (see `bytes_in_flight`).

    Raises:
        InputError: the part is not this host's, or `in_flight` is less than the hosts.
    """

    def __init__(
        self, part: GraphPart, transport: Transport, options: WalkOptions, seed: int, *, in_flight: int = IN_FLIGHT
    ) -> None:
        check_whole("in_flight", in_flight, transport.hosts, 1 << 30)
        if (part.rank, part.sharding.owners) != (transport.rank, transport.hosts):
            raise InputError(
                f"host {transport.rank} of {transport.hosts} was given part {part.rank} of {part.sharding.owners}; "
                "cut the graph into as many parts as hosts and give each its own."
            )
        self.part = part
        self.transport = transport
        self.options = options
        self.seed = seed
        self.in_flight = in_flight
        self.num_nodes = part.num_nodes
        self.num_walks = part.num_nodes * options.walks_per_node
        self.stride = options.walk_length + 1
        """slots of a walk: its nodes and at least one -1"""
        self.stats = DistributedWalkStats()

    @property
    def is_second_order(self) -> bool:
        """Whether the last node matters: p or q is not 1."""
        return self.options.p != 1 or self.options.q != 1

    def sample(self, start: int, stop: int, epoch: int) -> np.ndarray:
        """The walks [start, stop) of `epoch`, int32 ((stop - start) * stride,), -1 behind each: a collective call.

        Every host names its own walks, or none, and helps with all. Equal to `Walker.sample`, bit for bit.

        Raises:
            InputError: the interval is not legal.
            HostError: a host is lost, or they disagree about graph, options, seed or epoch.
        """
        if not 0 <= start <= stop <= self.num_walks:
            raise InputError(f"walks must lie within [0, {self.num_walks}], got [{start}, {stop}).")
        return _Trip(self, start, stop, epoch).run()


class _Trip:
    """One collective call: the walks under way, who waits for an answer, and what is owed to others."""

    def __init__(self, walker: DistributedWalker, start: int, stop: int, epoch: int) -> None:
        self.transport, self.part, self.stats = walker.transport, walker.part, walker.stats
        self.rank, self.hosts = self.transport.rank, self.transport.hosts
        self.start, self.num_walks, self.length = start, stop - start, walker.options.walk_length
        self.num_nodes, self.in_flight = walker.num_nodes, walker.in_flight
        biases = biases_of(walker.options)
        self.params = kernels.WalkParams(
            walker.is_second_order,
            self.part.is_directed,
            biases["biases"],
            biases["accept"],
            walk.PATIENCE,
            self.length,
        )
        self.columns = _SECOND_ORDER if walker.is_second_order else _FIRST_ORDER
        self.walk_key, self.order_key = (stream_key(walker.seed, kind, epoch) for kind in (PURPOSE_WALK, PURPOSE_ORDER))
        self.tickets, self.shift_H, self.share = self._agree(walker, start, stop, epoch)
        self.out = np.full(self.num_walks * walker.stride, -1, np.int32)
        self.filled = np.zeros(self.num_walks, np.int64)
        self.begun = self.over = 0
        self.arrived: list[np.ndarray] = []
        self.near_rows = np.empty(0, np.int32)
        """rows that were asked for, of walkers of status ROW in `arrived`"""
        self.asking_edges: dict[int, deque[np.ndarray]] = defaultdict(deque)
        """walkers that wait for host h, in the batches in which they asked"""
        self.asking_rows: dict[int, np.ndarray] = {}
        self.owed_near: dict[int, np.ndarray] = {}
        self.owed_rows: dict[int, np.ndarray] = {}
        """nodes whose rows host h waits for"""

    def _agree(
        self, walker: DistributedWalker, start: int, stop: int, epoch: int
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """(first ticket of each host int64 (H + 1,), walk less ticket int64 (H,), walks that one may have under way).

        The walks of all hosts have tickets, rank after rank, so that a walker says with one word where it came from.
        """
        part = self.part
        metrics = (
            asdict(walker.options), walker.seed, epoch, self.in_flight, part.is_directed, self.params.patience,
            part.digest,
        )  # fmt: skip
        digest = zlib.crc32(repr(metrics).encode())
        own = np.array([start, stop, digest], np.int64)
        found = self.transport.exchange(dict.fromkeys(self._others(), (Part("control", own),)), PHASE, channel=PHASE)
        asked = np.empty((self.hosts, 3), np.int64)
        asked[self.rank] = own
        for peer, parts in found.items():
            asked[peer] = parts[0].array
        if (asked[:, 2] != digest).any():
            other = int(np.flatnonzero(asked[:, 2] != digest)[0])
            raise HostError(
                f"Ranks {self.rank} and {other} disagree about graph, partition, options, seed or epoch of the walks; "
                "start all hosts with the same."
            )
        sizes = asked[:, 1] - asked[:, 0]
        tickets = np.zeros(self.hosts + 1, np.int64)
        np.cumsum(sizes, out=tickets[1:])
        if tickets[-1] > _MOST_TICKETS:
            raise InputError(f"all hosts together may ask for {_MOST_TICKETS:,} walks at once, got {tickets[-1]:,}.")
        return tickets, asked[:, 0] - tickets[:-1], self.in_flight // max(1, int((sizes > 0).sum()))

    def _others(self) -> Iterator[int]:
        return (peer for peer in range(self.hosts) if peer != self.rank)

    def run(self) -> np.ndarray:
        """Superstep after superstep, until every host knows that its own walks are over.

        Each message says so: all hosts learn it in the same exchange and stop there, so stopping costs no round.
        """
        while True:
            batch = self._next_batch()
            messages, segment_bytes = self._advance(batch)
            is_done = self.over == self.num_walks
            outgoing = {peer: messages[peer]._replace(is_done=is_done) for peer in self._others()}
            found = self.transport.exchange(
                {peer: message.parts() for peer, message in outgoing.items()}, PHASE, channel=PHASE
            )
            incoming = {peer: Message.of(parts, peer) for peer, parts in found.items()}
            for peer, message in incoming.items():
                self._receive(peer, message)
            self._count(batch, segment_bytes, [*outgoing.values(), *incoming.values()])
            if is_done and all(message.is_done for message in incoming.values()):
                return self.out

    def _next_batch(self) -> np.ndarray:
        """Walkers that arrived or got an answer, and new ones as far as the limit allows: int64 (W, COLUMNS)."""
        count = min(self.share - (self.begun - self.over), self.num_walks - self.begun)
        fresh = np.zeros((count, kernels.COLUMNS), np.int64)
        numbers = np.arange(self.begun, self.begun + count)
        nodes = np.empty(count, np.int64)
        kernels.start_nodes(self.order_key, self.start + self.begun, self.num_nodes, nodes)
        fresh[:, kernels.TICKET] = self.tickets[self.rank] + numbers
        fresh[:, kernels.WALK] = self.start + numbers
        fresh[:, kernels.NODE] = nodes
        fresh[:, (kernels.DONE, kernels.IS_HOME)] = 1
        fresh[:, kernels.STATUS] = kernels.ARRIVED
        self.begun += count
        batch = np.concatenate([*self.arrived, fresh])
        self.arrived = []
        return batch

    def _advance(self, batch: np.ndarray) -> tuple[dict[int, Message], int]:
        """Let the batch go; (what is to be sent, by host; bytes of the walk segments made here)."""
        segment = np.empty(int((self.length + 1 - batch[:, kernels.DONE]).sum()), np.int32)
        segment_W1 = np.empty(len(batch) + 1, np.int64)
        kernels.advance(self.part.rows, self.params, self.walk_key, batch, self.near_rows, segment, segment_W1)
        self.near_rows = np.empty(0, np.int32)
        messages = {peer: Message.empty() for peer in self._others()}
        self._announce(batch, segment, segment_W1, messages)
        status = batch[:, kernels.STATUS]
        for peer, walkers in self._by_owner(batch[status == kernels.LEAVES], kernels.NODE):
            messages[peer] = messages[peer]._replace(walkers=pack_walkers(walkers, self.columns))
            self.stats.crossings += len(walkers)
        for peer, walkers in self._by_owner(batch[status == kernels.ASKS_EDGE], kernels.LAST):
            asked = walkers[:, (kernels.LAST, kernels.FOUND)].astype(np.int32)
            messages[peer] = messages[peer]._replace(edges=asked)
            self.asking_edges[peer].append(walkers)
            self.stats.edges_asked += len(walkers)
        for peer, walkers in self._by_owner(batch[status == kernels.ASKS_ROW], kernels.LAST):
            messages[peer] = messages[peer]._replace(nodes=walkers[:, kernels.LAST].astype(np.int32))
            waiting = self.asking_rows.get(peer)
            self.asking_rows[peer] = walkers if waiting is None else np.concatenate([waiting, walkers])
            self.stats.rows_asked += len(walkers)
        self._answer(messages)
        return messages, segment.nbytes + segment_W1.nbytes

    def _by_owner(self, walkers: np.ndarray, column: int) -> Iterator[tuple[int, np.ndarray]]:
        """(host, walkers whose node in `column` it owns), for hosts that have any."""
        yield from _grouped(walkers, self.part.sharding.owner(walkers[:, column]))

    def _announce(
        self, batch: np.ndarray, segment: np.ndarray, segment_W1: np.ndarray, messages: dict[int, Message]
    ) -> None:
        """Walk segments to the hosts that sent the walkers out; this host's own go into its walks at once."""
        homes = self._homes(batch)
        for home, chosen in _grouped(np.arange(len(batch)), homes):
            size = int((np.diff(segment_W1)[chosen] + 2).sum())
            segment_T = np.empty(size, np.int32)
            segment_T = segment_T[
                : segments.write_segments(batch, segment, segment_W1, chosen, self.length, segment_T)
            ].copy()
            if home == self.rank:
                self._read(segment_T)
            else:
                messages[home] = messages[home]._replace(segments=segment_T)

    def _homes(self, walkers: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.tickets, walkers[:, kernels.TICKET], side="right") - 1

    def _read(self, segment_T: np.ndarray) -> None:
        over = segments.read_segments(segment_T, self.tickets[self.rank], self.length, self.filled, self.out)
        if over < 0:
            raise MessageError("A host sent walks that were not asked for, or of more nodes than they have.")
        self.over += over

    def _answer(self, messages: dict[int, Message]) -> None:
        """Answers to what was asked one superstep before; of rows, as many as fit."""
        for peer, near in self.owed_near.items():
            messages[peer] = messages[peer]._replace(near=near)
        self.owed_near = {}
        for peer, nodes in list(self.owed_rows.items()):
            copied = np.empty(max(ROW_ROOM, self.part.widest_row + 1), np.int32)
            count, filled = segments.copy_rows(self.part.rows, nodes, ROW_ROOM, copied)
            messages[peer] = messages[peer]._replace(rows=copied[:filled].copy())
            if count < len(nodes):
                self.owed_rows[peer] = nodes[count:].copy()
            else:
                del self.owed_rows[peer]

    def _receive(self, peer: int, message: Message) -> None:
        self._check(peer, message)
        self._read(np.array(message.segments))
        self._welcome(peer, message.walkers)
        if len(message.near):
            self._resume_edges(peer, message.near)
        if len(message.rows):
            self._resume_rows(peer, np.array(message.rows))
        if len(message.edges):
            near = np.empty(len(message.edges), np.uint8)
            kernels.answer_edges(self.part.rows, np.array(message.edges), near)
            self.owed_near[peer] = np.packbits(near)
        if len(message.nodes):
            owed = self.owed_rows.get(peer)
            self.owed_rows[peer] = np.array(message.nodes) if owed is None else np.concatenate([owed, message.nodes])

    def _check(self, peer: int, message: Message) -> None:
        """Raise MessageError unless kernels can trust what a message says: they look at no bounds."""
        walkers, edges = message.walkers, message.edges
        shapes = (walkers.shape[1:], edges.shape[1:])
        if (len(walkers) and shapes[0] != (len(self.columns),)) or (len(edges) and shapes[1] != (2,)):
            raise MessageError(f"Rank {peer} sent walkers or queries of the wrong width, {shapes}.")
        is_right = self._owns(message.nodes)
        if len(walkers):
            column = dict(zip(self.columns, walkers.T.astype(np.int64), strict=True))
            is_right &= bool((column[kernels.TICKET] < self.tickets[-1]).all()) and self._owns(column[kernels.NODE])
            is_right &= bool(((column[kernels.DONE] >= 1) & (column[kernels.DONE] <= self.length)).all())
            is_right &= bool((column.get(kernels.LAST, np.zeros(1)) < self.num_nodes).all())
        if len(edges):
            is_right &= self._owns(edges[:, 0]) and bool(((edges[:, 1] >= 0) & (edges[:, 1] < self.num_nodes)).all())
        if len(message.near):
            waiting = self.asking_edges[peer]
            is_right &= len(waiting) > 0 and len(message.near) == -(-len(waiting[0]) // 8)
        if not is_right:
            raise MessageError(f"Rank {peer} sent walkers, queries or answers that cannot be: it walks another graph.")

    def _owns(self, nodes: np.ndarray) -> bool:
        """Whether all of `nodes` lie here."""
        if not len(nodes):
            return True
        return bool(
            nodes.min() >= 0 and nodes.max() < self.num_nodes and (self.part.sharding.owner(nodes) == self.rank).all()
        )

    def _welcome(self, peer: int, sent: np.ndarray) -> None:
        """Walkers that came from `peer`."""
        if len(sent) == 0:
            return
        walkers = np.zeros((len(sent), kernels.COLUMNS), np.int64)
        walkers[:, self.columns] = sent
        if not self._is_second_order:
            walkers[:, kernels.DRAWS] = walkers[:, kernels.DONE] - 1
        homes = self._homes(walkers)
        walkers[:, kernels.WALK] = walkers[:, kernels.TICKET] + self.shift_H[homes]
        walkers[:, kernels.IS_HOME] = homes == self.rank
        # The home of a walk has noted the nodes that it chose itself.
        walkers[:, kernels.STATUS] = np.where(homes == peer, kernels.GO, kernels.ARRIVED)
        self.arrived.append(walkers)

    @property
    def _is_second_order(self) -> bool:
        return self.params.is_second_order

    def _resume_edges(self, peer: int, near: np.ndarray) -> None:
        walkers = self.asking_edges[peer].popleft()
        bits = np.unpackbits(near, count=len(walkers))
        walkers[:, kernels.STATUS] = np.where(bits == 1, kernels.NEAR, kernels.FAR)
        self.arrived.append(walkers)

    def _resume_rows(self, peer: int, rows: np.ndarray) -> None:
        places, at = [], 0
        while at < len(rows) and rows[at] >= 0:
            places.append(at)
            at += 1 + int(rows[at])
        waiting = self.asking_rows.get(peer, np.empty((0, kernels.COLUMNS), np.int64))
        if at != len(rows) or len(places) > len(waiting):
            raise MessageError(f"Rank {peer} sent rows that were not asked for, or cut short.")
        walkers, self.asking_rows[peer] = waiting[: len(places)].copy(), waiting[len(places) :].copy()
        walkers[:, kernels.FOUND] = np.array(places) + len(self.near_rows)
        walkers[:, kernels.STATUS] = kernels.ROW
        self.near_rows = np.concatenate([self.near_rows, rows])
        self.arrived.append(walkers)

    def _count(self, batch: np.ndarray, segment_bytes: int, messages: list[Message]) -> None:
        waiting = [*self.asking_rows.values(), *(walkers for queue in self.asking_edges.values() for walkers in queue)]
        held = sum(len(walkers) for walkers in (*waiting, *self.arrived))
        assert max(held, len(batch)) <= self.in_flight, f"{held} walkers at host {self.rank}, at most {self.in_flight}"
        arrays = [batch, *waiting, *self.arrived, self.near_rows, *self.owed_near.values(), *self.owed_rows.values()]
        num_bytes = segment_bytes + sum(array.nbytes for array in arrays) + sum(message.nbytes for message in messages)
        self.stats.supersteps += 1
        self.stats.most_walkers = max(self.stats.most_walkers, held, len(batch))
        self.stats.most_bytes = max(self.stats.most_bytes, num_bytes)


def _grouped(items: np.ndarray, hosts: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """(host, its items in their order), for hosts that have any; hosts: int (any,), of each item."""
    order = np.argsort(hosts, kind="stable")
    first = 0
    for host, stop in enumerate(np.cumsum(np.bincount(hosts)).tolist()):
        if stop > first:
            yield host, items[order[first:stop]]
        first = stop
