"""Ends a server of tools properly: SIGTERM and Ctrl-C have the same effect as a client that
disconnects.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

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
