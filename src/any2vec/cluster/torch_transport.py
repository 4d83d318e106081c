"""Processes as hosts: messages as bytes over torch.distributed, and a watch over who is still there.

Each peer has two threads of its own: one sends what is queued for it, one reads what it sends into the inbox. So no
send blocks its caller, and a slow peer delays no other. A further thread sends a beat to every peer a few times within
`silence` seconds; beats are not counted, for their number depends on the clock.

The backend is gloo, also where there are GPUs: a message is a head and then as many bytes as the head says, from the
memory of the CPU and at any moment, which NCCL cannot carry. NCCL's place is below this class: for dense arrays that
already lie on the GPU, in a group of its own, with this transport to steer it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import timedelta
from queue import SimpleQueue
from typing import TYPE_CHECKING, Self

import numpy as np

from any2vec.cluster.attempt import Attempt
from any2vec.cluster.inbox import Inbox
from any2vec.cluster.link import LinkModel
from any2vec.cluster.message import HEAD, Message, decode, encode, from_memory, read_head
from any2vec.cluster.transport import PATIENCE, Transport, text_of, text_part
from any2vec.errors import HostError, MessageError

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import Work

SILENCE = 30.0
"""seconds without a byte from a host after which it counts as lost"""
CHUNK = 1 << 22
"""bytes of a message that travel at once: each shows that the sender is alive"""
FIRST = 1 << 20
"""bytes of a body that travel with the head, at once; a copy costs less than a transfer. A longer array has its own"""
POSTED = 3
"""messages of a peer whose memory waits for them. Gloo sends nothing before it has heard that there is memory at the
other end, and that news queues behind all that the other end is sending: hosts that send to each other would take turns
"""
_FOREVER = timedelta(days=3650)  # gloo closes a connection when a wait of its own times out, so it never shall
_SERVICE = 0xFFFF_FFFF
_BEAT, _GOODBYE, _ALARM = "beat", "goodbye", "alarm"
_LAST_WORDS = 2.0
_START, _REST = 0, 1
"""tags: what comes first of a message, whose memory waits; the long arrays behind it"""


class _Line:
    """One peer: what is to be sent to it, and when its last message came."""

    def __init__(self, peer: int) -> None:
        self.peer = peer
        self.queue: SimpleQueue[Message] = SimpleQueue()
        self.posted: deque[tuple[np.ndarray, Work]] = deque()
        """memory that waits for what comes first of the next messages, in their order"""
        self.received = time.monotonic()
        self.is_silent = False
        self.has_ended = False
        """it said goodbye: nothing more will come"""
        self.threads: list[threading.Thread] = []
        """the sender, then the receiver"""


class TorchTransport(Transport):
    """One process's end, on the default group of torch.distributed, which must be gloo's. Use it in a `with` block.

    An emulated link works between processes of one machine only: they share a clock. Queues of messages to be sent
    have no bound: a host that sends without ever waiting for an answer holds what it sent in memory.

    Args:
        silence: seconds (> 0) without a byte from a host, while this one waits, after which it counts as lost.
        attempt: which one the hosts have joined for.
    """

    def __init__(
        self,
        rank: int,
        hosts: int,
        link: LinkModel | None = None,
        patience: float = PATIENCE,
        silence: float = SILENCE,
        attempt: Attempt | None = None,
    ) -> None:
        super().__init__(rank, hosts, link, patience)
        self.attempt = attempt or Attempt()
        self.silence = silence
        self._tick = min(5.0, silence / 5)
        self._inbox = Inbox()
        self._lines = {peer: _Line(peer) for peer in range(hosts) if peer != rank}
        self._error: HostError | None = None
        self._stopped = threading.Event()

    def start(self) -> Self:
        """Begin to listen. Once, after torch.distributed.init_process_group."""
        for line in self._lines.values():
            for role, work in (("to", self._send_all), ("from", self._read_all)):
                line.threads.append(_thread(f"{role}-{line.peer}", work, line))
        if self._lines:
            _thread("beat", self._beat)
        return self

    def close(self) -> None:
        """Say goodbye, then wait (at most `patience` s) until every host has, so that all that was sent arrives."""
        self._send_shutdown(_GOODBYE)
        deadline = time.monotonic() + self.patience
        try:
            self._await_shutdown(deadline)
        finally:
            self._stopped.set()  # or the beat would go on for a caller that lives on
        for line in self._lines.values():
            for thread in line.threads:
                thread.join(max(0.0, deadline - time.monotonic()))
        import torch.distributed as dist

        if dist.is_initialized():
            dist.destroy_process_group()

    def _await_shutdown(self, deadline: float) -> None:
        with self._inbox.lock:
            while not all(line.has_ended for line in self._lines.values()):
                self._check(None)
                if time.monotonic() > deadline:
                    missing = next(peer for peer, line in self._lines.items() if not line.has_ended)
                    late = HostError(
                        f"Rank {missing} is alive and did not come to the end in {self.patience:g} s, "
                        f"where rank {self.rank} waits for it."
                    )
                    self._fail(late)  # the others are notified
                    raise late
                self._inbox.wait(_SERVICE, (), self._tick)

    def abort(self, reason: str) -> None:
        """End because this host failed: tell the others, for at most 2 s.

        Threads that wait for a lost host cannot be ended, and may hang or crash an interpreter that shuts down in the
        usual way: leave the process by os._exit, as `launch.run_child` does.
        """
        self._fail(HostError(f"Rank {self.rank} failed: {reason}"))
        self._stopped.set()
        deadline = time.monotonic() + _LAST_WORDS
        for line in self._lines.values():
            if not line.is_silent:
                line.threads[0].join(max(0.0, deadline - time.monotonic()))

    def _put(self, peer: int, message: Message) -> None:
        if self._error is not None:
            raise type(self._error)(str(self._error))
        self._lines[peer].queue.put(message)

    def _get(self, peer: int | None, channel: int, timeout: float) -> Message:
        senders = range(self.hosts) if peer is None else (peer,)
        deadline = time.monotonic() + timeout
        with self._inbox.lock:
            while True:
                message = self._inbox.take(channel, senders)
                if message is not None:
                    return message
                self._check(peer)
                left = deadline - time.monotonic()
                if left <= 0:
                    who = "any other, and all are" if peer is None else f"rank {peer}, which is"
                    raise HostError(
                        f"Rank {self.rank} waited {timeout:g} s for a message of {who} alive: the hosts wait for each "
                        "other, or the work between two messages takes longer than that."
                    )
                self._inbox.wait(channel, senders, min(left, self._tick))

    def _has(self, channel: int) -> bool:
        with self._inbox.lock:
            return self._inbox.has(channel, range(self.hosts))

    def _await(self, peers: Sequence[int], channel: int) -> None:
        with self._inbox.lock:
            if self._error is None:
                self._inbox.wait(channel, peers, self._tick, every=True)

    def _check(self, peer: int | None) -> None:
        """Raise HostError if waiting for a message of `peer` (None: of anyone) is in vain. Hold the inbox."""
        for line in self._lines.values():
            if line.is_silent and not line.has_ended:
                self._fail(
                    HostError(
                        f"Rank {line.peer} has been silent for {time.monotonic() - line.received:.0f} s: "
                        "its process is stopped, its machine is gone, or the network to it is cut."
                    )
                )
        if self._error is not None:
            raise type(self._error)(str(self._error))
        if peer is not None and self._lines[peer].has_ended:
            raise HostError(f"Rank {peer} has ended, and rank {self.rank} still waits for a message of it.")

    def _fail(self, error: HostError) -> None:
        """Remember the first error, wake waiting threads, and notify the other hosts, as the sender may have failed."""
        with self._inbox.lock:
            if self._error is not None:
                return
            self._error = error
            self._inbox.wake()
        self._send_shutdown(_ALARM, str(error))

    def _send_shutdown(self, phase: str, text: str = "") -> None:
        """The last message to every peer."""
        for line in self._lines.values():
            parts = (text_part(text),) if text else ()
            line.queue.put(Message(self.rank, _SERVICE, 0, phase, parts))

    def _beat(self) -> None:
        """Show every peer that this host is alive, and note which of them do not."""
        before = awake = time.monotonic()
        while not self._stopped.wait(self._tick):
            now = time.monotonic()
            if now - before > 2 * self._tick + 1:  # this process was stopped itself, so it could receive nothing
                awake = now
            before = now
            for line in self._lines.values():
                line.is_silent = now - max(line.received, awake) > self.silence
                if line.queue.empty():  # otherwise something is on its way that shows as much
                    line.queue.put(Message(self.rank, _SERVICE, 0, _BEAT, ()))

    def _send_all(self, line: _Line) -> None:
        """Send what is queued for a peer, in order, up to the last words."""
        import torch.distributed as dist

        while True:
            message = line.queue.get()
            try:
                first, *rest = _pieces(message)
                is_last = message.channel == _SERVICE and message.phase != _BEAT
                starts = [first, *[np.zeros(1, np.uint8)] * (POSTED * is_last)]  # so that no memory waits for ever
                works = [dist.isend(_tensor(piece), line.peer, tag=_START) for piece in starts]
                works += [dist.isend(chunk, line.peer, tag=_REST) for piece in rest for chunk in _chunks(piece)]
                for work in works:
                    _started(work).wait(_FOREVER)
            except Exception as error:
                self._lose(line, error)
                return
            if is_last:
                return

    def _read_all(self, line: _Line) -> None:
        """Read what a peer sends into the inbox, up to its last words."""
        while True:
            try:
                message = self._read(line)
            except MessageError as error:
                self._fail(error)
                return
            except Exception as error:
                self._lose(line, error)
                return
            if message.channel != _SERVICE:
                self._inbox.put(message)
            elif message.phase == _GOODBYE:
                with self._inbox.lock:
                    line.has_ended = True
                    self._inbox.wake()
                self._end_waits(line)
                return
            elif message.phase == _ALARM:
                self._fail(_alarm(message))
                return

    def _read(self, line: _Line) -> Message:
        """The next message of a peer; RuntimeError when the connection is closed."""
        while len(line.posted) < POSTED:
            self._post(line, np.empty(HEAD.size + FIRST, np.uint8))
        memory, work = line.posted.popleft()
        self._await_bytes(line, work)
        try:
            head = read_head(memory[: HEAD.size].tobytes())
        except MessageError as error:
            raise MessageError(f"Rank {line.peer} sent what is no message: {error}") from error
        first, room = from_memory(memory[HEAD.size :]), FIRST

        def fill(array: np.ndarray) -> None:
            nonlocal room
            if array.size > room:
                self._fill(line, array)
            else:
                room -= array.size
                first(array)

        message = decode(head, fill)
        if message.sender != line.peer:
            raise MessageError(f"Rank {line.peer} sent a message in the name of rank {message.sender}.")
        self._post(line, memory)
        return message

    def _end_waits(self, line: _Line) -> None:
        """Behind its goodbye a peer fills all memory that waits for it."""
        try:
            for _, work in line.posted:
                work.wait(_FOREVER)
        except RuntimeError:
            pass  # it was in a hurry

    def _post(self, line: _Line, memory: np.ndarray) -> None:
        """Let memory wait for the first of a message. Gloo takes one that is larger than what is sent."""
        import torch.distributed as dist

        line.posted.append((memory, _started(dist.irecv(_tensor(memory), line.peer, tag=_START))))

    def _fill(self, line: _Line, array: np.ndarray) -> None:
        """Receive as many bytes as the array has."""
        import torch.distributed as dist

        for work in [_started(dist.irecv(chunk, line.peer, tag=_REST)) for chunk in _chunks(array)]:
            self._await_bytes(line, work)

    def _await_bytes(self, line: _Line, work: Work) -> None:
        work.wait(_FOREVER)
        line.received = time.monotonic()
        line.is_silent = False

    def _lose(self, line: _Line, error: Exception) -> None:
        """The connection to a peer is closed (torch raises a RuntimeError), or this host cannot go on with it."""
        if line.has_ended:
            return
        if isinstance(error, RuntimeError):
            text = (
                f"Rank {line.peer} is gone: its connection closed without a goodbye, so its process was killed "
                "(perhaps for memory) or crashed."
            )
        else:
            text = f"Rank {self.rank} cannot talk to rank {line.peer}: {type(error).__name__}: {error}"
        self._fail(HostError(text))


def _alarm(message: Message) -> HostError:
    """What a peer's alarm says."""
    try:
        return HostError(text_of(message.parts[0]))
    except (IndexError, UnicodeDecodeError):
        return MessageError(f"Rank {message.sender} sent what is no message: an alarm without a text.")


def _pieces(message: Message) -> list[np.ndarray]:
    """What travels, uint8 (N,) each: the head with whatever of the body has room beside it, then array by array."""
    head, body = encode(message)
    first, rest, room = [np.frombuffer(head, np.uint8)], [], FIRST
    for piece in body:
        if piece.size > room:
            rest.append(piece)
        else:
            room -= piece.size
            first.append(piece)
    return [np.concatenate(first), *rest]


def _chunks(piece: np.ndarray) -> Iterable[Tensor]:
    """Views of uint8 memory, (N,), each at most CHUNK long; none of empty memory."""
    memory = _tensor(piece)
    return memory.split(CHUNK) if piece.size > CHUNK else (memory,) if piece.size else ()


def _tensor(piece: np.ndarray) -> Tensor:
    import torch

    return torch.from_numpy(piece if piece.flags.writeable else piece.copy())  # torch takes no other


def _started(work: Work | None) -> Work:
    assert work is not None  # of a group of which this process is no part
    return work


def _thread(name: str, work: object, *args: object) -> threading.Thread:
    """A started thread that does not keep the process alive."""
    thread = threading.Thread(target=work, args=args, name=f"any2vec-{name}", daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread
