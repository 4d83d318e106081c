"""Ctrl-C, SIGTERM and SIGHUP, for as long as something has its own way to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol

STOPS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""what asks a process to end; SIGHUP: its terminal has closed"""


def on_stops(handler: Callable[[int, FrameType | None], Any]) -> dict[signal.Signals, Any]:
    """Have these signals call `handler`; what they called before. A SIGHUP that is ignored (nohup) stays so."""
    heard = [one for one in STOPS if one in STOPS[:2] or signal.getsignal(one) not in (signal.SIG_IGN, None)]
    return {number: signal.signal(number, handler) for number in heard}


@contextmanager
def stops_go_to(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Within it, the signals that stop call `handler`; in threads other than the main one they are left alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = on_stops(handler)
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


class Stoppable(Protocol):
    """What ends at a place of its own after it was asked to."""

    stop_signal: int
    """0 until then"""


def note_stop(asked: Stoppable, number: int) -> None:
    """Ask for a stop where it may be had next, all saved; a second Ctrl-C does not wait for that."""
    if asked.stop_signal and number == signal.SIGINT:
        raise KeyboardInterrupt
    asked.stop_signal = number


def name_of(number: int) -> str:
    """SIGKILL for 9; a number that is no signal's is shown as it is."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
