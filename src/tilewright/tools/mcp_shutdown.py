"""Ends a server of tools properly: SIGTERM and Ctrl-C have the same effect as a client that
disconnects.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from types import FrameType

_COPIED = 1 << 16
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Ending:
    """Ends a server on request, even if the request came before the server was constructed."""

    def __init__(self) -> None:
        self._asked = False
        self._end: Callable[[], None] | None = None

    def ends(self, end: Callable[[], None]) -> None:
        """From now on, `end` ends the server."""
        self._end = end
        if self._asked:
            end()

    def ask(self) -> None:
        """End the server."""
        self._asked = True
        if self._end is not None:
            self._end()

    @contextmanager
    def on_signals(self, interrupt: Callable[[], None] = lambda: None) -> Iterator[None]:
        """While the context is open, the first SIGTERM or Ctrl-C calls `ask`, and then `interrupt`
        in the main thread. A second signal has the effect that it had before.
        """
        before = {number: signal.getsignal(number) for number in _SIGNALS}

        def back() -> None:
            for number, handler in before.items():
                signal.signal(number, handler)

        def asked(number: int, frame: FrameType | None) -> None:
            back()
            self.ask()
            interrupt()

        for number in _SIGNALS:
            signal.signal(number, asked)
        try:
            yield
        finally:
            back()


def end_of_input() -> Callable[[], None]:
    """Lets standard input pass through a pipe; the result ends it, also for one who waits for it.

    A thread that reads the client's own pipe cannot be woken.
    """
    original = os.dup(0)
    reading, writing = os.pipe()
    os.dup2(reading, 0)
    os.close(reading)
    nothing = os.open(os.devnull, os.O_WRONLY)

    def end() -> None:
        os.dup2(nothing, writing)  # kept open, so that no other file gets this descriptor number

    def copy() -> None:
        with suppress(OSError):
            while part := os.read(original, _COPIED):
                while part:
                    part = part[os.write(writing, part) :]
        end()

    Thread(target=copy, daemon=True).start()
    return end
