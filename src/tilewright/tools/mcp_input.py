"""The standard input of a server, which can be ended, and whose lines have a maximum length."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

MOST_BYTES = 8 << 20
"""Maximum number of bytes of a message. The longest kernel takes less, even if each of its
characters is escaped.
"""
_COPIED = 1 << 16


class StandardInput:
    """Passes standard input through a pipe, line by line, until a line is too long.

    The SDK reads a line whatever its length. A thread that reads the client's own pipe could not be
    woken either.

    Args:
        refuse: called, in another thread, before the input ends because a line is too long.
        most_bytes: maximum number of bytes of a line.
    """

    def __init__(self, refuse: Callable[[], None], most_bytes: int = MOST_BYTES) -> None:
        self._refuse = refuse
        self._most = most_bytes
        self._original = os.dup(0)
        reading, self._writing = os.pipe()
        os.dup2(reading, 0)
        os.close(reading)
        self._nothing = os.open(os.devnull, os.O_WRONLY)
        Thread(target=self._copy, daemon=True).start()

    def end(self) -> None:
        """End the input, also for one who waits for it."""
        # Kept open, so that no other file gets this descriptor number.
        os.dup2(self._nothing, self._writing)

    def _copy(self) -> None:
        line = bytearray()
        with suppress(OSError):
            while len(line) <= self._most and (part := os.read(self._original, _COPIED)):
                after = part.rfind(b"\n") + 1
                if after:
                    self._write(line + part[:after])
                    line.clear()
                line += part[after:]
            if len(line) > self._most:
                self._refuse()
            else:
                self._write(line)
        self.end()

    def _write(self, rest: bytearray) -> None:
        while rest:
            del rest[: os.write(self._writing, rest)]
